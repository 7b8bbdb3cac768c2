# make run      the engine as Verilog; real activations out through it and back, as a table
# make test     all tests that a change must pass (minutes)
# make check    style and types
# make bench    every performance figure that the documents quote
# make verify   long proofs and sweeps
# make synth    every component in gates, and what has changed since the baseline
# make capture  train the small CNNs again and rebuild the shipped captures (needs PyTorch)
# make test-torch  the tests that need PyTorch
#
# Each target sets up .venv by itself. PYTHON names the interpreter that .venv is made from.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest

.PHONY: run test check bench verify synth capture test-torch icarus clean

run: $(VENV)/.run
	$(VENV)/bin/cdma generate engine --out build/verilog
	$(VENV)/bin/cdma swap --capture digits-cnn --save build/swap

test: $(VENV)/.dev icarus
	$(PYTEST) -n 2 -m "not verify and not torch"

check: $(VENV)/.dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(VENV)/.dev icarus
	$(PY) -m tests.bench

verify: $(VENV)/.dev icarus
	$(PYTEST) -n 2 -m verify

synth: $(VENV)/.dev
	$(VENV)/bin/cdma synth --all

capture: $(VENV)/.torch
	$(VENV)/bin/cdma capture digits-cnn --out sim/workload/captures
	$(VENV)/bin/cdma capture digits-cnn-training --out sim/workload/captures

test-torch: $(VENV)/.dev $(VENV)/.torch
	$(PYTEST) -m torch

# Icarus is the second opinion on the RTL; it is in Debian, not on PyPI. Without it the tests that
# need it fail and say so.
icarus:
	@command -v iverilog >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	    echo "installing Icarus Verilog from Debian"; \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends iverilog; \
	  else \
	    echo "warning: Icarus Verilog is missing: apt-get install iverilog" >&2; \
	  fi; }

$(PY):
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.torch: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[torch]'
	@touch $@ $(VENV)/.run

clean:
	rm -rf build
