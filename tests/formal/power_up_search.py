"""Power-up of blocks for which no invariant is found: bounded, from the reset on.

As in `power_up.py` two copies begin with anything and are reset, and from then on get the same
inputs. Here the solver looks for inputs with which they show something else within some cycles.
"""

import inspect
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth.hdl import Value
from amaranth.lib import wiring

from cdma.builds.cache import cache_directory, cached, digest
from tests.formal import netlist_model, power_up
from tests.formal.netlist_model import Netlist
from tests.formal.power_up import Cares, Induction, OpenPorts
from tests.formal.smtbmc import (
    PACKAGES,
    PROOF_RESULTS,
    ProofResult,
    RefutedError,
    _without_places,
    find_tools,
    is_kept,
    versions,
)


def search_power_up(
    component: wiring.Component,
    folder: Path,
    *,
    cycles: int,
    cares: Mapping[str, Cares] | None = None,
    assumes: Callable[[Any], Sequence[Value]] | None = None,
    timeout_s: int = 600,
) -> None:
    """Prove that for some cycles nothing shown depends on what was held before a reset.

    Parameters
    ----------
    component, folder, cares, assumes
        As of `prove_power_up`.
    cycles
        Behind a reset of one cycle.
    timeout_s
        Limit of each question to the solver.

    Raises
    ------
    RefutedError
        If two copies differ.
    UndecidedError
        If time runs out.
    """
    tools = find_tools()
    ports = OpenPorts(component, cares or {}, assumes)
    text = ports.rtlil()
    started = time.monotonic()
    modules = (netlist_model, power_up, sys.modules[__name__])
    parts = [_without_places(text), *map(inspect.getsource, modules), str(cycles)]
    claim = digest(*parts)
    if is_kept(claim):
        return
    key = digest(*parts, *(version(name) for name in PACKAGES))
    known = (cache_directory() / f"proof-{key}").is_dir()

    def decide(into: Path) -> None:
        netlist = Netlist.of(text, folder, tools["YOSYS"])
        refuted = Induction(ports, netlist, tools["YICES"], timeout_s).refuted(cycles)
        if refuted:
            raise RefutedError(f"depends on what registers held: {', '.join(refuted)}")
        (into / "proven.json").write_text(json.dumps({"bmc": cycles}))

    found = cached(f"proof-{key}", decide)
    depths = json.loads((found / "proven.json").read_text())
    seconds = time.monotonic() - started
    PROOF_RESULTS.append(ProofResult(depths, known, seconds, claim, versions()))
