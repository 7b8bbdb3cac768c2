"""The reset of a generated block: synchronous or asynchronous, active high or low."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reset:
    """A way to reset a block.

    Attributes
    ----------
    port : str
        Of the top module.
    is_asynchronous : bool
        Registers are reset at once, without a clock. The end of the reset must be synchronous to
        the clock in both cases.
    is_active_low : bool
    """

    port: str
    is_asynchronous: bool
    is_active_low: bool

    def connection(self, asserted: str) -> str:
        """The port in an instance's Verilog, where that signal is 1 during reset."""
        return f".{self.port}({'!' if self.is_active_low else ''}{asserted})"

    @property
    def asserted(self) -> str:
        """ "high" or "low"."""
        return "low" if self.is_active_low else "high"

    @property
    def kind(self) -> str:
        """ "synchronous" or "asynchronous"."""
        return "asynchronous" if self.is_asynchronous else "synchronous"


RESETS = {
    "sync-high": Reset("rst", is_asynchronous=False, is_active_low=False),
    "sync-low": Reset("rst_n", is_asynchronous=False, is_active_low=True),
    "async-high": Reset("rst", is_asynchronous=True, is_active_low=False),
    "async-low": Reset("rst_n", is_asynchronous=True, is_active_low=True),
}
"""By the names that users give."""

DEFAULT_RESET = "sync-high"
