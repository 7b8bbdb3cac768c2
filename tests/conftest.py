"""What holds for all tests."""

pytest_plugins = ["tests.lib.proofs", "tests.lib.verdicts"]
