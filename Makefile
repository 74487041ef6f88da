# The index of commands. Each installs what it needs into .venv on first use, and nothing the second time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
STAMP := $(VENV)/.stamp
INPUTS := pyproject.toml constraints.txt

# One thread per worker: two on a busy machine can be many times slower than one.
# Compiled files are kept whatever the shell says: tests start many processes, each of which would compile everything.
TEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

# Benchmarks use networks that others trained, where a folder with them is at hand.
bench bench-batch: export LEASTWISE_TEST_DATA ?= $(shell .ci/test-data)

.PHONY: help setup demo smoke campaign test test-slow test-faults lint check bench bench-cluster bench-prepare bench-batch bench-train bench-race bench-checks same-bits
.PHONY: walks listing screenshots docs clean

help:
	@echo "make setup   create .venv with what a user needs"
	@echo "make demo    the whole story in three minutes, on embedded data"
	@echo "make smoke   every table and figure of four papers on embedded data: shows that everything runs"
	@echo "make campaign   what is missing of the papers on real data, the most wanted first, with two processes"
	@echo "make test    all tests but the slow ones (make test-slow runs those)"
	@echo "make test-faults   kill, freeze, fill, fuzz, edit and deceive; prints what was lost or wrong"
	@echo "make lint    format, lint, types, layers"
	@echo "make check   make lint, then the fast tests"
	@echo "make bench   speed against other libraries, as ratios"
	@echo "make bench-cluster   two workers against one"
	@echo "make bench-prepare   step time of given and prepared networks"
	@echo "make bench-batch   the default batch of an audit against others, and what the system takes"
	@echo "make bench-train   a training step against the way released code takes it"
	@echo "make bench-race   what races and audits in two phases cost, and how often they are right"
	@echo "make bench-checks   what it costs an audit to try to prove its numbers wrong"
	@echo "make same-bits REV=main   training losses and weights of two revisions, bit for bit"
	@echo "make listing   what \`leastwise list\` shows, written anew from the registries"
	@echo "make walks   how many modules and calls four commands pass through"
	@echo "make docs    build the guide into site/"
	@echo "make clean   remove what these commands made"

setup: $(STAMP)-user

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP)-user: $(INPUTS) | $(VENV)/bin/python
	@echo "installing leastwise into $(VENV) (torch takes a minute or two) …"
	$(INSTALL) .
	@touch $@

$(STAMP)-%: $(STAMP)-user
	@echo "adding what 'make $*' needs …"
	$(INSTALL) ".[$*]"
	@touch $@

demo: $(STAMP)-user
	$(BIN)/leastwise demo

# Batches of ten images: a second thread would only be waited for.
smoke: $(STAMP)-user
	OMP_NUM_THREADS=1 $(BIN)/leastwise reproduce benz2021 tian2021 ahn tradeoff2022 --scale smoke

# What is missing of the papers at scale lite, the most wanted first: two processes of one thread each, until nothing is
# left. Stopped at any moment, the same command goes on.
campaign: $(STAMP)-user
	OMP_NUM_THREADS=1 nice $(BIN)/leastwise reproduce --scale lite --next 100000 --threads 1 & \
	OMP_NUM_THREADS=1 nice $(BIN)/leastwise reproduce --scale lite --next 100000 --threads 1; wait

test: $(STAMP)-test $(STAMP)-torchattacks
	$(TEST) -m "not slow and not faults"

test-slow: $(STAMP)-test $(STAMP)-tools $(STAMP)-torchattacks
	$(TEST) -m "slow and not faults"

test-faults: $(STAMP)-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/faults tests/hostile tests/audit/test_wrong_models.py tests/jobs/test_recognition.py

lint: $(STAMP)-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint $(STAMP)-torchattacks
	$(TEST) -m "not slow and not medium and not faults"

# torchattacks asks for torchvision and an old requests, and uses neither.
$(STAMP)-torchattacks: $(STAMP)-user
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps torchattacks
	@touch $@

bench: $(STAMP)-bench $(STAMP)-torchattacks
	$(BIN)/python benchmarks/parts.py
	$(BIN)/python benchmarks/attacks.py

bench-cluster: $(STAMP)-bench
	$(BIN)/python benchmarks/cluster.py

bench-prepare: $(STAMP)-bench
	$(BIN)/python benchmarks/prepare.py

bench-batch: $(STAMP)-bench
	$(BIN)/python benchmarks/batch.py

bench-train: $(STAMP)-bench
	$(BIN)/python benchmarks/train.py

bench-race: $(STAMP)-bench
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/race.py

bench-checks: $(STAMP)-bench
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/checks.py

REV ?= main
same-bits: $(STAMP)-test
	$(BIN)/python scripts/same_bits.py $(REV)

listing: $(STAMP)-user
	$(BIN)/python -m scripts.listing

walks: $(STAMP)-bench
	$(BIN)/python scripts/walks.py

screenshots: $(STAMP)-test
	$(BIN)/python -m scripts.screenshots results/screenshots

docs: $(STAMP)-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean:
	find results -mindepth 1 -maxdepth 1 ! -name lite -exec rm -rf {} + 2>/dev/null || true
	rm -rf $(VENV) site dist build .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
