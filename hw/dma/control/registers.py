"""The engine's registers, as `registers.rdl` describes them."""

from pathlib import Path

from cdma.hw.config import MAX_RINGS, MAX_STREAM_ID_BITS, EngineConfig
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
        top="cdma_engine" if config.rings == 1 else "cdma_engine_rings",
        name=name,
        parameters={
            "UNITS": config.units,
            "SECTOR_BYTES": config.codec.sector_bytes,
            "ELEMENT_BYTES": config.codec.element_bytes,
            "HOST_BYTES": config.host_bytes,
            "BUFFER_BYTES": config.buffer_bytes,
            "ECC": config.ecc,
            "RINGS": config.rings,
            "STREAM_ID_BITS": config.stream_id_bits,
        },
    )


def register_map(config: EngineConfig | None = None) -> dict[str, Register]:
    """All registers by name, in the order of their offsets; see `register_source`."""
    return map_of(register_source(config))


def ring_register_map(ring: int) -> dict[str, Register]:
    """The registers that the driver of a ring uses, by their names in the ring's page.

    They are those of the page, and those of the first page that all rings share.
    """
    every = register_map(EngineConfig(rings=MAX_RINGS, stream_id_bits=MAX_STREAM_ID_BITS))
    shared = {name: register for name, register in every.items() if not register.page}
    if not ring:
        return shared
    page = f"RING{ring}"
    own = {
        name.removeprefix(f"{page}_"): register
        for name, register in every.items()
        if register.page == page
    }
    return shared | own


class Registers(RegisterFile):
    # Described by `RegisterFile`, for readers and in the Verilog.

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(register_source(config))
