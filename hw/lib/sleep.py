"""When a component's clock need not tick: while none of its registers would change.

A simulator evaluates everything that a clock triggers, whether it does something or not. So the
simulator's build of a design gives some components, the *sleepers*, clocks of their own, and a
signal that tells beforehand whether an edge would change anything. It is derived from the
component's own statements, so it holds by construction: a clock that ticks only while the signal is
high makes the same values as one that ticks always, cycle for cycle, whatever the component does
and whatever it waits for.
"""

from collections.abc import Iterable, Iterator

from amaranth.hdl import Cat, Fragment, Signal, Value
from amaranth.hdl._ast import Assign, Property, Statement, Switch
from amaranth.lib import memory

COMPARED_BITS = 192
"""Registers of up to so many bits are compared with what they would become, as are those that are
assigned in every cycle. Wider ones count as changing whenever the condition holds under which they
are assigned."""


def add_wake(
    fragment: Fragment, below: Iterable[Value], *, compared_bits: int | None = COMPARED_BITS
) -> Signal:
    """Add to a component's logic what tells whether the next edge would change anything in it.

    Parameters
    ----------
    fragment : Fragment
        An elaborated component, whose registers in "sync" are looked at.
    below : iterable of Value
        The same of those of its subcomponents that share its clock.
    compared_bits : int, optional
        The width up to which registers are compared; None compares all.

    Returns
    -------
    Signal
        High if a register, a memory or the output register of a memory would change in the fragment
        or in one below, or if an assertion would fail. Resets do not count.
    """
    wake = Signal(name="wake")
    woken = [Cat(*below)]
    for subfragment, _name, _src_loc in fragment.subfragments:
        for origin in subfragment.origins or ():
            if isinstance(origin, memory.Memory):
                # Ports without a register have nothing that changes.
                woken += [port.en for port in origin.write_ports]
                woken += [port.en for port in origin.read_ports if port.domain != "comb"]
    statements = fragment.statements.get("sync", ())
    fragment.add_statements(
        "comb",
        wake.eq(Cat(*woken).any()),
        *_raises(statements, wake, compared_bits, conditional=False),
    )
    return wake


def _raises(
    statements: Iterable[Statement],
    wake: Signal,
    compared_bits: int | None,
    *,
    conditional: bool,
) -> Iterator[Statement]:
    """The same statements, with what raises `wake` in the place of each assignment."""
    raises = wake.eq(1)
    for statement in statements:
        if isinstance(statement, Switch):
            yield Switch(
                statement.test,
                [
                    (
                        patterns,
                        list(_raises(inner, wake, compared_bits, conditional=True)),
                        src_loc,
                    )
                    for patterns, inner, src_loc in statement.cases
                ],
            )
        elif isinstance(statement, Assign):
            width = len(statement.lhs)
            if conditional and compared_bits is not None and width > compared_bits:
                yield raises
            elif width > 0:
                rhs = statement.rhs
                would_be: Value = rhs[: min(width, len(rhs))]
                if rhs.shape().signed and len(rhs) < width:
                    would_be = Cat(rhs, rhs[-1].replicate(width - len(rhs)))
                differs = statement.lhs != would_be
                yield Switch(differs, [(1, [raises], None)])
        elif isinstance(statement, Property):
            yield Switch(statement.test.bool(), [(0, [raises], None)])
        else:
            raise TypeError(f"no such statement may be clocked: {statement!r}")
