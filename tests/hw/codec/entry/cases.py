"""Entries at the edges of BPC's code, of the classes, and of the hardware; and their payloads."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import ClockDomain, Module, Value

from cdma.golden.buddy.entry import SIZES
from cdma.golden.formats.bpc.bpc import RAW_BITS, code_bits
from cdma.hw.config import EntryConfig
from tests.golden.buddy.entries import Entries, all_planes_raw, mixed_entries
from tests.lib.rtl.bench import fields
from tests.lib.simulator import Simulator

ONES = 2**31 - 1


def number(row: npt.NDArray[np.uint8]) -> int:
    return int.from_bytes(row.tobytes(), "little")


def sectors_of(config: EntryConfig, entries: Entries) -> list[dict[str, Any]]:
    return [{"data": number(row)} for row in entries.reshape(-1, config.sector_bytes)]


def entry_of(base: int, dbx: dict[int, int]) -> Entries:
    """An entry with these DBX of planes 31 to 0, zeros otherwise; (1, 128)."""
    deltas = np.zeros(31, np.int64)
    above = 0
    for plane in range(31, -1, -1):
        above ^= dbx.get(plane, 0)
        deltas |= (above >> np.arange(31) & 1) << plane
    words = base + np.concatenate([[0], np.cumsum(deltas)])
    return words.astype(np.uint32).view(np.uint8).reshape(1, 128)


def every_run() -> Entries:
    """Runs of each length, between other planes and at the end."""
    generator = np.random.default_rng(5)
    entries = []
    for length in range(1, 32):
        # From plane 31 − length on: behind the run, something else and then zeros again.
        entries.append(entry_of(0, {31 - length: 1 << 7}))
        entries.append(entry_of(3, {31: 1, 30 - length: 0b101, 29 - length: 0b11}))
        planes = {p: int(generator.integers(1, ONES)) for p in range(20)}
        at = int(generator.integers(0, 20))
        entries.append(entry_of(-5, {p: x for p, x in planes.items() if not at <= p < at + length}))
    return np.concatenate(entries)


def every_place() -> Entries:
    """A single one and two at each place, and what is nearly that; and all ones."""
    entries = [entry_of(0, {12: ONES, 5: ONES, 4: ONES ^ 1, 3: ONES ^ 1 << 30, 2: ONES >> 1})]
    for place in range(31):
        near = 1 << place | 1 << (place + 2) % 31
        far = 1 << place | 1 << (place + 13) % 31
        three = (0b111 << place) & ONES
        entries.append(
            entry_of(
                place,
                {28: 1 << place, 25: (3 << place) & ONES, 20: near, 16: far, 9: three, 1: 1},
            )
        )
    return np.concatenate(entries)


def every_base() -> Entries:
    """Bases around the ends of each kind."""
    ends = [0, *(sign * 2**bits for bits in (3, 7, 15, 31) for sign in (1, -1))]
    bases = sorted({end + step for end in ends for step in (-1, 0, 1)})
    words = np.array(bases, np.int64)[:, None] + np.zeros(32, np.int64)
    return words.astype(np.uint32).view(np.uint8)


def of_lengths(wanted: tuple[int, ...]) -> Entries:
    """An entry for each, with a code of so many bits."""
    generator = np.random.default_rng(7)
    kept: dict[int, Entries] = {}
    count = 2000
    while len(kept) < len(wanted):
        shape = (count, 32)
        chance = generator.random((count, 3, 1))
        raw = generator.integers(1, ONES, shape)
        short = np.where(
            generator.random(shape) < chance[:, 0], 1 << generator.integers(0, 31, shape), ONES
        )
        dbx = np.where(generator.random(shape) < chance[:, 1], raw, short)
        dbx[generator.random(shape) < chance[:, 2]] = 0
        dbx[: count // 2, generator.integers(0, 32) :] = 0
        above = np.bitwise_xor.accumulate(dbx, axis=1)
        deltas = (above[:, :, None] >> np.arange(31) & 1) << np.arange(31, -1, -1)[:, None]
        base = generator.choice([0, 7, 100, 30000, 2**30], (count, 1))
        words = np.cumsum(np.concatenate([base, deltas.sum(axis=1)], axis=1), axis=1)
        entries = words.astype(np.uint32).view(np.uint8)
        for bits, entry in zip(code_bits(entries).tolist(), entries, strict=True):
            if bits in wanted:
                kept.setdefault(bits, entry)
    return np.stack([kept[bits] for bits in wanted])


BORDERS = (
    *(8 * size + step for size in SIZES[1:-1] for step in (-1, 0, 1)),
    # No code has 1,025 bits.
    *(RAW_BITS - 1, RAW_BITS, RAW_BITS + 2),
)
"""Lengths of codes around those where they go over to the next class, or are of no use."""


def edge_entries() -> Entries:
    return np.concatenate(
        [
            np.zeros((1, 128), np.uint8),
            np.full((1, 128), 255, np.uint8),
            all_planes_raw(),
            all_planes_raw(1),
            every_run(),
            every_place(),
            every_base(),
            of_lengths(BORDERS),
        ]
    )


def reset_while_busy(
    compressor: Any, entries: Entries, expected: list[Any], cycles: Sequence[int]
) -> None:
    """Resets it after so many cycles of the first entry over and over; then sends the second.

    Nothing but the second's outcome may come.
    """
    m = Module()
    m.domains.sync = domain = ClockDomain()
    m.submodules.compressor = compressor
    simulator = Simulator(m)
    simulator.add_clock(1e-9)
    old, new = np.split(np.array(sectors_of(compressor.config, entries)), 2)

    async def test(ctx: Any) -> None:
        for busy in cycles:
            ctx.set(compressor.o.ready, 0)
            ctx.set(compressor.i.valid, 1)
            for cycle in range(busy):
                ctx.set(compressor.i.payload, old[cycle % len(old)])
                await ctx.tick()
            ctx.set(domain.rst, 1)
            await ctx.tick()
            ctx.set(domain.rst, 0)
            ctx.set(compressor.o.ready, 1)
            seen = []
            for cycle in range(len(new) + compressor.entry_latency + 20):
                ctx.set(compressor.i.valid, cycle < len(new))
                if cycle < len(new):
                    ctx.set(compressor.i.payload, new[cycle])
                *_, valid, payload = await ctx.tick().sample(
                    compressor.o.valid, Value.cast(compressor.o.payload)
                )
                if valid:
                    seen.append(payload)
            assert [fields(compressor.o.payload.shape(), payload) for payload in seen] == expected

    simulator.add_testbench(test)
    simulator.run()


def some_entries(count: int, seed: int) -> Entries:
    """Entries of all kinds, in random order, with those that are hardest among them."""
    entries = np.concatenate([mixed_entries(count, seed), all_planes_raw(seed)])
    return np.random.default_rng(seed).permutation(entries)
