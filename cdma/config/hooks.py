"""Hooks: `module:function` instead of a file, for what is easier said in Python."""

import re
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

from cdma.config.network import NetworkConfig
from cdma.config.values import REFUSALS, meant
from cdma.errors import UserError
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.networks import Network

_HOOK = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")

T = TypeVar("T")


def is_hook(text: str) -> bool:
    """Return True for what is written as `package.module:function`."""
    return _HOOK.fullmatch(text) is not None


def load_hook(kind: type[T], path: str) -> T:
    """The object of a class that `module:name` is, or that the function of that name returns.

    Modules are found as Python finds them, and in the working folder.

    Raises
    ------
    UserError
        There is no such module or name, its function raises something, or what it is or returns is
        of another class.
    """
    if not is_hook(path):
        raise UserError(f"{path!r} is no hook; write it as package.module:function")
    module_name, _, name = path.partition(":")
    module = _module(module_name, path)
    if not hasattr(module, name):
        names = [each for each in vars(module) if not each.startswith("_")]
        raise UserError(f"{path}: {module_name} has no {name!r}; {meant(name, names)}name another")
    made: Any = getattr(module, name)
    expected: tuple[type, ...] = (Network, Graph) if kind is NetworkConfig else (kind,)
    if not isinstance(made, expected) and callable(made):
        try:
            made = made()
        except REFUSALS as error:
            raise UserError(f"{path}: {error}") from error
        except Exception as error:
            raise UserError(f"{path}: {_told(error)}; mend the function") from error
    if not isinstance(made, expected):
        names = [each.__name__ for each in expected]
        raise UserError(
            f"{path} must be a {' or a '.join(names)}, or a function without arguments that "
            f"returns one, not {type(made).__name__}"
        )
    # The class of networks is not one that hooks make.
    result: Any = made
    if expected != (kind,):
        result = NetworkConfig.of_hook(path, result)
    return cast(T, result)


def _module(name: str, path: str) -> Any:
    # A program that is installed does not have the working folder on its path.
    sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"{path}: there is no module {error.name}; run the command in its folder, or "
                "install it"
            ) from error
        raise UserError(f"{path}: {_told(error)}; install what it imports") from error
    except Exception as error:
        raise UserError(f"{path}: {_told(error)}; mend the module") from error
    finally:
        sys.path.pop(0)


def _told(error: Exception) -> str:
    """An error of the user's code, with the line that it is from."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
