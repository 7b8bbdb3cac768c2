"""Components broken on purpose, and that a proof finds it."""

import __future__

import inspect
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from amaranth.hdl import Elaboratable

from tests.formal.bench import Bench
from tests.formal.smtbmc import ProofError, check


def break_elaborate(
    monkeypatch: pytest.MonkeyPatch, component: type, right: str, wrong: str
) -> None:
    """Put something else in the place of the only `right` in the source of a component's logic.

    It is in `elaborate` or in one of the methods that elaborate stages for it.
    """
    sources = {
        name: textwrap.dedent(inspect.getsource(method))
        for name, method in vars(component).items()
        # One that is broken already has no source.
        if inspect.isfunction(method)
        and name != "__init__"
        and method.__code__.co_filename[0] != "<"
    }
    assert sum(source.count(right) for source in sources.values()) == 1
    (name,) = (name for name, source in sources.items() if right in source)
    made = _made(sources[name].replace(right, wrong), inspect.getmodule(component), name)
    monkeypatch.setattr(component, name, made)


def break_function(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, right: str, wrong: str
) -> None:
    """Put something else in the place of the only `right` in the source of a module's function."""
    source = inspect.getsource(getattr(module, name))
    assert source.count(right) == 1
    monkeypatch.setattr(module, name, _made(source.replace(right, wrong), module, name))


def _made(source: str, module: Any, name: str) -> Any:
    """The function of that name that a source in a module would make."""
    scope: dict[str, Any] = {}
    # Classes that annotations name may have stand-ins, of which no annotation can be made.
    flags = __future__.annotations.compiler_flag
    code = compile(source, "<broken>", "exec", flags=flags, dont_inherit=True)
    exec(code, vars(module), scope)
    return scope[name]


def state_contracts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what benches rely on beside contracts: it does not hold of what is broken."""
    monkeypatch.setattr(Bench, "require", lambda bench, *conditions: None)


def break_contract(
    monkeypatch: pytest.MonkeyPatch, component: type[Elaboratable], right: str, wrong: str
) -> None:
    """Break a component, of which a chained proof has to find that it breaks its contracts."""
    break_elaborate(monkeypatch, component, right, wrong)
    state_contracts_alone(monkeypatch)


def find_fault(design: Elaboratable, folder: Path, *, depth: int) -> None:
    """Assert that an assertion fails in the first `depth` cycles of a design with a fault."""
    found = rf"(?s)bmc to depth {depth}: FAIL.*Assert failed in top"
    with pytest.raises(ProofError, match=found):
        check(design, folder, depth=depth, planted=True)
