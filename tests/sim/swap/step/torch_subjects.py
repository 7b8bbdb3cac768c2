"""Small training steps of the networks that plans are carried out on."""

from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional

from cdma.plan.training.subject import Subject, with_loss
from cdma.plan.workload.networks.transformers.gpt import Shape
from tests.plan.workload.torch_transformers import GPT, GroupedAttention, SwiGLU

VOCABULARY = 100


class LlamaBlock(nn.Module):
    """Attention with fewer keys than queries and rotary positions, and SwiGLU."""

    def __init__(self, columns: int, heads: int, hidden: int, length: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(columns), nn.RMSNorm(columns)
        self.attention = GroupedAttention(columns, heads, heads // 2, length)
        self.feed_forward = SwiGLU(columns, hidden)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


class Residual(nn.Module):
    """ResNet's basic block; ReLU works in place."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn_1 = nn.BatchNorm2d(outputs)
        self.conv_2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn_2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        shortcut = (nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Sequential(*shortcut) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.relu(self.bn_1(self.conv_1(x)))
        y = self.bn_2(self.conv_2(y))
        y += self.shortcut(x)
        return self.relu(y)


def _next_token(output, target):
    return functional.nll_loss(output.flatten(0, 1).log_softmax(-1), target.flatten())


def gpt(batch: int = 4, *, layers: int = 2) -> Subject:
    """A GPT with dropout and tied weights."""
    torch.manual_seed(0)
    shape = Shape(layers=layers, columns=64, heads=4, length=32)
    model = GPT(shape, vocabulary=VOCABULARY, dropout=0.1)
    tokens = torch.randint(VOCABULARY, (batch, shape.length))
    return with_loss(model, tokens, _next_token, tokens.roll(-1, 1))


def llama(batch: int = 4, *, layers: int = 2) -> Subject:
    """A stack of Llama's blocks, which gets rows and returns rows."""
    torch.manual_seed(0)
    shape = SimpleNamespace(columns=64, heads=4, hidden=128, length=32)
    model = nn.Sequential(
        *(
            LlamaBlock(shape.columns, shape.heads, shape.hidden, shape.length)
            for _ in range(layers)
        ),
        nn.RMSNorm(shape.columns),
    )
    rows = torch.randn(batch, shape.length, shape.columns)
    return with_loss(model, rows, functional.mse_loss, torch.randn_like(rows))


def resnet(batch: int = 8) -> Subject:
    """A ResNet with batch normalization, whose buffers the step changes."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        *(Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 32, 1), Residual(32, 64, 2)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    images = torch.randn(batch, 3, 32, 32)
    return with_loss(model, images, functional.cross_entropy, torch.randint(10, (batch,)))


SUBJECTS = {"gpt": gpt, "llama": llama, "resnet": resnet}
