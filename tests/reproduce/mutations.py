"""Mutations of the system, and the rows of `cdma reproduce` that notice them.

A row of a shape that no mutation here makes fail would say nothing. Each mutation replaces a part
of the system as a defect or a misreading of a paper would; the rows themselves stay as they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cdma.plan.platform.device as devices
import cdma.plan.platform.link as links
import cdma.plan.policies.cswap.time_model as time_model
import cdma.plan.timeline.placement as placement
from cdma.golden.formats.windows import deflate
from cdma.plan.platform.device import Device
from cdma.plan.policies import capuchin, oracle, vdnn
from cdma.plan.policies import cdma as cdma_policy
from cdma.plan.policies import home as home_policy
from cdma.plan.policies.comet import law
from cdma.plan.policies.comet import policy as comet_policy
from cdma.plan.policies.cswap import policy as cswap_policy
from cdma.plan.policies.cswap.decision import Decision
from cdma.plan.search import swarm
from cdma.plan.search.home_evaluator import StepProfile
from cdma.plan.timeline.placement import SWAP, Placement, Plan
from cdma.plan.timeline.scenario import Scenario
from cdma.reproduce import (
    bandwidth_compression,
    buddy,
    cdma,
    comet,
    cswap,
    home,
    larger_batches,
    memory_limited,
    roofline,
    scenarios,
    swapping,
)
from cdma.sim.driver import THROTTLES
from cdma.sim.machine.buddy.config import BuddyMachineConfig

Patch = pytest.MonkeyPatch

# The package has a function of the module's name.
buddy_profile = import_module("cdma.plan.buddy.profile")


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A part of the system, replaced.

    Attributes
    ----------
    name : str
    text : str
        What is wrong, as docs/guide/reproduce.md says it.
    apply : callable
        Replaces it.
    quick : tuple of str
        The rows, as paper/name, that must fail, and are computed in a second or two.
    rows : tuple of str
        Those that take longer: `make verify` has them.
    """

    name: str
    text: str
    apply: Callable[[Patch], None]
    quick: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


@contextmanager
def mutated(mutation: Mutation) -> Iterator[None]:
    """The system with the mutation, and without anything computed before it or under it."""
    with pytest.MonkeyPatch.context() as patch:
        _forget()
        mutation.apply(patch)
        try:
            yield
        finally:
            patch.undo()
            _forget()


def _forget() -> None:
    """Clear what rows have computed."""
    modules: tuple[ModuleType, ...]
    modules = (
        bandwidth_compression,
        buddy,
        cdma,
        comet,
        cswap,
        home,
        memory_limited,
        roofline,
        scenarios,
        swapping,
    )
    for module in modules:
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def _slower_links(patch: Patch) -> None:
    for name, link in links.LINKS.items():
        slower = replace(
            link, bytes_per_s=0.6 * link.bytes_per_s, in_bytes_per_s=0.6 * link.in_bytes_per_s
        )
        patch.setitem(links.LINKS, name, slower)


def _full_peak(patch: Patch) -> None:
    for name, device in devices.DEVICES.items():
        patch.setitem(devices.DEVICES, name, device.with_efficiency(1.0))


def _same_gpu(patch: Patch) -> None:
    patch.setitem(devices.DEVICES, "titanxp", devices.DEVICES["titanx"])


def _no_efficiency(patch: Patch) -> None:
    patch.setattr(Device, "with_efficiency", lambda self, _efficiency: self)


def _always_synchronous(patch: Patch) -> None:
    patch.setitem(placement.MODES, "async", placement.SYNCHRONOUS)


def _throttle(patch: Patch, name: str, bytes_per_s: float) -> None:
    changed = replace(THROTTLES[name], bytes_per_s=bytes_per_s)
    patch.setitem(THROTTLES, name, changed)


def _no_layouts(patch: Patch) -> None:
    patch.setattr(cdma, "relayout", lambda array, _layout: array)


def _exchanged_zeros(patch: Patch) -> None:
    load = cdma.load_capture

    def exchanged(name: str) -> SimpleNamespace:
        return SimpleNamespace(
            activations=[
                replace(activation, array=(activation.array == 0).astype(np.float32))
                for activation in load(name).activations
            ]
        )

    patch.setattr(cdma, "load_capture", exchanged)


def _never_compress(patch: Patch) -> None:
    plan = cswap_policy.plan

    def never(*args: Any, **others: Any) -> Plan:
        made = plan(*args, **others)
        raw = (SWAP if c.placement is Placement.SWAP else c for c in made.choices)
        return replace(made, choices=tuple(raw))

    patch.setattr(cswap_policy, "plan", never)


def _opposite_decisions(patch: Patch) -> None:
    worth_it = Decision.worth_it.fget  # type: ignore[attr-defined]
    patch.setattr(Decision, "worth_it", property(lambda decision: not worth_it(decision)))


def _one_model(patch: Patch) -> None:
    model = time_model.TimeModel
    patch.setattr(
        time_model, "TimeModel", lambda sub_models, **others: model(sub_models=1, **others)
    )


def _no_share(patch: Patch) -> None:
    exact = law.exact_sigma
    patch.setattr(
        law, "exact_sigma", lambda bound, *, norm, nonzero: exact(bound, norm=norm, nonzero=1.0)
    )


def _keep_all(patch: Patch) -> None:
    patch.setattr(comet_policy, "plan", oracle.plan)


def _naive_targets(patch: Patch) -> None:
    choose = buddy_profile.choose

    def one(entries: Any, overflow: Any, threshold: float, carve_out: float) -> Any:
        single = buddy_profile.choose_single(
            entries,
            np.average(overflow, axis=0, weights=entries),
            threshold,
            carve_out,
            float("inf"),
        )
        made = choose(entries, overflow, threshold, carve_out)
        same = (single,) * len(entries)
        return replace(made, per_allocation=same, with_zero_page=same)

    patch.setattr(buddy_profile, "choose", one)


def _no_threshold(patch: Patch) -> None:
    choose = buddy_profile.choose
    patch.setattr(
        buddy_profile,
        "choose",
        lambda entries, overflow, _threshold, carve_out: choose(entries, overflow, 0.3, carve_out),
    )


def _no_waves(patch: Patch) -> None:
    patch.setattr(larger_batches, "utilization", lambda rows, columns: 1.0)


def _no_room(patch: Patch) -> None:
    largest = larger_batches._largest
    capacity = devices.device(larger_batches.DEVICE).capacity_bytes
    patch.setattr(
        larger_batches, "_largest", lambda network, nbytes: largest(network, min(nbytes, capacity))
    )


def _nothing_for_bandwidth(patch: Patch) -> None:
    patch.setattr(bandwidth_compression, "for_bandwidth", lambda content: content.uncompressed())


def _one_link(patch: Patch) -> None:
    patch.setattr(BuddyMachineConfig, "with_link", lambda self, _gb_per_s: self)


def _capuchin_swaps_all(patch: Patch) -> None:
    patch.setattr(
        capuchin, "plan", lambda scenario: vdnn.plan(scenario, mode=placement.ASYNCHRONOUS)
    )


def _home_swaps_all(patch: Patch) -> None:
    def plan(scenario: Scenario, **_others: Any) -> Plan:
        return vdnn.plan(scenario, policy="home", mode=placement.ASYNCHRONOUS)

    patch.setattr(home_policy, "plan", plan)


def _plus_is_literal(patch: Patch) -> None:
    for module in (home, memory_limited, home_policy):
        patch.setattr(module, "search_plus", swarm.search)


def _still_swarm(patch: Patch) -> None:
    for module in (home, memory_limited, home_policy):
        for name, find in (("search", swarm.search), ("search_plus", swarm.search)):
            if hasattr(module, name):
                patch.setattr(module, name, partial(_unmoved, find))


def _unmoved(find: Callable[..., Any], *args: Any, **others: Any) -> Any:
    return find(*args, **{**others, "iterations": 1, "particles": 2})


def _pessimistic_profile(patch: Patch) -> None:
    of = StepProfile.of.__func__  # type: ignore[attr-defined]

    def slower(cls: type[StepProfile], scenario: Scenario) -> StepProfile:
        link = scenario.link
        slow = replace(
            link, bytes_per_s=link.bytes_per_s * 0.6, in_bytes_per_s=link.in_bytes_per_s * 0.6
        )
        return of(cls, replace(scenario, link=slow))  # type: ignore[no-any-return]

    patch.setattr(StepProfile, "of", classmethod(slower))


def _zlib_stores(patch: Patch) -> None:
    patch.setattr(deflate, "LEVEL", 0)


def _plain_engine(patch: Patch) -> None:
    def plan(scenario: Scenario, **_others: Any) -> Plan:
        return vdnn.plan(scenario)

    patch.setattr(cdma_policy, "plan", plan)


MUTATIONS = (
    Mutation(
        name="slower-links",
        text="every link is 40 % slower",
        apply=_slower_links,
        quick=("cdma/gain-titanx",),
        rows=("cdma/loss", "cdma/gain-titanxp", "cdma/bandwidth-aware"),
    ),
    Mutation(
        name="full-peak",
        text="every device gets its full peak",
        apply=_full_peak,
        quick=("cdma/gain-titanx",),
        rows=("cdma/gain-titanxp",),
    ),
    Mutation(
        name="same-gpu",
        text="the Titan Xp is a Titan X",
        apply=_same_gpu,
        rows=("cdma/gain-titanxp", "cdma/faster-gpu"),
    ),
    Mutation(
        name="no-efficiency",
        text="layers take the same time at any efficiency",
        apply=_no_efficiency,
        rows=("cdma/efficiency",),
    ),
    Mutation(
        name="always-synchronous",
        text="without a wait per layer, layers wait all the same",
        apply=_always_synchronous,
        rows=("cdma/mode",),
    ),
    Mutation(
        name="no-throttle",
        text="the bandwidth-aware throttle is removed",
        apply=partial(_throttle, name="bandwidth-aware", bytes_per_s=200e9),
        quick=("cdma/bandwidth-aware",),
    ),
    Mutation(
        name="tight-throttle",
        text="the throttle of 200 GB/s is one of 48 GB/s",
        apply=partial(_throttle, name="performance-optimal", bytes_per_s=48e9),
        quick=("cdma/capped",),
    ),
    Mutation(
        name="no-layouts",
        text="arrays stay in NCHW whatever layout is asked for",
        apply=_no_layouts,
        quick=("cdma/best-layout",),
    ),
    Mutation(
        name="zlib-stores",
        text="zlib looks for nothing to compress",
        apply=_zlib_stores,
        quick=("cdma/windows",),
    ),
    Mutation(
        name="plain-engine",
        text="the engine compresses nothing",
        apply=_plain_engine,
        rows=("cdma/codecs",),
    ),
    Mutation(
        name="exchanged-zeros",
        text="zeros and what is not zero are exchanged",
        apply=_exchanged_zeros,
        quick=("cdma/pooling", "cdma/later", "cdma/falling"),
    ),
    Mutation(
        name="never-compress",
        text="CSWAP+ never compresses",
        apply=_never_compress,
        quick=("cswap+/growing-layers",),
        rows=(
            "cswap+/sparse-cifar",
            "cswap+/sparse-imagenet",
            "cswap+/dense-cifar",
            "cswap+/dense-imagenet",
            "cswap+/over-vdnn-pp",
            "cswap+/latency-sparse",
            "cswap+/latency-dense",
            "cswap+/static-sparse",
            "cswap+/static-dense",
            "cswap+/plain20",
        ),
    ),
    Mutation(
        name="opposite-decisions",
        text="CSWAP+ compresses what its cost model says is not worth it, and only that",
        apply=_opposite_decisions,
        rows=("cswap+/decisions", "cswap+/static-sparse"),
    ),
    Mutation(
        name="one-model",
        text="the time model has one part, however many are asked for",
        apply=_one_model,
        quick=("cswap+/sub-models",),
    ),
    Mutation(
        name="no-share",
        text="the law of gradient errors takes no notice of zeros",
        apply=_no_share,
        quick=("comet/law",),
    ),
    Mutation(
        name="keep-all",
        text="COMET keeps every tensor as it is",
        apply=_keep_all,
        quick=("comet/peak",),
    ),
    Mutation(
        name="naive-targets",
        text="all allocations get one target",
        apply=_naive_targets,
        quick=("buddy/modes",),
    ),
    Mutation(
        name="no-threshold",
        text="the Buddy Threshold is 30 %, whatever is asked for",
        apply=_no_threshold,
        quick=("buddy/threshold",),
    ),
    Mutation(
        name="no-waves",
        text="a product's last wave of tiles, and its last tiles, are always full",
        apply=_no_waves,
        quick=("buddy/plateau",),
    ),
    Mutation(
        name="no-room",
        text="compression makes no room for a larger minibatch",
        apply=_no_room,
        rows=("buddy/larger-batches",),
    ),
    Mutation(
        name="one-link",
        text="the buddy controller stands behind the same link, whichever is asked for",
        apply=_one_link,
        rows=("buddy/links", "buddy/alexnet"),
    ),
    Mutation(
        name="nothing-for-bandwidth",
        text="compression for bandwidth alone keeps every entry as it is",
        apply=_nothing_for_bandwidth,
        rows=("buddy/bandwidth-only", "buddy/links"),
    ),
    Mutation(
        name="capuchin-swaps-all",
        text="Capuchin swaps everything",
        apply=_capuchin_swaps_all,
        rows=("home/breakdown-vgg16", "home/breakdown-inceptionv3"),
    ),
    Mutation(
        name="home-swaps-all",
        text="HOME swaps everything",
        apply=_home_swaps_all,
        rows=("home/order", "home/order-large", "home/throughput", "home/breakdown-vgg16"),
    ),
    Mutation(
        name="plus-is-literal",
        text="HOME+ is Algorithm 3 alone: no mutation, no seeds that fit",
        apply=_plus_is_literal,
        rows=("home/optimal", "home/tight"),
    ),
    Mutation(
        name="still-swarm",
        text="two particles move once",
        apply=_still_swarm,
        rows=("home/optimal", "home/optimal-500", "home/linear"),
    ),
    Mutation(
        name="pessimistic-profile",
        text="Algorithm 2 takes the link for 40 % slower",
        apply=_pessimistic_profile,
        rows=("home/evaluator",),
    ),
)
