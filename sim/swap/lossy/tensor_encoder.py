"""The encoding of each saved tensor: the plan's codec, where the tensor may have it."""

from cdma.golden.formats.sample import sample
from cdma.golden.formats.stream import ByteArray
from cdma.hw.codec.registry import codec_names, copy_codec, line_codec
from cdma.sim.driver.shape import EngineShape
from cdma.sim.driver.tensor_parameters import TensorParameters
from cdma.sim.swap.encoding import AUTO, Encoding, auto_encoding, engine_encoding
from cdma.sim.swap.lossy.error_bounds import ErrorBounds
from cdma.sim.swap.stash import Learner
from cdma.sim.swap.swap_plan import Saved, SwapPlan, SwapPlanError, engine_codec

LOSSY_TYPE = "float32"
"""The only type whose values a lossy codec knows."""


class TensorEncoder:
    """Finds encodings on an engine.

    A lossy codec is for activations in float32 that have a bound. Everything else that a plan would
    send through it goes through the engine's first lossless one: integers, indices, masks, also
    those of dropout that are floating-point numbers, statistics of normalization, inputs, bf16.

    Parameters
    ----------
    plan : SwapPlan
    shape : EngineShape
    bounds : ErrorBounds or None
    tensors : TensorParameters, optional
        What records have recommended for tensors that have a name. The parameters of others, and of
        those that it does not know, suit a sample of the data.

    Raises
    ------
    SwapPlanError
        The engine has no such codec, a lossy one has no bounds, or bounds are for no codec.
    """

    def __init__(
        self,
        plan: SwapPlan,
        shape: EngineShape,
        bounds: ErrorBounds | None,
        tensors: TensorParameters | None = None,
    ) -> None:
        self._shape = shape
        self._bounds = bounds
        self._tensors = tensors
        for codec in plan.codecs:
            self._check(codec)
        if bounds is not None and plan.codecs and not any(map(_is_lossy, plan.codecs)):
            named = ", ".join(map(str, plan.codecs))
            lossy = set(codec_names()) - set(codec_names(lossy=False))
            raise SwapPlanError(
                f"bounds are for lossy codecs, and the plan's is {named}; leave them out, or let "
                f"the plan swap with {' or '.join(sorted(lossy))}"
            )

    def encoding(
        self, array: ByteArray, codec: str | None, saved: Saved, element_bytes: int
    ) -> Encoding | None:
        """The encoding of a tensor, of which the plan has chosen the codec; None copies it.

        Parameters
        ----------
        array : uint8 (bytes,)
        codec : str or None
        saved : Saved
        element_bytes : int
            4, 2 or 1.
        """
        self._check(codec)
        codec = engine_codec(codec)
        if codec is None:
            return None
        granule = self._shape.element_bytes
        lines = sample(array)
        if codec == AUTO:
            found = auto_encoding(self._shape.codecs, lines, element_bytes, granule)
        else:
            parameters = self._recommended(codec, saved)
            if _is_lossy(codec):
                bound = self.bound(saved)
                if bound is None:
                    codec = self._exact_codec
                else:
                    parameters = line_codec(codec).bounded_parameters(bound)
            found = engine_encoding(codec, lines, granule, parameters)
        return None if line_codec(found.codec).number is None else found

    def bound(self, saved: Saved) -> float | None:
        """The bound of a tensor; None of what must come back to the bit."""
        if self._bounds is None or not may_be_lossy(saved):
            return None
        return self._bounds.of(saved)

    def learner(self, encoding: Encoding, saved: Saved) -> Learner | None:
        """The function that takes a tensor's transfers with their records; None if none does."""
        tensors, key = self._tensors, _key(saved)
        if tensors is None or key is None or encoding.codec != tensors.codec:
            return None
        return lambda transfer: tensors.learn(key, saved.dtype, transfer)

    def _recommended(self, codec: str, saved: Saved) -> dict[str, int] | None:
        """The parameters that a record has recommended for a tensor, if one has."""
        tensors, key = self._tensors, _key(saved)
        if tensors is None or codec != tensors.codec or key is None or key not in tensors:
            return None
        return tensors.parameters(key, saved.dtype)

    @property
    def _exact_codec(self) -> str:
        """The engine's first lossless codec, or that of copies."""
        lossless = (name for name in self._shape.codecs if line_codec(name).lossless)
        return next(lossless, copy_codec().name)

    def _check(self, codec: str | None) -> None:
        codec = engine_codec(codec)
        if codec in (None, AUTO):
            return
        if codec not in self._shape.codecs:
            raise SwapPlanError(
                f"the plan swaps with {codec!r}, which the engine has not got; it has "
                f"{', '.join(self._shape.codecs)}"
            )
        if _is_lossy(codec) and self._bounds is None:
            raise SwapPlanError(
                f"the plan swaps with {codec!r}, which needs to know how far off values may come "
                "back; give swap_to bounds="
            )


def _key(saved: Saved) -> str | None:
    """The name of a tensor and its type: autograd may save a value in two types."""
    return None if saved.name is None else f"{saved.name} {saved.dtype}"


def may_be_lossy(saved: Saved) -> bool:
    """Return True for the values of a layer's output, of which backward only computes."""
    return saved.activation and saved.dtype == LOSSY_TYPE


def _is_lossy(codec: str | None) -> bool:
    return codec not in (None, AUTO) and not line_codec(str(engine_codec(codec))).lossless
