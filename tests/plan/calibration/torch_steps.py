"""Training steps of whole networks, to be timed beside their plans.

`cdma calibrate --step tests.plan.calibration.torch_steps:NAME` takes them, on a GPU of 40 GB.
"""

import torch
from torch import nn
from torch.nn import functional

from cdma.plan.training.subject import Subject, with_loss
from cdma.plan.workload.networks.transformers import gpt, vit
from tests.plan.workload.torch_networks import resnet50 as resnet50_module
from tests.plan.workload.torch_networks import vgg16 as vgg16_module
from tests.plan.workload.torch_transformers import GPT, ViT

CLASSES = 1000


def resnet50() -> Subject:
    return _of_images(resnet50_module("imagenet"), 128)


def vgg16() -> Subject:
    return _of_images(vgg16_module("imagenet"), 128)


def vit_b16() -> Subject:
    torch.manual_seed(0)
    rows = torch.randn(64, vit.PATCHES, vit.PIXELS)
    return with_loss(ViT(), rows, functional.nll_loss, torch.randint(CLASSES, (64,)))


def gpt2() -> Subject:
    torch.manual_seed(0)
    model = GPT(gpt.GPT2)
    tokens = torch.randint(model.wte.num_embeddings, (8, gpt.GPT2.length))
    return with_loss(model, tokens, _next_token, tokens.roll(-1, 1))


def _of_images(module: nn.Module, batch: int) -> Subject:
    torch.manual_seed(0)
    images = torch.randn(batch, 3, 224, 224)
    return with_loss(module, images, functional.cross_entropy, torch.randint(CLASSES, (batch,)))


def _next_token(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return functional.nll_loss(output.flatten(0, 1), target.flatten())
