"""The engine's registers, as `registers.rdl` describes them."""

from pathlib import Path

from cdma.hw.config import EngineConfig
from cdma.hw.registers.file import RegisterFile
from cdma.hw.registers.map import Register, RegisterSource
from cdma.hw.registers.map import register_map as map_of


def register_source(
    config: EngineConfig | None = None, *, name: str = "cdma_engine"
) -> RegisterSource:
    """Return the source of the engine's registers; `titanx_gen3` if no configuration is given.

    `name` is that of the block's top module.
    """
    config = config or EngineConfig()
    return RegisterSource(
        path=Path(__file__).with_name("registers.rdl"),
        top="cdma_engine",
        name=name,
        parameters={
            "UNITS": config.units,
            "SECTOR_BYTES": config.codec.sector_bytes,
            "ELEMENT_BYTES": config.codec.element_bytes,
            "HOST_BYTES": config.host_bytes,
            "BUFFER_BYTES": config.buffer_bytes,
            "ECC": config.ecc,
        },
    )


def register_map(config: EngineConfig | None = None) -> dict[str, Register]:
    """All registers by name, in the order of their offsets; see `register_source`."""
    return map_of(register_source(config))


class Registers(RegisterFile):
    # Described by `RegisterFile`, for readers and in the Verilog.

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(register_source(config))
