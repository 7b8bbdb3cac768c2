"""The subject of the shipped capture `tiny-gpt`: a small GPT in bf16 on English. Needs PyTorch.

Four blocks of attention and a multilayer perceptron with GELU, each behind a LayerNorm, predict the
next character. Parameters, activations, gradients and Adam's state are all bf16. What is kept are
dense tensors of today's networks: hardly any element is zero.

All runs on one thread, since the order of floating-point sums must not depend on how many cores
there are. The random generators are those that `record` has seeded.
"""

import math
from typing import Any

from cdma.plan.workload.capture.english import english
from cdma.plan.workload.capture.recorder import Subject, require
from cdma.plan.workload.capture.training_state import (
    outputs_with_gradients,
    weights_and_moments,
)

BLOCKS = 4
WIDTH = 96
HEADS = 4
CONTEXT = 64

EPOCH_STEPS = 50
KEPT_EPOCHS = (3, 4)
BATCH = 16
PROBE_TEXTS = 2
LEARNING_RATE = 2e-3

KEPT_BLOCKS = (0, BLOCKS - 1)
KEPT_OUTPUTS = ("attention_norm", "key", "value", "probabilities", "gelu")
KEPT_WEIGHTS = (f"blocks.{BLOCKS - 1}.key", f"blocks.{BLOCKS - 1}.up")


def subject() -> Subject:
    """Network, minibatch and training of the capture `tiny-gpt`."""
    run = _Run()
    return Subject(
        model=run.model,
        probe=run.probe[0],
        train_epoch=run.train_epoch,
        epochs=KEPT_EPOCHS,
        modules=[f"blocks.{block}.{name}" for block in KEPT_BLOCKS for name in KEPT_OUTPUTS],
        allocations=run.allocations,
        recipe={
            "network": str(run.model).splitlines(),
            "data": "the descriptions of scikit-learn's data sets, by character",
            "scikit_learn": require("sklearn").__version__,
            "characters": run.text.numel(),
            "probe": f"the first {PROBE_TEXTS} runs of {CONTEXT} characters, in training mode",
            "optimizer": f"AdamW, learning rate {LEARNING_RATE}, minibatches of {BATCH}, "
            f"{EPOCH_STEPS} steps to an epoch",
        },
    )


class _Run:
    """A network in training."""

    def __init__(self) -> None:
        torch = require("torch")
        torch.set_num_threads(1)
        self._torch = torch
        characters = english()
        codes = {character: code for code, character in enumerate(sorted(set(characters)))}
        self.text = torch.tensor([codes[character] for character in characters])
        self.model = network(torch, len(codes))
        self.probe = self._texts(CONTEXT * torch.arange(PROBE_TEXTS))
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE)

    def train_epoch(self, _epoch: int) -> dict[str, float]:
        self.model.train()
        summed_loss = 0.0
        for _ in range(EPOCH_STEPS):
            starts = self._torch.randint(len(self.text) - CONTEXT - 1, (BATCH,))
            self._optimizer.zero_grad()
            loss = self._loss(*self._texts(starts))
            loss.backward()
            self._optimizer.step()
            summed_loss += loss.item()
        return {"loss": summed_loss / EPOCH_STEPS}

    def allocations(self) -> dict[str, Any]:
        """What a step on the probe has in memory beside outputs of modules. Trains nothing.

        By layer the `weights`, their `gradients`, and Adam's mean (`adam_m`) and mean of squares
        (`adam_v`); and the gradients by the outputs of GELU.
        """
        self._optimizer.zero_grad()
        self.model.train()
        names = [f"blocks.{block}.gelu" for block in KEPT_BLOCKS]
        with outputs_with_gradients(self.model, names) as outputs:
            self._loss(*self.probe).backward()
        kept: dict[str, Any] = {}
        for name in KEPT_WEIGHTS:
            weights = self.model.get_submodule(name).weight
            state = self._optimizer.state.get(weights, {})
            kept |= weights_and_moments(name, weights, state)
        kept |= {f"gradients.{name}": output.grad for name, output in outputs.items()}
        self._optimizer.zero_grad()
        return kept

    def _texts(self, starts: Any) -> tuple[Any, Any]:
        """Runs of characters, and for each the next one."""
        places = starts[:, None] + self._torch.arange(CONTEXT)
        return self.text[places], self.text[places + 1]

    def _loss(self, characters: Any, following: Any) -> Any:
        scores = self.model(characters).flatten(0, 1)
        return self._torch.nn.functional.cross_entropy(scores.float(), following.flatten())


def network(torch: Any, characters: int) -> Any:
    """The untrained network of an alphabet of so many characters, in bf16."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[name-defined]
        """Attention and a multilayer perceptron, with a module for each tensor that is kept."""

        def __init__(self) -> None:
            super().__init__()
            self.attention_norm = nn.LayerNorm(WIDTH)
            self.query = nn.Linear(WIDTH, WIDTH)
            self.key = nn.Linear(WIDTH, WIDTH)
            self.value = nn.Linear(WIDTH, WIDTH)
            self.probabilities = nn.Softmax(dim=-1)
            self.project = nn.Linear(WIDTH, WIDTH)
            self.mlp_norm = nn.LayerNorm(WIDTH)
            self.up = nn.Linear(WIDTH, 4 * WIDTH)
            self.gelu = nn.GELU()
            self.down = nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            x = x + self.project(self._attend(self.attention_norm(x)))
            return x + self.down(self.gelu(self.up(self.mlp_norm(x))))

        def _attend(self, x: Any) -> Any:
            texts, places, _ = x.shape
            query, key, value = (
                layer(x).view(texts, places, HEADS, -1).transpose(1, 2)
                for layer in (self.query, self.key, self.value)
            )
            scores = query @ key.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
            later = torch.ones(places, places, dtype=torch.bool).triu(1)
            weights = self.probabilities(scores.masked_fill(later, -math.inf))
            return (weights @ value).transpose(1, 2).reshape(texts, places, WIDTH)

    class Gpt(nn.Module):  # type: ignore[name-defined]
        """Scores of each next character, texts×places×characters, from texts×places."""

        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(characters, WIDTH)
            self.places = nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
            self.norm = nn.LayerNorm(WIDTH)
            self.scores = nn.Linear(WIDTH, characters)

        def forward(self, text: Any) -> Any:
            x = self.characters(text) + self.places(torch.arange(text.shape[1]))
            return self.scores(self.norm(self.blocks(x)))

    return Gpt().to(torch.bfloat16)
