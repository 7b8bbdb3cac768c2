"""Captures: activations of a training run, with their recipe and checksums, in two files.

`NAME.json` is the recipe: how the arrays came about, and one line per array with shape, density
and checksums. `NAME.npz` holds the arrays, one `.npy` member each, and can be read with
`numpy.load`. docs/guide/plan/capture.md describes the format. PyTorch is needed to make a capture
(`cdma.plan.workload.capture.recorder`), not to read one.
"""

import hashlib
import io
import json
import math
import os
import re
import secrets
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cdma.builds.documents import SCHEMA, head, refusal

Array = npt.NDArray[Any]

RECIPE = "capture"
"""The schema of recipes."""

OLDER_FORMAT = "cdma-capture"
"""Its name in version 1, which had it under the key `format`."""
SHIPPED = Path(__file__).with_name("captures")

BITS = {"bf16": np.dtype(np.uint16), "e4m3": np.dtype(np.uint8), "e5m2": np.dtype(np.uint8)}
"""Element formats that numpy lacks, and the unsigned integers that have their bits."""

_LAYOUTS = {4: "NCHW", 2: "NC"}
_HEADER_LIMIT_BYTES = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class CaptureError(Exception):
    """A capture that cannot be made, read or written; the message has the form "cause; mend"."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Activation:
    """The output of one module for one minibatch at one moment of its training.

    Or what else was in memory then (`Subject.allocations`).
    """

    name: str
    """Unique in its capture, as `conv0.relu@epoch2`."""
    layer: str
    """The module's path in the model, as `conv0.relu`; or what else was kept, as `weights.fc0`."""
    kind: str
    """`relu`, `pool`, or the module's class name in lower case; or the first part of `layer`."""
    epoch: int
    """Epochs of training before; 0 is random weights."""
    array: Array
    """C-contiguous; N×C×H×W after a convolution, N×C after a fully connected layer."""
    element_format: str = ""
    """One of `BITS`, if the array has the bits of such numbers; else its dtype says what it has."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "array", np.ascontiguousarray(self.array))
        bits = BITS.get(self.element_format)
        if self.element_format and self.array.dtype != bits:
            raise CaptureError(
                f"array {self.name} of {self.array.dtype} has no elements of "
                f"{self.element_format}; give {bits or 'one of ' + ', '.join(BITS)}"
            )

    @property
    def layout(self) -> str:
        """`NCHW` for four dimensions, `NC` for two (H = W = 1), `other` for any other number."""
        return _LAYOUTS.get(self.array.ndim, "other")

    @cached_property
    def nonzero(self) -> int:
        """Elements whose bit pattern is not all zeros."""
        return int(np.count_nonzero(self.array.view(f"u{self.array.itemsize}")))

    @property
    def density(self) -> float:
        """The share of elements whose bit pattern is not all zeros (cDMA, §III)."""
        return self.nonzero / self.array.size if self.array.size else 0.0

    def entry(self) -> dict[str, Any]:
        """This array's line in the recipe."""
        content = self.array.view(np.uint8).data if self.array.size else b""
        return {
            "name": self.name,
            "layer": self.layer,
            "kind": self.kind,
            "epoch": self.epoch,
            "layout": self.layout,
            "dtype": self.array.dtype.name,
            **({"element_format": self.element_format} if self.element_format else {}),
            "shape": list(self.array.shape),
            "nonzero": self.nonzero,
            "density": self.density,
            "crc32": zlib.crc32(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Capture:
    """The activations of one training run, and how they came about.

    Raises
    ------
    CaptureError
        The name cannot be a file's name, there are no activations, or two have the same name.
    """

    name: str
    activations: tuple[Activation, ...]
    recipe: Mapping[str, Any]
    """Network, data, optimizer, and the history of the training, as JSON values."""
    seeds: Mapping[str, int]
    versions: Mapping[str, str]
    """Versions of Python and of packages, and the processor that the training ran on."""

    def __post_init__(self) -> None:
        check_name(self.name)
        names = [activation.name for activation in self.activations]
        if not names:
            raise CaptureError(f"capture {self.name} has no arrays; keep at least one module")
        for name in names:
            if names.count(name) > 1:
                raise CaptureError(f"capture {self.name} has two arrays {name}; rename one")

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write `NAME.npz` and `NAME.json` into a directory, which is made when missing.

        Both files are complete on disk before either takes its place. The same capture always
        gives the same bytes.

        Returns
        -------
        pathlib.Path
            The `.json` file.

        Raises
        ------
        CaptureError
            The operating system refused; what was there before is still there.
        """
        directory = Path(directory)
        recipe_path = directory / f"{self.name}.json"
        check_destination(directory, self.name)
        contents = {directory / f"{self.name}.npz": self._npz(), recipe_path: self._json()}
        temporaries: dict[Path, Path] = {}
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for path, content in contents.items():
                temporaries[path] = directory / f".{path.name}.{secrets.token_hex(4)}.tmp"
                with open(temporaries[path], "xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            for path, temporary in temporaries.items():
                os.replace(temporary, path)
        except OSError as error:
            raise _os_error("write", recipe_path, error) from error
        finally:
            for temporary in temporaries.values():
                with suppress(OSError):
                    temporary.unlink()
        return recipe_path

    def _json(self) -> bytes:
        header = {
            **head(RECIPE),
            "name": self.name,
            "recipe": dict(self.recipe),
            "seeds": dict(self.seeds),
            "versions": dict(self.versions),
        }
        try:
            beginning = json.dumps(header, indent=2, allow_nan=False).removesuffix("\n}")
        except (TypeError, ValueError) as error:
            raise CaptureError(
                f"the recipe of {self.name} is not JSON ({error}); give text, finite numbers, "
                "lists and dictionaries"
            ) from error
        # One line per array, so that a rebuilt capture's difference can be read.
        rows = ",\n    ".join(json.dumps(activation.entry()) for activation in self.activations)
        return f'{beginning},\n  "arrays": [\n    {rows}\n  ]\n}}\n'.encode()

    def _npz(self) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for activation in self.activations:
                # Not `numpy.savez_compressed`, which writes the time of day into the archive.
                member = zipfile.ZipInfo(_member(activation.name))
                member.compress_type = zipfile.ZIP_DEFLATED
                member.external_attr = 0o644 << 16
                content = io.BytesIO()
                np.lib.format.write_array(content, activation.array, allow_pickle=False)
                archive.writestr(member, content.getvalue(), compresslevel=9)
        return file.getvalue()


def check_name(name: str) -> None:
    """Raise `CaptureError` when a capture's name cannot be the name of its files."""
    if not _NAME.fullmatch(name):
        raise CaptureError(
            f"{name!r} cannot name a capture; use letters, digits, '.', '_' and '-', at most 100, "
            "and a letter or digit first"
        )


def check_destination(directory: str | os.PathLike[str], name: str) -> None:
    """Raise `CaptureError` when a capture cannot be saved there: before hours of training."""
    directory = Path(directory)
    for path in (directory / f"{name}.json", directory / f"{name}.npz"):
        if path.is_dir():
            raise CaptureError(f"cannot write {path}: it is a directory; name another one")
    existing = directory.absolute()
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise CaptureError(
            f"cannot write into {directory}: {existing} is not a directory; name another one"
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise CaptureError(
            f"cannot write into {directory}: no permission for {existing}; change its permissions "
            "or name another directory"
        )


def capture_names() -> list[str]:
    """The captures that come with the package, in alphabetical order."""
    return sorted(path.stem for path in SHIPPED.glob("*.json"))


def load_capture(name_or_path: str | os.PathLike[str]) -> Capture:
    """Read a capture and check it, array by array, against its recipe.

    Parameters
    ----------
    name_or_path : str or path
        One of `capture_names`, or the path of a capture's `.json` or `.npz` file.

    Returns
    -------
    Capture
        With all arrays in memory, read-only.

    Raises
    ------
    CaptureError
        There is no such capture, a file cannot be read, is damaged or truncated, or an array
        differs from what the recipe says of it.
    """
    recipe_path = _find(name_or_path)
    content = _read_recipe(recipe_path)
    try:
        entries = [dict(entry) for entry in content["arrays"]]
        arrays = _read_arrays(recipe_path.with_suffix(".npz"), entries)
        return Capture(
            name=str(content["name"]),
            activations=tuple(map(_activation, entries, arrays)),
            recipe=dict(content["recipe"]),
            seeds={str(key): int(value) for key, value in content["seeds"].items()},
            versions={str(key): str(value) for key, value in content["versions"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        # Whatever a damaged recipe lacks or has of the wrong type.
        cause = f"{type(error).__name__}: {error}"
        raise _damaged(recipe_path, f"it is not a recipe ({cause})") from error


def capture_files(name_or_path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The two files that `load_capture` reads; `CaptureError` for an unknown name."""
    recipe = _find(name_or_path)
    return recipe, recipe.with_suffix(".npz")


def _find(name_or_path: str | os.PathLike[str]) -> Path:
    text = os.fspath(name_or_path)
    names = capture_names()
    if text in names:
        return SHIPPED / f"{text}.json"
    path = Path(text)
    if path.suffix in (".json", ".npz"):
        return path.with_suffix(".json")
    raise CaptureError(
        f"unknown capture {text!r}; name one of {', '.join(names) or 'none'}, or the .json file "
        "of your own"
    )


def _read_recipe(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise _os_error("read", path, error) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it is not JSON") from error
    if not is_recipe(content):
        raise CaptureError(f"{path} is not the recipe of a capture; name one by 'cdma capture'")
    recipe = {SCHEMA: RECIPE, **content}
    refused = refusal(recipe, str(path), RECIPE)
    if refused is not None:
        raise CaptureError(refused)
    return recipe


def is_recipe(content: Any) -> bool:
    """Whether a JSON value is what `Capture.save` writes, or has written before."""
    if not isinstance(content, dict):
        return False
    return content.get(SCHEMA, RECIPE if content.get("format") == OLDER_FORMAT else None) == RECIPE


def _read_arrays(path: Path, entries: list[dict[str, Any]]) -> list[Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [_read_array(path, archive, entry) for entry in entries]
    except OSError as error:
        raise _os_error("read", path, error) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        # A damaged directory, data or CRC; compression or encryption that we never write.
        raise _damaged(path, str(error) or type(error).__name__) from error


def _read_array(path: Path, archive: zipfile.ZipFile, entry: dict[str, Any]) -> Array:
    name, shape, dtype = str(entry["name"]), tuple(entry["shape"]), np.dtype(entry["dtype"])
    if dtype.kind not in "biuf":
        raise ValueError(f"array {name} has dtype {dtype}")
    try:
        member = archive.getinfo(_member(name))
    except KeyError:
        raise _damaged(path, f"it lacks array {name}") from None
    # Before it is read: a damaged archive must not ask for more memory than the array needs.
    if member.file_size > dtype.itemsize * math.prod(shape) + _HEADER_LIMIT_BYTES:
        raise _damaged(path, f"array {name} is larger than its recipe says")
    content = archive.read(member)
    try:
        array: Array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except (ValueError, TypeError, SyntaxError, OverflowError, EOFError) as error:
        raise _damaged(path, f"array {name} is not an .npy file") from error
    if array.shape != shape or array.dtype != dtype:
        raise _damaged(
            path, f"array {name} is {array.dtype} {array.shape}, its recipe says {dtype} {shape}"
        )
    array.flags.writeable = False
    found = _activation(entry, array).entry()
    for key in ("sha256", "crc32", "nonzero", "density", "layout"):
        if found[key] != entry[key]:
            raise _damaged(path, f"the {key} of array {name} is not its recipe's")
    return array


def _activation(entry: dict[str, Any], array: Array) -> Activation:
    return Activation(
        name=str(entry["name"]),
        layer=str(entry["layer"]),
        kind=str(entry["kind"]),
        epoch=int(entry["epoch"]),
        array=array,
        element_format=str(entry.get("element_format", "")),
    )


def _member(name: str) -> str:
    return f"{name}.npy"


def _damaged(path: Path, cause: str) -> CaptureError:
    return CaptureError(f"{path} is damaged: {cause}; copy both its files again or capture again")


def _os_error(action: str, path: Path, error: OSError) -> CaptureError:
    cause = error.strerror or str(error) or type(error).__name__
    return CaptureError(
        f"cannot {action} {error.filename or path}: {cause}; check the path, its permissions and "
        "the disk"
    )
