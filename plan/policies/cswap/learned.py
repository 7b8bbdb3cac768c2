"""The times that CSWAP+ decides with: learned from samples by the paper's regression (§5.4).

A linear regression for each of four equal parts of the ratios. The samples are of sizes and ratios
that have nothing to do with the network that is planned, so a decision is made without knowing what
the codec will take. There is no GPU here: samples come from the declared models of codecs
(`cdma.plan.policies.cswap.samples.model_samples`).
"""

from collections.abc import Mapping
from functools import cache

from cdma.plan.policies.cswap.cost import ZFP, TimePredictor
from cdma.plan.policies.cswap.samples import model_samples

LOSSLESS = ("zvc-sm", "rle-sm", "csr-sm", "lz4-sm")
"""The paper's codecs for sparse tensors (§5.2.1), on the multiprocessors."""

SUB_MODELS = 4


@cache
def learned_times(dram_bytes_per_s: float) -> Mapping[str, TimePredictor]:
    """Times of `LOSSLESS` and of ZFP with any P, on a device with memory of this bandwidth."""
    # Here, as scikit-learn is slow to load.
    from cdma.plan.policies.cswap.time_model import DENSE_RANGE, SPARSE_RANGE, TimeModel

    models = {}
    for codec in (*LOSSLESS, ZFP):
        base, span = DENSE_RANGE if codec == ZFP else SPARSE_RANGE
        samples = model_samples(codec, dram_bytes_per_s=dram_bytes_per_s)
        models[codec] = TimeModel(sub_models=SUB_MODELS, base=base, span=span).fit(samples)
    return models
