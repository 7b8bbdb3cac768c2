"""Devices: the papers' figures, and what cannot be one."""

from dataclasses import replace

import pytest

from cdma.hw.config import preset
from cdma.plan.platform.device import DEVICES, EFFICIENCY, device
from cdma.plan.platform.link import link
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.workload.layers import KINDS
from cdma.sim.machine import machine_config


@pytest.mark.parametrize(
    ("name", "tflops", "gigabytes_per_s"),
    [("k40", 5.0, 288), ("m40", 6.8, 288), ("p100", 10.6, 720), ("v100", 15.0, 900)],
)
def test_figures_are_those_of_cdmas_table(name: str, tflops: float, gigabytes_per_s: float) -> None:
    found = device(name)
    assert found.peak_flops == tflops * 1e12
    assert found.dram_bytes_per_s == gigabytes_per_s * 1e9


def test_v100_has_three_times_the_arithmetic_and_bandwidth_of_k40() -> None:
    old, new = device("k40"), device("v100")
    assert new.peak_flops / old.peak_flops == pytest.approx(3.0)
    assert new.dram_bytes_per_s / old.dram_bytes_per_s == pytest.approx(3.125)


@pytest.mark.parametrize("name", DEVICES)
def test_every_device_has_an_engine_and_an_efficiency_for_every_kind(name: str) -> None:
    found = device(name)
    assert found.name == name
    assert found.source
    assert set(found.efficiency) == set(KINDS)
    assert preset(found.engine).units > 0
    # Its channels feed the units of the preset.
    assert machine_config(found.engine).channels == preset(found.engine).units


def test_an_unknown_device_is_refused_with_those_there_are() -> None:
    with pytest.raises(ScheduleError, match=r"unknown device 'k80'; choose from k40, .*, h100$"):
        device("k80")


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("field", ["peak_flops", "dram_bytes_per_s", "capacity_bytes"])
def test_figures_of_a_device_are_more_than_nothing(field: str, value: float) -> None:
    message = f"^{field} of device v100 must be more than 0, not {value}$"
    with pytest.raises(ScheduleError, match=message):
        replace(device("v100"), **{field: value})


@pytest.mark.parametrize("part", [0, -0.5, 1.01, float("nan")])
def test_an_efficiency_is_a_part(part: float) -> None:
    message = f"efficiency of pool on v100 must be more than 0 and at most 1, not {part}"
    with pytest.raises(ScheduleError, match=message):
        replace(device("v100"), efficiency={**EFFICIENCY, "pool": part})


def test_one_efficiency_may_be_declared_for_all_kinds() -> None:
    changed = device("titanx").with_efficiency(0.4)
    assert set(changed.efficiency.values()) == {0.4}
    assert replace(changed, efficiency=EFFICIENCY) == device("titanx")
    with pytest.raises(ScheduleError, match="efficiency of conv on titanx"):
        device("titanx").with_efficiency(1.5)


@pytest.mark.parametrize(
    ("name", "out", "back"),
    # CSWAP+, §6.1, of copies.
    [("v100-pcie", 11.7e9, 10.6e9), ("2080ti-pcie", 12.9e9, 11.8e9)],
)
def test_measured_links_give_what_was_measured(name: str, out: float, back: float) -> None:
    found = link(name)
    assert found.bytes_per_s * found.efficiency == out
    assert found.in_bytes_per_s * found.efficiency == back
