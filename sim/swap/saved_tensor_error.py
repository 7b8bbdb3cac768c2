"""The error of a step whose saved tensors have changed."""


class SavedTensorError(RuntimeError):
    """A tensor was changed after autograd had saved it: "cause; mend"."""
