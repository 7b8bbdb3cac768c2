"""The pages that walk through adding something: their code runs, and their figures come out."""

import ast
import re
from typing import Any

import pytest

from cdma.hw.codec.interface import LineCodec
from cdma.plan.policies import registry
from cdma.plan.policies.registry import POLICIES
from cdma.plan.timeline.placement import ASYNCHRONOUS, RETAIN, SWAP
from cdma.plan.timeline.timeline import simulate
from cdma.plan.workload.networks import NETWORKS, Network
from cdma.synth.board import boards
from cdma.synth.board.boards import BOARDS, board_names
from tests.docs.pages import DOCS, blocks
from tests.hw.codec.xor import codec as xor
from tests.plan.policies import test_policies
from tests.plan.workload.test_networks import documented_row
from tests.synth.board import test_boards

GUIDE = DOCS / "guide"


def text_of(page: str) -> str:
    return (DOCS / "developer" / page).read_text("utf-8")


def codes_of(page: str) -> list[str]:
    return [b.text for b in blocks(text_of(page)) if b.language == "python"]


def run(code: str, **known: Any) -> dict[str, Any]:
    """The names that the code defines, where it finds those that are given."""
    names: dict[str, Any] = {"__name__": "walk_through", **known}
    exec(compile(code, "page", "exec"), names)
    return names


def entry(code: str, **known: Any) -> Any:
    """The value of an expression, which may be an item of a call's or a dictionary's."""
    return eval(compile(code.strip().rstrip(","), "page", "eval"), known)


class Largest:
    """The policy of the page, as the module that a reader would have made."""

    def __init__(self) -> None:
        self.plan = run(codes_of("add-a-policy.md")[0])["plan"]


@pytest.fixture(scope="module")
def vgg16():
    return test_policies.scenario_of()


@pytest.fixture
def policy():
    _, registered, _ = codes_of("add-a-policy.md")
    known = {**vars(registry), "largest_first": Largest(), "ASYNCHRONOUS": ASYNCHRONOUS}
    return entry(registered, **known)


def test_policy_of_the_page_is_registered_and_has_its_figures(policy):
    scenario = test_policies.scenario_of(memory_bytes=9e9)
    plan = policy.plan(scenario, None, 0, ())
    assert policy.name == plan.policy == "largest-first"
    vdnn = POLICIES["vdnn"].plan(scenario, None, 0, ())
    swapped = sum(choice == SWAP for choice in plan.choices)
    ms, vdnn_ms = (1e3 * simulate(scenario, one).seconds for one in (plan, vdnn))
    told = re.search(
        r"swaps (\w+) tensor of (\d+) there, and takes ([\d,.]+) ms instead of vDNN's ([\d,.]+)\.",
        text_of("add-a-policy.md"),
    )
    assert told
    assert told.groups() == ("one", str(len(plan.choices)), f"{ms:,.1f}", f"{vdnn_ms:,.1f}")
    assert swapped == 1


def test_test_of_the_policy_s_page_passes(vgg16):
    *_, tested = codes_of("add-a-policy.md")
    known = {"largest_first": Largest(), "SWAP": SWAP, "RETAIN": RETAIN, "simulate": simulate}
    names = run(tested, **known, Scenario=type(vgg16))
    names["test_largest_first_swaps_only_what_it_must"](vgg16)


def test_every_policy_has_its_row_in_order():
    table = (GUIDE / "plan" / "schedule.md").read_text("utf-8").partition("\n## Policies\n")[2]
    rows = re.findall(r"^\| (`[^|]*`) \|", table.partition("\n## ")[0], re.M)
    told = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(told) == sorted(POLICIES)


@pytest.fixture
def lenet5(monkeypatch):
    table, registered, _ = codes_of("add-a-network.md")
    known = {"Network": Network, "lenet5": run(table)["lenet5"]}
    ((name, network),) = entry(f"{{{registered.strip()}}}", **known).items()
    monkeypatch.setitem(NETWORKS, name, network)
    return name


def test_network_of_the_page_has_the_row_that_it_tells(lenet5):
    (dataset,) = NETWORKS[lenet5].batches
    assert documented_row(lenet5, dataset) in text_of("add-a-network.md").splitlines()


@pytest.mark.torch
def test_twin_of_the_network_s_page_has_its_layers(lenet5, monkeypatch):
    from torch import nn

    from tests.plan.workload import test_networks_torch, torch_networks

    *_, twin = codes_of("add-a-network.md")
    monkeypatch.setattr(torch_networks, lenet5, run(twin, nn=nn)["lenet5"], raising=False)
    (dataset,) = NETWORKS[lenet5].batches
    test_networks_torch.test_layers_and_sizes_are_those_of_the_module(lenet5, dataset)


def test_board_of_the_page_gets_the_plan_that_its_test_wants(monkeypatch):
    described, tested = codes_of("add-a-board.md")
    board = entry(described, Board=boards.Board)
    monkeypatch.setitem(BOARDS, board.name, board)
    wanted = run(tested)
    monkeypatch.setitem(test_boards.SITES, board.name, wanted["SITES"][board.name])
    monkeypatch.setitem(test_boards.DEVICES, board.name, wanted["DEVICES"][board.name])
    test_boards.check_plan(board.name, test_boards.config_for(board))


def test_every_board_has_its_rows_and_stands_in_the_usage():
    text = (GUIDE / "silicon" / "board.md").read_text("utf-8")
    assert f"cdma board {'|'.join(board_names())}\n" in text
    rows = {
        title: re.findall(r"^\| `?(\w+)`? \|", part.partition("\n## ")[0], re.M)
        for title, _, part in (one.partition("\n") for one in text.split("\n## "))
    }
    assert [name for name in rows["Boards"] if name in BOARDS] == board_names()
    figures = [name for name in rows["Figures"] if name in BOARDS]
    assert list(dict.fromkeys(figures)) == board_names()


def test_codec_of_the_page_declares_what_the_test_s_codec_declares():
    (code,) = codes_of("add-a-codec.md")
    told = run(code, LineCodec=LineCodec)["Xor"]
    assert ast.get_docstring(ast.parse(code).body[0])
    plain = {
        name for name, value in vars(xor.Xor).items() if not callable(value) and name[:1] != "_"
    }
    assert {name: getattr(told, name) for name in plain} == {
        name: getattr(xor.Xor, name) for name in plain
    }
    methods = {name for name, value in vars(xor.Xor).items() if callable(value)}
    assert methods <= vars(told).keys()
