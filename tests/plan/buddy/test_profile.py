"""Snapshots, target ratios and what they come to (Buddy Compression, §3.4)."""

import io
import json
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from cdma import golden
from cdma.golden.buddy.address_map import Target, spills
from cdma.golden.buddy.entry import SIZES, EntryCodec
from cdma.plan.buddy.heat_map import entry_sizes
from cdma.plan.buddy.page_parameters import page_parameters
from cdma.plan.buddy.profile import BEST, NAIVE, PER_ALLOCATION, ZERO_PAGE, profile
from cdma.plan.buddy.targets import buddy_bytes, device_bytes
from cdma.sim.buddy import (
    WORKLOADS,
    Allocation,
    AllocationProfile,
    Profile,
    ProfileError,
    SnapshotError,
    Time,
    heat_map_picture,
    in_bf16,
    load_snapshots,
)
from tests.lib.legends import colors_of_axes, colors_of_legends, drawn, labels, names_in_legends

MODES = [NAIVE, PER_ALLOCATION, ZERO_PAGE, BEST]
THRESHOLDS = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.6, 0.8, 1.0)


def measured(name: str, *snapshots: dict[int, int], entries: int = 640) -> AllocationProfile:
    """An allocation with so many tenths of its entries in some classes, for each snapshot."""
    rows = []
    for tenths in snapshots:
        assert sum(tenths.values()) == 10
        rows.append(np.repeat(list(tenths), [n * entries // 10 for n in tenths.values()]))
    return AllocationProfile(
        name=name,
        nbytes=128 * entries,
        times=tuple(Time(0, ((0, t, ""),), str(t)) for t in range(len(rows))),
        classes=np.array(rows, np.uint8),
    )


def of(*allocations: AllocationProfile, **parameters) -> Profile:
    return Profile(allocations=allocations, **parameters)


def random_allocations(seed: int) -> tuple[AllocationProfile, ...]:
    """Allocations of a few pages with histograms of all kinds."""
    random = np.random.default_rng(seed)
    allocations = []
    for i in range(random.integers(1, 9)):
        entries = int(random.integers(1, 400))
        weights = random.dirichlet(np.full(8, random.choice([0.05, 0.3, 2.0])))
        times = int(random.integers(1, 4))
        allocations.append(
            AllocationProfile(
                name=f"a{i}",
                nbytes=128 * entries - int(random.integers(0, 128)),
                times=tuple(Time(0, ((0, t, ""),), str(t)) for t in range(times)),
                classes=random.choice(8, (times, entries), p=weights).astype(np.uint8),
            )
        )
    return tuple(allocations)


# Targets.


@pytest.mark.parametrize(
    ("tenths", "target"),
    [
        ({7: 10}, Target.X1),
        ({6: 10}, Target.X1_33),
        ({5: 10}, Target.X1_33),
        ({4: 10}, Target.X2),
        ({3: 10}, Target.X4),
        ({2: 10}, Target.X4),
        ({1: 10}, Target.X16),
        ({0: 10}, Target.X16),
        # Exactly the threshold is within it.
        ({3: 7, 7: 3}, Target.X4),
        ({3: 6, 7: 4}, Target.X1),
        ({3: 6, 4: 1, 7: 3}, Target.X2),
        ({0: 7, 4: 3}, Target.X16),
        ({0: 6, 2: 4}, Target.X4),
    ],
)
def test_target_is_the_largest_within_the_threshold(tenths, target: Target) -> None:
    # Enough that does not compress for the carve-out to be no limit.
    made = of(measured("a", tenths), measured("rest", {7: 10}, entries=64000))
    assert made.targets() == {"a": target, "rest": Target.X1}
    assert made.annotations()[0] == ("a", 128 * 640, target)


def test_overflow_is_averaged_over_the_snapshots() -> None:
    # 6 and 0 tenths overflow 32 B: 30 % on average; each alone would say 2x or 4x.
    allocation = measured("a", {3: 4, 4: 6}, {3: 10})
    assert allocation.overflow[Target.X4] == 0.3
    assert allocation.histogram.tolist() == [0, 0, 0, 0.7, 0.3, 0, 0, 0]
    assert of(allocation).targets() == {"a": Target.X4}
    assert of(allocation, threshold=0.29).targets() == {"a": Target.X2}
    # Constant targets meet what changes: Fig 8.
    assert of(allocation).over_time() == {"0": 0.6, "1": 0.0}


def test_no_zero_page_means_4x_at_most() -> None:
    zeros, rest = measured("zeros", {0: 10}), measured("rest", {7: 10}, entries=6400)
    assert of(zeros, rest, zero_page=False).targets()["zeros"] == Target.X4
    assert of(zeros, rest).targets()["zeros"] == Target.X16


def test_zero_page_is_given_only_while_the_carve_out_lasts() -> None:
    zeros = [measured(f"zeros{i}", {0: 10}) for i in range(4)]
    rest = measured("rest", {7: 10}, entries=640)
    made = of(*zeros, rest)
    # Buddy slots per entry of device slots: (4·128) / (4·8 + 128) is 3.2; with three of 16x and
    # one of 4x, (3·128 + 96) / (3·8 + 32 + 128) is 2.6.
    assert list(made.targets().values()).count(Target.X16) == 3
    assert made.targets()["zeros3"] == Target.X4
    assert made.buddy_bytes <= 3 * made.device_bytes
    larger = of(*zeros, rest, carve_out=3.2)
    assert list(larger.targets().values()).count(Target.X16) == 4


@pytest.mark.parametrize(
    ("carve_out", "target"),
    [(0, Target.X1), (0.33, Target.X1), (1, Target.X2), (2.9, Target.X2), (3, Target.X4)],
)
def test_small_carve_out_limits_every_target(carve_out: float, target: Target) -> None:
    made = of(measured("a", {0: 10}), carve_out=carve_out)
    assert made.targets() == {"a": target}
    assert made.ratio <= 1 + carve_out


@pytest.mark.parametrize("seed", range(40))
def test_modes_are_ordered_and_grow_with_the_threshold(seed: int) -> None:
    allocations = random_allocations(seed)
    for carve_out in (0.5, 1.0, 3.0):
        before: dict[str, float] = dict.fromkeys(MODES, 0.0)
        for threshold in THRESHOLDS:
            made = of(*allocations, threshold=threshold, carve_out=carve_out)
            modes = made.modes()
            assert list(modes) == MODES
            ratios = [mode.ratio for mode in modes.values()]
            assert ratios == sorted(ratios), (threshold, carve_out)
            assert all(modes[name].ratio >= before[name] for name in MODES)
            before = {name: modes[name].ratio for name in MODES}
            assert all(0 <= mode.buddy_access_fraction <= 1 for mode in modes.values())
            assert modes[ZERO_PAGE].ratio <= 1 + carve_out
            assert made.buddy_bytes <= carve_out * made.device_bytes
            for mode in (PER_ALLOCATION, ZERO_PAGE):
                assert modes[mode].buddy_access_fraction <= threshold
            for allocation, target in zip(allocations, made.targets().values(), strict=True):
                assert allocation.overflow[target] <= threshold
            assert modes[BEST].ratio >= made.eight_sizes_ratio


@pytest.mark.parametrize("seed", range(10))
def test_no_choice_within_the_threshold_is_better(seed: int) -> None:
    # By trying all, where the carve-out is no limit.
    allocations = random_allocations(seed)[:4]
    rest = measured("rest", {7: 10}, entries=6400)
    made = of(*allocations, rest)
    entries = made._paged_entries
    best = min(
        device_bytes(entries, targets)
        for targets in product(*[Target] * len(allocations), [Target.X1])
        if all(a.overflow[t] <= 0.3 for a, t in zip(allocations, targets[:-1], strict=True))
        and buddy_bytes(entries, targets) <= 3 * device_bytes(entries, targets)
    )
    assert made.device_bytes == best


def test_what_took_anothers_room_is_left_out_again() -> None:
    # With a carve-out of 1x, `greedy` would fit at 4x, and then nothing but 1x is left for `other`:
    # 960·32 + 640·128 B, where 2x for both takes 1600·64 B.
    greedy, other = measured("greedy", {3: 8, 4: 2}, entries=960), measured("other", {4: 10})
    made = of(greedy, other, carve_out=1)
    assert made.targets() == {"greedy": Target.X2, "other": Target.X2}
    # Where the carve-out is no limit, it stays.
    assert of(greedy, other).targets() == {"greedy": Target.X4, "other": Target.X2}


def test_among_equals_the_larger_comes_first() -> None:
    # There is room for 16x for either, and not for both.
    small, large = measured("small", {0: 10}), measured("large", {0: 10}, entries=1280)
    rest = measured("rest", {7: 10}, entries=512)
    targets = of(small, large, rest).targets()
    assert (targets["small"], targets["large"]) == (Target.X4, Target.X16)
    entries = np.array([640, 1280, 512])
    for sixteen in ([Target.X16, Target.X4], [Target.X16, Target.X16]):
        chosen = [*sixteen, Target.X1]
        fits = buddy_bytes(entries, chosen) <= 3 * device_bytes(entries, chosen)
        assert fits == (sixteen[1] == Target.X4)


# What the modes come to.


def test_ratio_and_buddy_accesses_by_hand() -> None:
    made = of(
        measured("half", {4: 9, 7: 1}),
        measured("dense", {7: 10}, entries=1280),
        measured("zeros", {0: 8, 7: 2}),
    )
    pages = 128 * 2560
    assert made.targets() == {"half": Target.X2, "dense": Target.X1, "zeros": Target.X16}
    assert made.reserved_bytes == pages
    assert made.device_bytes == 640 * 64 + 1280 * 128 + 640 * 8
    assert made.buddy_bytes == 640 * 64 + 640 * 128
    assert made.metadata_bytes == pages / 256
    modes = made.modes()
    assert modes[PER_ALLOCATION].ratio == pages / (640 * 64 + 1280 * 128 + 640 * 32)
    assert modes[ZERO_PAGE].ratio == made.ratio == pages / made.device_bytes
    spilled = (0.1 * 640 + 0.2 * 640) / 2560
    assert modes[PER_ALLOCATION].buddy_access_fraction == pytest.approx(spilled)
    assert made.buddy_access_fraction == pytest.approx(spilled)
    # More than half of everything does not compress.
    assert (modes[NAIVE].ratio, modes[NAIVE].buddy_access_fraction) == (1, 0)
    # Size classes by hand, of `zeros` 25.6 B per entry, which is more than its slot.
    eight = 640 * (0.9 * 64 + 0.1 * 128) + 1280 * 128 + 640 * 0.2 * 128
    assert made.eight_sizes_ratio == pytest.approx(pages / eight)
    best = 640 * 64 + 1280 * 128 + 640 * 8
    assert modes[BEST].ratio == pytest.approx(pages / best)


def test_best_achievable_is_the_papers_where_size_classes_are_smaller() -> None:
    made = of(measured("a", {0: 5, 4: 5}), measured("b", {2: 5, 6: 5}))
    mode = made.modes()[BEST]
    assert mode.ratio == pytest.approx(made.eight_sizes_ratio)
    assert mode.ratio == pytest.approx(128 / ((32 + 56) / 2))
    assert mode.buddy_access_fraction == 0


def test_naive_takes_what_compresses_and_what_does_not_alike() -> None:
    made = of(measured("good", {3: 10}, entries=1280), measured("bad", {7: 10}, entries=512))
    naive, per_allocation = made.modes()[NAIVE], made.modes()[PER_ALLOCATION]
    # 512 of 1792 entries spill, which is within 30 %; 4x would be above the other's ratio.
    assert per_allocation.ratio == pytest.approx(1792 / (1280 / 4 + 512))
    assert naive.ratio == 2
    assert naive.buddy_access_fraction == pytest.approx(512 / 1792)
    assert per_allocation.buddy_access_fraction == 0


def test_nothing_but_zeros_is_limited_by_its_metadata() -> None:
    made = of(measured("zeros", {0: 10}))
    assert made.eight_sizes_ratio == 256
    assert made.modes()[BEST].ratio == 256
    assert made.modes()[ZERO_PAGE].ratio == 4


def test_allocations_take_whole_pages() -> None:
    small = replace(measured("small", {4: 10}, entries=10), nbytes=1279)
    for page_bytes in (8192, 65536):
        made = of(small, page_bytes=page_bytes)
        assert made.reserved_bytes == page_bytes
        assert made.device_bytes == page_bytes // 2
    assert of(measured("a", {4: 10}, entries=70)).reserved_bytes == 2 * 8192


def test_sweep_is_of_the_same_measurement() -> None:
    made = of(measured("a", {3: 6, 4: 2, 7: 2}))
    swept = made.sweep((0.1, 0.2, 0.4))
    assert [mode.ratio for mode in swept.values()] == [1, 2, 4]
    assert [mode.buddy_access_fraction for mode in swept.values()] == [0, 0.2, 0.4]
    assert made.threshold == 0.3


def test_constant_allocations_count_at_all_times() -> None:
    moving = measured("moving", {3: 8, 7: 2}, {3: 9, 7: 1}, {3: 10})
    constant = replace(measured("constant", {3: 8, 7: 2}), times=(Time(0, (), ""),))
    other = replace(measured("other", {3: 10}), times=(Time(0, ((0, 1, ""),), "1"),))
    assert of(moving, constant).over_time() == pytest.approx({"0": 0.2, "1": 0.15, "2": 0.1})
    assert of(moving, constant, other).over_time()["1"] == pytest.approx(0.1)
    assert of(constant).over_time() == {"": 0.2}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": 1.01}, "the Buddy Threshold must be 0 to 1, not 1.01"),
        ({"threshold": -0.1}, "the Buddy Threshold must be 0 to 1, not -0.1"),
        ({"threshold": float("nan")}, "the Buddy Threshold must be 0 to 1, not nan"),
        ({"carve_out": -1}, "the carve-out must be 0 or more, not -1"),
        ({"carve_out": float("inf")}, "the carve-out must be 0 or more, not inf"),
        ({"page_bytes": 4096}, "a page must be a power of two of at least 8192 B, not 4096"),
        ({"page_bytes": 12288}, "a page must be a power of two"),
    ],
)
def test_parameters_out_of_range(parameters, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        of(measured("a", {0: 10}), **parameters)


def test_no_allocations() -> None:
    with pytest.raises(ProfileError, match="there are no allocations; "):
        of()


# Measuring.


@pytest.mark.parametrize("codec", ["bpc", "best-of"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8"])
def test_classes_are_those_of_the_golden_model(codec: str, dtype: str) -> None:
    random = np.random.default_rng(4)
    array = (random.standard_normal(5000) * 50 * (random.random(5000) < 0.3)).astype(dtype)
    allocation = Allocation(name="a", times=(Time(0, (), ""),), arrays=(array,))
    made = profile([allocation], codec=codec)
    element_bytes = min(array.itemsize, 4)
    expected = EntryCodec(codec, element_bytes).metadata(array)
    [found] = made.allocations
    assert np.array_equal(found.classes[0], expected & 7)
    for target in Target:
        assert found.overflow[target] == spills(target, expected).mean()
    assert found.histogram @ np.array(SIZES) == pytest.approx(np.array(SIZES)[expected & 7].mean())
    other = profile([allocation], codec=codec, element_bytes=1).allocations[0].classes
    assert np.array_equal(other[0], EntryCodec(codec, 1).metadata(array) & 7)


def test_third_code_with_the_parameters_of_the_snapshot_before() -> None:
    random = np.random.default_rng(5)
    page = random.standard_normal(4096).astype(np.float32)
    times = tuple(Time(0, ((0, t, ""),), str(t)) for t in range(3))
    arrays = tuple(scale * page for scale in (1.0, 1.1, np.float32(2.0**-20)))
    [allocation] = in_bf16([Allocation(name="a", times=times, arrays=arrays)])
    assert [array.dtype for array in allocation.arrays] == [np.uint16] * 3
    found = {
        origin: profile([allocation], codec="best-of-three", parameters=origin).allocations[0]
        for origin in ("before", "own")
    }
    [two] = profile([allocation]).allocations
    codec = EntryCodec("best-of-three", 2)
    own = [int(page_parameters(array, 8192)[0]) for array in allocation.arrays]
    for origin, used in (("before", [own[0], own[0], own[1]]), ("own", own)):
        expected = [
            codec.metadata(array, bits) for array, bits in zip(allocation.arrays, used, strict=True)
        ]
        assert found[origin].third_code_entries == (np.array(expected) == 8).sum()
        classes = np.where(np.array(expected) == 8, 6, np.array(expected) % 8)
        assert np.array_equal(found[origin].classes, classes)
        assert found[origin].within_96 == (classes < 7).mean()
        assert found[origin].within_96_by_two == two.within_96 == two.within_96_by_two < 0.1
    assert found["own"].within_96 > 0.9
    # The third snapshot is far from the one before.
    assert found["own"].within_96 > found["before"].within_96 + 0.3
    assert found["before"].within_96 > 0.6
    assert profile([allocation], codec="best-of-three").targets() == {"a": Target.X1}


def test_bf16_is_for_floats_only() -> None:
    wide, whole = np.array([1.0, 1e300, -0.0]), np.array([1, 2, 3], np.int32)
    allocations = [
        Allocation(name=name, times=(Time(0, (), ""),), arrays=(array,))
        for name, array in (("wide", wide), ("whole", whole))
    ]
    rounded = in_bf16(allocations)
    assert rounded[0].arrays[0].tolist() == [0x3F80, 0x7F80, 0x8000]
    assert rounded[1].arrays[0] is whole


def test_unknown_codec_and_element_size() -> None:
    allocation = Allocation(name="a", times=(Time(0, (), ""),), arrays=(np.zeros(4),))
    with pytest.raises(ProfileError, match="unknown codec 'zvc'; choose best-of or bpc or best"):
        profile([allocation], codec="zvc")
    with pytest.raises(ProfileError, match="unknown origin of parameters 'next'; choose before or"):
        profile([allocation], parameters="next")
    with pytest.raises(golden.CodecError, match="no codec has elements of 3 bytes"):
        profile([allocation], element_bytes=3)


TRANSFORMERS = ("tiny-gpt", "python-gpt")


@pytest.mark.parametrize("workload", [name for name in WORKLOADS if name not in TRANSFORMERS])
def test_real_data_keeps_the_papers_order(workload: str) -> None:
    made = profile(load_snapshots([workload]))
    modes = made.modes()
    ratios = [mode.ratio for mode in modes.values()]
    assert ratios == sorted(ratios)
    assert ratios[2] > 1.15
    # One target for everything is no match for one for each.
    assert ratios[0] < ratios[1] < ratios[3]
    swept = made.sweep(THRESHOLDS)
    assert all(a.ratio <= b.ratio for a, b in pairwise(swept.values()))
    assert 1 < swept[0.3].ratio <= 4


@pytest.mark.parametrize(("workload", "least"), [("tiny-gpt", 1.3), ("python-gpt", 1.25)])
def test_dense_data_gains_by_the_third_code_alone(workload: str, least: float) -> None:
    allocations = in_bf16(load_snapshots([workload]))
    assert profile(allocations).ratio < 1.1
    assert profile(allocations, codec="best-of-three").ratio > least


# Snapshots.


def test_members_are_allocations_at_times(tmp_path: Path) -> None:
    arrays = {f"w@step{n}": np.full(100, n, np.int16) for n in (10, 9, 100)}
    np.savez(tmp_path / "run.npz", bias=np.ones(3), **arrays)
    weights, bias = sorted(load_snapshots([tmp_path / "run.npz"]), key=lambda a: -a.nbytes)
    assert (weights.name, bias.name) == ("w", "bias")
    assert [time.label for time in weights.times] == ["step9", "step10", "step100"]
    assert [int(array[0]) for array in weights.arrays] == [9, 10, 100]
    assert [time.label for time in bias.times] == [""]
    assert (weights.nbytes, bias.nbytes) == (200, 24)


def test_files_are_times_in_the_order_given(tmp_path: Path) -> None:
    for number, name in enumerate(("late", "early")):
        np.savez(tmp_path / f"{name}.npz", w=np.full(8, number), **{"g@2": np.full(4, number)})
    found = load_snapshots([tmp_path / "late.npz", str(tmp_path / "early.npz")])
    by_name = {allocation.name: allocation for allocation in found}
    assert [time.label for time in by_name["w"].times] == ["late", "early"]
    assert [int(array[0]) for array in by_name["w"].arrays] == [0, 1]
    assert [time.label for time in by_name["g"].times] == ["late@2", "early@2"]


def test_npy_is_the_allocation_of_its_name(tmp_path: Path) -> None:
    for folder in ("1", "2"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "w.npy", np.arange(10) * int(folder))
    np.save(tmp_path / "x@y.npy", np.ones(2))
    found = load_snapshots([tmp_path / "1" / "w.npy", tmp_path / "2" / "w.npy"])
    assert [(a.name, len(a.arrays)) for a in found] == [("w", 2)]
    assert load_snapshots([tmp_path / "x@y.npy"])[0].name == "x@y"


def test_files_and_workloads_mix(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", np.arange(100))
    names = [allocation.name for allocation in load_snapshots(["indices", tmp_path / "mine.npy"])]
    assert names == [
        "mesh.row_pointers",
        "mesh.columns",
        "particles.ids",
        "particles.cells",
        "mine",
    ]


def test_odd_names_and_types(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "odd.npz",
        **{"@": np.ones(2), "@3": np.ones(2, ">f4"), "a@b@2": np.ones(2, complex)},
        flags=np.ones((2, 3), bool),
        scalar=np.float32(3),
    )
    names = {a.name: a.times[0].label for a in load_snapshots([tmp_path / "odd.npz"])}
    assert names == {"@": "", "@3": "", "a@b": "2", "flags": "", "scalar": ""}


def _refused(path: Path, *others: Path) -> str:
    with pytest.raises(SnapshotError) as caught:
        load_snapshots([path, *others])
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)
    return str(caught.value)


def test_bad_sources(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="no snapshots given; "):
        load_snapshots([])
    assert "gone.npz: No such file or directory; name an" in _refused(tmp_path / "gone.npz")
    assert "Is a directory; " in _refused(tmp_path)
    (tmp_path / "text.npz").write_text("not an archive")
    assert "is neither an .npz archive nor an .npy file" in _refused(tmp_path / "text.npz")
    (tmp_path / "empty").write_bytes(b"")
    assert "is neither an .npz archive nor an .npy file" in _refused(tmp_path / "empty")
    np.savez(tmp_path / "none.npz")
    assert "none.npz has no arrays in it; " in _refused(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("array", "cause"),
    [
        (np.array([None]), "holds pickled objects; "),
        (np.array(["text"]), "has dtype <U4; "),
        (np.array([1], "M8[s]"), "has dtype datetime64"),
        (np.zeros(2, "i4,f4"), "has dtype "),
        (np.zeros((3, 0)), "is empty; leave it out"),
    ],
)
def test_arrays_without_numbers(tmp_path: Path, array: np.ndarray, cause: str) -> None:
    np.savez(tmp_path / "bad.npz", good=np.ones(3), bad=array)
    message = _refused(tmp_path / "bad.npz")
    assert "bad.npz, array bad, " in message
    assert cause in message
    np.save(tmp_path / "bad.npy", array)
    assert cause in _refused(tmp_path / "bad.npy")


def test_sizes_must_not_change(tmp_path: Path) -> None:
    np.savez(tmp_path / "run.npz", **{"w@2": np.ones(3), "w@10": np.ones(4)})
    message = _refused(tmp_path / "run.npz")
    assert "allocation w changes its size, from 24 B at '2' to 32 B at '10'; " in message


def test_two_snapshots_at_one_time(tmp_path: Path) -> None:
    np.savez(tmp_path / "run.npz", **{"w@1": np.ones(3), "w@01": np.ones(3)})
    assert [t.label for t in load_snapshots([tmp_path / "run.npz"])[0].times] == ["01", "1"]


def test_archive_truncated_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    np.savez_compressed(path, w=np.arange(100), v=np.ones(5))
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        _refused(path)


def test_damaged_archive_never_fails_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    np.savez_compressed(path, w=np.arange(100))
    content = path.read_bytes()
    refused = 0
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            load_snapshots([path])
        except SnapshotError:
            refused += 1
    assert refused > 0.5 * len(content)


def test_every_workload_loads() -> None:
    for name in WORKLOADS:
        allocations = load_snapshots([name])
        names = [allocation.name for allocation in allocations]
        assert len(set(names)) == len(names)
        json.dumps(names)


# The heat map.


def test_heat_map_has_a_row_per_page_and_an_allocation_from_its_own_row() -> None:
    first = measured("first", {0: 10}, entries=70)
    second = measured("second", {3: 10}, {4: 10}, entries=10)
    sizes = entry_sizes(of(first, second, page_bytes=65536))
    assert sizes.shape == (3, 64)
    assert not sizes[0].any()
    assert not sizes[1, :6].any()
    assert np.isnan(sizes[1, 6:]).all()
    # 32 B at one time and 64 B at the other.
    assert sizes[2, :10].tolist() == [48.0] * 10
    assert np.isnan(sizes[2, 10:]).all()


def test_heat_map_is_blue_where_memory_compresses_and_red_where_it_does_not() -> None:
    made = of(measured("cold $1", {0: 10}, entries=6400), measured("hot", {7: 10}, entries=6400))
    png = heat_map_picture(made)
    assert png.startswith(b"\x89PNG")
    image = matplotlib.image.imread(io.BytesIO(png))[..., :3]
    middle = image.shape[1] // 2
    top, bottom = image[image.shape[0] // 4, middle], image[image.shape[0] * 3 // 4, middle]
    assert top[2] > top[0] + 0.3
    assert bottom[0] > bottom[2] + 0.3


def test_heat_map_s_lines_are_in_the_legend_and_its_colors_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figures = drawn(monkeypatch, "cdma.plan.buddy.heat_map")
    heat_map_picture(of(measured("a", {0: 10}, entries=640), measured("b", {7: 10}, entries=640)))
    (figure,) = figures
    assert names_in_legends(figure) == ["between allocations"]
    assert colors_of_axes(figure) == colors_of_legends(figure) == {(0, 0, 0)}
    assert any("bytes per entry" in label for label in labels(figure))
