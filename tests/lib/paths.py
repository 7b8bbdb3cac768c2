"""Where the checkout is: documents and data that tests read."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
