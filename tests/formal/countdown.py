"""A late countdown in a proof: what its registers hold of what it counts."""

from amaranth.hdl import Value

from cdma.hw.lib.countdown import SMALL_BITS
from tests.formal.bench import Bench, Inside


def late_countdown(
    bench: Bench, inside: Inside, name: str, counts: Value, begins_at: Value, done: Value
) -> None:
    """Tell a proof how a `LateCountdown` keeps what is left.

    Parameters
    ----------
    name
        The submodule's.
    counts
        It counts in this cycle.
    begins_at, done
        What it began with, and how much it has gone down since.
    """
    before, was_over = inside[f"{name}.before"], inside[f"{name}.was_over"]
    one, two = inside[f"{name}.one_lately"], inside[f"{name}.two_lately"]
    lately = one + 2 * two
    bench.require(~(one & two), inside[f"{name}.is_small"] == ~before[SMALL_BITS:].any())
    bench.implies(counts, done >= lately, was_over == (done - lately > begins_at))
    bench.implies(counts & ~was_over, before == begins_at - (done - lately))
