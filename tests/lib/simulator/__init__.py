"""A faster stand-in for Amaranth's simulator, with the same results.

    simulator = Simulator(component)
    simulator.add_clock(1e-9)
    simulator.add_testbench(testbench)
    simulator.run()

It takes the same testbenches as `amaranth.sim.Simulator` (0.5), as far as the tests need it: clocks
with a rising edge, synchronous resets, `tick`, `sample`, `repeat`, `until`, `delay`, `get` and
`set`. `test_simulator.py` compares it with Amaranth's, which also serves where waves are written:
with WAVES in the environment, `Simulator` is Amaranth's own.

Three things make it fast. Combinational statements are ordered once, so that nothing is computed
twice in a cycle; statements are computed only when something they read has changed, registers too;
and the Python that they become has no masks where values cannot exceed their widths.
"""

import os

if os.environ.get("WAVES"):
    from amaranth.sim import Simulator
else:
    from tests.lib.simulator.simulator import Simulator

__all__ = ["Simulator"]
