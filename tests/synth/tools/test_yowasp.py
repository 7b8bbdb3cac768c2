"""Tools that run, that fail, and that are not there."""

import pytest

from cdma.synth.errors import SynthError, TooSlowError
from cdma.synth.tools.yosys import YOSYS, run_yosys
from cdma.synth.tools.yowasp import Tool, run_tool


def test_what_yosys_says_is_in_its_log(tmp_path):
    run_yosys(["log a word"], tmp_path)
    assert "\na word\n" in (tmp_path / "yosys.log").read_text()


def test_errors_of_yosys_come_with_its_last_line_and_the_log(tmp_path):
    with pytest.raises(SynthError, match="Yosys failed: ERROR: ") as caught:
        run_yosys(["read_verilog none.v"], tmp_path)
    assert "none.v" in str(caught.value)
    assert str(caught.value).endswith(f"see {tmp_path / YOSYS.log}")
    assert (tmp_path / YOSYS.log).exists()


def test_log_of_the_last_run_only(tmp_path):
    (tmp_path / YOSYS.log).write_text("ERROR: of yesterday\n")
    with pytest.raises(SynthError) as caught:
        run_yosys(["no_such_command"], tmp_path)
    assert "no_such_command" in str(caught.value)
    assert "yesterday" not in str(caught.value)


def test_missing_tool_is_told_with_what_installs_it(tmp_path):
    tool = Tool("nextpnr", "yowasp_nextpnr_ecp6", "run_nextpnr_ecp6")
    with pytest.raises(SynthError, match="nextpnr is missing; install it with: pip install yowasp"):
        run_tool(tool, [], tmp_path)


def test_tool_that_ends_without_a_word_is_told_with_its_status(tmp_path):
    # The number of its arguments is its status.
    with pytest.raises(SynthError, match=r"failed: it ended with status 1; see .*silent\.log"):
        run_tool(Tool("Silent", "builtins", "len"), ["argument"], tmp_path)


def test_tool_that_does_not_end_in_its_time_is_told_with_the_log(tmp_path):
    with pytest.raises(TooSlowError, match=r"Yosys did not end in 0\.01 s; see .*yosys\.log"):
        run_yosys(["log a word"], tmp_path, timeout_s=0.01)
