"""Hooks in the place of files: `module:function`, for what is easier said in Python."""

from typing import Any, TypeVar, cast

from cdma.config.network import NetworkConfig
from cdma.config.values import REFUSALS
from cdma.errors import UserError
from cdma.hooks import named_object, told
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.networks import Network

T = TypeVar("T")


def load_hook(kind: type[T], path: str) -> T:
    """The object of a class that `module:name` is, or that the function of that name returns.

    Raises
    ------
    UserError
        There is no such module or name, its function raises something, or what it is or returns is
        of another class.
    """
    made = named_object(path)
    expected: tuple[type, ...] = (Network, Graph) if kind is NetworkConfig else (kind,)
    if not isinstance(made, expected) and callable(made):
        try:
            made = made()
        except REFUSALS as error:
            raise UserError(f"{path}: {error}") from error
        except Exception as error:
            raise UserError(f"{path}: {told(error)}; mend the function") from error
    if not isinstance(made, expected):
        names = [each.__name__ for each in expected]
        raise UserError(
            f"{path} must be of class {' or '.join(names)}, or a function without arguments that "
            f"returns one, not {type(made).__name__}"
        )
    # The class of networks is not one that hooks make.
    result: Any = made
    if expected != (kind,):
        result = NetworkConfig.of_hook(path, result)
    return cast(T, result)
