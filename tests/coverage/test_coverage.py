"""The tool itself, on a small design with branches that are not taken."""

import json
import subprocess
from collections import Counter

import pytest

from cdma.hw.emit.verilog import Verilog
from tests.coverage.instrument import TAKEN
from tests.coverage.planted import Planted, Remembering
from tests.coverage.report import Report, Waiver, read_open, read_waivers, write_open
from tests.coverage.rtl import covered
from tests.coverage.totals import Point, Totals, components_of_hw, counted
from tests.lib.requirements import ICARUS, require

BENCH = """
module bench;
  reg clk = 0, rst = 1;
  reg [1:0] step = 0;
  wire [3:0] count;
  wire is_high;
  planted dut (.clk(clk), .rst(rst), .step(step), .count(count), .is_high(is_high));
  integer cycle;
  initial for (cycle = 0; cycle < CYCLES; cycle = cycle + 1) begin
    if (cycle == 2) rst = 0;
    step = STEP;
    #1 clk = 1;
    #1 $display("%b %b", dut.inner.TAKEN, dut.TAKEN);
    clk = 0;
  end
endmodule
"""

INNER, PLANTED = "tests.coverage.planted.Inner", "tests.coverage.planted.Planted"
ELIF = f"{INNER} branch Elif with m.Elif(self.step == 3):"


@pytest.fixture(scope="module")
def design() -> Verilog:
    return covered(Planted(), "planted")


def simulated(
    design: Verilog, folder, step: str, cycles: int = 6
) -> dict[str, dict[str, set[str]]]:
    """The bits of `TAKEN` that were high, as counts of them."""
    require(ICARUS)
    bench = BENCH.replace("TAKEN", TAKEN).replace("STEP", step).replace("CYCLES", str(cycles))
    (folder / "bench.v").write_text(design.text + bench)
    subprocess.run(["iverilog", "-g2012", "-o", "bench", "bench.v"], cwd=folder, check=True)
    done = subprocess.run(["vvp", "bench"], cwd=folder, check=True, capture_output=True, text=True)
    counts: dict[str, dict[str, set[str]]] = {"planted_inner": {}, "planted": {}}
    for line in done.stdout.splitlines():
        for module, bits in zip(counts, line.split(), strict=True):
            for bit, value in enumerate(reversed(bits)):
                if value == "1":
                    counts[module].setdefault(f"{TAKEN}[{bit}]", set()).add("0->1")
    return counts


def totals_of(design: Verilog, *counts) -> Totals:
    totals = Totals.empty()
    for each in counts:
        totals.add(json.loads(json.dumps(design.sidecar["coverage"])), each)
    return totals


def open_branches(totals: Totals) -> list[str]:
    return [point.group for point in totals.uncovered() if point.kind == "branch"]


def test_a_branch_that_is_not_taken_is_told_by_name(design, tmp_path):
    totals = totals_of(design, simulated(design, tmp_path, "2'd1"))
    assert set(open_branches(totals)) == {
        ELIF,
        f"{INNER} branch no branch of If with m.If(self.mode):",
        f"{PLANTED} branch Case with m.Case(15):",
        f"{PLANTED} branch Mux 1 "
        "m.d.comb += [self.count.eq(seen), self.is_high.eq(Mux(inner.count > 7, 1, 0))]",
    }
    lines = [point.group for point in totals.uncovered() if point.kind == "line"]
    assert lines == [
        f"{INNER} line m.d.sync += self.count.eq(self.count + 2)",
        f"{PLANTED} line m.d.comb += seen.eq(1)",
    ]


def test_what_no_input_can_lead_to_is_no_branch(design):
    modules = {module["component"]: module for module in design.sidecar["coverage"].values()}
    kinds = [branch["kind"] for branch in modules[INNER]["branches"]]
    assert sorted(kinds) == ["Elif", "Elif", "no branch of If"]
    assert modules[INNER]["ports"]["mode"] == [""]
    assert modules[INNER]["ports"]["step"] == ["step[0]", "step[1]"]


def test_runs_are_merged(design, tmp_path):
    runs = [simulated(design, tmp_path, step, 24) for step in ("2'd1", "2'd3", "2'd0")]
    assert open_branches(totals_of(design, *runs)) == []
    assert open_branches(totals_of(design, *reversed(runs))) == []
    assert open_branches(totals_of(design, runs[2])) != []


def test_a_branch_in_reset_is_not_taken(design, tmp_path):
    totals = totals_of(design, simulated(design, tmp_path, "2'd3", 2))
    assert ELIF in open_branches(totals)
    later = totals_of(design, simulated(design, tmp_path, "2'd3"))
    assert ELIF not in open_branches(later)


def test_a_bit_toggles_both_ways(design):
    counts = {"planted": {"step[0]": {"0->1", "1->0"}, "step[1]": {"0->1"}}}
    totals = totals_of(design, counts)
    assert totals.points[Point(PLANTED, "port", "step", "step[0]")]
    assert not totals.points[Point(PLANTED, "port", "step", "step[1]")]
    assert totals.constant == Counter({INNER: 1})


def test_bits_that_all_words_of_a_memory_have_in_common_are_constant():
    ports = covered(Remembering(), "remembering").sidecar["coverage"]["remembering"]["ports"]
    assert ports["kept"] == ["kept[0]", "kept[1]", "", ""]


def test_the_file_of_counts_is_read():
    line = (
        "C '\x01f\x02x.sv\x01l\x02100\x01n\x0216\x01t\x02toggle\x01page\x02v_toggle/planted"
        "\x01o\x02{}\x01h\x02TOP.planted' {}"
    )
    text = "\n".join(
        [
            "# SystemC::Coverage-3",
            line.format("step[1]:0->1", 3),
            line.format("step[1]:1->0", 0),
            line.format("is_high:1->0", 12),
        ]
    )
    assert counted(text) == {"planted": {"step[1]": {"0->1"}, "is_high": {"1->0"}}}


@pytest.fixture
def partly(design, tmp_path) -> Totals:
    return totals_of(design, simulated(design, tmp_path, "2'd1"))


def waiver(point: str, component: str = "*", kind: str = "branch") -> Waiver:
    return Waiver(component, kind, point, "It is planted.")


ALL = [waiver("*"), waiver("*", kind="line"), waiver("*", kind="port")]


def test_what_is_waived_is_not_open(partly):
    report = Report.of(partly, ALL, {})
    assert not report.open
    assert not report.failures
    assert report.rows()[-1][0] == "all"


def test_a_waiver_that_applies_to_nothing_is_an_error(partly):
    stale = waiver("Elif with m.Elif(self.step == 1):")
    report = Report.of(partly, [*ALL, stale], {})
    assert report.stale == [stale]
    assert len(report.failures) == 1


def test_a_waiver_of_one_point_leaves_the_others(partly):
    report = Report.of(partly, [waiver("Elif with m.Elif(self.step == 3):")], {})
    names = [point.group for point in report.open]
    assert ELIF not in names
    assert f"{PLANTED} branch Case with m.Case(15):" in names


def test_a_waiver_is_for_the_bits_of_its_range(partly):
    report = Report.of(partly, [waiver("count[3:1]", PLANTED, "port")], {})
    names = [point.what for point in report.open if point.component == PLANTED]
    assert [name for name in names if name.startswith("count")] == ["count[0]"]


def test_what_is_newly_open_fails_by_name(partly):
    known = Counter(point.group for point in partly.uncovered())
    assert not Report.of(partly, [], known).failures
    del known[ELIF]
    (failure,) = Report.of(partly, [], known).failures
    assert failure.startswith(f"not covered: {INNER} branch tests/coverage/planted.py:")


def test_what_is_no_longer_open_is_told(partly):
    known = Counter(point.group for point in partly.uncovered())
    known["hw.none.None branch If x"] = 1
    report = Report.of(partly, [], known)
    assert report.shorter == ["hw.none.None branch If x"]
    assert not report.failures


def test_the_list_of_what_is_open_is_read_as_it_was_written(partly, tmp_path):
    path = tmp_path / "open.toml"
    write_open(partly.uncovered(), path)
    assert not Report.of(partly, [], read_open(path)).failures


def test_a_waiver_needs_a_reason(tmp_path):
    path = tmp_path / "waivers.toml"
    path.write_text('[[waiver]]\ncomponent = "a"\nkind = "line"\npoint = "*"\nreason = ""\n')
    with pytest.raises(ValueError, match="a waiver needs a reason"):
        read_waivers(path)


def test_waivers_and_the_list_can_be_read():
    read_waivers()
    read_open()


def test_all_components_are_known():
    assert "hw.lib.pipeline.SkidBuffer" in components_of_hw()
