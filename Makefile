# Two commands are enough on a machine with Python, pip and make:
#   make run     a quick version of the paper's experiments, with a report, in about two minutes
#   make test    the whole test suite
# The first call creates .venv; later calls reuse it. Further tests:
#   make test-integrations           Lightning, transformers, accelerate, TensorBoard and TorchRL, in .venv-integrations
#   make test-torch VERSION=2.7.0    tests that import torch, with this version of it, in .venv-torch-2.7.0

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MAKE_VENV = { $(PYTHON) -m venv $(1) || { $(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv $(1); }; }
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Numba does not notice changes in kernels that a kernel calls, so the path of the cache is a checksum of all kernels.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba-$(shell grep -rlE --include='*.py' '^@(kernel|part)' src/varmix | sort | xargs cat | cksum | cut -d' ' -f1)
# Without bytecode files, each of the hundreds of test processes would compile its imports again.
unexport PYTHONDONTWRITEBYTECODE
# Use real data sets next to the checkout if there are any. Without them, tests that need real data are skipped.
ifneq ($(wildcard ../shared/data),)
export VARMIX_DATA ?= $(abspath ../shared/data)
endif

# Tests, docstrings and pages that import torch, for `make test-torch`.
TORCH_TESTS := tests/pytorch tests/rl tests/fuzz tests/benchmarks tests/experiments/test_cartpole.py tests/experiments/test_kdpp.py \
  tests/experiments/test_networks.py src/varmix/torch src/varmix/rl lab/benchmarks lab/experiments/cartpole \
  lab/experiments/networks docs README.md
TORCH_VENV := .venv-torch-$(VERSION)
INTEGRATIONS_VENV := .venv-integrations

.PHONY: run test test-integrations test-torch fuzz check bench docs format clean

run: $(VENV)/.ready-run
	$(BIN)/python -m lab reproduce --quick

# Compile the kernels first, on two cores; otherwise all test processes would compile them at the same time.
test: $(VENV)/.ready-test
	@for areas in "core rl" "sklearn torch"; do $(BIN)/python -m varmix warmup $$areas & done; wait
	$(BIN)/python -m pytest -n auto

# Load damaged states: `make fuzz N=20000 SEED=0`. To repeat one case: `make fuzz CASE='...'`.
N ?= 20000
SEED ?= 0
fuzz: $(VENV)/.ready-test
	PYTHONPATH=tests $(BIN)/python -m fuzz --cases $(N) --seed $(SEED) $(if $(CASE),--case '$(CASE)')

# Tests that need other frameworks, in their own environment: tests/integrations, saved states of their samplers, and the
# pages that import them.
test-integrations: $(INTEGRATIONS_VENV)/.ready
	$(INTEGRATIONS_VENV)/bin/python -m pytest -n auto tests/integrations tests/fuzz docs src/varmix/rl

# Tests with another version of PyTorch, in their own environment.
test-torch: $(if $(VERSION),$(TORCH_VENV)/.ready)
	@test -n '$(VERSION)' || { echo 'Pass a version of PyTorch: make test-torch VERSION=2.7.0'; exit 1; }
	$(TORCH_VENV)/bin/python -m pytest -n auto $(TORCH_TESTS)

check: $(VENV)/.ready-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/python scripts/check_paper_map.py
	$(BIN)/python scripts/check_docstrings.py

bench: $(VENV)/.ready-bench
	$(BIN)/python -m lab bench

# Remove the generated API pages first: old pages would be built again.
docs: $(VENV)/.ready-docs
	rm -rf docs/api/generated
	$(BIN)/python -m sphinx --nitpicky --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "docs/_build/html/index.html"

format: $(VENV)/.ready-check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .venv-torch-* $(INTEGRATIONS_VENV) .cache docs/_build docs/api/generated results .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/.ready:
	$(call MAKE_VENV,$(VENV))
	@touch $@

# Every target installs only the packages that it needs, and installs again when pyproject.toml or constraints.txt changes.
# --no-compile: Python compiles modules when it imports them; compiling all installed files takes half as long as
# installing them.
$(VENV)/.ready-%: pyproject.toml constraints.txt | $(VENV)/.ready
	$(PIP) install --no-compile --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.ready-run: EXTRAS := lab
$(VENV)/.ready-test: EXTRAS := test
$(VENV)/.ready-check: EXTRAS := check,test
$(VENV)/.ready-bench: EXTRAS := lab,torch,bench
$(VENV)/.ready-docs: EXTRAS := docs,sklearn,plot

$(INTEGRATIONS_VENV)/.ready: pyproject.toml constraints.txt
	test -x $(@D)/bin/python || $(call MAKE_VENV,$(@D))
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --no-compile --constraint constraints.txt --editable '.[integrations]'
	@touch $@

$(TORCH_VENV)/.ready: pyproject.toml
	test -x $(@D)/bin/python || $(call MAKE_VENV,$(@D))
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --no-compile --editable '.[test]' 'torch==$(VERSION)'
	@touch $@
