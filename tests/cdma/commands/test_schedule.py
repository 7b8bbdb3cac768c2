"""`cdma schedule`: keys that stay, figures that fit together, errors that help, files whole."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdma.builds.documents import body
from cdma.cli import main
from cdma.commands.schedule.command import parse_bytes
from cdma.commands.schedule.run import check_content
from cdma.errors import UserError
from cdma.hw.codec.registry import codec_of_number
from cdma.plan.platform.device import DEVICES, device
from cdma.plan.platform.link import link
from cdma.plan.policies.registry import POLICIES, plan_all
from cdma.plan.timeline.scenario import Scenario
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.networks import NETWORKS
from cdma.sim.execute.content_check import parts_of
from cdma.sim.execute.execute import Executed, Execution
from cdma.sim.execute.execution_error import ExecutionError
from cdma.synth.gates.clock import ENGINE, clock_note

ASSUMPTION_KEYS = [
    "network",
    "dataset",
    "activation",
    "precision",
    "optimizer",
    "batch",
    "passes",
    "parameter_bytes",
    "parameter_copies",
    "tensors",
    "memory_bytes",
    "device",
    "efficiency",
    "narrow_efficiency",
    "efficiency_error",
    "efficiencies",
    "link",
    "engine",
    "mode",
    "density",
    "codecs",
    "policies",
    "speedup_over",
    "seed",
]

POLICY_KEYS = [
    "policy",
    "efficiency",
    "mode",
    "throttle",
    "lossless",
    "feasible",
    "seconds",
    "speedup_over_vdnn",
    "over_oracle",
    "over_bound",
    "peak_bytes",
    "least_bytes",
    "host_bytes",
    "link_bytes",
    "link_out_bytes",
    "link_in_bytes",
    "stall_seconds",
    "stall_seconds_by_reason",
    "codec_seconds",
    "recompute_seconds",
    "copy_limits",
    "solver",
    "busy_seconds",
    "choices",
]

NULL_WITHOUT_ROOM = [
    "seconds",
    "speedup_over_vdnn",
    "over_oracle",
    "over_bound",
    "link_bytes",
    "link_out_bytes",
    "link_in_bytes",
    "stall_seconds",
    "stall_seconds_by_reason",
    "codec_seconds",
    "recompute_seconds",
    "busy_seconds",
]

TIGHT = ("--network", "alexnet", "--dataset", "cifar", "--memory", "1.4GB")
"""Less than the tensors take, and than the inputs of convolutions leave."""

QUICK = ("--network", "digits_cnn", "--policy", "vdnn,cdma")


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def schedule_json(capsys, *arguments: str) -> dict[str, Any]:
    assert main(["schedule", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def schedule_error(capsys, *arguments: str) -> str:
    assert main(["schedule", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("cdma: error: ")
    return told.err


@pytest.fixture(scope="module")
def tight() -> dict[str, Any]:
    """All policies where some do not fit."""
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr("typer.echo", said.append)
        assert main(["schedule", *TIGHT, "--json"]) == 0
    return json.loads("".join(said))


def test_keys_are_stable_and_every_policy_is_there(tight):
    keys = ["assumptions", "configuration", "bounds", "engine_worth", "policies"]
    assert list(body(tight)) == keys
    assert list(tight["assumptions"]) == ASSUMPTION_KEYS
    assert [row["policy"] for row in tight["policies"]] == list(POLICIES)
    for row in tight["policies"]:
        assert list(row) == POLICY_KEYS
        assert list(row["choices"]) == [t["name"] for t in tight["assumptions"]["tensors"]]


def test_what_does_not_fit_has_a_need_and_no_figures(tight):
    rows = {row["policy"]: row for row in tight["policies"]}
    assert rows["vdnn-conv"]["feasible"] is False
    assert rows["vdnn"]["feasible"] is True
    for row in tight["policies"]:
        if row["feasible"]:
            assert row["least_bytes"] <= row["peak_bytes"] <= 1_400_000_000
        else:
            assert row["peak_bytes"] >= row["least_bytes"] > 1_400_000_000
            if row["policy"] != "oracle":
                assert {row[key] for key in NULL_WITHOUT_ROOM} == {None}


def test_figures_fit_together(tight):
    (bounds,) = tight["bounds"]
    by_loss = {bound["lossless"]: bound["seconds"] for bound in bounds["lower_bounds"]}
    vdnn = next(row for row in tight["policies"] if row["policy"] == "vdnn")
    for row in tight["policies"]:
        if row["seconds"] is None:
            continue
        assert row["speedup_over_vdnn"] == vdnn["seconds"] / row["seconds"]
        assert row["over_oracle"] == row["seconds"] / bounds["oracle_seconds"] - 1 >= -1e-12
        assert row["link_bytes"] == row["link_out_bytes"] + row["link_in_bytes"]
        stalls = row["stall_seconds_by_reason"]
        assert sum(stalls.values()) == pytest.approx(row["stall_seconds"], abs=1e-9)
        assert row["busy_seconds"]["compute"] + row["stall_seconds"] == pytest.approx(
            row["seconds"]
        )
        if row["policy"] != "oracle":
            gap = row["seconds"] / by_loss[row["lossless"]] - 1
            assert row["over_bound"] == pytest.approx(gap)
            assert gap >= -1e-9


def test_the_engine_is_held_against_the_best_plan_without_it(tight, capsys):
    (worth,) = tight["engine_worth"]
    rows = {row["policy"]: row for row in tight["policies"]}
    fitting = [r for r in rows.values() if r["feasible"] and r["policy"] != "oracle"]
    lossless = [r for r in fitting if r["lossless"]]
    plain = [r for r in lossless if "swap zvc" not in r["choices"].values()]
    assert rows[worth["without"]]["seconds"] == min(r["seconds"] for r in plain)
    assert rows[worth["with"]]["seconds"] == min(r["seconds"] for r in lossless)
    assert worth["gain"] == rows[worth["without"]]["seconds"] / rows[worth["with"]]["seconds"] - 1
    assert rows[worth["without"]]["seconds"] < rows["vdnn"]["seconds"]

    def sentence(policies: str) -> str:
        assert main(["schedule", *TIGHT, "--policy", policies, "--bound", "none"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        return text[text.index("The fastest lossless plan") :]

    vdnn, cdma = (rows[name]["seconds"] for name in ("vdnn", "cdma"))
    assert sentence("vdnn,cdma") == (
        f"The fastest lossless plan without the engine takes {1000 * vdnn:,.1f} ms, vdnn, with it "
        f"{1000 * cdma:,.1f} ms, cdma: the engine gains {100 * (vdnn / cdma - 1):.1f} %."
    )
    capuchin = rows["capuchin"]["seconds"]
    assert capuchin < cdma
    assert sentence("capuchin,cdma") == (
        f"The fastest lossless plan, {1000 * capuchin:,.1f} ms, capuchin, does without the engine."
    )
    nobody = schedule_json(capsys, *TIGHT, "--policy", "vdnn,capuchin", "--bound", "none")
    assert nobody["engine_worth"] == [
        {"efficiency": None, "without": "capuchin", "with": None, "gain": None}
    ]


def test_assumptions_say_what_the_options_did(capsys):
    facts = schedule_json(
        capsys,
        *("--network", "alexnet", "--batch", "64", "--activation", "leaky_relu"),
        *("--device", "v100", "--link", "v100-pcie", "--memory", "8GiB", "--mode", "async"),
        *("--policy", "cdma", "--density", "curve", "--epoch", "3", "--epochs", "7"),
        *("--seed", "11", "--bound", "none"),
    )["assumptions"]
    assert (facts["network"], facts["dataset"], facts["batch"]) == ("alexnet", "imagenet", 64)
    assert (facts["activation"], facts["mode"], facts["seed"]) == ("leaky_relu", "async", 11)
    assert facts["device"]["name"] == "v100"
    assert facts["link"] == {
        "name": "v100-pcie",
        "bytes_per_s": 11.7e9,
        "in_bytes_per_s": 10.6e9,
        "payload_efficiency": 1.0,
        "duplex": True,
        "source": "CSWAP+, §6.1",
    }
    assert facts["memory_bytes"] == 8 << 30
    assert (facts["density"]["source"], facts["density"]["epoch"]) == ("curve", 3)
    assert [codec["name"] for codec in facts["codecs"]] == ["zvc"]
    assert list(facts["policies"]) == ["cdma"]


def test_without_options_it_is_the_devices_memory_and_the_networks_batch(capsys):
    facts = schedule_json(capsys, "--network", "nin", "--policy", "oracle")["assumptions"]
    assert facts["memory_bytes"] == DEVICES["titanxp"].capacity_bytes
    assert facts["batch"] == NETWORKS["nin"].batches["imagenet"]
    assert facts["density"]["source"] == "digits-cnn"


def test_a_transformer_is_trained_as_usual_or_as_asked_for(capsys):
    step = ("--network", "gpt2", "--batch", "1", "--device", "rtx4090", "--policy", "oracle")
    usual = schedule_json(capsys, *step)["assumptions"]
    assert (usual["precision"], usual["optimizer"], usual["passes"]) == ("bf16", "adam", 1)
    assert usual["parameter_copies"] == 8
    assert usual["density"]["mean"] == 1
    options = ("--precision", "autocast", "--optimizer", "sgd", "--accumulate", "4")
    asked = schedule_json(capsys, *step, *options)["assumptions"]
    assert (asked["precision"], asked["optimizer"], asked["passes"]) == ("autocast", "sgd", 4)
    assert (asked["parameter_copies"], asked["batch"]) == (2, 1)
    assert main(["schedule", *step, *options]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "gpt2 (text, relu, autocast), batch 1, one of 4 passes" in text
    assert "2 times (with gradients)" in text
    assert "165.2 TFLOP/s" in text
    told = schedule_error(capsys, *step, "--precision", "fp8")
    assert "unknown precision 'fp8'; name one of fp32, bf16, autocast" in told


def test_a_file_declares_densities(capsys, tmp_path):
    (tmp_path / "d.json").write_text('{"relu": 0.25, "pool1": 0.5}')
    facts = schedule_json(capsys, *QUICK[:2], "--policy", "vdnn", "--density", "curve")
    with_file = schedule_json(
        capsys, "--network", "alexnet", "--policy", "vdnn", "--density", "d.json"
    )
    densities = {t["name"]: t["density"] for t in with_file["assumptions"]["tensors"]}
    assert densities["pool1"] == 0.5
    assert densities["relu1"] == 0.25
    assert facts["assumptions"]["density"]["source"] == "curve"


def test_efficiencies_are_swept(capsys):
    report = schedule_json(capsys, *QUICK, "--efficiency", ".4,.8", "--bound", "none")
    assert report["assumptions"]["efficiencies"] == [0.4, 0.8]
    assert report["assumptions"]["efficiency"] is None
    assert [(row["efficiency"], row["policy"]) for row in report["policies"]] == [
        (0.4, "vdnn"),
        (0.4, "cdma"),
        (0.8, "vdnn"),
        (0.8, "cdma"),
    ]
    slow, fast = (bound["oracle_seconds"] for bound in report["bounds"])
    assert slow == pytest.approx(2 * fast)
    one = schedule_json(capsys, *QUICK, "--efficiency", "0.8", "--bound", "none")
    assert one["policies"] == report["policies"][2:]
    assert set(one["assumptions"]["efficiency"].values()) == {0.8}


def test_the_table_has_the_assumptions_above_and_what_does_not_fit_below(capsys):
    assert main(["schedule", *TIGHT, "--policy", "oracle,vdnn,vdnn-conv,cdma,comet"]) == 0
    text = capsys.readouterr().out
    for heading in ("over oracle", "over bound", "peak", "needs", "link", "stall", "tensors"):
        assert heading in text
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.strip().startswith("policy "))
    above = "\n".join(lines[:first])
    for fact in ("1,400,000,000 B of titanxp", "12.15 TFLOP/s", "0.8 of it", "epoch 0 of 90"):
        assert fact in above
    assert clock_note(1e9, ENGINE) in " ".join(above.split())
    row = next(line for line in lines if line.strip().startswith("vdnn-conv"))
    assert "no room" in row
    assert "vdnn-conv 1,485,732,472 B" in " ".join(lines[first:])


def test_a_link_that_no_engine_fits_has_none(capsys):
    """Raw copies go at the link's pace, so nothing is 1.23x faster than a vDNN that was slowed."""
    step = ("--network", "alexnet", "--device", "h100", "--link", "nvlink4", "--bound", "none")
    report = schedule_json(capsys, *step)
    assert report["assumptions"]["engine"] is None
    assert report["assumptions"]["link"]["bytes_per_s"] == 450e9
    rows = {row["policy"]: row for row in report["policies"]}
    assert list(rows) == [name for name, each in POLICIES.items() if not each.engine]
    assert all("swap zvc" not in row["choices"].values() for row in rows.values())
    out = rows["vdnn"]["link_out_bytes"] / rows["vdnn"]["busy_seconds"]["d2h"]
    assert out == pytest.approx(0.8 * 450e9, rel=1e-3)
    told = schedule_error(capsys, *step, "--policy", "vdnn,cdma")
    assert "policy cdma: no engine passes the 360 GB/s that copies get of nvlink4" in told
    assert main(["schedule", *step, "--policy", "vdnn,home"]) == 0
    assert "Left out" not in capsys.readouterr().out
    assert main(["schedule", *step]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "none: no engine passes the 360 GB/s" in text
    left_out = "Left out are cdma, cdma-bandwidth-aware and best-with-engine: no engine passes"
    assert left_out in text


@pytest.mark.verify
def test_large_integer_programs_are_left_out_unless_named(capsys, monkeypatch):
    limit = replace(POLICIES["poet"], most_stages=5)
    monkeypatch.setitem(POLICIES, "poet", limit)
    rows = schedule_json(capsys, *TIGHT)["policies"]
    assert {row["policy"] for row in rows} == set(POLICIES) - {"poet"}
    solvers = {row["policy"]: row["solver"] for row in rows if row["solver"]}
    assert set(solvers) == {"checkmate"}
    assert solvers["checkmate"]["integral"]
    assert 0 <= solvers["checkmate"]["gap"] <= 1e-4
    assert main(["schedule", *TIGHT]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Left out, as 14 stages make large integer programs: poet; --policy" in text
    assert "Integer programs, of their own model and not of the step: checkmate, solved" in text
    (row,) = schedule_json(capsys, *TIGHT, "--policy", "poet")["policies"]
    assert row["policy"] == "poet"


def test_where_the_engine_is_the_limit_it_says_so(capsys, tmp_path):
    (tmp_path / "sparse.json").write_text('{"relu": 0.02, "pool": 0.9, "dropout": 0.9}')
    step = ("--network", "alexnet", "--density", "sparse.json", "--bound", "none")
    step += ("--policy", "vdnn,cdma,cdma-bandwidth-aware")
    rows = {row["policy"]: row["copy_limits"] for row in schedule_json(capsys, *step)["policies"]}
    assert rows["vdnn"] == {"link": 0}
    assert rows["cdma"]["units"] > 0
    assert rows["cdma-bandwidth-aware"]["throttle"] > 0
    for limits in (rows["cdma"], rows["cdma-bandwidth-aware"]):
        assert sum(limits.values()) == 2 * 13
    assert main(["schedule", *step]) == 0
    text = " ".join(capsys.readouterr().out.split())
    units = rows["cdma"]["units"]
    assert f"it or the device, not the link, limits: cdma {units} of 26 ({units} by units" in text


def test_a_sweep_is_one_table(capsys):
    assert main(["schedule", *QUICK, "--efficiency", ".4,.6,.8"]) == 0
    text = capsys.readouterr().out
    assert all(f"{value:g}: µs" in text for value in (0.4, 0.6, 0.8))
    assert sum(line.strip().startswith("cdma ") for line in text.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--network", "vgg"), "unknown network 'vgg'; name one of alexnet, "),
        ((*QUICK, "--policy", "vdnn,dvnn"), "unknown policy 'dvnn'; choose from oracle, vdnn, "),
        ((*QUICK, "--bound", "3"), "unknown bound '3'; choose from linear, integral, auto, none"),
        ((*QUICK, "--device", "k80"), "unknown device 'k80'; choose from k40, "),
        ((*QUICK, "--link", "usb"), "unknown link 'usb'; choose from pcie3x16, "),
        ((*QUICK, "--mode", "lazy"), "unknown mode 'lazy'; choose sync or async"),
        ((*QUICK, "--dataset", "imagenet"), "has no shape for dataset 'imagenet'; name one of"),
        ((*QUICK, "--activation", "elu"), "unknown activation 'elu'; name one of relu, "),
        ((*QUICK, "--density", "none"), "unknown densities 'none'; name one of curve, "),
        ((*QUICK, "--capture", "none"), "unknown densities 'none'; name one of curve, "),
        ((*QUICK, "--density", "curve", "--capture", "x"), "--capture is for --density capture"),
        ((*QUICK, "--memory", "12XB"), "--memory '12XB' is no number of bytes; write as 12GB"),
        ((*QUICK, "--memory", "0"), "memory must be more than 0 bytes, not 0"),
        ((*QUICK, "--efficiency", "0.5,2"), "--efficiency must be numbers of more than 0"),
        ((*QUICK, "--device", "b200", "--efficiency", "published"), "no published efficiencies"),
        ((*QUICK, "--efficiency", "half"), "--efficiency must be numbers of more than 0"),
        ((*QUICK, "--epoch", "90"), "epoch must be 0 to 89, not 90"),
        ((*QUICK, "--batch", "0"), "batch must be at least 1, not 0"),
        ((*QUICK, "--plot", "x.jpg"), "--plot writes PNG, SVG or PDF, not 'x.jpg'; name a file"),
        ((*QUICK, "--efficiency", ".4,.5", "--trace", "t"), "are of one efficiency; give one"),
        ((*QUICK, "--bytes", "1MB"), "are of plans that are carried out; add --run"),
        ((*QUICK, "--content", "1MB"), "are of plans that are carried out; add --run"),
        ((*QUICK, "--jobs", "2"), "are of plans that are carried out; add --run"),
        ((*QUICK, "--run", "--bytes", "1kB"), "--bytes must be 65,536 to 1,073,741,824, not 1,000"),
        ((*QUICK, "--run", "--content", "1kB"), "--content must be at least 65,536, not 1,000"),
        ((*QUICK, "--run", "--bytes", "few"), "--bytes 'few' is no number of bytes"),
        ((*QUICK, "--efficiency", ".4,.5", "--run"), "are of one efficiency; give one"),
        ((*QUICK, "--trace", "no/t.json"), "cannot write no/t.json: No such file or directory"),
        ((), "no network given; name one with --network: alexnet, "),
    ],
)
def test_bad_input_is_told_in_one_line(capsys, arguments, message):
    assert message in schedule_error(capsys, *arguments)


def test_too_little_memory_for_anyone_says_what_it_takes(capsys):
    told = schedule_error(capsys, *TIGHT[:4], "--memory", "1GB", "--policy", "vdnn,cdma")
    assert "no plan works with less than 1,317,960,312" in told
    assert main(["schedule", *TIGHT[:4], "--memory", "1317960312", "--policy", "vdnn"]) == 0


def test_trace_and_plot_are_written(capsys, tmp_path):
    report = schedule_json(
        capsys, *TIGHT, "--policy", "vdnn,vdnn-conv,cdma", "--trace", "t.json", "--plot", "p.png"
    )
    content = json.loads((tmp_path / "t.json").read_text())
    assert content["otherData"] == report["assumptions"]
    names = [e["args"]["name"] for e in content["traceEvents"] if e["name"] == "process_name"]
    assert [name.split(":")[0] for name in names] == ["vdnn", "cdma"]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("option", ["--trace", "--plot"])
def test_a_run_that_is_stopped_leaves_what_was_there(capsys, tmp_path, monkeypatch, option):
    path = tmp_path / ("t.json" if option == "--trace" else "t.png")
    path.write_text("before")

    def stopped(*arguments: Any, **options: Any) -> None:
        # Some bytes are on the disk by then.
        assert len(list(tmp_path.iterdir())) == 2
        raise KeyboardInterrupt

    monkeypatch.setattr("cdma.outputs.os.fsync", stopped)
    assert main(["schedule", *QUICK, option, path.name, "--force"]) == 130
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_second_run_is_the_same(capsys, tight):
    assert schedule_json(capsys, *TIGHT) == tight


def test_plans_run_on_the_engine_beside_the_timeline(capsys):
    report = schedule_json(
        capsys,
        *("--network", "digits_cnn", "--batch", "2", "--policy", "vdnn-conv,comet,cdma"),
        *("--bound", "none", "--run"),
    )
    assert report["runs"]["left_out"] == {"comet": "it swaps nothing"}
    assert [run["policy"] for run in report["runs"]["plans"]] == ["vdnn-conv", "cdma"]
    for run, row in zip(report["runs"]["plans"], report["policies"][::2], strict=True):
        assert abs(run["error"]) < 0.05
        assert run["error"] == pytest.approx(run["cycles"] / run["timeline_cycles"] - 1)
        swapped = {name for name, choice in row["choices"].items() if choice.startswith("swap")}
        for way in ("out", "in"):
            copies = [c for c in run["copies"] if c["way"] == way]
            assert {c["tensor"] for c in copies} == swapped
            assert 0 < abs(run[f"{way}_error"]) < 0.05
        content = run["content"]
        assert {tensor["tensor"] for tensor in content["tensors"]} == swapped
        for key in ("bytes", "stream_bytes"):
            assert content[key] == sum(tensor[key] for tensor in content["tensors"])
        # All of it, as the small network has less than is asked for.
        assert content["share"] == 1
        assert content["bytes"] == sum(copy["bytes"] for copy in run["copies"]) / 2


def test_content_has_as_many_bytes_as_asked_for(capsys):
    report = schedule_json(
        capsys,
        *("--network", "digits_cnn", "--batch", "64", "--policy", "cdma", "--bound", "none"),
        *("--run", "--bytes", "64KiB", "--content", "500kB"),
    )
    (run,) = report["runs"]["plans"]
    assert run["content"]["bytes"] == pytest.approx(500_000, rel=0.01)
    assert run["content"]["stream_bytes"] < 0.8 * run["content"]["bytes"]
    step = sum(copy["bytes"] for copy in run["copies"] if copy["way"] == "out")
    assert step == pytest.approx(64 << 10, rel=0.01)
    whole = step / run["factor"]
    assert run["content"]["share"] == pytest.approx(500_000 / whole, rel=0.02)


def test_parts_of_a_plan_are_the_same_in_any_number_of_processes(monkeypatch):
    monkeypatch.setattr("cdma.sim.execute.content_check.PART_BYTES", 8 << 10)
    graph = density.apply(Graph.from_table("digits_cnn", 64))
    scenario = Scenario(
        graph=graph, device=device("titanx"), link=link("pcie3x16"), memory_bytes=1 << 30
    )
    plan = plan_all(scenario, ["cdma"])["cdma"].plan
    assert len(list(parts_of(scenario, plan, 40 << 10))) > len(plan.choices)
    alone, together = (check_content(scenario, plan, 40 << 10, jobs) for jobs in (1, 2))
    assert alone == together
    assert alone.nbytes == pytest.approx(40 << 10, rel=0.01)


@pytest.mark.verify
@pytest.mark.parametrize("nbytes", [1 << 20, 4 << 20])
def test_what_is_run_grows_with_the_bytes_asked_for(capsys, nbytes):
    (run,) = schedule_json(
        capsys,
        *("--network", "digits_cnn", "--batch", "64", "--policy", "vdnn-conv"),
        *("--bound", "none", "--run", "--bytes", str(nbytes)),
    )["runs"]["plans"]
    out = [copy for copy in run["copies"] if copy["way"] == "out"]
    whole = sum(copy["bytes"] for copy in out) / run["factor"]
    assert sum(copy["bytes"] for copy in out) == pytest.approx(min(nbytes, whole), rel=0.05)
    assert abs(run["error"]) < 0.05


@pytest.mark.verify
def test_plans_in_processes_of_their_own_run_as_in_one(capsys):
    words = (
        *("--network", "digits_cnn", "--batch", "2", "--policy", "vdnn-conv,comet,cdma"),
        *("--bound", "none", "--run", "--bytes", "100kB"),
    )
    alone, together = (schedule_json(capsys, *words, "--jobs", n)["runs"] for n in ("1", "2"))
    assert together == alone
    assert len(together["plans"]) == 2


@pytest.mark.verify
@pytest.mark.parametrize(
    ("words", "codec", "lossless"),
    [
        (
            ("squeezenet", "--batch", "512", "--memory", "6.6GB", "--policy", "joint-lossy"),
            2,
            False,
        ),
        (("gpt2", "--batch", "16", "--memory", "8GB", "--policy", "joint"), 1, True),
    ],
    ids=["lossy lane", "exponents"],
)
def test_an_engine_with_more_codecs_runs_the_plans_that_choose_them(
    capsys, tmp_path, words, codec, lossless
):
    """The commands of docs/guide/plan/schedule-run.md."""
    assert main(["config", "show", "titanxp_gen3"]) == 0
    shown = capsys.readouterr().out
    config = tmp_path / "own.toml"
    config.write_text(
        shown.replace("element_bytes = 4", "element_bytes = 1").replace(
            '["zvc", "raw"]', '["zvc", "raw", "xc", "quantize"]'
        )
    )
    report = schedule_json(
        capsys, *("--network", *words, "--config", str(config), "--bound", "none", "--run")
    )
    (row,) = report["policies"]
    wanted = f"swap {codec_of_number(codec).name}"
    assert wanted in row["choices"].values()
    assert row["lossless"] == lossless
    (run,) = report["runs"]["plans"]
    assert abs(run["error"]) < 0.02
    for way in ("out", "in"):
        assert abs(run[f"{way}_error"]) < 0.05


def test_how_far_copies_are_off_stands_beside_the_step_that_hides_it(capsys, monkeypatch):
    """Where computation hides copies, the step alone says little of them."""
    times = {"out": (100, 90.0), "in": (120, 125.0)}
    done = Execution(
        policy="made up",
        factor=1.0,
        trace=SimpleNamespace(
            seconds=990e-9, busy=lambda _: 900e-9, peak_bytes=99, memory_bytes=100
        ),
        clock_hz=1e9,
        cycles=1000,
        compute_cycles=945.0,
        peak_bytes=98,
        copies=tuple(
            Executed(
                name="relu1",
                way=way,
                nbytes=4096,
                stream_bytes=2048,
                start_cycle=0,
                end_cycle=cycles,
                timeline_start_cycle=0.0,
                timeline_end_cycle=timeline,
            )
            for way, (cycles, timeline) in times.items()
        ),
        link_out_cycles=0.0,
        link_in_cycles=0.0,
    )
    monkeypatch.setattr("cdma.commands.schedule.run.execute", lambda *_a, **_b: done)
    assert main(["schedule", *QUICK, "--bound", "none", "--run", "--content", "64KiB"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    headings = "cycles off by compute off by out off by in off by memory"
    assert f"policy factor copies KB {headings}" in lines
    figures = "1,000 +1.01 % 945 +5.00 % 100 +11.11 % 120 -4.00 % 98.0 %"
    assert f"made up 1/1 2 4 {figures}" in lines
    assert any(re.match(r"made up: 6\d,\d+ bytes of its tensors, ", line) for line in lines)


def test_a_tensor_that_does_not_come_back_is_status_1(capsys, monkeypatch):
    def changed(*arguments: Any, **others: Any) -> None:
        raise ExecutionError("tensor relu1 came back changed; none was out")

    monkeypatch.setattr("cdma.commands.schedule.run.execute", changed)
    assert main(["schedule", *QUICK, "--run"]) == 1
    assert "tensor relu1 came back changed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("12GB", 12 * 10**9),
        ("11.5GiB", 23 << 29),
        ("12000000000", 12 * 10**9),
        ("1.1kB", 1100),
        ("3 MiB", 3 << 20),
        ("2tb", 2 * 10**12),
        ("7B", 7),
    ],
)
def test_sizes_are_read_as_written(text, nbytes):
    assert parse_bytes(text) == nbytes


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1e9", "12 G B", "nan", "12GBs"])
def test_other_sizes_are_refused(text):
    with pytest.raises(UserError, match="is no number of bytes; write as 12GB"):
        parse_bytes(text)


LARGEST = ["schedule", "--network", "digits_cnn", "--memory", "20MB", "--largest-batch"]


def test_the_largest_batch_is_the_last_that_fits(capsys):
    arguments = [*LARGEST, "--policy", "oracle,vdnn", "--json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)["largest_batches"]
    assert [one["policy"] for one in found] == ["oracle", "vdnn"]
    assert 0 < found[0]["batch"] <= found[1]["batch"]
    for one in found:
        assert one["per_second"] == pytest.approx(one["batch"] / one["seconds"])
        for batch, feasible in ((one["batch"], True), (one["batch"] + 1, False)):
            step = [
                "schedule",
                "--network",
                "digits_cnn",
                "--memory",
                "20MB",
                "--batch",
                str(batch),
            ]
            # vDNN fits wherever anything does.
            main([*step, "--policy", f"{one['policy']},vdnn", "--bound", "none", "--json"])
            out = capsys.readouterr().out
            policies = json.loads(out)["policies"] if out else [{"feasible": False}]
            assert policies[0]["feasible"] is feasible


def test_not_one_image_has_batch_0(capsys):
    arguments = [*LARGEST, "--policy", "vdnn"]
    arguments[arguments.index("20MB")] = "1MB"
    assert main([*arguments, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["largest_batches"]
    assert (found["batch"], found["seconds"], found["per_second"]) == (0, None, None)
    assert main(arguments) == 0
    assert "no room" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--batch", "4"], "leave out --batch"),
        (["--plot", "x.png"], "leave out --largest-batch"),
        (["--efficiency", ".5,.6"], "of one efficiency"),
    ],
)
def test_the_largest_batch_has_no_options_of_one_batch(capsys, more, message):
    assert main([*LARGEST, "--policy", "vdnn", *more]) == 2
    assert message in capsys.readouterr().err


def test_published_efficiencies_stand_in_for_declared_ones_kind_by_kind(capsys):
    words = (*QUICK, "--device", "titanx", "--bound", "none", "--efficiency", "published")
    assumed = schedule_json(capsys, *words)["assumptions"]
    (products,) = {assumed["efficiency"][kind] for kind in ("conv", "fc")}
    (others,) = {assumed["efficiency"][kind] for kind in ("relu", "pool", "dropout", "softmax")}
    assert others < 0.5 < products
    assert set(assumed["efficiency_error"].values()) == {0.152}
    assert "cnn-benchmarks" in assumed["device"]["source"]
    assert main(["schedule", *words]) == 0
    assert "timed and off by up to 15 %" in " ".join(capsys.readouterr().out.split())
