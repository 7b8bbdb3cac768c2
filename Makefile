# make run      the engine as Verilog; real activations out through it and back, as a table
# make test     all tests that a change must pass (minutes); what passed for the same sources is not
#               run again, unless with ALL=1 or on CI
# make check    style and types
# make bench    every performance figure that the documents quote
# make verify   long proofs and sweeps; what passed for the same sources is not run again
# make synth    every component in gates, and what has changed since the baseline
# make capture  train the small CNNs again and rebuild the shipped captures (needs PyTorch)
# make test-torch  the tests that need PyTorch
#
# Each target sets up .venv by itself. PYTHON names the interpreter that .venv is made from.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest

.PHONY: run test check bench verify synth capture test-torch debian clean

run: $(VENV)/.run
	$(VENV)/bin/cdma generate engine --out build/verilog --force
	$(VENV)/bin/cdma swap --capture digits-cnn --save build/swap --force

test: $(VENV)/.dev debian
	$(PYTEST) -n 2 -m "not verify and not torch" $(if $(ALL)$(CI),,--verdicts)

check: $(VENV)/.dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(VENV)/.dev debian
	$(PY) -m tests.bench

# BUDGET_S: begin no test later than this; what is left is named as open.
verify: $(VENV)/.dev debian
	$(PYTEST) -n 2 -m verify --verdicts $(if $(BUDGET_S),--budget-s $(BUDGET_S))

synth: $(VENV)/.dev
	$(VENV)/bin/cdma synth --all --force

capture: $(VENV)/.torch
	$(VENV)/bin/cdma capture digits-cnn --out plan/workload/capture/captures --force
	$(VENV)/bin/cdma capture digits-cnn-training --out plan/workload/capture/captures --force

test-torch: $(VENV)/.dev $(VENV)/.torch
	$(PYTEST) -m torch

# Not on PyPI: Icarus, the second opinion on the RTL, the headers with which waves are written as
# FST, the browser that opens pages of `cdma report`, and Python as a shared library, which cocotb
# loads into simulators. Without them the tests that need them are skipped and say so; on CI they
# fail.
DEBIAN := iverilog liblz4-dev zlib1g-dev chromium
LIBPYTHON := from find_libpython import find_libpython as f; from sys import version_info as v; \
  print("" if f() else f"libpython{v.major}.{v.minor}")

debian: $(VENV)/.dev
	@missing=; for package in $(DEBIAN); do \
	  dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	library=$$($(PY) -c '$(LIBPYTHON)'); missing="$$missing$${library:+ $$library}"; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo "installing$$missing from Debian"; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; \
	else \
	  echo "warning: some tests will be skipped: apt-get install$$missing" >&2; \
	fi

$(PY):
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.torch: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[all,torch]'
	@touch $@ $(VENV)/.run

clean:
	rm -rf build
