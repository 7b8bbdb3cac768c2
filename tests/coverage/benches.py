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
    "ring_errors",
    "early_stops",
    "settings",
    "places",
    "long_transfers",
    "descriptor_limits",
    "aborts",
    "small_transfers",
    "streams",
)
"""Tests of transfers and of their faults, in an engine of two units."""

BENCHES: dict[str, list[str]] = {
    "zvc": [
        *QUICK,
        "tests/sim/machine/pipeline/test_zvc_pipeline.py",
        "tests/sim/machine/pipeline/test_zvc_malformed.py",
    ],
    "zvc_bytes": [
        "tests/sim/machine/pipeline/test_zvc_pipeline.py",
        "tests/sim/machine/pipeline/test_zvc_malformed.py",
        "-k",
        "1B-elements-32B-sectors",
    ],
    "engine": [
        *QUICK,
        *(f"tests/sim/machine/engine/test_{name}.py" for name in ENGINE),
        "tests/sim/driver/test_random_machine.py",
        "-k",
        # Assertions are left out, and one part of the random programs is enough.
        "not failed_assertion and (not two or two-units-0 or (two and units and not random_progr))",
    ],
    "rings": [
        *QUICK,
        "tests/sim/machine/engine/test_rings.py",
        "tests/sim/machine/engine/test_ring_isolation.py",
        "tests/sim/machine/engine/test_register_bits.py",
        "tests/sim/machine/engine/test_places.py",
        "-k",
        "four or pages or sleep_until or anything",
    ],
    "clocks": [
        *QUICK,
        "tests/sim/machine/engine/test_host_clock.py",
        "-k",
        "byte or amid or error",
    ],
    "far": [
        *QUICK,
        "tests/sim/machine/engine/test_places_of_two_clocks.py",
    ],
    "xc_samples": ["tests/hw/codec/xc/test_samples.py"],
    "xc": ["tests/hw/codec/xc/test_engine.py", "-k", "one-unit"],
    "xc_units": [
        "tests/hw/codec/xc/test_engine.py",
        "-k",
        "stalled and (goes_out or any_place or sampled or malformed)",
    ],
    "xc_blocks": [
        "tests/hw/codec/xc/test_pipelines.py",
        "-k",
        "bf16-32 and stalls",
    ],
    "quantize": ["tests/hw/codec/quantize/test_engine.py"],
    "quantize_blocks": [
        "tests/hw/codec/quantize/test_verilated.py",
        "-k",
        "32-32 or (damaged and 32)",
    ],
    "buddy": [
        *QUICK,
        "tests/sim/machine/buddy/test_faults.py",
        "tests/sim/machine/buddy/test_register_bits.py",
        "tests/sim/machine/buddy/test_places.py",
        "tests/sim/buddy/test_entries.py",
        "tests/sim/buddy/test_damaged_entries.py",
        "tests/sim/driver/test_buddy_driver.py",
        "-k",
        "not three",
    ],
    "buddy_three": [
        *QUICK,
        "tests/sim/buddy/test_entries.py",
        "tests/sim/buddy/test_damaged_entries.py",
        "-k",
        "three",
    ],
    "buddy_bpc": ["tests/sim/buddy/test_damaged_entries.py", "-k", "bpc"],
    "buddy_metadata": [
        "tests/sim/machine/buddy/test_places.py",
        "tests/sim/machine/buddy/test_faults.py",
        "-k",
        "slices",
    ],
    "buddy_slices": ["tests/hw/cocotb/buddy/test_buddy.py", "-k", "other and slices"],
    "buddy_manager": [
        "tests/hw/cocotb/buddy/test_buddy.py",
        "-k",
        "not power_up and not other and not stalls",
    ],
}
"""Arguments of pytest."""
