"""Batches that the papers print, by this package's names of networks."""

from typing import Any, NamedTuple

from cdma.plan.papers import printed

_NAMES = {
    "AlexNet": "alexnet",
    "OverFeat": "overfeat",
    "NiN": "nin",
    "VGG": "vgg16",
    "VGG16": "vgg16",
    "SqueezeNet": "squeezenet",
    "GoogLeNet": "googlenet",
    "MobileNet": "mobilenet",
    "Plain20": "plain20",
    # It has no depth in print; ResNet-50 stands for it.
    "ResNet": "resnet50",
    "InceptionV3": "inceptionv3",
}


def by_network(column: dict[str, Any]) -> dict[str, Any]:
    """A column of a printed table, by our names of networks instead of the printed ones."""
    return {_NAMES[name]: cell for name, cell in column.items()}


CDMA: dict[str, int] = by_network(printed("cdma").tables["II"].column("batch"))
"""cDMA, Table II: training on ImageNet."""

CSWAP: dict[tuple[str, str], dict[str, int]] = {
    (dataset, device): by_network(printed("cswap_plus").tables["3"].column(f"{dataset}_{device}"))
    for device in ("v100", "2080ti")
    for dataset in ("cifar", "imagenet")
}
"""CSWAP+, Table 3, by dataset and GPU."""


class LargestBatches(NamedTuple):
    """The largest batch that fits into 11 GB, by what manages the memory."""

    pytorch: int
    capuchin: int
    home: int


HOME = {
    name: LargestBatches(*row[:3])
    for name, row in by_network(dict(printed("home").tables["2"].rows)).items()
}
"""HOME, Table 2: CIFAR on a 2080 Ti."""
