# Two commands do everything on a machine with Python, pip and make:
#   make run     the experiments of the paper in small, with a report, in about two minutes
#   make test    the whole test suite
# Each sets up .venv on its first call and reuses it afterwards.
#   make test-integrations           Lightning, transformers, accelerate, TensorBoard and TorchRL, in .venv-integrations
#   make test-torch VERSION=2.7.0    the tests that import torch on that version, in .venv-torch-2.7.0

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MAKE_VENV = { $(PYTHON) -m venv $(1) || { $(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv $(1); }; }
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Numba does not notice when a kernel calls another one that has changed, so the cache is keyed by all of them.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba-$(shell grep -rlE --include='*.py' '^@(kernel|part)' src/varmix | sort | xargs cat | cksum | cut -d' ' -f1)
# Without compiled files every process, and the tests start hundreds, would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE
# Real data beside the checkout is used where there is any; tests over it are skipped where there is none.
ifneq ($(wildcard ../shared/data),)
export VARMIX_DATA ?= $(abspath ../shared/data)
endif

# Tests, docstrings and pages that import torch: what `make test-torch` runs.
TORCH_TESTS := tests/pytorch tests/rl tests/fuzz tests/benchmarks tests/experiments/test_cartpole.py tests/experiments/test_kdpp.py \
  tests/experiments/test_networks.py src/varmix/torch src/varmix/rl lab/benchmarks lab/experiments/cartpole \
  lab/experiments/networks docs README.md
TORCH_VENV := .venv-torch-$(VERSION)
INTEGRATIONS_VENV := .venv-integrations

.PHONY: run test test-integrations test-torch fuzz check bench docs format clean

run: $(VENV)/.ready-run
	$(BIN)/python -m lab reproduce --quick

# Kernels first, on two cores: the processes of the tests would all compile them at the same time.
test: $(VENV)/.ready-test
	@for areas in "core rl" "sklearn torch"; do $(BIN)/python -m varmix warmup $$areas & done; wait
	$(BIN)/python -m pytest -n auto

# Damaged states of everything that loads one: `make fuzz N=20000 SEED=0`, or one case again, `make fuzz CASE='...'`.
N ?= 20000
SEED ?= 0
fuzz: $(VENV)/.ready-test
	PYTHONPATH=tests $(BIN)/python -m fuzz --cases $(N) --seed $(SEED) $(if $(CASE),--case '$(CASE)')

# Frameworks that only one integration each needs, in an environment of their own: whatever is in tests/integrations, the
# states of their samplers, and the pages that import them.
test-integrations: $(INTEGRATIONS_VENV)/.ready
	$(INTEGRATIONS_VENV)/bin/python -m pytest -n auto tests/integrations tests/fuzz docs src/varmix/rl

# The same tests on another version of PyTorch, in an environment of its own.
test-torch: $(if $(VERSION),$(TORCH_VENV)/.ready)
	@test -n '$(VERSION)' || { echo 'Say which version of PyTorch to test: make test-torch VERSION=2.7.0'; exit 1; }
	$(TORCH_VENV)/bin/python -m pytest -n auto $(TORCH_TESTS)

check: $(VENV)/.ready-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/python scripts/check_paper_map.py

bench: $(VENV)/.ready-bench
	$(BIN)/python -m lab bench

# Pages of the reference that are no longer asked for would be built again, hence anew.
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

# Every command installs only what it needs; a stamp is renewed when the project's requirements, or the versions that we
# test with, change.  Python compiles what is imported; compiling all that is installed would take more than half as long
# as installing it.
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
