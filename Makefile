# make run      the engine as Verilog; real activations out through it and back, as a table
# make test     all tests that a change must pass (minutes); what passed for the same sources is not
#               run again, unless with ALL=1 or on CI
# make check    style and types
# make bench    every performance figure that the documents quote
# make verify   long proofs and sweeps; what passed for the same sources is not run again
# make proofs   proofs that the repository has no verdict of, into its ledger (hours; goes on where it
#               was)
# make volume   a hundred million malformed streams through the RTL (hours; goes on where it was)
# make mutate   faults drawn from the sources, and whether tests find them (hours; goes on where it was)
# make coverage  lines, branches and port bits of the RTL that no bench reaches on Verilator
# make synth    every component in gates, and what has changed since the baseline
# make capture  train the small networks again and rebuild the shipped captures (needs PyTorch)
# make test-torch  the tests that need PyTorch
# make dist     source archive and wheel, in build/dist
# make site     the documentation as a site with search, in build/site
# make lock     the newest versions of all packages, in constraints.txt
#
# Each target sets up .venv by itself. PYTHON names the interpreter that .venv is made from. With
# LOCKED=1 its packages are those of constraints.txt, which the documents' figures were made with.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest
PINS := $(if $(LOCKED),-c constraints.txt)
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check $(PINS)

# Without bytecode each worker, and each command that a test starts, compiles all modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test check bench verify proofs volume mutate coverage synth capture test-torch dist site lock debian clean

run: $(VENV)/.run
	$(VENV)/bin/cdma generate engine --out build/verilog --force
	$(VENV)/bin/cdma swap --capture digits-cnn --save build/swap --force

test: $(VENV)/.dev debian
	$(PYTEST) -n 2 --dist worksteal -m "not verify and not torch" $(if $(ALL)$(CI),,--verdicts)

check: $(VENV)/.dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(VENV)/.dev debian
	$(PY) -m tests.bench

# BUDGET_S: begin no test later than this; what is left is named as open.
verify: $(VENV)/.dev debian
	$(PYTEST) -n 2 -m "verify and not volume" --verdicts $(if $(BUDGET_S),--budget-s $(BUDGET_S))

# BUDGET_S as above. What is broken off has written the verdicts that it had.
proofs: $(VENV)/.dev debian
	$(PYTEST) -n 2 --dist worksteal -m "" --verdicts --ledger \
	  $(if $(BUDGET_S),--budget-s $(BUDGET_S)) tests/formal; $(PY) -m tests.formal

# BUDGET_S as above; what is left is for another run.
volume: $(VENV)/.dev
	$(PYTEST) -n 2 -m volume --verdicts $(if $(BUDGET_S),--budget-s $(BUDGET_S)) tests/sim/machine/pipeline

# COUNT: mutants that are drawn.
mutate: $(VENV)/.dev
	$(PY) -m tests.mutation --count $(or $(COUNT),1000)

# WRITE=1 lists what is open as known.
coverage: $(VENV)/.dev
	$(PY) -m tests.coverage $(if $(WRITE),--write)

synth: $(VENV)/.dev
	$(VENV)/bin/cdma synth --all --force

capture: $(VENV)/.torch
	$(VENV)/bin/cdma capture digits-cnn --out plan/workload/capture/captures --force
	$(VENV)/bin/cdma capture digits-cnn-training --out plan/workload/capture/captures --force
	$(VENV)/bin/cdma capture tiny-gpt --out plan/workload/capture/captures --force

test-torch: $(VENV)/.dev $(VENV)/.torch
	$(PYTEST) -m torch

# The wheel is built from the source archive, so that one is whole.
dist: $(VENV)/.dev
	rm -rf build/dist
	$(PY) -m build --no-isolation --outdir build/dist

# Links and anchors that lead nowhere are errors (not with --quiet, which counts no warnings). The variable keeps an advertisement away.
site: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build
	@echo "build/site/index.html"

lock:
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	echo "# Written by make lock: versions for pip's option -c." > constraints.txt
	build/lock/bin/python -m pip list --format freeze --exclude-editable --exclude pip \
	  --disable-pip-version-check >> constraints.txt

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
	$(INSTALL) --editable '.[all]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(PY)
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.torch: pyproject.toml | $(PY)
	$(INSTALL) --editable '.[all,models]'
	@touch $@ $(VENV)/.run

clean:
	rm -rf build
