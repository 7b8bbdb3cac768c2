"""Lines that are under way from device memory: how many there were at most is in a register."""

from cdma.golden import LINE_BYTES
from cdma.hw.dma.control.descriptor import Opcode
from tests.golden.formats.data import sparse_bytes
from tests.hw.dma.test_engine import CONFIG, ELEMENT, MOST, Transfer, engine, memories


def transfer(area, size):
    return Transfer(Opcode.COMPRESS_OUT, area, sparse_bytes(area, size, 0.5, ELEMENT))


def test_lines_under_way_are_counted_until_they_are_compressed():
    single = [transfer(area, LINE_BYTES) for area in range(4)]
    long = transfer(4, MOST // LINE_BYTES * LINE_BYTES)
    device, host = memories([*single, long])
    seen = []

    async def software(sw):
        await sw.start()
        for one in [*single, long]:
            await sw.carry_out([one.fields])
            seen.append(await sw.get("OUTSTANDING_HIGH_WATER_LO"))

    engine().play(software, device=device, host=host)
    *alone, together = seen
    assert alone == [1] * len(single)
    assert 1 < together <= CONFIG.units * CONFIG.unit_beats
