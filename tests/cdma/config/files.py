"""Files of a user's own, as tests write them: an engine, a machine, a device, a link, a network."""

from pathlib import Path

ENGINE = """\
[engine]
units = 3

[engine.codec]
sector_bytes = 64
"""
"""Three units of 64 B; the port to the link is as wide as a sector, 512 bits."""

MACHINE = """\
[machine]
preset = "titanx_gen3"
channels = 3
clock_hz = 8e8
"""

DEVICE = """\
[device]
preset = "titanx"
capacity_bytes = 6e9

[device.efficiency]
conv = 0.5
"""

LINK = """\
[link]
bytes_per_s = 10e9
"""

NETWORK = """\
[network]
batch = 4

[[network.layers]]
op = "input"
name = "data"
shape = [3, 16, 16]

[[network.layers]]
op = "conv"
name = "conv1"
channels = 8
kernel = 3
pad = 1

[[network.layers]]
op = "relu"
name = "relu1"

[[network.layers]]
op = "conv"
name = "conv2"
channels = 8
kernel = [3, 3]
pad = [1, 1]

[[network.layers]]
op = "add"
name = "sum"
xs = ["conv2", "relu1"]

[[network.layers]]
op = "fc"
name = "fc"
neurons = 10

[[network.layers]]
op = "softmax"
name = "prob"
"""

HOOKS = """\
from cdma.hw.config import EngineConfig
from cdma.plan.platform.device import Device
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.networks import Network


def engine():
    return EngineConfig(units=2)


DEVICE = Device(
    name="mine",
    peak_flops=1e12,
    dram_bytes_per_s=1e11,
    capacity_bytes=10**9,
    engine="titanx_gen3",
    source="me",
)


def write(net, dataset):
    x = net.input("data", 8)
    for i in range(3):
        x = net.relu(f"relu{i}", net.fc(f"fc{i}", x, 8))
    net.softmax("prob", x)


def network():
    return Network(write, {"mine": 16})


def graph():
    return Graph.from_network("written", network(), 8)


def broken():
    return 1 / 0


def impossible():
    return EngineConfig(units=99)


NUMBER = 3
"""


def write_all(folder: Path) -> None:
    """Write every file into a folder."""
    for name, text in {
        "engine.toml": ENGINE,
        "machine.toml": MACHINE,
        "device.toml": DEVICE,
        "link.toml": LINK,
        "network.toml": NETWORK,
        "my_hooks.py": HOOKS,
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
