"""The commands that can be swept: their options, their checks, and their lines as points."""

import os
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cdma.app import root
from cdma.commands.sweep_options import user_files
from cdma.config import DEVICE, ENGINE, LINK, MACHINE, NETWORK, THROTTLE, find
from cdma.config.resolve import is_file
from cdma.errors import UserError
from cdma.hooks import is_hook
from cdma.hw.codec.registry import codec_names
from cdma.plan.policies.registry import policy
from cdma.sweep.command_line import run_command
from cdma.sweep.point import SweepPoint
from cdma.synth.components import block

FIELDS: Mapping[str, tuple[str, ...]] = {
    "estimate": (
        "total.ratio",
        "total.offload_seconds",
        "total.prefetch_seconds",
        "total.offload_speedup",
        "total.prefetch_speedup",
    ),
    "schedule": (
        "policies.0.seconds",
        "policies.0.speedup_over_vdnn",
        "policies.0.over_oracle",
        "policies.0.peak_bytes",
        "policies.0.stall_seconds",
    ),
    "swap": (
        "total.ratio",
        "total.cycles_out",
        "total.cycles_in",
        "total.swap_out_seconds",
        "total.swap_in_seconds",
        "total.bit_exact",
    ),
    "synth": (
        "components.0.kge",
        "components.0.flip_flops",
        "components.0.depth",
        "components.0.fmax_mhz",
    ),
}
"""The commands, each with the fields that a table has if none are named."""

AS_JSON = "--json"

REFUSED: Mapping[str, str] = {
    "--help": "is no axis; `cdma sweep --help` and the command's own tell the options",
    AS_JSON: "is of the table; give it before the command",
    "--force": "is for files that are written; a point writes none",
    "--out": "is a folder that points would share; each has one of its own, which is removed",
    "--html": "writes a file that points would share; run the command alone for it",
    "--plot": "writes a file that points would share; run the command alone for it",
    "--save": "writes files that points would share; run the command alone for it",
    "--sweep": "is what axes are for; name the options that it stands for",
    "--trace": "writes a file that points would share; run the command alone for it",
    "--waves": "writes a file that points would share; run the command alone for it",
}
"""Options that no point has, and why."""


def _codec(name: str) -> None:
    if name not in codec_names():
        raise UserError(f"unknown codec {name!r}; choose from {', '.join(codec_names())}")


def _config(text: str) -> None:
    # A file may have other tables than the engine's.
    if not is_file(text):
        find(ENGINE, text)


CHECKS: Mapping[tuple[str, str], Callable[[str], object]] = {
    **{(command, "network"): partial(find, NETWORK) for command in ("estimate", "schedule")},
    **{(command, "link"): partial(find, LINK) for command in ("estimate", "schedule", "swap")},
    **{(command, "throttle"): partial(find, THROTTLE) for command in ("estimate", "swap")},
    **{(command, "machine"): partial(find, MACHINE) for command in ("estimate", "swap")},
    **{(command, "config"): _config for command in ("estimate", "swap")},
    **{(command, "codec"): _codec for command in ("estimate", "swap")},
    ("schedule", "device"): partial(find, DEVICE),
    ("schedule", "policy"): policy,
    ("synth", "components"): block,
}
"""Functions that refuse an unknown name or a wrong file before any point is computed."""

NO_HOOKS = ("config", "device", "link", "machine", "network", "throttle")
"""Axes whose values could be hooks, `module:function`, in the command alone."""


class SweptCommand:
    """A command whose lines are points.

    Parameters
    ----------
    name : str

    Raises
    ------
    UserError
        It is none of those that can be swept.
    """

    def __init__(self, name: str) -> None:
        if name not in FIELDS:
            raise UserError(f"{name!r} cannot be swept; choose from {', '.join(FIELDS)}")
        self.name = name
        self._command: Any = root().commands[name].load()  # type: ignore[attr-defined]
        self._options = {
            spelling: parameter
            for parameter in self._command.params
            if parameter.param_type_name == "option"
            for spelling in (*parameter.opts, *parameter.secondary_opts)
        }

    def option(self, spelling: str) -> str:
        """The name of an option's axis; `UserError` for one that points do not have."""
        if spelling in REFUSED:
            raise UserError(f"{spelling} {REFUSED[spelling]}")
        if spelling not in self._options:
            raise UserError(
                f"cdma {self.name} has no option {spelling}; see 'cdma {self.name} --help'"
            )
        return spelling.removeprefix("--")

    def is_flag(self, spelling: str) -> bool:
        """Return True if the option takes no value; `UserError` as of `option`."""
        return bool(self._options[f"--{self.option(spelling)}"].is_flag)

    def flag(self, spelling: str) -> tuple[str, bool] | None:
        """The axis and the value that a flag stands for; None for an option with a value."""
        if not self.is_flag(spelling):
            return None
        parameter = self._options[spelling]
        return parameter.opts[0].removeprefix("--"), spelling in parameter.opts

    def arguments(self, *, missing_ok: bool = False) -> str:
        """The name of the command's arguments; `UserError` if it takes none."""
        for parameter in self._command.params:
            if parameter.param_type_name == "argument":
                return str(parameter.name)
        if missing_ok:
            return ""
        raise UserError(f"cdma {self.name} takes options only; see 'cdma {self.name} --help'")

    def check(self, name: str, value: Any) -> None:
        """Raise a reported error if the command would refuse a value of an axis.

        Hooks are refused, too: no hash tells what their result depends on.
        """
        check = CHECKS.get((self.name, name))
        for part in value if isinstance(value, list) else [value]:
            text = str(part)
            if name in NO_HOOKS and is_hook(text):
                raise UserError(
                    f"--{name} {text} is a hook, under which no result can be kept; write what it "
                    "returns to a file"
                )
            if check is not None and (name != "policy" or "," not in text):
                check(text)

    def point(self, values: Mapping[str, Any]) -> SweepPoint:
        """The point of a combination of axes' values.

        Its content is the whole configuration, with the values of options that are not given. The
        usage errors of the command line are raised.
        """
        words = [word for name, value in values.items() for word in self._words(name, value)]
        name = f"cdma {self.name}"
        context = self._command.make_context(name, list(words))
        out = "--out" if "--out" in self._options else None
        given = {
            parameter.name: _plain(context.params[parameter.name])
            for parameter in self._command.params
            if parameter.name in context.params and not REFUSED.keys() & set(parameter.opts)
        }
        files = user_files(_texts(given.values()))
        return SweepPoint(
            name=shlex.join(["cdma", self.name, *words]),
            content={"command": self.name, "parameters": given},
            files=files,
            work=partial(
                run_command,
                (self.name, *words, AS_JSON),
                os.getcwd() if files else None,
                out,
            ),
        )

    def _words(self, name: str, value: Any) -> list[str]:
        """An axis and a value of it as words of the command line."""
        parts = value if isinstance(value, list) else [value]
        if name == self.arguments(missing_ok=True):
            return [str(part) for part in parts]
        if not self.is_flag(f"--{name}"):
            return [word for part in parts for word in (f"--{name}", str(part))]
        parameter = self._options[f"--{name}"]
        spellings = parameter.opts if value else parameter.secondary_opts
        return list(spellings[:1])


def _plain(value: Any) -> Any:
    """A parameter's value as JSON has it."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _texts(values: Any) -> list[str]:
    """All strings among some values, in order."""
    found = []
    for value in values:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            found += _texts(value)
    return found
