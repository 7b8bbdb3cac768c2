"""A codec is named in its folder and in the registries; whoever else needs one asks there."""

import io
import re
import tokenize
from pathlib import Path

import pytest

from cdma.hw.codec import registry

# They read all sources.
pytestmark = pytest.mark.always

ROOT = Path(__file__).parents[3]
ROOMS = ("hw", "golden", "sim", "plan", "synth", "cdma/commands")

NAMES = tuple(name for name in registry.codec_names() if name != registry.copy_codec().name)
"""The plain copies' `raw` is an English word, and not looked for."""

OWN = tuple(
    folder
    for name in NAMES
    for folder in (
        f"hw/codec/{name}/",
        *(f"golden/formats/{lossy}{name}{end}" for lossy in ("", "lossy/") for end in "/._"),
    )
)

NAMED = re.compile(
    "|".join(
        # Two letters stand in other words, too.
        f"(?i:{name})"
        if len(name) > 2
        else f"(?<![a-zA-Z])(?i:{name})(?![a-z0-9])|{name.capitalize()}(?![a-z])"
        for name in NAMES
    )
)

ALLOWED = {
    # Registries and presets.
    "hw/codec/registry.py": "the registry of line codecs",
    "golden/formats/registry.py": "the registry of formats",
    "hw/components.py": "the registry of components",
    "hw/config.py": "the presets' codecs, and the configuration of Buddy's entries",
    # Buddy's entries have a format of their own, the shorter of BPC and ZVC (Buddy, §2.4), or XC.
    "golden/buddy/entry.py": "the entry's format",
    "golden/buddy/xc_entry.py": "the entry's format",
    "golden/buddy/address_map.py": "parameters of the entry's format in the page table",
    "golden/buddy/memory.py": "parameters of the entry's format",
    "hw/buddy/address/slots.py": "the entry's metadata",
    "hw/buddy/write/write_back.py": "the entry's metadata",
    "hw/codec/entry/best_of_three.py": "the entry's codec",
    "hw/codec/entry/checker.py": "the entry's codec",
    "hw/codec/entry/compressor.py": "the entry's codec",
    "hw/codec/entry/payloads.py": "parameters of the entry's format",
    "hw/codec/entry/sectors.py": "the entry's codec",
    "hw/codec/entry/xc/compressor.py": "the entry's codec",
    "hw/codec/entry/xc/decompressor.py": "the entry's codec",
    "plan/buddy/profile.py": "the entry's metadata",
    "sim/buddy/content.py": "parameters of the entry's format",
    "sim/driver/buddy/driver.py": "parameters of the entry's format",
    "plan/buddy/page_parameters.py": "parameters of the entry's format",
    "cdma/commands/buddy/profile.py": "options of the entry's format",
    "cdma/commands/buddy/profile_report.py": "the entry's format",
    # The self-test on FPGAs and the measurements of gates and power are about one pair of blocks.
    "hw/selftest/loop.py": "the self-test of ZVC's blocks",
    "synth/gates/clock.py": "the clock of ZVC's blocks",
    "synth/power/codec_bench.py": "the power of ZVC's blocks",
    "cdma/commands/synth/report.py": "the area of ZVC's blocks beside the paper's",
    "cdma/commands/generate.py": "options of ZVC's blocks",
    "cdma/commands/compress.py": "options of XC's golden format",
    "golden/formats/rounding.py": "element formats, which XC's folder lists",
    "golden/formats/lossy/power_of_two.py": "the arithmetic of a format",
    "golden/formats/lossy/zfp.py": "a message",
    # Models of codecs that are not the engine's, and the policies of papers that chose ZVC.
    "plan/calibration/codecs.py": "software codecs that are timed",
    "plan/platform/codec_rates.py": "software codecs, ZVC on multiprocessors and hosts among them",
    "plan/policies/cdma.py": "the paper's policy",
    "plan/policies/comet/policy.py": "the paper's codec",
    "plan/policies/cswap/learned.py": "the paper's codecs",
    "plan/policies/joint.py": "choices of a policy",
    "plan/policies/static.py": "choices of a policy",
    "plan/policies/vdnn_pp.py": "the paper's policy",
    "plan/training/schemes.py": "the paper's codec",
    "plan/timeline/scenario.py": "an example in a message",
    "sim/swap/saved_tensors.py": "PyTorch's quantized tensors",
    "sim/execute/codec_samples.py": "host codecs that are measured",
}
"""Files that may name a codec, each with its reason."""


def named_in(text):
    """The tokens that name a codec; comments and docstrings do not count."""
    found = []
    previous = tokenize.NEWLINE
    skipped = (tokenize.COMMENT, tokenize.NL)
    begins = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in skipped:
            continue
        docstring = token.type == tokenize.STRING and previous in begins
        previous = token.type
        if docstring or token.type not in (tokenize.NAME, tokenize.STRING):
            continue
        if NAMED.search(token.string):
            found.append(token.string)
    return found


def sources():
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path


def test_no_other_file_names_a_codec():
    naming = {
        name for name, path in sources() if not name.startswith(OWN) and named_in(path.read_text())
    }
    assert naming - ALLOWED.keys() == set()


def test_every_exception_is_still_needed():
    assert {name for name in ALLOWED if not named_in((ROOT / name).read_text())} == set()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('"""ZVC."""\n# ZVC\n', []),
        ('codec = "zvc"\n', ['"zvc"']),
        ("from hw.zvc.codec import Zvc\n", ["zvc", "Zvc"]),
        ('def f():\n    """Zvc."""\n    return ZVC_FLAG\n', ["ZVC_FLAG"]),
        (
            'codec = "xc"\nfrom x import XcCompressor, xc_lines\n',
            ['"xc"', "XcCompressor", "xc_lines"],
        ),
        ("raise Exceeds(excess, AxCACHE)\n", []),
    ],
)
def test_a_name_is_found_in_code_only(text, names):
    assert named_in(text) == names
