"""The checkout's location: documents and data that tests read."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
