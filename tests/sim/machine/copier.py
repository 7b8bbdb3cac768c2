"""The movers of `machine/copier.sv`: their RTL with the engine's ports, and how to command them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cdma.sim.machine import Machine, MachineConfig

COPIER = (Path(__file__).parent / "copier.sv").read_text()

MEMORY = 1 << 20
HOST = "host"
READ, WRITE = 1, 2
BEAT = 32
ADDRESS_LO, ADDRESS_HI, BURSTS, SHAPE, STEP, LIMIT, BROKEN, COMMAND = range(8)
BUSY, BEATS, WAITED, DURATION, ERRORS, FIRST_ERROR, LAST_FAULTS, TAIL = range(8, 16)
IRQ_ENABLE, IRQ_STATUS, LITE_BROKEN, NOWHERE = 0x004, 0x008, 0x00C, 0xFFC

QUIET = MachineConfig(
    channels=2,
    dram_bytes_per_s=2 * 64e9,
    dram_latency_ns=100,
    link_out_bytes_per_s=32e9,
    link_in_bytes_per_s=32e9,
    link_latency_ns=50,
)

_ADDRESS_PINS = [("id", 0), ("addr", 0), ("len", 8), ("size", 3), ("burst", 2), ("valid", 1)]
_CONSTANT_PINS = [("lock", 1), ("cache", 4), ("prot", 3), ("qos", 4)]
_LITE_PINS = [
    ("input", "awaddr", 12),
    ("input", "awprot", 3),
    ("input", "awvalid", 1),
    ("output", "awready", 1),
    ("input", "wdata", 32),
    ("input", "wstrb", 4),
    ("input", "wvalid", 1),
    ("output", "wready", 1),
    ("output", "bresp", 2),
    ("output", "bvalid", 1),
    ("input", "bready", 1),
    ("input", "araddr", 12),
    ("input", "arprot", 3),
    ("input", "arvalid", 1),
    ("output", "arready", 1),
    ("output", "rdata", 32),
    ("output", "rresp", 2),
    ("output", "rvalid", 1),
    ("input", "rready", 1),
]


@dataclass(frozen=True)
class Rtl:
    name: str
    text: str


def _axi_pins(data_bytes: int, address_bits: int, id_bits: int) -> list[tuple[str, str, int, str]]:
    """Direction, name, width and the copier's name of a manager's pins."""
    widths = {"id": id_bits, "addr": address_bits}
    pins = []
    for channel in ("aw", "ar"):
        for name, width in _ADDRESS_PINS:
            pins.append(
                ("output", f"{channel}{name}", widths.get(name, width), f"{channel}_{name}")
            )
        pins += [("output", f"{channel}{name}", width, "0") for name, width in _CONSTANT_PINS]
        pins.append(("input", f"{channel}ready", 1, f"{channel}_ready"))
    pins += [
        ("output", "wdata", 8 * data_bytes, "w_data"),
        ("output", "wstrb", data_bytes, "w_strb"),
        ("output", "wlast", 1, "w_last"),
        ("output", "wvalid", 1, "w_valid"),
        ("input", "wready", 1, "w_ready"),
        ("input", "bid", id_bits, "b_id"),
        ("input", "bresp", 2, "b_resp"),
        ("input", "bvalid", 1, "b_valid"),
        ("output", "bready", 1, "b_ready"),
        ("input", "rid", id_bits, "r_id"),
        ("input", "rdata", 8 * data_bytes, "r_data"),
        ("input", "rresp", 2, "r_resp"),
        ("input", "rlast", 1, "r_last"),
        ("input", "rvalid", 1, "r_valid"),
        ("output", "rready", 1, "r_ready"),
    ]
    return pins


def copier_rtl(*, units: int = 2, data_bytes: int = 32) -> Rtl:
    """The movers under the engine's flat ports."""
    ports = ["input clk", "input rst", "output irq"]
    ports += [f"{way} [{width - 1}:0] s_axil_{name}" for way, name, width in _LITE_PINS]
    wires, assigns = [], []
    connections = [".clk", ".rst", ".irq"]
    unused = ("awprot", "wstrb", "arprot")
    connections += [f".s_axil_{name}" for _, name, _ in _LITE_PINS if name not in unused]
    shapes = [(f"m_axi_mem{k}", 40, 1) for k in range(units)] + [("m_axi_host", 64, 2)]
    inner = {"addr": 64, "id": 2}
    for index, (prefix, address_bits, id_bits) in enumerate(shapes):
        for way, name, width, target in _axi_pins(data_bytes, address_bits, id_bits):
            ports.append(f"{way} [{width - 1}:0] {prefix}_{name}")
            if target == "0":
                assigns.append(f"assign {prefix}_{name} = 0;")
                continue
            if index == 0:
                kind = target.split("_")[1]
                bits = f"[{inner.get(kind, width) - 1}:0] " if inner.get(kind, width) > 1 else ""
                wires.append(f"wire {bits}{target}[{units + 1}];")
                connections.append(f".{target}({target})")
            inside = f"{target}[{index}]"
            if way == "output":
                assigns.append(f"assign {prefix}_{name} = {width}'({inside});")
            else:
                assigns.append(f"assign {inside} = {prefix}_{name};")
    top = "\n".join(
        [
            "module cdma_engine (",
            ",\n".join(f"    {port}" for port in ports),
            ");",
            *wires,
            *assigns,
            f"copier #(.UNITS({units}), .BYTES({data_bytes})) copier (",
            ",\n".join(f"    {connection}" for connection in connections),
            ");",
            "endmodule",
        ]
    )
    return Rtl("cdma_engine", COPIER + top + "\n")


def broken(name: str) -> int:
    """The number by which the movers know a rule of `copier.sv` to break."""
    number = re.search(rf"\b{name} = (\d+)", COPIER)
    assert number, f"copier.sv has no fault {name}"
    return int(number[1])


class Copier:
    """The movers, by port."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def _register(self, port: int | Literal["host"], index: int) -> int:
        return 0x100 + 0x40 * (self.machine.units if port == HOST else int(port)) + 4 * index

    def set(self, port, index: int, value: int) -> None:
        self.machine.write_register(self._register(port, index), value)

    def get(self, port, index: int) -> int:
        return self.machine.read_register(self._register(port, index))

    def start(
        self,
        port,
        command: int,
        address: int,
        *,
        bursts: int = 1,
        beats: int = 1,
        step: int | None = None,
        limit: int = 64,
        source: int = 0,
        axi_id: int = 0,
        tail: int = 0,
        breaks: str | None = None,
    ) -> None:
        """Set up a mover and start it; `step` bytes lie between the starts of its bursts."""
        values = {
            ADDRESS_LO: address % 2**32,
            ADDRESS_HI: address >> 32,
            BURSTS: bursts,
            SHAPE: axi_id << 24 | source << 16 | (beats - 1),
            STEP: beats * self.machine.sector_bytes if step is None else step,
            LIMIT: limit,
            TAIL: tail,
            BROKEN: broken(breaks) if breaks else 0,
            COMMAND: command,
        }
        for index, value in values.items():
            self.set(port, index, value)

    def finish(self, port, budget: int = 20_000) -> None:
        self.machine.run_until_idle(budget, quiet_cycles=16)
        assert self.get(port, BUSY) == 0

    def provoke(self, port, command: int, address: int, **shape: Any) -> None:
        """Start a mover, and see what comes of it."""
        self.start(port, command, address, **shape)
        self.machine.run(5000)

    def move(self, port, command: int, address: int, **shape: Any) -> None:
        self.start(port, command, address, **shape)
        self.finish(port)

    def copy(self, target, target_address: int, port, address: int, *, beats: int = 8) -> None:
        """One burst from one port to another."""
        self.move(port, READ, address, beats=beats)
        source = self.machine.units if port == HOST else port
        self.move(target, WRITE, target_address, beats=beats, source=source)


def fill(memory: np.ndarray, seed: int = 0) -> np.ndarray:
    memory[:] = np.random.default_rng(seed).integers(0, 256, memory.size, np.uint8)
    return memory.copy()
