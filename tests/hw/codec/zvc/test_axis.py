"""The AXI4-Stream tops as wholes: latency and rate from port to port, and what waits for what."""

import math
from dataclasses import dataclass

import pytest

from cdma.hw.codec.zvc.axis import ZvcCompressorAxis, ZvcDecompressorAxis
from tests.lib.rtl.bench import Bench, FlatPort, always, assert_no_bubble, from_cycle, stalls
from tests.lib.rtl.payloads import CONFIGS, FAST_CONFIGS, config_id, line_with, sparse
from tests.lib.rtl.transfers import good_to_compress, good_to_decompress, malformed_to_compress
from tests.lib.shares import configs

# All element sizes and all widths once; all nine are run on Verilator.
SOME_CONFIGS = configs(
    {config_id(CONFIGS[k]): CONFIGS[k] for k in (0, 2, 4, 6)}
    | {config_id(FAST_CONFIGS[0]): FAST_CONFIGS[0]},
    quick=["E4-S32", "E1-S32"],
)


@dataclass(frozen=True)
class Run:
    """The cycles of the transfers at the ports."""

    commands: list[int]
    taken: list[int]
    given: list[int]
    statuses: list[int]


def run(bench, chosen, *, commands=always, source=always, sink=always, status=always) -> Run:
    """Runs the transfers; checks all that comes out."""
    top = bench.component
    width = top.config.sector_bytes
    command = bench.source(
        FlatPort.record(top.s_cmd),
        [{k: int(v) for k, v in t.command.items()} for t in chosen],
        willing=commands,
    )
    sent = [
        {"tdata": int.from_bytes(content, "little"), "tkeep": keep, "tlast": last}
        for t in chosen
        for last, (content, keep) in zip(
            [False] * (len(t.packet) - 1) + [True], t.packet, strict=True
        )
    ]
    taken = bench.source(FlatPort.axis(top.s_axis), sent, willing=source)
    beats = sum(max(1, math.ceil(len(t.output) / width)) for t in chosen)
    given = bench.sink(FlatPort.axis(top.m_axis), beats, willing=sink)
    statuses = bench.sink(FlatPort.record(top.m_sts), len(chosen), willing=status)
    bench.run()
    packets, packet = [], b""
    for beat in given.payloads:
        size = beat["tkeep"].bit_count()
        assert beat["tkeep"] == (1 << size) - 1
        assert size == width or beat["tlast"]
        packet += beat["tdata"].to_bytes(width, "little")[:size]
        if beat["tlast"]:
            packets.append(packet)
            packet = b""
    names = ("status", "offset", "out_size", "crc32")
    got = [tuple(s[name] for name in names) for s in statuses.payloads]
    assert got == [tuple(map(int, t.status)) for t in chosen]
    assert packets == [t.output for t in chosen]
    return Run(command.cycles, taken.cycles, given.cycles, statuses.cycles)


@pytest.fixture(scope="module", params=SOME_CONFIGS)
def compressor(request):
    return Bench(ZvcCompressorAxis(request.param))


@pytest.fixture(scope="module", params=SOME_CONFIGS)
def decompressor(request):
    return Bench(ZvcDecompressorAxis(request.param))


def test_compressor_latency(compressor):
    config = compressor.component.config
    packet = line_with(config, range(config.elements)) * 2
    # The command is there before the packet.
    seen = run(compressor, [good_to_compress(config, packet)], source=from_cycle(10))
    # 6 for 32 B sectors: cDMA, §V-B.
    pipeline = config.sectors + 2 + (config.latency == "fast")
    assert seen.given[0] - seen.taken[0] == compressor.component.line_latency == pipeline + 2


def test_decompressor_latency(decompressor):
    config = decompressor.component.config
    packet = line_with(config, range(config.elements)) * 2
    seen = run(decompressor, [good_to_decompress(config, packet)], source=from_cycle(10))
    # The mask makes each sector end in the next beat; cDMA, §V-B: 2 cycles in the pipeline.
    pipeline = 2 + (config.latency == "fast")
    around = 4 + (config.mask_elements > 1)
    latency = decompressor.component.sector_latency
    assert seen.given[0] - seen.taken[1] == latency == pipeline + around


@pytest.mark.parametrize("density", [0.0, 0.5, 1.0])
def test_compressor_takes_a_sector_per_cycle_unless_data_grows(compressor, density):
    config = compressor.component.config
    packet = sparse(config, 1920, density, 1)
    seen = run(compressor, [good_to_compress(config, packet)])
    if density == 1:
        assert_no_bubble(seen.given)
    else:
        assert_no_bubble(seen.taken)


@pytest.mark.parametrize("density", [0.0, 0.5, 1.0])
def test_decompressor_gives_a_sector_per_cycle_unless_data_grew(decompressor, density):
    config = decompressor.component.config
    packet = sparse(config, 1920, density, 1)
    seen = run(decompressor, [good_to_decompress(config, packet)])
    if density == 1:
        assert_no_bubble(seen.taken)
    else:
        assert_no_bubble(seen.given)


def idle_cycles(cycles):
    return cycles[-1] - cycles[0] + 1 - len(cycles)


def test_long_packets_follow_each_other(compressor):
    # Long enough for a checksum to be out before the next is complete.
    config = compressor.component.config
    packets = [sparse(config, 16 * config.sector_bytes, 0.4, seed) for seed in range(3)]
    seen = run(compressor, [good_to_compress(config, packet) for packet in packets])
    # The rest of a packet may take a beat of its own, for which the next one waits.
    assert idle_cycles(seen.taken) <= 2


def test_long_packets_follow_each_other_within_a_few_cycles(decompressor):
    config = decompressor.component.config
    packets = [sparse(config, 16 * config.sector_bytes, 0.4, seed) for seed in range(3)]
    seen = run(decompressor, [good_to_decompress(config, packet) for packet in packets])
    most = 2 + (config.mask_elements > 1)
    assert idle_cycles(seen.given) <= 2 * most


SHORT = (0, 1, 128)
SHORT_PACKET_CYCLES = 12
"""Between short packets: a checksum is finished before the next one begins."""


def test_short_packets_follow_each_other_at_the_pace_of_checksums(compressor):
    config = compressor.component.config
    for nbytes in SHORT:
        packets = [sparse(config, nbytes, 0.5, seed) for seed in range(8)]
        seen = run(compressor, [good_to_compress(config, packet) for packet in packets])
        assert seen.statuses[-1] - seen.statuses[3] <= 4 * SHORT_PACKET_CYCLES


def test_short_packets_follow_each_other_at_the_pace_of_checksums_back(decompressor):
    config = decompressor.component.config
    for nbytes in SHORT:
        packets = [sparse(config, nbytes, 0.5, seed) for seed in range(8)]
        seen = run(decompressor, [good_to_decompress(config, packet) for packet in packets])
        assert seen.statuses[-1] - seen.statuses[3] <= 4 * SHORT_PACKET_CYCLES


def test_next_packets_pass_while_a_status_waits(compressor):
    config = compressor.component.config
    packets = [sparse(config, 1024, 0.3, seed) for seed in range(2)]
    late = 120
    seen = run(
        compressor,
        [good_to_compress(config, packet) for packet in packets],
        status=from_cycle(late),
    )
    assert seen.taken[-1] < late
    assert seen.given[-1] < late


def test_commands_run_ahead_of_packets(compressor):
    config = compressor.component.config
    chosen = [good_to_compress(config, sparse(config, 100, 0.3, seed)) for seed in range(2)]
    seen = run(compressor, chosen, source=from_cycle(30))
    assert all(cycle < 30 for cycle in seen.commands)


def test_packet_waits_for_its_command(compressor):
    config = compressor.component.config
    chosen = [good_to_compress(config, sparse(config, 1024, 0.3, 1))]
    seen = run(compressor, chosen, commands=from_cycle(30))
    # A few beats fit the buffers at the port.
    assert sum(cycle < 30 for cycle in seen.taken) <= 3


def some_lengths(config):
    return (0, 1, config.sector_bytes, 127, 129, 300)


def test_stalls_change_nothing_in_the_compressor(compressor):
    config = compressor.component.config
    chosen = [
        good_to_compress(config, sparse(config, nbytes, 0.6, nbytes))
        for nbytes in some_lengths(config)
    ]
    chosen += list(malformed_to_compress(config))[:6]
    run(
        compressor,
        chosen,
        commands=stalls(0.3, 1),
        source=stalls(0.3, 2),
        sink=stalls(0.3, 3),
        status=stalls(0.5, 4),
    )


def test_stalls_change_nothing_in_the_decompressor(decompressor):
    config = decompressor.component.config
    chosen = [
        good_to_decompress(config, sparse(config, nbytes, 0.6, nbytes))
        for nbytes in some_lengths(config)
    ]
    run(
        decompressor,
        chosen,
        commands=stalls(0.3, 1),
        source=stalls(0.3, 2),
        sink=stalls(0.3, 3),
        status=stalls(0.5, 4),
    )
