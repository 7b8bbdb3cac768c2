"""Networks of the swap schedulers' papers, one file each, at the batches that the papers use."""

from collections.abc import Callable
from dataclasses import dataclass

from cdma.plan.workload.builder import Builder
from cdma.plan.workload.capture.digits_cnn import PROBE_IMAGES
from cdma.plan.workload.layers import GraphError
from cdma.plan.workload.networks import batches
from cdma.plan.workload.networks.alexnet import alexnet
from cdma.plan.workload.networks.biglstm import biglstm
from cdma.plan.workload.networks.digits_cnn import digits_cnn
from cdma.plan.workload.networks.googlenet import googlenet
from cdma.plan.workload.networks.inceptionv3 import inceptionv3
from cdma.plan.workload.networks.mobilenet import mobilenet
from cdma.plan.workload.networks.nin import nin
from cdma.plan.workload.networks.overfeat import overfeat
from cdma.plan.workload.networks.plain20 import plain20
from cdma.plan.workload.networks.resnet50 import resnet50
from cdma.plan.workload.networks.squeezenet import squeezenet
from cdma.plan.workload.networks.transformers.dit import dit_xl2
from cdma.plan.workload.networks.transformers.gpt import gpt2, gpt2_xl, gpt3_6_7b
from cdma.plan.workload.networks.transformers.llama import llama3_8b
from cdma.plan.workload.networks.transformers.olmoe import olmoe
from cdma.plan.workload.networks.transformers.vit import vit_b16
from cdma.plan.workload.networks.vgg16 import vgg16
from cdma.plan.workload.table import Table

__all__ = ["NETWORKS", "Network", "build"]


@dataclass(frozen=True)
class Network:
    """A network's builder, and how it is usually trained.

    Attributes
    ----------
    write : callable
    batches : dict of str to int
        The usual batch for each dataset, the usual one first.
    precision : str
        One of `cdma.plan.workload.table.PRECISIONS`.
    optimizer : str
        One of `cdma.plan.workload.optimizer.OPTIMIZERS`.
    """

    write: Callable[[Builder, str], None]
    batches: dict[str, int]
    precision: str = "fp32"
    optimizer: str = "momentum"

    def table(
        self,
        name: str,
        batch: int | None = None,
        dataset: str | None = None,
        activation: str = "relu",
        precision: str | None = None,
    ) -> Table:
        """The network's table; `build` describes the arguments. The name is for messages."""
        if dataset is None:
            dataset = next(iter(self.batches))
        if dataset not in self.batches:
            raise GraphError(
                f"{name} has no shape for dataset {dataset!r}; name one of "
                f"{', '.join(self.batches)}"
            )
        net = Builder(
            self.batches[dataset] if batch is None else batch,
            activation,
            self.precision if precision is None else precision,
        )
        self.write(net, dataset)
        return net.table()


_CIFAR = batches.CSWAP["cifar", "v100"]
_IMAGENET = batches.CSWAP["imagenet", "v100"] | batches.CDMA

NETWORKS = {
    "alexnet": Network(alexnet, {"imagenet": _IMAGENET["alexnet"], "cifar": _CIFAR["alexnet"]}),
    "overfeat": Network(overfeat, {"imagenet": _IMAGENET["overfeat"]}),
    # No paper here trains NiN on CIFAR; 128 is its authors'.
    "nin": Network(nin, {"imagenet": _IMAGENET["nin"], "cifar": 128}),
    "vgg16": Network(vgg16, {"imagenet": _IMAGENET["vgg16"], "cifar": _CIFAR["vgg16"]}),
    "squeezenet": Network(
        squeezenet, {"imagenet": _IMAGENET["squeezenet"], "cifar": _CIFAR["squeezenet"]}
    ),
    "googlenet": Network(googlenet, {"imagenet": _IMAGENET["googlenet"]}),
    "resnet50": Network(resnet50, {"imagenet": _IMAGENET["resnet50"], "cifar": _CIFAR["resnet50"]}),
    # For ImageNet, 32 is of Inception v3's authors (§8), per GPU.
    "inceptionv3": Network(
        inceptionv3, {"imagenet": 32, "cifar": batches.HOME["inceptionv3"].pytorch}
    ),
    "mobilenet": Network(
        mobilenet, {"imagenet": _IMAGENET["mobilenet"], "cifar": _CIFAR["mobilenet"]}
    ),
    "plain20": Network(plain20, {"cifar": _CIFAR["plain20"], "imagenet": _IMAGENET["plain20"]}),
    # Jozefowicz et al. 2016, §4: 128 sequences per GPU.
    "biglstm": Network(biglstm, {"lm1b": 128}),
    "digits_cnn": Network(digits_cnn, {"digits": PROBE_IMAGES}),
    # Batches of transformers are ours, per device; their papers print those of a whole cluster.
    "gpt2": Network(gpt2, {"text": 16}, "bf16", "adam"),
    "gpt2-xl": Network(gpt2_xl, {"text": 8}, "bf16", "adam"),
    "gpt3-6.7b": Network(gpt3_6_7b, {"text": 4}, "bf16", "adam"),
    "llama3-8b": Network(llama3_8b, {"text": 1}, "bf16", "adam"),
    "olmoe": Network(olmoe, {"text": 4}, "bf16", "adam"),
    "vit-b16": Network(vit_b16, {"imagenet": 128}, "bf16", "adam"),
    "dit-xl2": Network(dit_xl2, {"imagenet": 32}, "bf16", "adam"),
}
"""By name. Batches are those of cDMA's Table II, else of CSWAP+'s Table 3 on a V100, unless said
otherwise."""


def find(name: str) -> Network:
    """The network of that name; `GraphError`, with those there are, if there is none."""
    if name not in NETWORKS:
        raise GraphError(f"unknown network {name!r}; name one of {', '.join(NETWORKS)}")
    return NETWORKS[name]


def build(
    name: str,
    batch: int | None = None,
    dataset: str | None = None,
    activation: str = "relu",
    precision: str | None = None,
) -> Table:
    """A network's table.

    Parameters
    ----------
    name : str
        One of `NETWORKS`.
    batch : int, optional
        Images or sequences; by default the network's usual batch.
    dataset : str, optional
        `imagenet`, `cifar` or the network's own; by default its usual one.
    activation : str
        `relu`, or `leaky_relu` for the variant with dense activations (CSWAP+, §6.1).
    precision : str, optional
        One of `cdma.plan.workload.table.PRECISIONS`; by default the network's usual one.

    Raises
    ------
    GraphError
        There is no such network, dataset, activation or precision, which lists those that there
        are; or the batch is not positive.
    """
    return find(name).table(name, batch, dataset, activation, precision)
