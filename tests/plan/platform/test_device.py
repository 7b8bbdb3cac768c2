"""Devices: the papers' figures, and what cannot be one."""

from dataclasses import replace

import pytest

from cdma.hw.config import preset
from cdma.plan.platform.device import CALIBRATED, DEVICES, EFFICIENCY, device
from cdma.plan.platform.link import LINKS, LinkError, link
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import SWAP
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
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
    assert set(found.narrow_efficiency or ()) <= set(KINDS)
    assert preset(found.engine).units > 0
    # Its channels feed the units of the preset.
    assert machine_config(found.engine).channels == preset(found.engine).units


def test_an_unknown_device_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ScheduleError,
        match=r"unknown device 'k80'; choose from k40, .*, h100, .*, h200-calibrated$",
    ):
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


def test_layers_of_bfloat16_values_may_get_another_part() -> None:
    found = replace(device("h100"), narrow_efficiency={"fc": 0.35})
    layers = Graph.from_table("gpt2", 1).layers
    products = next(layer for layer in layers if layer.kind == "fc" and layer.narrow)
    attention = next(layer for layer in layers if layer.kind == "attention")
    (arithmetic, memory), half = (
        each.layer_seconds(products, backward=False) for each in (device("h100"), found)
    )
    assert half == pytest.approx((2 * arithmetic, 2 * memory))
    assert found.layer_efficiency(attention) == EFFICIENCY["attention"]
    assert found.layer_efficiency(replace(products, narrow=False)) == EFFICIENCY["fc"]
    assert found.with_efficiency(0.5).layer_efficiency(products) == 0.5
    with pytest.raises(ScheduleError, match="narrow_efficiency of fc on h100 must be more than 0"):
        replace(found, narrow_efficiency={"fc": 0.0})


@pytest.mark.parametrize("name", CALIBRATED)
def test_a_timed_device_is_slower_than_its_data_sheet(name: str) -> None:
    timed, declared = device(name), device(name.removesuffix("-calibrated"))
    assert timed.narrow_flops < declared.narrow_flops
    assert timed.dram_bytes_per_s < declared.dram_bytes_per_s
    assert set(timed.efficiency_error) == set(KINDS)
    assert link(name).bytes_per_s < link("pcie5x16").bytes_per_s


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


@pytest.mark.parametrize(
    ("name", "tflops", "narrow", "gigabytes_per_s", "gigabytes"),
    [
        # Makers' data sheets, without sparsity; of B200 one of HGX's eight.
        ("a100", 156, 312, 2039, 80),
        ("h100", 494.5, 989, 3350, 80),
        ("h200", 494.5, 989, 4800, 141),
        ("b200", 1100, 2250, 8000, 180),
        ("rtx4090", 82.6, 165.2, 1008, 24),
        ("mi300x", 653.7, 1307.4, 5300, 192),
    ],
)
def test_devices_of_today_are_their_data_sheets(
    name: str, tflops: float, narrow: float, gigabytes_per_s: float, gigabytes: int
) -> None:
    found = device(name)
    assert found.flops(narrow=False) == tflops * 1e12
    assert found.flops(narrow=True) == narrow * 1e12
    assert found.dram_bytes_per_s == gigabytes_per_s * 1e9
    assert found.capacity_bytes == gigabytes * 10**9


def test_a_device_without_narrow_products_makes_them_as_wide_ones() -> None:
    assert device("k40").flops(narrow=True) == device("k40").flops(narrow=False) == 5e12
    with pytest.raises(ScheduleError, match=r"narrow_flops of device k40 must be at least its"):
        replace(device("k40"), narrow_flops=1e12)


def test_a_link_is_shared_by_devices_that_copy_at_the_same_time() -> None:
    alone, shared = link("pcie5x16"), link("pcie5x16/4")
    assert shared.bytes_per_s == shared.in_bytes_per_s == alone.bytes_per_s / 4
    assert shared.efficiency == alone.efficiency
    assert shared.name == "pcie5x16/4"
    assert link("pcie5x16/1") == alone
    measured = link("v100-pcie/2")
    assert (measured.bytes_per_s, measured.in_bytes_per_s) == (11.7e9 / 2, 10.6e9 / 2)


def test_a_share_of_a_link_has_a_number_of_devices() -> None:
    with pytest.raises(LinkError, match=r"^link 'pcie5x16/all' has no number of devices; write as"):
        link("pcie5x16/all")
    with pytest.raises(LinkError, match=r"^link pcie5x16 must have at least 1 device, not 0$"):
        link("pcie5x16/0")
    with pytest.raises(LinkError, match=r"^unknown link 'pcie9/2'; choose from pcie3x16, "):
        link("pcie9/2")


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("owner", ["titanxp", "h100"])
def test_a_plain_copy_is_bounded_by_its_link_and_no_engines_port(name: str, owner: str) -> None:
    """NVLink 3 and 4 are faster than the port of any engine: what is not compressed does not go
    through one there."""
    graph = density.apply(Graph.from_table("vgg16"), "curve")
    found = device(owner)
    scenario = Scenario(graph=graph, device=found, link=link(name), memory_bytes=10**10)
    tensor = max(graph.managed, key=lambda t: graph.tensors[t].nbytes)
    nbytes = graph.tensors[tensor].nbytes
    out, back = scenario.copy_seconds(tensor, SWAP, "none")
    for seconds, rate in ((out, link(name).bytes_per_s), (back, link(name).in_bytes_per_s)):
        limit = min(rate * link(name).efficiency, found.dram_bytes_per_s)
        assert nbytes / seconds == pytest.approx(limit, rel=2e-3)
