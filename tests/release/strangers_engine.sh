#!/usr/bin/env bash
# A stranger's engine, which no preset is, through all commands that take one. Run in an empty
# folder with `cdma` and `python` on PATH; `test_strangers_engine.py` looks at what it leaves there.
set -euo pipefail

cat > engine.toml <<'TOML'
[engine]
units = 3

[engine.codec]
sector_bytes = 64
TOML
python -c 'import numpy as np
values = np.random.default_rng(0).standard_normal((16, 56, 56), np.float32)
np.save("relu.npy", np.maximum(values, 0))'

cdma config check engine.toml
cdma generate engine --config engine.toml --out rtl
cdma synth token-bucket --config engine.toml --json > synth.json
cdma swap relu.npy --config engine.toml --json > swap.json
cdma estimate --network nin --config engine.toml --json > estimate.json
cdma schedule --network vgg16 --memory 9GB --policy vdnn,cdma --bound none --config engine.toml \
  --json > schedule.json
cdma report synth.json swap.json estimate.json schedule.json --html report.html
