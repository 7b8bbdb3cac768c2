"""Text to train and probe language models on: the descriptions of scikit-learn's data sets."""

from importlib.resources import files

from cdma.plan.workload.capture.recorder import require


def english() -> str:
    """Some 40,000 characters of English about data, tables and references among them."""
    folder = files(require("sklearn.datasets")).joinpath("descr")
    pages = sorted(
        (page for page in folder.iterdir() if page.name.endswith(".rst")),
        key=lambda page: page.name,
    )
    return "".join(page.read_text("utf-8") for page in pages)
