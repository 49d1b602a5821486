# Two commands do everything on a machine with Python, pip and make:
#   make run     the experiments of the paper in small, with a report, in about three minutes
#   make test    the whole test suite
# Each sets up .venv on its first call and reuses it afterwards.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Numba does not notice when a kernel calls another one that has changed, so the cache is keyed by all of them.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba-$(shell cat src/varmix/kernels/*.py | cksum | cut -d' ' -f1)
# Without compiled files every process, and the tests start hundreds, would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE
# Real data beside the checkout is used where there is any; tests over it are skipped where there is none.
ifneq ($(wildcard ../shared/data),)
export VARMIX_DATA ?= $(abspath ../shared/data)
endif

.PHONY: run test fuzz check bench docs format clean

run: $(VENV)/.ready-run
	$(BIN)/varmix reproduce --quick

test: $(VENV)/.ready-test
	$(BIN)/python -m pytest -n auto

# Damaged states of everything that loads one: `make fuzz N=20000 SEED=0`, or one case again, `make fuzz CASE='...'`.
N ?= 20000
SEED ?= 0
fuzz: $(VENV)/.ready-test
	PYTHONPATH=tests $(BIN)/python -m fuzz --cases $(N) --seed $(SEED) $(if $(CASE),--case '$(CASE)')

check: $(VENV)/.ready-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_paper_map.py

bench: $(VENV)/.ready-bench
	$(BIN)/varmix bench

# Pages of the reference that are no longer asked for would be built again, hence anew.
docs: $(VENV)/.ready-docs
	rm -rf docs/api/generated
	$(BIN)/python -m sphinx --nitpicky --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "docs/_build/html/index.html"

format: $(VENV)/.ready-check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .cache docs/_build docs/api/generated results .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/.ready:
	$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv $(VENV); }
	@touch $@

# Every command installs only what it needs; a stamp is renewed when the project's requirements change.  Python compiles
# what is imported; compiling all that is installed would take more than half as long as installing it.
$(VENV)/.ready-%: pyproject.toml | $(VENV)/.ready
	$(PIP) install --no-compile --editable '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.ready-run: EXTRAS := experiments,sklearn
$(VENV)/.ready-test: EXTRAS := test
$(VENV)/.ready-check: EXTRAS := check,test
$(VENV)/.ready-bench: EXTRAS := experiments,torch,bench,sklearn
$(VENV)/.ready-docs: EXTRAS := docs,sklearn
