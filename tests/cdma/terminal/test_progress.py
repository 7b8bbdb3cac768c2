"""Progress: nothing of short work, bars on a terminal, lines elsewhere; on a clock of its own."""

import io
import re
import threading

import numpy as np
import pytest

from cdma.builds.progress import observed, report
from cdma.cli import main
from cdma.terminal.progress import ProgressDisplay


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Time:
    """A clock that stands still, and timers that only end by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.delay_s = None
        self.function = None
        self.cancelled = False

    def clock(self):
        return self.now

    def timer(self, delay_s, function):
        assert self.function is None, "one delay at a time is enough"
        self.delay_s, self.function = delay_s, function
        return self

    def start(self):
        self.started = True

    def cancel(self):
        self.cancelled = True

    def end_delay(self):
        """Let the timer end that runs."""
        self.now += self.delay_s
        function, self.function = self.function, None
        function()


@pytest.fixture
def time():
    return Time()


def display_on(stream, time, after_s=2.0, every_s=2.0):
    return ProgressDisplay(
        stream, after_s=after_s, every_s=every_s, clock=time.clock, timer=time.timer
    )


def screen(stream):
    """Text that a terminal has been sent, without its control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


@pytest.mark.parametrize("make", [io.StringIO, Terminal], ids=["lines", "bars"])
def test_short_work_shows_nothing(time, make):
    stream = make()
    display = display_on(stream, time)
    with observed(display):
        report("RTL", 0, 2)
        report("RTL", 2, 2)
    display.close()
    assert time.started
    assert time.cancelled
    assert stream.getvalue() == ""


def test_a_line_when_the_delay_is_over_and_then_no_more_than_one_in_two_seconds(time):
    stream = io.StringIO()
    display = display_on(stream, time)
    display("RTL", 0, 129)
    display("RTL", 40, 129)
    display("C++", 3, 8)
    time.end_delay()
    assert stream.getvalue() == "cdma: RTL 40/129, C++ 3/8\n"
    for done, seconds in ((41, 1.5), (42, 0.4)):
        time.now += seconds
        display("RTL", done, 129)
    assert len(stream.getvalue().splitlines()) == 1
    # If nothing is reported for long, the last report has its line all the same.
    time.end_delay()
    assert stream.getvalue().splitlines()[1:] == ["cdma: RTL 42/129, C++ 3/8"]


def test_a_line_as_soon_as_it_may_be(time):
    stream = io.StringIO()
    display = display_on(stream, time, after_s=0)
    display("RTL", 0, 9)
    time.now += 1.5
    display("RTL", 1, 9)
    assert time.delay_s == 0.5
    time.now += 0.5
    display("RTL", 2, 9)
    assert stream.getvalue().splitlines() == ["cdma: RTL 0/9", "cdma: RTL 2/9"]
    # By the end of the delay nothing is new, and nothing more is waited for.
    time.end_delay()
    assert len(stream.getvalue().splitlines()) == 2
    assert time.function is None


def test_the_end_of_what_has_a_line_has_one_too(time):
    stream = io.StringIO()
    display = display_on(stream, time, after_s=0)
    display("C++", 0, 2)
    display("C++", 1, 2)
    display("C++", 2, 2)
    assert stream.getvalue().splitlines() == ["cdma: C++ 0/2", "cdma: C++ 2/2"]
    # What comes then is other work, of which there is no line so soon.
    display("swap out", 0, 1)
    display("swap out", 1, 1)
    display.close()
    assert stream.getvalue().splitlines() == ["cdma: C++ 0/2", "cdma: C++ 2/2"]


def test_work_that_fails_says_how_far_it_came(time):
    stream = io.StringIO()
    display = display_on(stream, time, after_s=0)
    display("C++", 0, 8)
    display("C++", 3, 8)
    display.close()
    assert stream.getvalue().splitlines() == ["cdma: C++ 0/8", "cdma: C++ 3/8"]


@pytest.mark.parametrize("make", [io.StringIO, Terminal], ids=["lines", "bars"])
def test_a_delay_that_ends_after_the_work_shows_nothing(time, make):
    stream = make()
    display = display_on(stream, time)
    display("C++", 3, 8)
    display.close()
    time.end_delay()
    assert stream.getvalue() == ""


def test_a_terminal_has_a_bar_for_each_phase_and_nothing_is_left_of_them(time, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    display = display_on(stream, time)
    display("RTL", 0, 129)
    display("RTL", 40, 129)
    display("C++", 3, 8)
    assert stream.getvalue() == ""
    time.end_delay()
    display("RTL", 41, 129)
    display.close()
    text = screen(stream)
    assert re.search(r"RTL ━.* +41/129", text)
    assert re.search(r"C\+\+ ━.* 3/8", text)
    # The last thing it does is to erase the lines and to show the cursor again.
    assert stream.getvalue().endswith("\x1b[2K")
    assert "\x1b[?25h" in stream.getvalue()


def test_a_phase_may_begin_again(time, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    display = display_on(stream, time, after_s=0)
    for total in (7, 5):
        display("RTL", 0, total)
        display("RTL", total, total)
    display.close()
    assert "7/7" in screen(stream)
    assert "5/5" in screen(stream)


def test_a_dumb_terminal_gets_lines(time, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    display_on(stream, time, after_s=0)("RTL", 1, 3)
    assert stream.getvalue() == "cdma: RTL 1/3\n"


def test_reports_go_to_the_innermost_observer_from_any_thread():
    outer, inner = [], []
    with observed(lambda *what: outer.append(what)):
        report("a", 0, 1)
        with observed(lambda *what: inner.append(what)):
            thread = threading.Thread(target=report, args=("b", 0, 1))
            thread.start()
            thread.join()
        report("c", 0, 1)
    report("d", 0, 1)
    assert (outer, inner) == ([("a", 0, 1), ("c", 0, 1)], [("b", 0, 1)])


def test_commands_show_progress_on_stderr(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cdma.terminal.progress.SHOWN_AFTER_S", 0)
    monkeypatch.setattr("cdma.terminal.progress.LINE_EVERY_S", 0)
    np.save(tmp_path / "a.npy", np.ones(100, np.float32))
    assert main(["swap", str(tmp_path / "a.npy"), "--engine", "codec", "--json"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("{")
    lines = err.splitlines()
    assert "cdma: swap out 1/1, swap in 0/1" in lines
    assert lines[-2:] == ["cdma: golden models 0/1", "cdma: golden models 1/1"]


def test_generated_rtl_counts_its_modules(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cdma.terminal.progress.SHOWN_AFTER_S", 0)
    monkeypatch.setattr("cdma.terminal.progress.LINE_EVERY_S", 0)
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path / "cache"))
    assert main(["generate", "packer", "--style", "netlist", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().err.splitlines()
    rtl = [re.fullmatch(r"cdma: RTL (\d+)/(\d+)", line) for line in lines if "RTL" in line]
    counts = [(int(match[1]), int(match[2])) for match in rtl]
    assert counts == sorted(counts)
    done, total = counts[-1]
    assert done == total > 1
    assert "cdma: Yosys 1/1" in lines


def test_errors_come_after_the_last_line_of_progress(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cdma.terminal.progress.SHOWN_AFTER_S", 0)

    def fail(*arguments, **options):
        report("C++", 1, 8)
        raise MemoryError

    monkeypatch.setattr("cdma.commands.swap.command.load_npy", fail)
    assert main(["swap", "a.npy"]) == 2
    assert capsys.readouterr().err == (
        "cdma: C++ 1/8\ncdma: error: out of memory; give a smaller input\n"
    )
