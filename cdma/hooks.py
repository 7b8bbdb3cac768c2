"""Hooks: a Python object of the user's own, named as `package.module:name`."""

import os
import re
import sys
import traceback
from importlib import import_module
from typing import Any

from cdma.errors import UserError

_HOOK = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def is_hook(text: str) -> bool:
    """Return True for what is written as `package.module:name`."""
    return _HOOK.fullmatch(text) is not None


def named_object(path: str) -> Any:
    """The object that a hook names; modules are found as Python finds them, and in this folder.

    Raises
    ------
    UserError
        It is not written so, there is no such module or name, or the module fails.
    """
    if not is_hook(path):
        raise UserError(f"{path!r} is no hook; write it as package.module:function")
    module_name, _, name = path.partition(":")
    # A program that is installed does not have the working folder on its path. It stays there, as a
    # function may import what it needs when it is called.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise UserError(
                f"{path}: there is no module {error.name}; run the command in its folder, or "
                "install it"
            ) from error
        raise UserError(f"{path}: {told(error)}; install what it imports") from error
    except Exception as error:
        # The user's module may fail in any way while it is imported.
        raise UserError(f"{path}: {told(error)}; mend the module") from error
    if not hasattr(module, name):
        names = [each for each in vars(module) if not each.startswith("_")]
        raise UserError(
            f"{path}: {module_name} has no {name!r}; define it, or name one of "
            f"{', '.join(names) or 'another module'}"
        )
    return getattr(module, name)


def told(error: Exception) -> str:
    """An error of the user's code in a line, with the place that it is from."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
