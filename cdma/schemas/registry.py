"""Every schema by its name: the documents that commands print and write."""

from dataclasses import dataclass

from cdma.builds.documents import VERSIONS
from cdma.schemas.shapes import memory, moving, other, planning, silicon


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A kind of document.

    Attributes
    ----------
    name : str
        The value of the key `schema`.
    shape : type
        A `TypedDict` with all keys but those of the head.
    written_by : str
        The command line, without `cdma`.
    page : str
        Where in `docs/` the keys are explained.
    has_command : bool
        Whether the head says what made the document.
    """

    name: str
    shape: type
    written_by: str
    page: str
    has_command: bool = True

    @property
    def version(self) -> int:
        """The newest version, which commands write."""
        return VERSIONS[self.name]

    @property
    def about(self) -> str:
        """A sentence."""
        return " ".join((self.shape.__doc__ or "").split())


SCHEMAS: dict[str, Schema] = {
    schema.name: schema
    for schema in (
        Schema(
            name="board",
            shape=silicon.Board,
            written_by="board BOARD --json",
            page="guide/silicon/board.md",
        ),
        Schema(
            name="capture",
            shape=other.Capture,
            written_by="capture NAME --out DIR",
            page="guide/plan/capture.md",
            has_command=False,
        ),
        Schema(
            name="config",
            shape=other.Config,
            written_by="config show NAME --json",
            page="guide/config.md",
        ),
        Schema(
            name="energy",
            shape=silicon.Energy,
            written_by="energy --json",
            page="guide/silicon/energy.md",
        ),
        Schema(
            name="estimate",
            shape=moving.Estimate,
            written_by="estimate --json",
            page="guide/swap/estimate.md",
        ),
        Schema(
            name="inspect",
            shape=moving.Inspect,
            written_by="inspect IN.cz --json",
            page="reference/formats.md",
        ),
        Schema(
            name="largest",
            shape=planning.Largest,
            written_by="schedule --largest-batch --json",
            page="guide/plan/schedule.md",
        ),
        Schema(
            name="list",
            shape=other.Listing,
            written_by="list --json",
            page="reference/command-line.md",
        ),
        Schema(
            name="profile",
            shape=memory.Profile,
            written_by="buddy profile SNAPSHOTS --json",
            page="guide/buddy/buddy-profile.md",
        ),
        Schema(
            name="replay",
            shape=memory.Replay,
            written_by="buddy replay --json",
            page="guide/buddy/buddy-replay.md",
        ),
        Schema(
            name="reproduce",
            shape=other.Reproduce,
            written_by="reproduce --json",
            page="guide/reproduce.md",
        ),
        Schema(
            name="schedule",
            shape=planning.Schedule,
            written_by="schedule --json",
            page="guide/plan/schedule.md",
        ),
        Schema(
            name="sidecar",
            shape=silicon.Sidecar,
            written_by="generate COMPONENT --out DIR",
            page="guide/silicon/generate.md",
        ),
        Schema(
            name="swap",
            shape=moving.Swap,
            written_by="swap FILES --json",
            page="guide/swap/swap.md",
        ),
        Schema(
            name="sweep",
            shape=other.Sweep,
            written_by="sweep --json COMMAND",
            page="guide/sweep.md",
        ),
        Schema(
            name="sweep-point",
            shape=other.SweepPoint,
            written_by="sweep --results DIR COMMAND",
            page="guide/sweep.md",
        ),
        Schema(
            name="synth",
            shape=silicon.Synth,
            written_by="synth COMPONENT --json",
            page="guide/silicon/synth.md",
        ),
        Schema(
            name="trace",
            shape=planning.Trace,
            written_by="schedule --trace FILE.json",
            page="guide/plan/schedule.md",
        ),
        Schema(
            name="train",
            shape=moving.Train,
            written_by="train MODULE:FUNCTION --json",
            page="guide/plan/train.md",
        ),
        Schema(
            name="value",
            shape=planning.ValueMap,
            written_by="value --json",
            page="guide/plan/value.md",
        ),
    )
}
"""By the value of the key `schema`."""
