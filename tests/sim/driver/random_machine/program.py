"""Random programs: drawn from a seed, played, and shortened if they find something."""

from dataclasses import dataclass
from random import Random

from cdma.hw.config import EngineConfig
from tests.sim.driver.random_machine.player import Player
from tests.sim.driver.random_machine.setups import Setup, draw_setup

WEIGHTS = {
    "alloc": 5,
    "free": 2,
    "write": 3,
    "send": 10,
    "receive": 10,
    "fence": 2,
    "raw": 1,
    "doorbell": 1,
    "poll": 1,
    "wait": 3,
    "wait_all": 1,
    "run": 3,
    "abort": 1,
    "reset": 1,
    "hard_reset": 0.5,
    "fault": 2,
    "lift": 1,
    "rest": 1,
    "clear": 0.5,
    "throttle": 0.5,
    "misuse": 4,
    "thread": 1,
    "intrude": 1,
}
"""How often each step of a `Player` comes, beside the others."""

BEGINNING = ("alloc",) * 8

Step = tuple[str, int]
"""What to do, and the seed of how."""


@dataclass(frozen=True)
class Failure:
    """The failure that a program has found.

    Attributes
    ----------
    error : Exception
    steps : list of Step
        Those that are needed for it.
    log : list of str
        What they did.
    """

    error: Exception
    steps: list[Step]
    log: list[str]


def draw_steps(seed: int) -> list[Step]:
    """The program of a seed."""
    rng = Random(seed)
    count = rng.randint(8, 40)
    names = [*BEGINNING, *rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=count)]
    return [(name, rng.getrandbits(32)) for name in names]


def play(setup: Setup, steps: list[Step]) -> Failure | None:
    """Play a program, and return what it finds."""
    log: list[str] = []
    player = None
    try:
        player = Player(setup, log)
        for name, seed in steps:
            player.play(name, seed)
        player.finish()
    except Exception as error:
        return Failure(error, steps, log)
    finally:
        if player is not None:
            player.machine.close()
    return None


def shortened(setup: Setup, failure: Failure, tries: int = 200) -> Failure:
    """A failure of the same kind with fewer steps, by leaving out ever smaller parts."""
    part = max(1, len(failure.steps) // 2)
    while tries > 0:
        start, shorter = 0, False
        while start < len(failure.steps) and tries > 0:
            fewer = failure.steps[:start] + failure.steps[start + part :]
            tries -= 1
            found = play(setup, fewer)
            if found is not None and type(found.error) is type(failure.error):
                failure, shorter = found, True
            else:
                start += part
        if part == 1 and not shorter:
            break
        part = max(1, part // 2)
    return failure


def run_seed(config: EngineConfig, seed: int) -> None:
    """Play the program of a seed; raise what it finds, with the seed and a shortened program."""
    setup, steps = draw_setup(seed, config), draw_steps(seed)
    failure = play(setup, steps)
    if failure is None:
        return
    short = shortened(setup, failure)
    error = short.error
    error.add_note(f"seed {seed} of {config}")
    error.add_note(f"setup: {setup}")
    error.add_note("program, shortened:\n  " + "\n  ".join(short.log))
    raise error
