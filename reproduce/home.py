"""HOME: S. He et al., HOME: A Holistic GPU Memory Management Framework for Deep Learning."""

import math
from functools import partial
from statistics import fmean

import numpy as np

from cdma.plan.papers import Figure, printed
from cdma.plan.platform.device import device
from cdma.plan.policies import home
from cdma.plan.search.bound import lower_bound
from cdma.plan.search.home_evaluator import HomeEvaluator, StepProfile
from cdma.plan.search.swarm import search, search_plus, update
from cdma.plan.timeline.placement import Mode, Placement
from cdma.plan.timeline.timeline import TimelineEvaluator
from cdma.plan.workload.networks.batches import HOME
from cdma.reproduce import memory_limited, scenarios
from cdma.reproduce.claim import Kind, Measured, Paper

PRINTED = printed("home")
PAPER = Paper("home", "HOME (S. He et al.)", PRINTED)

_UNDER = (
    "2080 Ti, efficiencies .7, copies as measured; CIFAR, at Capuchin's batches unless said; as "
    "little memory as vDNN and SuperNeurons both fit into; 50 particles, 30 iterations"
)
_SMALL = "12 steps of two small networks on a V100, 3 memory limits; 50 particles, 30 iterations"


@PAPER.exact("§2.3, §3.3", "actions", kind=Kind.CONSTANT, slip=True)
def _actions() -> Measured:
    found = [f"{placement.value} {placement.name.lower()}" for placement in list(Placement)[:3]]
    figure = PRINTED["actions"]
    same = [
        word.startswith(placement.name.lower()[:-1])
        for word, placement in zip(figure["search"], list(Placement)[:3], strict=True)
    ]
    # The two sections number them differently; Fig. 3's example of [1, 1, 2, 0] is the later one's.
    return Measured(", ".join(found), all(same) and figure["search"] != figure["motivation"])


@PAPER.exact("§3.4, Fig. 4", "tensor 2's swap costs")
def _cost() -> Measured:
    offload, prefetch, forward, backward = 7.0, 6.0, 3.0, 4.0
    # Of five layers, with room for three feature maps; the last one takes none.
    nbytes = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    n = len(nbytes)
    profile = StepProfile(
        nbytes=nbytes,
        forward=np.full(n, forward),
        backward=np.full(n, backward),
        offload=np.full(n, offload),
        prefetch=np.full(n, prefetch),
        forward_inputs=tuple((i - 1,) if i else () for i in range(n)),
        backward_inputs=tuple((i - 1,) if i else () for i in range(n)),
        working_bytes=np.zeros(2 * n),
        memory_bytes=3.0,
        decided=tuple(range(n)),
    )
    policy = np.array([Placement.SWAP if i == 1 else Placement.RETAIN for i in range(n)], np.int8)
    found = HomeEvaluator(profile).estimate(policy)
    wanted = (offload - forward) + (prefetch - backward)
    cost, step = float(found.overhead[1]), n * (forward + backward)
    return Measured(
        f"({offload:g} − {forward:g}) + ({prefetch:g} − {backward:g}) = {cost:g}",
        cost == wanted and found.seconds == step + wanted,
    )


class _Recorder:
    """An evaluator that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def seconds(self, assignments: np.ndarray) -> np.ndarray:
        self.asked += assignments.tolist()
        return assignments.sum(axis=1).astype(float)


def _follows(found: list[list[int]], figure: Figure) -> bool:
    """The first action is the best policy's or the historical one's, and print has another."""
    actions = [figure["best"][0], figure["historical"][0]]
    return found == [[a, *figure["last"][1:]] for a in actions] and found != figure["printed"]


@PAPER.exact("§3.5, Fig. 5", "candidates of the first tensor", slip=True)
def _candidates() -> Measured:
    recorder, figure = _Recorder(), PRINTED["candidates"]
    update(
        recorder,
        np.array([figure["last"]], np.int8),
        np.array([math.nan]),
        np.array(figure["best"], np.int8),
        np.array([figure["historical"]], np.int8),
    )
    found = sorted(recorder.asked[:2], reverse=True)
    text = ", ".join(str(each).replace(" ", "") for each in found)
    return Measured(f"{text}: the historical action is 1", _follows(found, figure))


@PAPER.exact("§3.5", "Algorithm 3 tries no action that P1 and P2 lack")
def _frozen() -> Measured:
    recorder = _Recorder()
    start = np.random.default_rng(0).integers(2, size=(20, 8), dtype=np.int8)
    position, cost, history = start, recorder.seconds(start), start
    for _ in range(10):
        leader = position[int(np.argmin(cost))]
        position, cost = update(recorder, position, cost, leader, history)
    tried = sorted({action for particle in recorder.asked for action in particle})
    return Measured(
        f"from particles of actions 0 and 1 it tries {tried} and no other", tried == [0, 1]
    )


@PAPER.exact("§3.5", "500 particles of 10,000 layers", kind=Kind.ARITHMETIC)
def _particles() -> Measured:
    figure = PRINTED["particles"]
    bits = math.ceil(math.log2(len(home.OPTIONS)))
    megabytes = figure["particles"] * figure["layers"] * bits / 8e6
    return Measured(f"{megabytes:g} MB", megabytes == figure["megabytes"])


@PAPER.exact("§3.3, §4.5", "particles and iterations of a search", kind=Kind.CONSTANT)
def _search_size() -> Measured:
    figure = PRINTED["search-size"]
    return Measured(
        f"{home.PARTICLES} and {home.ITERATIONS}",
        (figure["particles"], figure["iterations"]) == (home.PARTICLES, home.ITERATIONS),
    )


@PAPER.exact("§4.4", "memory of the 2080 Ti", kind=Kind.CONSTANT)
def _capacity() -> Measured:
    found = device("2080ti").capacity_bytes / 1e9
    return Measured(f"{found:g} GB", found == PRINTED["capacity"]["gb"])


@PAPER.exact("§4.4", "batches over PyTorch's, HOME and Capuchin", kind=Kind.ARITHMETIC)
def _batches() -> Measured:
    figure = PRINTED["batches"]
    pytorch, capuchin, ours = (sum(batch) for batch in zip(*HOME.values(), strict=True))
    of_sums = [ours / pytorch, capuchin / pytorch]
    of_means = [
        fmean(getattr(b, w) / b.pytorch for b in HOME.values()) for w in ("home", "capuchin")
    ]
    return Measured(
        f"{of_sums[0]:.3f}, {of_sums[1]:.3f} are ratios of sums; means of ratios are "
        f"{of_means[0]:.2f}, {of_means[1]:.2f}",
        [f"{of_sums[0]:.1f}", f"{of_sums[1]:.2f}"] == [f"{figure[w]}" for w in figure.values],
    )


@PAPER.exact("abstract", "batches over PyTorch's, at most", kind=Kind.ARITHMETIC, slip=True)
def _most() -> Measured:
    found = {name: batch.home / batch.pytorch for name, batch in HOME.items()}
    best, second = sorted(found.values(), reverse=True)[:2]
    printed_most = f"{PRINTED['most']['times']}"
    return Measured(
        f"{best:.2f}× of InceptionV3; {second:.2f}× without it",
        f"{best:.1f}" != printed_most == f"{second:.1f}",
    )


@PAPER.exact("§4.4, §4.2", "over Capuchin, batch and throughput", kind=Kind.ARITHMETIC)
def _over_capuchin() -> Measured:
    figure, table = PRINTED["over-capuchin"], PRINTED.tables["2"]
    batch = fmean(b.home / b.capuchin for b in HOME.values())
    capuchin = table.column("capuchin_per_s")
    rates = [ours / capuchin[name] for name, ours in table.column("home_per_s").items()]
    found = [batch, fmean(rates), max(rates)]
    return Measured(
        f"{found[0]:.3f}×, {found[1]:.3f}×; {found[2]:.3f}×",
        [f"{found[0]:.2f}", f"{found[1]:.1f}", f"{found[2]:.1f}"]
        == [f"{each}" for each in figure.values.values()],
    )


@PAPER.exact(
    "§4.2", "MobileNet's largest batches, PyTorch and HOME", kind=Kind.ARITHMETIC, slip=True
)
def _mobilenet() -> Measured:
    figure, found = PRINTED["mobilenet"], HOME["mobilenet"]
    return Measured(
        f"{found.pytorch}, {found.home} by Table 2",
        (found.pytorch, found.home) != (figure["pytorch"], figure["home"]),
    )


@PAPER.exact("§4.7, Table 3", "an evaluation, on average", kind=Kind.ARITHMETIC)
def _evaluation() -> Measured:
    found = fmean(PRINTED.tables["3"].column("evaluation_ms").values())
    return Measured(f"{found:.1f} ms", f"{found:.1f}" == f"{PRINTED['evaluation']['milliseconds']}")


@PAPER.exact(
    "§3.5, Table 3", "evaluations of a search of 500 by 500", kind=Kind.ARITHMETIC, slip=True
)
def _evaluations() -> Measured:
    # O(m·n²) is 2n evaluations of n steps for each particle; each evaluation's time is printed.
    figure, table = PRINTED["evaluations"], PRINTED.tables["3"]
    evaluation_ms = table.column("evaluation_ms")
    per_particle = [
        search_s
        * figure["threads"]
        / (figure["particles"] * figure["iterations"] * evaluation_ms[name] * 1e-3)
        for name, search_s in table.column("search_s").items()
    ]
    low, high = min(per_particle), max(per_particle)
    return Measured(
        f"Table 3's times are of {low:.2f} to {high:.2f} per particle and iteration, not of 2n",
        low > 0.8 and high < 1.25,
    )


def _optimal(particles: int, iterations: int) -> Measured:
    """Never better than the best of all plans, hardly worse, and HOME+ next to never."""
    found = memory_limited.gaps(particles, iterations)
    literal, plus = [gap.literal for gap in found], [gap.plus for gap in found]
    never_better = min(literal + plus) >= -1e-12
    return Measured(
        f"to the letter {fmean(literal):.1%} behind every plan's best, most {max(literal):.1%}, "
        f"{sum(g < 1e-9 for g in literal)} of {len(found)} optimal; HOME+ {fmean(plus):.1%}, "
        f"most {max(plus):.1%}",
        never_better and max(literal) < 0.1 and max(plus) < 0.01,
    )


PAPER.shape("§3.3", "the swarm's plans are near-optimal", under=_SMALL, name="optimal")(
    partial(_optimal, memory_limited.PARTICLES, memory_limited.ITERATIONS)
)
PAPER.shape(
    "§3.3, §4.5",
    "the same with 500 particles and iterations",
    under=_SMALL.replace("50 particles, 30 iterations", "as many as in print"),
    name="optimal-500",
    long=True,
)(partial(_optimal, PRINTED["optimal-500"]["particles"], PRINTED["optimal-500"]["iterations"]))


@PAPER.shape(
    "§3.3, §3.5",
    "where memory is tight, HOME+, with mutation and seeds that fit, is ahead of Algorithm 3",
    under="MobileNet, ImageNet, V100, as much memory as the leanest uniform plan takes",
)
def _tight() -> Measured:
    scenario = memory_limited.pressed(scenarios.swapping("mobilenet", 128, "imagenet", "v100"), 0.0)
    share = memory_limited.feasible_share(scenario)
    literal, plus = (
        find(
            TimelineEvaluator(scenario, home.OPTIONS),
            len(scenario.graph.managed),
            particles=memory_limited.PARTICLES,
            iterations=memory_limited.ITERATIONS,
        ).seconds
        for find in (search, search_plus)
    )
    behind = f"{literal / plus - 1:.1%} behind HOME+" if math.isfinite(literal) else "never fits"
    return Measured(
        f"{share:.1%} of random particles fit; to the letter {behind}",
        math.isfinite(plus) and plus < literal,
    )


def _order(*, large: bool) -> Measured:
    """HOME is not slower than any of the three."""
    gains, holds = {}, True
    for name, batch in memory_limited.papers_networks(large=large).items():
        found = memory_limited.outcomes(name, batch)
        others = [found[each].seconds for each in ("vdnn", "superneurons", "capuchin")]
        holds &= found["home"].seconds <= min(others)
        gains[name] = min(others) / found["home"].seconds
    return Measured(f"over the best of them: {scenarios.listed(gains, '.2f')}", holds)


PAPER.shape(
    "§4.2",
    "not slower than vDNN, SuperNeurons and Capuchin",
    under=_UNDER,
    name="order",
)(partial(_order, large=False))
PAPER.shape(
    "§4.2",
    "the same with InceptionV3's 211 tensors",
    under=_UNDER,
    name="order-large",
    long=True,
)(partial(_order, large=True))


@PAPER.shape(
    "§4.2, Fig. 6",
    "batches beyond PyTorch's largest: HOME is ahead of the others, and keeps 85 % of its "
    "throughput up to twice that batch",
    under="MobileNet, CIFAR, 11 GB of a 2080 Ti, efficiencies .7, copies as measured; 50 "
    "particles, 30 iterations. Here no layer is faster for a larger batch",
    long=True,
)
def _throughput() -> Measured:
    found = dict(memory_limited.throughputs("mobilenet", (1.25, 1.5, 2.0)))
    kept = found.pop(1.0)["keep"]
    parts, holds = [], True
    for factor, rates in found.items():
        ours = rates["home"]
        holds &= 0.85 * kept <= ours <= kept and ours > max(
            rate for name, rate in rates.items() if name != "home"
        )
        of_kept = {name: rate / kept for name, rate in rates.items()}
        parts.append(f"{factor:g}×: {scenarios.listed(of_kept, '.0%')}")
    return Measured("; ".join(parts), holds)


def _breakdown(network: str, batch: int) -> Measured:
    """HOME and Capuchin hardly wait, vDNN does; the edges lie between what is printed of them."""
    found = memory_limited.outcomes(network, batch)
    text = ", ".join(
        f"{name} {each.waiting:.1%} and {each.recomputing:.1%}" for name, each in found.items()
    )
    calm = found["home"].waiting < 0.015 and found["capuchin"].waiting < 0.1
    return Measured(text, calm and found["vdnn"].waiting > 0.1)


PAPER.shape(
    "§4.3, Fig. 7",
    "VGG16 at 3950, shares of waiting and recomputing: HOME and Capuchin hardly wait, vDNN does",
    under=_UNDER,
    name="breakdown-vgg16",
)(partial(_breakdown, "vgg16", PRINTED["breakdown-vgg16"]["batch"]))
PAPER.shape(
    "§4.3, Fig. 7",
    "InceptionV3 at 170: the same",
    under=_UNDER,
    name="breakdown-inceptionv3",
    long=True,
)(partial(_breakdown, "inceptionv3", PRINTED["breakdown-inceptionv3"]["batch"]))


@PAPER.shape(
    "§4.6",
    "Algorithm 2 predicts the step, on average as well as in print",
    under="the timeline stands in for the GPU, with prefetches one stage ahead, as Algorithm 2 "
    "has them; HOME's plans, half of the memory between leanest and all",
)
def _evaluator() -> Measured:
    mode = Mode(lookahead=1)
    off = {}
    for name, batch in memory_limited.papers_networks(large=False).items():
        scenario = memory_limited.pressed(scenarios.swapping(name, batch, "cifar", "2080ti"), 0.5)
        plan = home.plan(
            scenario,
            mode=mode,
            particles=memory_limited.PARTICLES,
            iterations=memory_limited.ITERATIONS,
        )
        policy = np.array([choice.placement for choice in plan.choices], np.int8)
        predicted = HomeEvaluator(StepProfile.of(scenario)).estimate(policy).seconds
        off[name] = abs(predicted / scenarios.run(scenario, plan).seconds - 1)
    return Measured(
        f"{scenarios.mean(off):.2%}, at most {max(off.values()):.1%}",
        scenarios.mean(off) <= PRINTED["evaluator"]["mean_percent"] / 100,
    )


@PAPER.shape(
    "§2.3",
    "linear programs are for small problems only (no: one bounds the step within 1 % of HOME+)",
    under="a relaxation: what it leaves out only makes the bound lower; VGG16, ImageNet, V100",
)
def _linear() -> Measured:
    scenario = memory_limited.pressed(scenarios.swapping("vgg16", 128, "imagenet", "v100"), 0.3)
    bound = lower_bound(scenario, home.OPTIONS)
    tensors = len(scenario.graph.managed)
    found = search_plus(
        TimelineEvaluator(scenario, home.OPTIONS),
        tensors,
        particles=memory_limited.PARTICLES,
        iterations=memory_limited.ITERATIONS,
    ).seconds
    return Measured(
        f"{tensors} tensors: HOME+ is {found / bound.seconds - 1:.1%} above it",
        bound.tight and 1 - 1e-9 <= found / bound.seconds <= 1.01,
    )


PAPER.not_claimable(
    "table-2",
    "Table 2",
    "largest batches and throughputs",
    needs="a 2080 Ti, PyTorch 1.x and its caching allocator",
)
PAPER.not_claimable(
    "convergence",
    "§4.5",
    "iterations until nearly nothing changes",
    needs="their costs of layers; ours freeze after some ten (Algorithm 3 never mutates)",
)
PAPER.not_claimable(
    "search-time",
    "Table 3",
    "seconds of the search",
    needs="their host; ours is in docs/reference/planning.md",
)
