"""Netlists of components: `python -m tests.mutation.netlists [NAME:CONFIG[:HASH]]...` prints JSON.

It ends after the first whose hash is not the one that was given.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

from amaranth.back import rtlil

from cdma.hw.codec.interface import CodecParameterError
from cdma.hw.components import COMPONENTS, find_component
from cdma.hw.config import ConfigError
from cdma.hw.emit.fast_conversion import fast_conversion
from tests.lib.paths import ROOT

_SRC = re.compile(r'^ *attribute \\src "(.*)"\n', re.M)
_FILE = re.compile(r"([^|\"]*?\.py):\d+")


def netlist(name: str, config: str) -> tuple[str, list[str]] | None:
    """A component's hash, and the files of `hw` that its lines come from; None if it cannot be."""
    component = find_component(name)
    try:
        made = component.make(component.config(config))
    except (ConfigError, CodecParameterError):
        # Some codecs have no such lines.
        return None
    with fast_conversion():
        text = rtlil.convert(made, name=component.top)
    files = {Path(file).resolve() for src in _SRC.findall(text) for file in _FILE.findall(src)}
    own = [str(file.relative_to(ROOT)) for file in files if file.is_relative_to(ROOT / "hw")]
    return hashlib.sha256(_SRC.sub("", text).encode()).hexdigest(), sorted(own)


def all_shapes() -> list[str]:
    """Every component in its smallest shape, and parts in the usual one, too; wholes come last."""
    shapes = []
    for name in sorted(COMPONENTS, key=lambda name: find_component(name).is_whole):
        component = find_component(name)
        usual = () if component.is_whole else (component.family.default,)
        shapes += [f"{name}:{config}" for config in dict.fromkeys(("tiny", *usual))]
    return shapes


def main(shapes: list[str]) -> None:
    found = {}
    for shape in shapes or all_shapes():
        name, config, *healthy = shape.split(":")
        one = netlist(name, config)
        if one is not None:
            found[f"{name}:{config}"] = one
        if healthy and (one is None or one[0] != healthy[0]):
            break
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
