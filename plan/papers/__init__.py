"""The figures that the five papers print, transcribed once.

Each paper has a file here, of the name of its text: whole tables, and figures of its prose with the
sentences that they stand in, each with the line of the text. Whatever else needs a printed number
takes it from here. `tests/plan/papers/test_papers.py` reads the texts a second time, on its own.
"""

from cdma.plan.papers.printed import PAPERS, Figure, Printed, PrintedTable, Quote, printed

__all__ = ["PAPERS", "Figure", "Printed", "PrintedTable", "Quote", "printed"]
