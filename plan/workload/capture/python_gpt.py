"""The subject of the shipped capture `python-gpt`: GPT-2's shape in bf16 on source code, on a GPU.

Twelve blocks, 768 wide, predict the next byte of Python's standard library from up to 1,024 before
it. As in today's training, parameters, activations and gradients are bf16, and the optimizer has
parameters and moments of its own in float32. Attention is one operator, so its probabilities are
never in memory. Of each tensor the last places of the probe, or the first rows, are kept.
"""

import sysconfig
from pathlib import Path
from typing import Any

from cdma.plan.workload.capture.capture import CaptureError
from cdma.plan.workload.capture.recorder import Subject, require
from cdma.plan.workload.capture.training_state import (
    outputs_with_gradients,
    weights_and_moments,
)

BLOCKS = 12
WIDTH = 768
HEADS = 12
CONTEXT = 1024
CODES = 256

EPOCH_STEPS = 500
KEPT_EPOCHS = (5, 6)
BATCH = 16
LEARNING_RATE = 6e-4
WARM_UP = 200
LONGEST_GRADIENT = 1.0

KEPT_BLOCKS = (0, BLOCKS - 1)
KEPT_OUTPUTS = ("attention_norm", "key", "value", "gelu")
KEPT_WEIGHTS = (f"blocks.{BLOCKS - 1}.key", f"blocks.{BLOCKS - 1}.up")
KEPT_PLACES = 32
KEPT_ROWS = 48


def subject() -> Subject:
    """Network, minibatch and training of the capture `python-gpt`.

    Raises
    ------
    CaptureError
        PyTorch finds no GPU: a processor would take days.
    """
    torch = require("torch")
    if not torch.cuda.is_available():
        raise CaptureError(
            "the network of python-gpt is trained on a GPU, and PyTorch finds none; capture "
            "tiny-gpt instead, or load the shipped one"
        )
    return subject_on("cuda")


def subject_on(device: str) -> Subject:
    """The same on a device as PyTorch names it."""
    torch = require("torch")
    run = _Run(torch, device)
    return Subject(
        model=run.model,
        probe=run.probe[0],
        train_epoch=run.train_epoch,
        epochs=KEPT_EPOCHS,
        modules=[f"blocks.{block}.kept_{name}" for block in KEPT_BLOCKS for name in KEPT_OUTPUTS],
        allocations=run.allocations,
        recipe={
            "network": f"GPT-2's shape over bytes: {BLOCKS} blocks, {WIDTH} wide, {HEADS} heads, "
            f"a context of {CONTEXT}; {sum(p.numel() for p in run.model.parameters()):,} "
            "parameters in bf16, with the optimizer's own in float32",
            "data": "the modules of Python's standard library, in the order of their paths",
            "bytes": run.text.numel(),
            "probe": f"the first {CONTEXT} bytes, in training mode; kept are its last "
            f"{KEPT_PLACES} places, and {KEPT_ROWS} rows of weights",
            "optimizer": f"AdamW, learning rate {LEARNING_RATE} after {WARM_UP} steps, gradients "
            f"no longer than {LONGEST_GRADIENT}, minibatches of {BATCH}, {EPOCH_STEPS} steps to "
            "an epoch",
            "device": torch.cuda.get_device_name() if device == "cuda" else device,
        },
    )


def library_sources() -> bytes:
    """Python's standard library as one text, without tests and installed packages."""
    top = Path(sysconfig.get_path("stdlib"))
    left_out = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
    paths = [
        path
        for path in sorted(top.rglob("*.py"))
        if left_out.isdisjoint(path.relative_to(top).parts)
    ]
    return b"\n".join(path.read_bytes() for path in paths)


class _Run:
    """A network in training."""

    def __init__(self, torch: Any, device: str) -> None:
        self._torch = torch
        self._device = device
        self.text = torch.frombuffer(bytearray(library_sources()), dtype=torch.uint8)
        self.text = self.text.to(device).long()
        self.model = network(torch).to(device)
        self.probe = self._texts(torch.zeros(1, dtype=torch.long, device=device))
        self._parameters = list(self.model.parameters())
        self._own = [parameter.detach().float() for parameter in self._parameters]
        self._optimizer = torch.optim.AdamW(self._own, lr=LEARNING_RATE, weight_decay=0.1)
        self._steps = 0

    def train_epoch(self, _epoch: int) -> dict[str, float]:
        self.model.train()
        summed_loss = self._torch.zeros((), device=self._device)
        for _ in range(EPOCH_STEPS):
            starts = self._torch.randint(
                len(self.text) - CONTEXT - 1, (BATCH,), device=self._device
            )
            loss = self._loss(*self._texts(starts))
            loss.backward()
            self._step()
            summed_loss += loss.detach()
        return {"loss": float(summed_loss) / EPOCH_STEPS}

    def _step(self) -> None:
        torch = self._torch
        for own, parameter in zip(self._own, self._parameters, strict=True):
            own.grad = parameter.grad.float()
            parameter.grad = None
        torch.nn.utils.clip_grad_norm_(self._own, LONGEST_GRADIENT)
        self._steps += 1
        for group in self._optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, self._steps / WARM_UP)
        self._optimizer.step()
        with torch.no_grad():
            for own, parameter in zip(self._own, self._parameters, strict=True):
                parameter.copy_(own)

    def allocations(self) -> dict[str, Any]:
        """What a step on the probe has in memory beside outputs of modules. Trains nothing.

        By layer the `weights` and their `gradients` in bf16, and Adam's mean (`adam_m`) and mean of
        squares (`adam_v`) in float32; and the gradients by the outputs of GELU.
        """
        self.model.train()
        names = [f"blocks.{block}.gelu" for block in KEPT_BLOCKS]
        with outputs_with_gradients(self.model, names) as outputs:
            self._loss(*self.probe).backward()
        own = {id(p): o for p, o in zip(self._parameters, self._own, strict=True)}
        kept: dict[str, Any] = {}
        for name in KEPT_WEIGHTS:
            weights = self.model.get_submodule(name).weight
            state = self._optimizer.state.get(own[id(weights)], {})
            kept |= weights_and_moments(name, weights, state, KEPT_ROWS)
        kept |= {
            f"gradients.{name}": output.grad[:, -KEPT_PLACES:] for name, output in outputs.items()
        }
        for parameter in self._parameters:
            parameter.grad = None
        return kept

    def _texts(self, starts: Any) -> tuple[Any, Any]:
        """Runs of bytes, and for each the next one."""
        places = starts[:, None] + self._torch.arange(CONTEXT, device=self._device)
        return self.text[places], self.text[places + 1]

    def _loss(self, text: Any, following: Any) -> Any:
        scores = self.model(text).flatten(0, 1)
        return self._torch.nn.functional.cross_entropy(scores.float(), following.flatten())


def network(torch: Any) -> Any:
    """The untrained network, in bf16; its scores are texts×places×codes, of texts×places."""
    nn = torch.nn
    blocks, width, heads = BLOCKS, WIDTH, HEADS

    class Last(nn.Module):  # type: ignore[name-defined]
        """The last places of what it is shown, to be kept."""

        def forward(self, x: Any) -> Any:
            return x[:, -KEPT_PLACES:]

    class Block(nn.Module):  # type: ignore[name-defined]
        """Attention and a multilayer perceptron, with a module for each tensor that is kept."""

        def __init__(self) -> None:
            super().__init__()
            self.attention_norm = nn.LayerNorm(width)
            self.query = nn.Linear(width, width)
            self.key = nn.Linear(width, width)
            self.value = nn.Linear(width, width)
            self.project = nn.Linear(width, width)
            self.mlp_norm = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.gelu = nn.GELU()
            self.down = nn.Linear(4 * width, width)
            for name in KEPT_OUTPUTS:
                self.add_module(f"kept_{name}", Last())

        def forward(self, x: Any) -> Any:
            x = x + self.project(self._attend(self._kept("attention_norm", x)))
            return x + self.down(self._kept("gelu", self.up(self.mlp_norm(x))))

        def _kept(self, name: str, x: Any) -> Any:
            found = self.get_submodule(name)(x)
            self.get_submodule(f"kept_{name}")(found)
            return found

        def _attend(self, x: Any) -> Any:
            texts, places, _ = x.shape
            query, key, value = (
                rows.view(texts, places, heads, -1).transpose(1, 2)
                for rows in (self.query(x), self._kept("key", x), self._kept("value", x))
            )
            attend = nn.functional.scaled_dot_product_attention
            attended = attend(query, key, value, is_causal=True)
            return attended.transpose(1, 2).reshape(texts, places, width)

    class Gpt(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.codes = nn.Embedding(CODES, width)
            self.places = nn.Embedding(CONTEXT, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(blocks)))
            self.norm = nn.LayerNorm(width)
            self.scores = nn.Linear(width, CODES)
            for module in self.modules():
                if isinstance(module, (nn.Linear, nn.Embedding)):
                    nn.init.normal_(module.weight, std=0.02)

        def forward(self, text: Any) -> Any:
            x = self.codes(text) + self.places(torch.arange(text.shape[1], device=text.device))
            return self.scores(self.norm(self.blocks(x)))

    return Gpt().to(torch.bfloat16)
