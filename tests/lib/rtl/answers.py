"""A sink that answers what it takes, for benches whose inputs follow from the outputs."""

from tests.lib.rtl.bench import Sink, bits, fields


class Answers(Sink):
    """A sink of any length that is heard: `answer` is called with what it takes, and the cycle."""

    answer = None
    open = False

    def observe(self, cycle, valid, ready, payload):
        self.open = True
        moved = super().observe(cycle, valid, ready, payload)
        self.open = False
        if moved:
            self.answer(fields(self.port.payload.shape(), payload), cycle)
        return moved

    def drive(self, ctx, cycle):
        ctx.set(self.port.ready, self.willing(cycle))

    @property
    def done(self):
        return not self.open


def append(source, payload):
    """Let a source offer one more."""
    source.payloads.append(bits(source.port.payload.shape(), payload))
