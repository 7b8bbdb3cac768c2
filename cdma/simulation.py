"""Arrays through the RTL of an engine and back, in one call: `cdma.simulate`."""

from collections.abc import Mapping, Sequence

from cdma.config import ENGINE, MACHINE, THROTTLE, find
from cdma.hw.config import PRESETS, EngineConfig
from cdma.plan.platform.environment import MACHINES, MachineConfig
from cdma.sim.swap import EngineBackend, Swapper, SwapRun
from cdma.sim.swap.backend import Array


def simulate(
    config: EngineConfig | str,
    arrays: Mapping[str, Array] | Sequence[Array],
    *,
    machine: MachineConfig | str | None = None,
    throttle: str = "none",
    element_bytes: int | None = None,
    stalls: float = 0.0,
    seed: int = 0,
) -> SwapRun:
    """Send arrays out through the engine's RTL and back, and compare every bit.

    The first run of a shape builds its simulator, which takes about a minute; later ones find it in
    the cache.

    Parameters
    ----------
    config : EngineConfig or str
        The engine, or a name, file or hook, as `cdma.config.find` takes it. Its codec's element
        size is replaced by each array's.
    arrays : mapping of str to array, or sequence of array
        Arrays of any shape and type; those of a sequence are called "0", "1", …
    machine : MachineConfig or str, optional
        Memory and link around the engine, or a name, file or hook. If not given, the named machine
        whose preset `config` is, else the default one with a channel per unit.
    throttle : str
        Limit of device memory reads: a name, file or hook.
    element_bytes : int, optional
        4, 2 or 1; each array's own if not given.
    stalls : float
        Probability, per cycle and bus channel, that the memory or the link is not ready.
    seed : int
        Seed of the stalls.

    Returns
    -------
    SwapRun
        A `RoundTrip` per array with compressed bytes, cycles each way and `bit_exact`, and what the
        engine counted over all of them.

    Raises
    ------
    ConfigError
        There is no such machine or throttle, or the machine has another number of channels than
        the engine has units.
    cdma.golden.CodecError
        The codec has no elements of an array's size.
    cdma.sim.machine.MachineError
        The simulator cannot be built, or the RTL breaks a rule of its buses.

    Examples
    --------
    >>> import numpy as np
    >>> run = cdma.simulate(cdma.EngineConfig(), {"relu": np.eye(64, dtype=np.float32)})
    >>> round_trip, = run.round_trips
    >>> round_trip.bit_exact, round_trip.nbytes, round_trip.compressed_bytes
    (True, 16384, 768)
    """
    if isinstance(config, str):
        config = find(ENGINE, config).value
    named = (
        list(arrays.items())
        if isinstance(arrays, Mapping)
        else [(str(index), array) for index, array in enumerate(arrays)]
    )
    backend = EngineBackend(
        config,
        _machine(config, machine),
        throttle=find(THROTTLE, throttle).value,
        stalls=stalls,
        seed=seed,
    )
    with Swapper(backend) as swapper:
        return swapper.swap(named, element_bytes=element_bytes)


def _machine(config: EngineConfig, machine: MachineConfig | str | None) -> MachineConfig:
    if isinstance(machine, MachineConfig):
        return machine
    if machine is not None:
        return find(MACHINE, machine).value
    for name, around in MACHINES.items():
        if PRESETS[name] == config:
            return around
    return MachineConfig(channels=config.units)
