"""Scenarios: times of layers and copies, and values that are refused."""

from dataclasses import replace

import pytest

from cdma.hw.config import ConfigError, EngineConfig
from cdma.plan.platform.device import device
from cdma.plan.platform.link import LINKS, Link, LinkError, link
from cdma.plan.platform.placed_engine import PlacedEngine
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.timeline.placement import RECOMPUTE, RETAIN, SWAP, Choice, Mode, Placement
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import GraphError, Layer, Tensor

MB = 10**6
NBYTES = 256 * MB
ZVC = Choice(Placement.SWAP, "zvc")
PCIE3 = Link("pcie3", 16e9, "cDMA, §II-B", efficiency=1.0)


def scenario(density: float = 0.5, **changes: object) -> Scenario:
    """A convolution and a ReLU in place, then a pool, on a Titan X behind PCIe gen3."""
    tensors = (
        Tensor(name="image", nbytes=MB, kind="input"),
        Tensor(name="relu", nbytes=NBYTES, kind="relu", density=density),
        Tensor(name="pool", nbytes=NBYTES // 4, kind="pool"),
    )
    layers = (
        Layer(
            name="conv",
            kind="conv",
            inputs=(0,),
            output=1,
            saved=(0,),
            flops_forward=33e12,
            flops_backward=66e12,
            bytes_forward=16.8e9,
            bytes_backward=33.6e9,
        ),
        Layer(
            name="relu",
            kind="relu",
            inputs=(1,),
            output=1,
            saved=(1,),
            flops_forward=6.6e9,
            flops_backward=6.6e9,
            bytes_forward=33.6e9,
            bytes_backward=67.2e9,
        ),
        Layer(name="pool", kind="pool", inputs=(1,), output=2, saved=(1,), gradients=(1,)),
    )
    made = Scenario(
        graph=Graph(name="small", batch=1, tensors=tensors, layers=layers),
        device=device("titanx").with_efficiency(0.5),
        link=PCIE3,
        memory_bytes=10**9,
    )
    return replace(made, **changes)


def raw_bytes_per_s(made: Scenario, choice: Choice, throttle: str = "none") -> float:
    """The rate of the tensor's raw bytes on its way out, as cDMA counts."""
    return NBYTES / made.copy_seconds(1, choice, throttle)[0]


# Layers.


def test_layers_take_the_longer_of_arithmetic_and_memory_one_after_another() -> None:
    """6.6 TFLOP/s and 336 GB/s, half of which layers get."""
    made = scenario()
    conv, relu, _ = made.graph.layers
    assert made.layer_seconds(conv, backward=False) == pytest.approx((10.0, 0.1))
    assert made.layer_seconds(relu, backward=False) == pytest.approx((0.002, 0.2))
    assert made.forward_seconds == pytest.approx([10.0 + 0.2, 0.0])
    assert made.backward_seconds == pytest.approx([20.0 + 0.4, 0.0])
    assert made.compute_seconds == pytest.approx(30.6)


def test_efficiency_is_by_kind() -> None:
    parts = {**scenario().device.efficiency, "relu": 1.0}
    made = scenario(device=replace(device("titanx"), efficiency=parts))
    assert made.forward_seconds == pytest.approx([10.0 + 0.1, 0.0])


def test_a_layer_in_place_belongs_to_the_stage_that_made_the_tensor() -> None:
    first, second = scenario().stages
    assert (first.output, first.layers, first.kind) == (1, (0, 1), "conv")
    assert (first.inputs, first.saved, first.gradients) == ((0,), (0, 1), ())
    assert (second.inputs, second.saved, second.gradients) == ((1,), (1,), (1,))
    assert scenario().stage_of == {1: 0, 2: 1}


def test_an_input_that_is_written_over_is_still_no_decision() -> None:
    made = scenario()
    preprocess = Layer(name="scale", kind="other", inputs=(0,), output=0, saved=(0,))
    graph = replace(made.graph, layers=(preprocess, *made.graph.layers))
    assert graph.managed == made.graph.managed == (1,)


# Copies.


def test_raw_copies_go_at_the_links_pace() -> None:
    assert raw_bytes_per_s(scenario(), SWAP) == pytest.approx(16e9, rel=1e-3)
    slow = scenario(link=replace(PCIE3, efficiency=0.8, in_bytes_per_s=10e9))
    out, back = slow.copy_seconds(1, SWAP, "none")
    assert out == pytest.approx(NBYTES / 12.8e9, rel=1e-3)
    assert back == pytest.approx(NBYTES / 8e9, rel=1e-3)


@pytest.mark.parametrize(
    ("ratio", "throttle", "gigabytes_per_s"),
    [
        # cDMA, §VI: 16 × 2.6 is 41.6; what goes beyond three times the link is held there.
        (2.6, "none", 41.6),
        (2.6, "performance-optimal", 41.6),
        (2.6, "bandwidth-aware", 41.6),
        (13.8, "bandwidth-aware", 48),
        (3.0, "bandwidth-aware", 48),
        # 13.8 × 16 would be 220.8. Six units take 32 bytes each in a nanosecond.
        (13.8, "performance-optimal", 192),
        (13.8, "none", 192),
    ],
)
def test_compressed_copies_go_at_the_pace_of_the_narrowest_place(
    ratio: float, throttle: str, gigabytes_per_s: float
) -> None:
    made = scenario(density=1 / ratio - 1 / 32)
    assert made.stream_bytes(1, ZVC) == pytest.approx(NBYTES / ratio)
    pace = raw_bytes_per_s(made, ZVC, throttle)
    assert pace == pytest.approx(gigabytes_per_s * 1e9, rel=0.01)


def test_throttles_hold_nothing_back_on_the_way_in() -> None:
    made = scenario(density=0.0)
    free, held = (made.copy_seconds(1, ZVC, name)[1] for name in ("none", "bandwidth-aware"))
    assert free == held


def test_what_multiprocessors_compressed_is_copied_as_it_is() -> None:
    made = scenario(density=0.0)
    choice = Choice(Placement.SWAP, "zvc-sm")
    stream = made.stream_bytes(1, choice)
    assert stream == NBYTES / 32
    # The engine reads the stream; the throttle has nothing to hold back.
    out, back = made.copy_seconds(1, choice, "bandwidth-aware")
    assert out == pytest.approx(stream / 16e9, rel=0.01)
    assert back == pytest.approx(stream / 16e9, rel=0.01)


def test_a_codec_on_the_host_saves_host_memory_only() -> None:
    made = scenario(density=0.5)
    choice = Choice(Placement.SWAP, "zvc-host")
    assert made.stream_bytes(1, choice) == NBYTES
    assert made.copy_seconds(1, choice, "none") == made.copy_seconds(1, SWAP, "none")
    assert made.host_bytes(1, choice) == pytest.approx(NBYTES * (0.5 + 1 / 32))
    assert made.host_bytes(1, SWAP) == NBYTES
    assert made.host_bytes(1, RETAIN) == made.host_bytes(1, RECOMPUTE) == 0
    assert made.codec_seconds(1, choice) == made.codec_seconds(1, SWAP) == 0


def test_a_latency_of_microseconds_is_behind_every_copy() -> None:
    assert all(1e-7 < seconds < 1e-5 for seconds in scenario().copy_latency)


def test_a_link_that_is_faster_than_the_engines_port_gets_the_fast_engine() -> None:
    assert scenario().engine == "titanx_gen3"
    assert scenario(link=link("nvlink2")).engine == "v100_nvlink2"


@pytest.mark.parametrize("name", ["nvlink3", "nvlink4"])
def test_no_engines_port_holds_back_what_it_does_not_compress(name: str) -> None:
    """The fastest port has 166 GB/s, and these links 240 and 360 for copies."""
    made = scenario(link=link(name), device=device("h100"))
    assert made.engine is None
    out, back = made.copy_seconds(1, SWAP, "none")
    assert out == back == pytest.approx(NBYTES / (0.8 * link(name).bytes_per_s))
    stream = made.stream_bytes(1, Choice(Placement.SWAP, "zvc-sm"))
    by_codec, _ = made.copy_seconds(1, Choice(Placement.SWAP, "zvc-sm"), "none")
    assert by_codec == pytest.approx(out * stream / NBYTES)
    assert all(1e-7 < seconds < 1e-5 for seconds in made.copy_latency)


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("gpu", ["titanx", "titanxp", "v100", "h100"])
def test_copies_that_nobody_compresses_go_at_every_links_pace(name: str, gpu: str) -> None:
    made = scenario(link=link(name), device=device(gpu))
    rates = link(name).bytes_per_s, link(name).in_bytes_per_s
    for seconds, rate in zip(made.copy_seconds(1, SWAP, "none"), rates, strict=True):
        pace = min(rate * link(name).efficiency, made.device.dram_bytes_per_s)
        assert NBYTES / seconds == pytest.approx(pace, rel=2e-3)


def test_a_device_whose_memory_is_slower_than_the_link_copies_at_that_pace() -> None:
    made = scenario(link=link("nvlink4"), device=device("k40"))
    assert NBYTES / made.copy_seconds(1, SWAP, "none")[0] == pytest.approx(288e9)


def test_nothing_is_compressed_on_the_way_over_a_link_that_no_engine_fits() -> None:
    made = scenario(link=link("nvlink4"))
    assert made.offers(SWAP)
    assert made.offers(Choice(Placement.SWAP, "zvc-sm"))
    assert not made.offers(ZVC)
    message = (
        r"^no engine passes the 336 GB/s that copies get of nvlink4; v100_nvlink2, the fastest, "
    )
    for ask in (made.copy_seconds, made.copy_limits):
        with pytest.raises(ScheduleError, match=message + "passes 166.4. Choose another link, eng"):
            ask(1, ZVC, "none")


XC = Choice(Placement.SWAP, "xc")


def test_a_codec_that_the_engine_has_not_got_is_no_choice() -> None:
    made = scenario()
    assert made.offers(ZVC)
    assert not made.offers(XC)
    message = "^the engine titanx_gen3 has not got codec 'xc'; it has zvc, raw: choose one of these"
    for ask in (made.copy_seconds, made.copy_limits):
        with pytest.raises(ScheduleError, match=message):
            ask(1, XC, "none")


def with_codecs(*codecs: str) -> PlacedEngine:
    """The Titan X's engine with these, whose elements are bytes."""
    shipped = PlacedEngine.named("titanx_gen3")
    codec = replace(shipped.config.codec, element_bytes=1, codecs=codecs)
    return replace(shipped, config=replace(shipped.config, codec=codec))


def test_an_engines_other_codecs_have_times_and_sizes_of_their_own() -> None:
    first = scenario(own_engine=with_codecs("xc", "zvc", "raw"), density=1.0)
    second = scenario(own_engine=with_codecs("zvc", "xc", "raw"), density=1.0)
    for choice in (ZVC, XC):
        assert first.copy_seconds(1, choice, "none") == second.copy_seconds(1, choice, "none")
    assert second.stream_bytes(1, XC) < 0.8 * NBYTES
    # Beside XC, masks are of bytes.
    assert second.stream_bytes(1, ZVC) == pytest.approx(NBYTES * 9 / 8)
    assert scenario(density=1.0).stream_bytes(1, ZVC) == pytest.approx(NBYTES * 33 / 32)


def test_measured_streams_stand_in_place_of_the_models() -> None:
    made = scenario(measured_streams={(1, "zvc"): 1000, (1, "zvc-sm"): 2000})
    assert made.stream_bytes(1, ZVC) == made.host_bytes(1, ZVC) == 1000
    assert made.stream_bytes(1, Choice(Placement.SWAP, "zvc-sm")) == 2000
    assert made.stream_bytes(1, SWAP) == NBYTES
    usual = scenario()
    assert made.copy_seconds(1, ZVC, "none") < usual.copy_seconds(1, ZVC, "none")


def test_an_engine_of_ones_own_stands_in_place_of_the_devices() -> None:
    volta = PlacedEngine.named("v100_nvlink2")
    own = scenario(own_engine=volta, link=link("nvlink2"))
    assert (own.engine, own.placed_engine) == ("v100_nvlink2", volta)
    # By itself, the device would have it too, its own being too slow.
    usual = scenario(link=link("nvlink2"))
    assert own.copy_seconds(1, ZVC, "none") == usual.copy_seconds(1, ZVC, "none")
    # Two units of 32 B take 64 GB/s of what is compressed to nothing, where six take three times
    # as many, and never more than one.
    two = replace(
        PlacedEngine.named("titanx_gen3"),
        name="two",
        config=EngineConfig(units=2),
        machine=replace(volta.machine, clock_hz=1e9, channels=2),
    )
    slow = scenario(own_engine=two, density=0.0)
    assert slow.engine == "two"
    assert slow.machine.dram_bytes_per_s == slow.device.dram_bytes_per_s
    assert raw_bytes_per_s(slow, ZVC) == pytest.approx(64e9, rel=0.01)
    assert slow.copy_limits(1, ZVC, "none")[0] == "units"


def test_an_engine_of_ones_own_that_does_not_fit_is_no_engine() -> None:
    small = PlacedEngine(
        name="small",
        config=EngineConfig(read_buffer_bytes=1024),
        machine=PlacedEngine.named("titanx_gen3").machine,
    )
    made = scenario(own_engine=small)
    assert made.engine is None
    with pytest.raises(
        ScheduleError,
        match=r"^no engine passes the 16 GB/s that copies get of pcie3; small passes [\d.]+, by "
        r"its limit 'reads'\. Choose another link",
    ):
        made.copy_seconds(1, ZVC, "none")


def test_what_limits_a_copy_is_named() -> None:
    assert scenario(density=0.5).copy_limits(1, ZVC, "none") == ("link", "link")
    assert scenario(density=0.5).copy_limits(1, SWAP, "none") == ("link", "link")
    sparse = scenario(density=0.01)
    assert sparse.copy_limits(1, ZVC, "none") == ("units", "units")
    assert sparse.copy_limits(1, ZVC, "bandwidth-aware") == ("throttle", "units")
    assert scenario(link=link("nvlink4")).copy_limits(1, SWAP, "none") == ("link", "link")


# What cannot be.


def test_a_tensor_without_a_density_is_refused() -> None:
    made = scenario()
    tensors = tuple(replace(tensor, density=None) for tensor in made.graph.tensors)
    with pytest.raises(
        ScheduleError, match=r"^tensor relu of small has no density; give a capture, a file or a"
    ):
        replace(made, graph=replace(made.graph, tensors=tensors))


@pytest.mark.parametrize("density", [-0.1, 1.1, float("nan")])
def test_a_density_that_is_no_part_is_refused(density: float) -> None:
    with pytest.raises(GraphError, match=f"tensor relu: density must be 0 to 1, not {density}"):
        scenario(density=density)


def test_a_kind_of_layer_that_the_device_does_not_know_is_refused() -> None:
    made = scenario()
    layers = (*made.graph.layers[:2], replace(made.graph.layers[2], kind="fft"))
    with pytest.raises(
        ScheduleError,
        match=r"^layer pool is of kind 'fft', for which device titanx declares no efficiency; "
        "it has conv, dwconv, ",
    ):
        replace(made, graph=replace(made.graph, layers=layers))


@pytest.mark.parametrize("memory", [0, -1])
def test_a_memory_of_nothing_is_refused(memory: int) -> None:
    with pytest.raises(ScheduleError, match=f"memory must be more than 0 bytes, not {memory}"):
        scenario(memory_bytes=memory)


@pytest.mark.parametrize("epoch", [-1, 90])
def test_an_epoch_behind_the_last_one_is_refused(epoch: int) -> None:
    with pytest.raises(ScheduleError, match=f"epoch must be 0 to 89, not {epoch}"):
        scenario(epoch=epoch)


def test_an_unknown_link_is_refused_with_those_there_are() -> None:
    with pytest.raises(LinkError, match=f"unknown link 'isa'; choose from {', '.join(LINKS)}$"):
        link("isa")


@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("field", ["bytes_per_s", "in_bytes_per_s"])
def test_a_link_without_bandwidth_is_refused(field: str, value: float) -> None:
    with pytest.raises(LinkError, match=f"{field} of link pcie3 must be more than 0, not {value}"):
        replace(PCIE3, **{field: value})


@pytest.mark.parametrize("efficiency", [0, -1, 1.1])
def test_a_links_efficiency_is_a_part(efficiency: float) -> None:
    with pytest.raises(LinkError, match="efficiency of link pcie3 must be more than 0 and at"):
        replace(PCIE3, efficiency=efficiency)


def test_an_unknown_codec_or_throttle_is_refused() -> None:
    made = scenario()
    with pytest.raises(ScheduleError, match="unknown codec 'gzip'; choose from zvc, "):
        made.copy_seconds(1, Choice(Placement.SWAP, "gzip"), "none")
    with pytest.raises(ConfigError, match=r"throttle must be one of none, .*, not 'slow'"):
        made.copy_seconds(1, ZVC, "slow")


@pytest.mark.parametrize("codec", ["zvc", "zvc-host"])
def test_what_compresses_on_the_way_out_keeps_nothing_on_the_device(codec: str) -> None:
    with pytest.raises(ScheduleError, match=f"^{codec} compresses what leaves the device, not"):
        scenario().stream_bytes(1, Choice(Placement.COMPRESS, codec))


@pytest.mark.parametrize("placement", [Placement.RETAIN, Placement.RECOMPUTE])
def test_what_is_not_compressed_has_no_codec(placement: Placement) -> None:
    with pytest.raises(ScheduleError, match=f"{placement.name} has no codec, but 'zvc' is given"):
        Choice(placement, "zvc")


def test_compressing_needs_a_codec() -> None:
    with pytest.raises(ScheduleError, match="COMPRESS needs a codec; name one"):
        Choice(Placement.COMPRESS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"staging_bytes": -1.0}, "staging_bytes must be 0 or more, not -1.0"),
        ({"staging_bytes": float("nan")}, "staging_bytes must be 0 or more, not nan"),
        ({"lookahead": -1}, "lookahead must be 0 or more, not -1"),
    ],
)
def test_a_mode_waits_for_something(fields: dict, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        Mode(**fields)
