"""Ratios and phases of two clocks, between which something crosses."""

CLOCKS = {
    "alike": (10.0, 10.0, 0.0),
    "shifted": (10.0, 10.0, 3.3),
    "just-behind": (10.0, 10.0, 0.1),
    "just-before": (10.0, 10.0, 9.9),
    "nearly-alike": (10.0, 10.07, 2.0),
    "fast-to-slow": (3.0, 10.0, 1.0),
    "slow-to-fast": (10.0, 3.0, 1.0),
    "very-fast-to-slow": (1.0, 17.3, 0.7),
    "very-slow-to-fast": (17.3, 1.0, 0.7),
    "seven-to-five": (7.0, 5.0, 0.0),
}
"""Periods of the first and of the second clock, and how much later the latter begins, in ns."""

USUAL = ["shifted", "fast-to-slow", "slow-to-fast"]
"""Those of `make test`."""
