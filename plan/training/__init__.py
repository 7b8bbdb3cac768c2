"""Training with what is saved for backward sent through lossy codecs. Needs PyTorch.

`saved` puts codecs where autograd saves, `schemes` says which codec when, `run` trains;
`python -m cdma.plan.training` compares the schemes (docs/guide/plan/lossy-training.md).
"""

from cdma.plan.training.run import ACTIVATIONS, TrainingRun, train
from cdma.plan.training.schemes import SCHEMES, Scheme, scheme

__all__ = ["ACTIVATIONS", "SCHEMES", "Scheme", "TrainingRun", "scheme", "train"]
