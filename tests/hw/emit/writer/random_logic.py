"""Components of random logic: all operators of Amaranth on values of all kinds, a few of each."""

import random
from collections.abc import Callable

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

WIDEST = 12
"""Bits of a value; wider ones are cut."""

STEPS = 40
"""Operations that are drawn."""


class RandomLogic(wiring.Component):
    """Logic that is drawn from a seed: words, decisions inside each other, and registers.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        draw = self.draw
        inputs = {f"word_{k}": In(draw.randint(1, 8)) for k in range(4)}
        inputs |= {f"flag_{k}": In(1) for k in range(3)}
        inputs |= {"count": In(2), "number": In(signed(draw.randint(2, 6)))}
        self.inputs = list(inputs)
        outputs = {f"result_{k}": Out(draw.randint(1, 10)) for k in range(6)}
        outputs |= {f"held_{k}": Out(draw.randint(1, 8)) for k in range(4)}
        super().__init__(inputs | outputs)

    def elaborate(self, platform) -> Module:
        m = Module()
        draw = self.draw
        pool: list[Value] = [getattr(self, name) for name in self.inputs]
        registers = [
            Signal(draw.randint(1, 6), name=f"register_{k}", init=draw.randint(0, 1))
            for k in range(3)
        ]
        pool += registers
        for step in range(STEPS):
            value = self._drawn(pool)
            if len(value) > WIDEST:
                value = value[draw.randint(0, 2) :][:WIDEST]
            # Some have names, as wires of the source have.
            if draw.random() < 0.4:
                wire = Signal(len(value), name=f"wire_{step}")
                m.d.comb += wire.eq(value)
                value = wire
            pool.append(value)
        for k, register in enumerate(registers):
            self._decide(m, m.d.sync, register, pool, depth=1 + k)
        for k in range(4):
            self._decide(m, m.d.sync, getattr(self, f"held_{k}"), pool, depth=k)
        for k in range(6):
            output = getattr(self, f"result_{k}")
            if k % 2:
                self._decide(m, m.d.comb, output, pool, depth=1 + k // 2)
            else:
                m.d.comb += output.eq(pool[-1 - k])
        return m

    def _drawn(self, pool: list[Value]) -> Value:
        """An operation on values of the pool, of which the later ones are more likely."""
        draw = self.draw

        def some() -> Value:
            return pool[max(draw.randrange(len(pool)), draw.randrange(len(pool)))]

        def narrow() -> Value:
            return some()[:4]

        def number() -> Value:
            return C(draw.randrange(16), draw.choice([1, 3, 4, 4]))

        a, b, c = some(), some(), some()
        few = draw.randint(0, 3)
        choices: list[Callable[[], Value]] = [
            lambda: a + b,
            lambda: a + b + c[:1] + some()[:1] + some()[:1],
            lambda: a - b,
            lambda: narrow() * narrow(),
            lambda: narrow() * C(1 << few),
            lambda: -a,
            lambda: a & b,
            lambda: a | b | number(),
            lambda: a ^ b,
            lambda: ~a,
            lambda: a == b,
            lambda: a == number(),
            lambda: a != b,
            lambda: a < b,
            lambda: a <= number(),
            lambda: a > b,
            lambda: a >= b,
            lambda: a.as_signed() < b.as_signed(),
            lambda: a.as_signed() + b.as_signed(),
            lambda: a.as_signed() >> few,
            lambda: a.as_signed() >> b[:2],
            lambda: a << few,
            lambda: a << b[:2],
            lambda: a >> few,
            lambda: a >> b[:3],
            lambda: Mux(a == b, c, number()),
            lambda: Mux(a[:1], b, c),
            lambda: Mux(a[:1], b[:1], number()[:1]),
            lambda: Mux(a[:1], number()[:1], b[:1]),
            lambda: Mux(a.bool(), Mux(b[:1], c, a), b),
            lambda: Cat(a[:3], b[-3:], number()),
            lambda: Cat(a[k] if k % 2 else C(k // 2 % 2, 1) for k in range(len(a))),
            lambda: Cat(a[:1], b[:1]).any(),
            lambda: Cat(a[:1], b[:1], c[:1]).all(),
            lambda: a[few:] if len(a) > few else a,
            # Of a signed value it would go on with its sign, which written Verilog cannot.
            lambda: a[:].bit_select(b[:3], 2),
            lambda: a[:].word_select(b[:2], 2),
            lambda: a.any(),
            lambda: a.all(),
            lambda: a.xor(),
            lambda: a[:1].replicate(1 + few),
            lambda: (a[:1] & ~b[:1]) | (c[:1] & (a == b)),
            lambda: ~(a[:1] & b[:1] & c[:1]),
            lambda: a.matches(*(_pattern(draw, len(a)) for _ in range(2))),
            lambda: Array([a[:4], b[:4], c[:4]])[some()[:2]] | 0,
            lambda: narrow() // (1 + few),
            lambda: narrow() % (1 + few),
            lambda: Cat(Mux(a[:3] > k, b[k : k + 1], 0) for k in range(min(8, len(b)))),
        ]
        return draw.choice(choices)()

    def _decide(
        self, m: Module, domain: object, target: Signal, pool: list[Value], *, depth: int
    ) -> None:
        """Assign a value, or a part of it, in decisions so deep inside each other."""
        draw = self.draw
        value = draw.choice(pool)
        if depth == 0:
            kind = draw.randrange(4)
            if kind == 0 and len(target) > 2:
                part: Value = target[1:-1]
            elif kind == 1:
                part = target.bit_select(draw.choice(pool)[:2], 1)
            else:
                part = target
            domain += part.eq(draw.choice([value, value, C(draw.randrange(64), 6)]))
            return
        test = draw.choice(pool)
        if draw.random() < 0.5:
            with m.If(test.bool()):
                self._decide(m, domain, target, pool, depth=depth - 1)
            if draw.random() < 0.6:
                with m.Elif(draw.choice(pool)[:1]):
                    self._decide(m, domain, target, pool, depth=depth - 1)
            if draw.random() < 0.6:
                with m.Else():
                    self._decide(m, domain, target, pool, depth=depth - 1)
            return
        with m.Switch(test):
            for _ in range(draw.randint(1, 4)):
                patterns = [_pattern(draw, len(test)) for _ in range(draw.randint(1, 2))]
                with m.Case(*patterns):
                    self._decide(m, domain, target, pool, depth=depth - 1)
            if draw.random() < 0.5:
                with m.Default():
                    self._decide(m, domain, target, pool, depth=depth - 1)


def _pattern(draw: random.Random, bits: int) -> str:
    return "".join(draw.choice("0011-") for _ in range(bits))
