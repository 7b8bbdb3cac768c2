"""What the checksum is of: lines as they will come back, those of other codecs as they are."""

import numpy as np

from cdma.hw.codec.quantize.restorer import LineRestorer
from cdma.hw.config import CodecConfig
from tests.hw.codec.quantize.lines import fp32_lines, golden, sectors_of
from tests.lib.rtl.bench import Bench, assert_no_bubble, stalls

CONFIG = CodecConfig(element_bytes=1, codecs=("zvc", "quantize", "raw"))
K = 127


def test_lines_are_as_they_will_come_back():
    bench = Bench(LineRestorer(CONFIG, "quantize"))
    component = bench.component
    given, want = [], []
    for i, line in enumerate(fp32_lines(np.random.default_rng(3), 30, K)):
        codec = 0 if i % 3 == 2 else 1
        back = line
        if codec:
            back = golden(K).decompress(golden(K).compress(line.view("<f4")), 128)
        for own, sectors in ((line, given), (back, want)):
            sectors += [{**s, "codec": codec} for s in sectors_of(CONFIG, [own], K)]
    source = bench.source(component.i, given)
    sink = bench.sink(component.o, len(want))
    bench.run()
    sink.assert_received(want)
    assert_no_bubble(source.cycles)
    assert_no_bubble(sink.cycles)
    assert sink.cycles[0] == source.cycles[0] + CONFIG.sectors + 3
    bench.source(component.i, given, willing=stalls(0.3, 1))
    sink = bench.sink(component.o, len(want), willing=stalls(0.3, 2))
    bench.run()
    sink.assert_received(want)
