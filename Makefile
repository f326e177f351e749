# Clickcurve. `make install`, `make serve`, `make cassandra`, `make test`, `make test-all`, `make test-long`, `make check`, `make bench`, `make docs`, `make wheel`, `make compiled`, `make wheel-compiled`, `make lock`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS_STAMP := .venv/peers/.installed
COMPILED ?= .venv/compiled
# Programs that tests and benches run beside Python, and Debian's packages of them: testing/programs.py.
PROGRAMS := $(BIN)/python -m testing.programs
# Each process begins with a share of the tests, so that what a module shares is started once; whichever is ready takes
# tests from the end of another's share.
BESIDE := --numprocesses auto --dist worksteal
SOURCES := clickcurve ingest storage query retention dashboard server testing tests bench examples
ARGS ?=

.PHONY: help install serve cassandra test test-all test-long chaos check format bench bench-peers peers-programs docs wheel compiled test-compiled wheel-compiled lock clean

help:
	@echo "make install   .venv with the pinned dependencies and the program at $(BIN)/clickcurve"
	@echo "make serve     the server on 127.0.0.1:8080 with its data in ./clickcurve-data   (ARGS='--port 9000')"
	@echo "make cassandra a throw-away Cassandra to try the server on; Ctrl-C ends it and removes its data"
	@echo "make test      the tests that need Python alone                                 (ARGS='tests/storage -x')"
	@echo "make test-all  every kind of test, with real programs, which it installs where it may"
	@echo "make test-long every test: all seeds, kills, planted faults, and clients against stores, for an hour"
	@echo "make chaos     fifty kills of one server; ten minutes of a clock that jumps; then two campaigns of faults on three Cassandra nodes, twelve minutes each, with reports"
	@echo "make check     formatting, lint, types, layout"
	@echo "make bench     the measurements, one table at the end"
	@echo "make bench-peers   Clickcurve beside other stores, into a file of figures         (ARGS='--links 1000 --hits 100000')"
	@echo "make docs      the docs as a site with a search in ./site, to open as files or from any host"
	@echo "make wheel     dist/ with the wheel and the source distribution"
	@echo "make compiled  a copy of the tree with compiled rows in $(COMPILED); needs a C compiler"
	@echo "make test-compiled  the laws, the simulated histories and the contract of stores on compiled rows"
	@echo "make wheel-compiled  dist/ with a wheel that has them, for this Python and this kind of machine"
	@echo "make lock      renew requirements.lock from pyproject.toml"

install: $(STAMP)

# An editable install: the source tree is the program. Hashes in the lock make pip refuse anything but the pinned files.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Clickcurve needs Python 3.11 or newer: make install PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "Python's venv module is missing: install the package python3-venv."; rm -rf $(VENV); exit 1; }
	@echo "installing $$(grep -c '==' requirements.lock) packages into $(VENV), about a minute"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

serve: install
	exec $(BIN)/clickcurve serve $(ARGS)

cassandra: install
	@$(PROGRAMS) cassandra
	exec $(BIN)/python -m testing.cassandra

test: install
	$(BIN)/pytest $(BESIDE) $(ARGS)

test-all: install
	@$(PROGRAMS) tests
	$(BIN)/pytest $(BESIDE) -m 'not long' $(ARGS)

test-long: install
	@$(PROGRAMS) tests
	$(BIN)/pytest $(BESIDE) -m '' --hypothesis-profile long $(ARGS)
	test -n '$(ARGS)' || $(MAKE) test-compiled
	test -n '$(ARGS)' || .ci/other-python long

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layout.py tests/test_words.py
	@echo "Files over 400 lines, each a hint to look for a joint:" && $(BIN)/python -m tests.layout

chaos: install
	@$(PROGRAMS) tests
	CRASH_KILLS=50 $(BIN)/pytest -q -m '' tests/crash/test_kill.py -k many_kills
	$(BIN)/python -m tests.clock.campaign --minutes 10
	$(BIN)/python -m tests.chaos $(ARGS)

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install
	@$(PROGRAMS) wrk redis memcached cassandra
	$(BIN)/python -m bench $(ARGS)

peers-programs: install
	@$(PROGRAMS) peers

bench-peers: peers-programs $(PEERS_STAMP)
	$(BIN)/python -m bench peers micro.growth --rounds 3 --seconds 1 --sheet peers.json $(ARGS)

$(PEERS_STAMP): bench/peers/requirements.lock
	@test -x .venv/peers/bin/python || $(PYTHON) -m venv .venv/peers
	.venv/peers/bin/pip install --quiet --disable-pip-version-check --timeout 600 --require-hashes -r bench/peers/requirements.lock
	npm install --silent --no-audit --no-fund --prefix .venv/peers $$(cat bench/peers/npm.lock)
	@touch $@

docs: install
	$(BIN)/python -m testing.site

# From nothing each time: what an earlier build left in build/ would be packed again, deleted modules too.
wheel: install
	rm -rf build dist
	$(BIN)/python -c 'from setuptools import build_meta; build_meta.build_sdist("dist")' >/dev/null
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	rm -rf build

# Whatever has the copy on its PYTHONPATH, the program or pytest, runs its code: .venv has all else.
compiled: install
	rm -rf $(COMPILED)
	mkdir -p $(COMPILED)
	cp -R $(SOURCES) clients deploy docs LICENSE Makefile *.* $(COMPILED)
	cd $(COMPILED) && COMPILE_CLICKCURVE=1 $(abspath $(BIN))/python setup.py --quiet build_ext --inplace

# Without planted faults: compiled code does not look for what a test puts in the place of a function.
test-compiled: compiled
	cd $(COMPILED) && PYTHONPATH=$(abspath $(COMPILED)) $(abspath $(BIN))/python -m pytest $(BESIDE) \
		-k 'not (mutant or planted_fault or checksums or switched_off)' \
		tests/buckets tests/simulated tests/storage/test_contract*.py

wheel-compiled: install
	rm -rf build
	COMPILE_CLICKCURVE=1 $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	rm -rf build

# Resolved on Python 3.11, the oldest that is supported, with a tool that lives in an environment of its own.
# No option, address or path is written into the file.
lock:
	@test -x .venv/lock/bin/pip-compile || { $(PYTHON) -m venv .venv/lock && .venv/lock/bin/pip install --quiet pip-tools; }
	.venv/lock/bin/pip-compile --quiet --extra cassandra --extra otlp --extra pictures --extra redis --extra zstd --extra test --extra bench --extra compile --extra docs --no-strip-extras --allow-unsafe --generate-hashes --upgrade \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
		--output-file requirements.lock pyproject.toml

clean:
	rm -rf .venv build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
