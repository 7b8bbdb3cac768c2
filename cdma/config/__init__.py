"""Configurations that users write: files, hooks and earlier results in the place of a name.

Every option that takes a name (`--config`, `--machine`, `--device`, `--link`, `--throttle`,
`--network`) takes one of these, and `find` turns each into the same checked dataclass:

================== ===============================================================================
`titanx_gen3`      a name; `cdma list` prints all
`engine.toml`      a table `[engine]`, `[machine]`, `[device]`, …, of which a file may have several
`module:function`  a Python object of the kind's class, or a function that returns one
`result.json`      what a command printed with `--json`: its key `configuration` has the tables
================== ===============================================================================
"""

from cdma.config.kinds import (
    BUDDY,
    DEVICE,
    ENGINE,
    KINDS,
    LINK,
    MACHINE,
    NETWORK,
    THROTTLE,
    Kind,
)
from cdma.config.network import NetworkConfig
from cdma.config.resolve import Found, find
from cdma.config.setups import EngineSetup, engine_setup
from cdma.config.writer import as_toml, table_of, tables_of

__all__ = [
    "BUDDY",
    "DEVICE",
    "ENGINE",
    "KINDS",
    "LINK",
    "MACHINE",
    "NETWORK",
    "THROTTLE",
    "EngineSetup",
    "Found",
    "Kind",
    "NetworkConfig",
    "as_toml",
    "engine_setup",
    "find",
    "table_of",
    "tables_of",
]
