"""Hosts that keep a step's tensors until backward wants them: an engine's, and a rehearsal's."""

from typing import Any, Protocol

from cdma.golden.formats.sample import sample
from cdma.sim.swap.encoding import engine_encoding
from cdma.sim.swap.stash import Arriving, Stash, Stashed, StashError


class Host(Protocol):
    """Memory outside of the device. Tensors are flat, uint8 and of a whole memory each."""

    def put(self, data: Any, codec: str | None) -> Any:
        """Take a tensor's bytes out, and return what finds them again."""
        ...

    def prefetch(self, out: Any) -> Any:
        """Begin to bring bytes back; None if the engine has no room for that now."""
        ...

    def get(self, out: Any, arriving: Any, data: Any) -> None:
        """Write the bytes into a tensor; `arriving` is what `prefetch` returned, or None."""
        ...

    def drop(self, out: Any, arriving: Any) -> None:
        """Forget bytes that are out, and what is on its way of them."""
        ...


class EngineHost:
    """The host memory of an engine, behind its codecs.

    Parameters
    ----------
    torch : module
    stash : Stash
    """

    def __init__(self, torch: Any, stash: Stash) -> None:
        self._torch = torch
        self.stash = stash

    def put(self, data: Any, codec: str | None) -> Stashed:
        array = data.numpy()
        if codec is None:
            return self.stash.put(array, None)
        granule = self.stash.engine.shape.element_bytes
        encoding = engine_encoding(codec, sample(array), granule)
        return self.stash.put(array, codec, encoding.parameters)

    def prefetch(self, out: Stashed) -> Arriving | None:
        try:
            return self.stash.begin(out)
        except StashError:
            return None

    def get(self, out: Stashed, arriving: Arriving | None, data: Any) -> None:
        array = self.stash.get(out) if arriving is None else self.stash.finish(arriving)
        data.copy_(self._torch.from_numpy(array))

    def drop(self, out: Stashed, arriving: Arriving | None) -> None:
        if arriving is not None:
            self.stash.cancel(arriving)
        self.stash.drop(out)


class RehearsalHost:
    """A host for tensors without values: it keeps nothing, and has room for everything."""

    def put(self, data: Any, codec: str | None) -> None:
        return None

    def prefetch(self, out: None) -> None:
        return None

    def get(self, out: None, arriving: None, data: Any) -> None:
        return None

    def drop(self, out: None, arriving: None) -> None:
        return None
