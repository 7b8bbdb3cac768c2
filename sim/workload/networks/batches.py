"""Batches that the papers print, by this package's names of networks."""

from typing import NamedTuple

CDMA = {
    "alexnet": 256,
    "overfeat": 256,
    "nin": 128,
    "vgg16": 128,
    "squeezenet": 512,
    "googlenet": 256,
}
"""cDMA, Table II: training on ImageNet."""

CSWAP = {
    ("cifar", "v100"): {
        "alexnet": 2560,
        "vgg16": 2560,
        "mobilenet": 2560,
        "plain20": 2560,
        "resnet50": 2560,
        "squeezenet": 2560,
    },
    ("imagenet", "v100"): {
        "alexnet": 512,
        "vgg16": 128,
        "mobilenet": 128,
        "plain20": 32,
        "resnet50": 64,
        "squeezenet": 512,
    },
    ("cifar", "2080ti"): {
        "alexnet": 2560,
        "vgg16": 2560,
        "mobilenet": 1280,
        "plain20": 1024,
        "resnet50": 1280,
        "squeezenet": 1280,
    },
    ("imagenet", "2080ti"): {
        "alexnet": 256,
        "vgg16": 32,
        "mobilenet": 128,
        "resnet50": 16,
        "squeezenet": 128,
    },
}
"""CSWAP+, Table 3, by dataset and GPU. "ResNet" has no depth in print; ResNet-50 stands for it."""


class LargestBatches(NamedTuple):
    """The largest batch that fits into 11 GB, by what manages the memory."""

    pytorch: int
    capuchin: int
    home: int


HOME = {
    "mobilenet": LargestBatches(2012, 3954, 4200),
    "plain20": LargestBatches(1040, 2843, 2926),
    "squeezenet": LargestBatches(1667, 4056, 4347),
    "vgg16": LargestBatches(2759, 4250, 5125),
    "resnet50": LargestBatches(1255, 2014, 2576),
    "inceptionv3": LargestBatches(125, 345, 365),
}
"""HOME, Table 2: CIFAR on a 2080 Ti. Of "ResNet", the same holds."""
