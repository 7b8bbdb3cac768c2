"""Streams that go on behind their last line are not read to their end."""

import numpy as np

from cdma.golden import LINE_BYTES, StreamStatus
from cdma.hw.dma.control.descriptor import Opcode, Status
from tests.hw.dma.test_engine import Transfer, engine, memories

SURPLUS = 11_000
"""Of zeros the worst stream is this much longer; no more would be read of any."""


def test_nothing_more_is_read_of_a_stream_that_is_too_long():
    transfer = Transfer(Opcode.DECOMPRESS_IN, 0, np.zeros(96 * LINE_BYTES, np.uint8))
    device, host = memories([transfer])
    start = transfer.place(in_device=False)
    end = start + transfer.stream.size
    host[end : end + SURPLUS] = np.random.default_rng(8).integers(1, 256, SURPLUS, np.uint8)
    seen = {}

    async def software(sw):
        await sw.start()
        fields = transfer.fields | {"src_length": transfer.stream.size + SURPLUS}
        (seen["record"],) = await sw.carry_out([fields])

    ports = engine().play(software, device=device, host=host)
    record = seen["record"]
    found = record["status"], record["detail"], record["fault_address"]
    assert found == (Status.STREAM_CORRUPT, StreamStatus.TRAILING_BYTES, transfer.stream.size)
    assert ports[0].width * len(ports[0].transfers["r"]) < SURPLUS / 2
