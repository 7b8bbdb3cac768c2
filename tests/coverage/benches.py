"""The benches that coverage is counted in: tests as they are, by what they simulate."""

QUICK = ("-m", "not verify and not torch")
ENGINE = (
    "bad_descriptors",
    "bus_errors",
    "faults",
    "overflow",
    "verification",
    "timeouts",
    "windows",
)
"""Tests of transfers and of their faults, in an engine of two units."""

BENCHES: dict[str, list[str]] = {
    "zvc": [
        *QUICK,
        "tests/sim/machine/pipeline/test_zvc_pipeline.py",
        "tests/sim/machine/pipeline/test_zvc_malformed.py",
    ],
    "engine": [
        *QUICK,
        *(f"tests/sim/machine/engine/test_{name}.py" for name in ENGINE),
        "tests/sim/driver/test_random_machine.py",
        # The others repeat themselves.
        *("-k", "not test_random_programs or two-units-0"),
    ],
    "options": ["tests/sim/driver/test_random_configs.py", "-k", "four-rings or two-clocks"],
    "quantize": ["tests/hw/codec/quantize/test_engine.py"],
    "buddy": [*QUICK, "tests/sim/machine/buddy/test_faults.py", "tests/sim/buddy/test_entries.py"],
}
"""Arguments of pytest."""

VERIFIED = ("zvc", "engine")
"""Those that `make verify` runs."""
