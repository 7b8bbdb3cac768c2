"""Runs of a command that each end early, and what they leave: a program, which prints JSON.

The command line is imported once, and each run is a fork of it, which takes milliseconds:

    python -m tests.cdma.broken_off.runs FOLDER COUNT ARGUMENT...

FOLDER has the inputs. COUNT runs are spread evenly over four ways to end, with outputs that are not
there yet and with others in their place, and over all bytes and steps of a healthy run.

- `full at byte`: no file can have more bytes, as on a disk that is full; what is written in one go
  is cut there.
- `killed at byte`: the process dies as it writes that byte.
- `full at step`, `killed at step`: so does the one that opens, renames, or makes something.
"""

import errno
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path

from cdma.cli import main
from cdma.report import writer

WAYS = ("full at byte", "killed at byte", "full at step", "killed at step")
OLD = b"what was there before\n"
"""The content of outputs that are there already."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_STEPS = ("open", "os.rename", "os.mkdir", "os.chmod", "os.truncate")


@dataclass(frozen=True)
class Ended:
    """A run's end, and what it has left.

    Attributes
    ----------
    status : int
        The exit status; negative if a signal has ended it.
    said : str
        On the standard error.
    files : mapping of str to bytes
        What is in the folder now.
    """

    status: int
    said: str
    files: Mapping[str, bytes]


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def run(folder: Path, arguments: list[str], prepare: Callable[[], None]) -> Ended:
    """Run a command in a fork, which first calls `prepare`."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(writer, 2)
            os.close(reader)
            os.chdir(folder)
            prepare()
            status = main(arguments)
            sys.stderr.flush()
        except BaseException as error:
            os.write(2, f"Traceback: {error!r}\n".encode())
            status = 70
        os._exit(status)
    os.close(writer)
    said = b""
    while chunk := os.read(reader, 65536):
        said += chunk
    os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(status, said.decode(), contents(folder))


def at_byte(count: int, *, killed: bool) -> Callable[[], None]:
    def prepare() -> None:
        # Python ignores the signal; then the write fails.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if killed else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (count, count))

    return prepare


def at_step(count: int, *, killed: bool) -> Callable[[], None]:
    left = count

    def step(event: str, arguments: tuple) -> None:
        nonlocal left
        if event not in _STEPS or (event == "open" and not arguments[2] & _WRITES):
            return
        left -= 1
        # A full disk stays so.
        if left < 0 and killed:
            os.kill(os.getpid(), signal.SIGKILL)
        elif left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: sys.addaudithook(step)


def steps_of(arguments: list[str], folder: Path) -> int:
    """Steps of a healthy run."""
    count = 0
    while True:
        shutil.copytree(folder, work := folder.with_name("count"))
        status = run(work, arguments, at_step(count, killed=True)).status
        shutil.rmtree(work)
        if status == 0:
            return count
        count += 1


def faults_of(
    way: str, ended: Ended, inputs: Mapping, before: Mapping, healthy: Mapping
) -> Iterator[str]:
    """Everything that is wrong with what a run has left."""
    for name, content in inputs.items():
        if ended.files.get(name) != content:
            yield f"the input {name} is lost"
    outputs = healthy.keys() - inputs.keys()
    for name in outputs:
        if ended.files.get(name) not in (before.get(name), healthy[name]):
            yield f"{name} is half-written: {len(ended.files.get(name, b''))} bytes"
    left = ended.files.keys() - outputs - inputs.keys()
    killed = way.startswith("killed")
    if any(not (killed and Path(name).name.startswith(".")) for name in left):
        yield f"{min(left)} is left behind"
    if ended.status == 0:
        if any(ended.files.get(name) != healthy[name] for name in outputs):
            yield "it says that all is well"
    elif killed:
        if ended.status not in (-signal.SIGKILL, -signal.SIGXFSZ):
            yield f"it was killed, and ends with {ended.status}: {ended.said}"
    else:
        lines = [line for line in ended.said.splitlines() if line.startswith("cdma: error: ")]
        causes = ("File too large", "No space left on device")
        if len(lines) != 1 or not any(cause in lines[0] for cause in causes):
            yield f"its error is {ended.said!r}"
        if ended.status != 2 or "Traceback" in ended.said:
            yield f"it ends with {ended.status}: {ended.said!r}"


def spread(count: int, most: int) -> list[int]:
    """At most so many numbers from 0 to below `most`, evenly, the first and the last among them."""
    if count >= most:
        return list(range(most))
    return sorted({round(place * (most - 1) / max(1, count - 1)) for place in range(count)})


def broken_off(folder: Path, count: int, arguments: list[str]) -> dict[str, object]:
    """Run a command so often; the number of runs, of those that ended early, and all faults."""
    source = folder / "inputs"
    inputs = contents(source)
    shutil.copytree(source, work := folder / "healthy")
    os.chdir(work)
    # In this process, so that all that it imports is there for the others.
    assert main(arguments) == 0
    sys.stdout.flush()
    os.chdir(folder)
    # What documents say of their command has its options, too.
    healthy = contents(work)
    forced = run(work, [*arguments, "--force"], lambda: None).files
    sizes = [len(content) for name, content in healthy.items() if name not in inputs]
    steps = steps_of(arguments, source)
    runs = early = 0
    faults = []
    for present in (False, True):
        force, whole = (["--force"], forced) if present else ([], healthy)
        before = dict.fromkeys(healthy.keys() - inputs.keys(), OLD) if present else {}
        for way in WAYS:
            by_byte = way.endswith("byte")
            most = max(sizes) if by_byte else steps
            # Steps are few; bytes take what they leave.
            share = (count // 2 - 2 * steps) // 2 if by_byte else steps
            for place in spread(share, most):
                shutil.copytree(source, work := folder / "work")
                for name, content in before.items():
                    (work / name).parent.mkdir(parents=True, exist_ok=True)
                    (work / name).write_bytes(content)
                prepare = (at_byte if by_byte else at_step)(place, killed=way.startswith("killed"))
                ended = run(work, [*arguments, *force], prepare)
                found = list(faults_of(way, ended, inputs, before, whole))
                # What a run leaves does not keep the next from its work.
                if runs % 8 == 0 and ended.status and not found:
                    again = run(work, [*arguments, "--force"], lambda: None)
                    if any(again.files.get(name) != forced[name] for name in forced):
                        found = [f"a second run ends with {again.status}: {again.said!r}"]
                shutil.rmtree(work)
                runs += 1
                early += ended.status != 0
                told = f"{way} {place}{', over others' * present}: "
                faults += [told + fault for fault in found]
    return {"runs": runs, "early": early, "faults": faults}


class StandingClock(datetime):
    """A clock for pages, which tell the minute in which they are made."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "StandingClock":
        return cls(2026, 1, 1, tzinfo=tz)


if __name__ == "__main__":
    writer.datetime = StandingClock
    print(json.dumps(broken_off(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])))
