"""The package's functions take names, files and hooks as the commands do."""

import pytest

import cdma
from cdma.config import DEVICE, LINK, NETWORK, find
from cdma.errors import UserError
from cdma.hw.config import CodecConfig, EngineConfig


def test_schedule_takes_files():
    graph = find(NETWORK, "network.toml").value.graph()
    step = {"policies": ["vdnn"], "memory_bytes": 10**6}
    named = cdma.schedule(graph, "device.toml", link="link.toml", **step)
    device, link = find(DEVICE, "device.toml").value, find(LINK, "link.toml").value
    given = cdma.schedule(graph, device, link=link, **step)
    assert named["vdnn"].trace.seconds == given["vdnn"].trace.seconds
    faster = cdma.schedule(graph, "device.toml", link="pcie5x16", **step)
    assert faster["vdnn"].trace.seconds < named["vdnn"].trace.seconds
    with pytest.raises(UserError, match=r"link\.toml has no \[device\] but \[link\]"):
        cdma.schedule(graph, "link.toml")


def test_simulate_takes_files(monkeypatch):
    made = []

    def backend(config, machine, *, throttle, **options):
        made.append((config, machine, throttle.name))
        raise KeyboardInterrupt

    monkeypatch.setattr("cdma.simulation.EngineBackend", backend)
    with pytest.raises(KeyboardInterrupt):
        cdma.simulate("engine.toml", [], machine="machine.toml", throttle="bandwidth-aware")
    ((config, machine, throttle),) = made
    assert config == EngineConfig(codec=CodecConfig(sector_bytes=64), units=3, host_bytes=64)
    assert (machine.channels, machine.clock_hz, throttle) == (3, 8e8, "bandwidth-aware")
