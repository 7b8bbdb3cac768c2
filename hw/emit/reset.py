"""The reset of a generated block: synchronous or asynchronous, active high or low."""

from dataclasses import dataclass


def reset_beside(clock: str) -> str:
    """A clock's reset inside of a block, where all are active high: "host_rst" for "host_clk"."""
    return f"{clock.removesuffix('clk')}rst"


@dataclass(frozen=True)
class Reset:
    """A way to reset a block.

    Attributes
    ----------
    port : str
        Of the top module, for the clock `clk`; with other clocks, theirs have its name behind their
        own prefix.
    is_asynchronous : bool
        Registers are reset at once, without a clock. The end of the reset must be synchronous to
        the clock in both cases.
    is_active_low : bool
    """

    port: str
    is_asynchronous: bool
    is_active_low: bool

    def port_of(self, clock: str) -> str:
        """The port that resets what a clock's port drives: "host_rst_n" for "host_clk"."""
        return clock.removesuffix("clk") + self.port

    def connection(self, asserted: str, clock: str = "clk") -> str:
        """A clock's reset in an instance's Verilog, where that signal is 1 during reset."""
        return f".{self.port_of(clock)}({'!' if self.is_active_low else ''}{asserted})"

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
