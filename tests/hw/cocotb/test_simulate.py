"""A bench that fails, or does not run, fails its test; a missing tool says how to get it."""

import pytest

from cdma.hw.config import CodecConfig
from tests.hw.cocotb import simulate
from tests.hw.cocotb.stream.benches import Scenario
from tests.lib.rtl.verilog import verilog_of

CONFIG = CodecConfig(element_bytes=4, sector_bytes=32)


def test_failing_bench_fails_with_its_message(builds, tmp_path):
    build = builds("icarus", "zvc-compressor", CONFIG)
    # Elements of another size than the top's: other masks.
    wrong = Scenario(component="zvc-compressor", element_bytes=2, sector_bytes=32)
    with pytest.raises(AssertionError, match=r"good_and_malformed_packets: transfer 1 \(1 B\)"):
        simulate.run(build, "good_and_malformed_packets", wrong, tmp_path)


def test_bench_that_does_not_exist_is_not_a_success(builds, tmp_path):
    build = builds("icarus", "zvc-compressor", CONFIG)
    chosen = Scenario(component="zvc-compressor", element_bytes=4, sector_bytes=32)
    with pytest.raises(AssertionError, match="not run: nothing"):
        simulate.run(build, "nothing", chosen, tmp_path)


def test_missing_icarus_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    verilog = verilog_of("zvc-compressor")
    with pytest.raises(simulate.MissingToolError, match=r"not on PATH; .*apt-get install iverilog"):
        simulate.build_icarus(verilog, tmp_path)
