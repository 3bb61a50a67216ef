# Every target sets up what it needs. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
STAMP := $(VENV)/.installed
# The first interpreter that is new enough; override with `make PYTHON=/path/to/python …`.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
DATA ?= data
PORT ?=
DIR ?= .demo/idempotent
ARGS ?=
SEEDS ?= 100
# How many workers `make test` has: one more than cores, as tests often wait. 0 runs them one after the other, in one process.
JOBS ?= 3
# A run starts hundreds of Python processes. Where they may not keep bytecode, each of them compiles Ottla, and each pytest the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup container dist docs audit-corpus audit-cluster spark-releases java kcat databases kerberos maven go node rust browser demo demo-transactions demo-cluster console-pictures serve test test-all test-pythons test-plugin lint types apis settings releases fmt bench bench-audit bench-gateway object-store profile compat compat-security differential controller-differential spark claims verify-samples known-bugs crash share-crash chaos cluster-mixed streams sim sim-mutations soak fuzz clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml setup.py constraints.txt $(wildcard protocol/records/*walk.py protocol/records/*walk.pxd)
	@if [ -z "$(PYTHON)" ]; then echo "Ottla needs Python 3.11 or later: install it, or run 'make PYTHON=/path/to/python3.11 …'" >&2; exit 1; fi
	@test -x $(BIN)/pip || $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	if .ci/install-packages python3-venv; then :; \
	else echo "$(PYTHON) cannot make virtual environments. Install what is missing (Debian, Ubuntu: 'sudo apt-get install python3-venv'), then run make again." >&2; exit 1; fi
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@{ command -v cc && test -f "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"; } >/dev/null 2>&1 || \
	.ci/install-packages gcc libc6-dev python3-dev || \
	echo "No C compiler, or no headers of $(PYTHON): the walkers over records stay interpreted, which is slower (Debian, Ubuntu: 'sudo apt-get install gcc libc6-dev python3-dev', then 'rm $(STAMP)' and make again)" >&2
	@echo "Installing Ottla and its pinned dependencies into $(VENV) (once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt setuptools wheel cython
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $(STAMP)

setup: $(STAMP) ## Create the virtual environment with every extra

# What a target needs beside Python: the test that finds it, its Debian packages, and what is lost without it. A tool that cannot be
# installed is a warning: the tests that need it say so and are skipped.
define tool
	@if $(1); then :; \
	elif .ci/install-packages $(2); then :; \
	else echo "Warning: $(2) cannot be installed here, so $(3) (Debian, Ubuntu: 'sudo apt-get install $(2)')" >&2; fi
endef

java: ## Find Java for Spark, or install a headless JRE 17 with apt-get if allowed
	$(call tool,[ -x "$${JAVA_HOME:-/none}/bin/java" ] || command -v java >/dev/null 2>&1,openjdk-17-jre-headless,Spark and its tests cannot run; or set JAVA_HOME)

kcat: ## Find kcat for the client tests, or install it with apt-get if allowed
	$(call tool,command -v kcat >/dev/null 2>&1,kcat,its tests are skipped)

maven: ## Find Maven and a JDK for the Java client's tests, or install them with apt-get if allowed
	$(call tool,command -v mvn >/dev/null 2>&1 && command -v javac >/dev/null 2>&1,maven openjdk-17-jdk-headless,the Java client's tests and those beside Apache Kafka are skipped)

go: ## Find Go for its client programs, or install it with apt-get if allowed
	$(call tool,command -v go >/dev/null 2>&1,golang-go,its client programs are skipped; or see https://go.dev/dl)

node: ## Find Node.js and npm for their client programs, or install them with apt-get if allowed
	$(call tool,command -v npm >/dev/null 2>&1,nodejs npm,their client programs are skipped; or see https://nodejs.org)

rust: ## Find Cargo for the Rust client program, or install it with apt-get if allowed
	$(call tool,command -v cargo >/dev/null 2>&1,cargo,the Rust client program is skipped; or see https://rustup.rs)

browser: ## Find Chromium and its driver for the console's tests, or install them with apt-get if allowed
	$(call tool,command -v chromedriver >/dev/null 2>&1,chromium chromium-driver,the console's tests in a browser are skipped)

databases: ## Find PostgreSQL and Redis for the tests of the dedupe recipe, or install them with apt-get if allowed
	$(call tool,[ -d /usr/lib/postgresql ] && command -v redis-server >/dev/null 2>&1,postgresql redis-server,the tests of the dedupe recipe are skipped)

kerberos: $(STAMP) ## Find a Kerberos KDC and python-gssapi for the tests of GSSAPI, or install them if allowed
	$(call tool,[ -x /usr/sbin/krb5kdc ] && [ -x /usr/bin/krb5-config ] && command -v kinit >/dev/null 2>&1,krb5-kdc krb5-admin-server krb5-user libkrb5-dev libsasl2-modules-gssapi-mit gcc,the tests of GSSAPI are skipped)
	@$(PY) -c 'import gssapi' 2>/dev/null || { echo "Building python-gssapi (once)"; \
		CFLAGS="-O0 -g0" $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt gssapi || echo "Warning: python-gssapi cannot be built: the tests of GSSAPI are skipped" >&2; }

demo: $(STAMP) ## The main demo: flights through three clients, lost acks, a SIGKILL, and the audit's verdict
	@$(PY) -m client_compat.demo $(ARGS)

demo-transactions: $(STAMP) ## Exactly once: two instances with one transactional id, five SIGKILLs, and the same pipeline without transactions
	@$(PY) -m client_compat.demo_transactions $(ARGS)

demo-cluster: $(STAMP) ## Three brokers whose leaders are killed under load: what acks=all keeps, what acks=1 and an unclean election lose (ARGS=--short)
	@$(PY) -m client_compat.demo_cluster $(ARGS)

console-pictures: $(STAMP) browser ## Make the screenshots of docs/console.md, by the console's tests in a real browser
	@OTTLA_CONSOLE_PICTURES=docs/images $(PY) -m pytest tests/scenario/test_console.py $(ARGS)

serve: $(STAMP) ## Run a broker (PORT=9092 DATA=data)
	@exec $(BIN)/ottla serve --data-dir $(DATA) $(if $(PORT),--port $(PORT)) $(ARGS)

test: $(STAMP) java ## Run the tests that need only Python and a JRE for Spark
	@echo "make test-all adds the tests beside other programs: Apache Kafka and Java clients (Maven), kcat, Go, Node.js, Rust, PostgreSQL, Redis, Chromium, Kerberos"
	@$(PY) -m tests.run -n $(JOBS) --dist loadfile -m "not slow" $(ARGS)

test-all: $(STAMP) java kcat maven go node rust browser databases kerberos ## Run all tests, including those beside Apache Kafka and other programs
	@$(PY) -m client_compat.kafka.class_archives
	@$(PY) -m tests.run -n $(JOBS) --dist loadfile $(ARGS)

test-pythons: $(STAMP) ## Run the tests on every other installed Python, each in its own environment (ARGS="tests/unit tests/wire")
	@$(PY) -m client_compat.release.every_python $(ARGS)

test-plugin: $(STAMP) ## Test the pytest plugin, and time the start of brokers in process and of three as processes
	@$(PY) -m pytest tests/unit/broker/testing tests/unit/broker/faults tests/unit/broker/admin tests/scenario/test_faults.py $(ARGS)
	@$(PY) -m ottla.broker.testing.start_times
	@$(PY) -m client_compat.kafka.start_times

container: $(STAMP) maven go node ## Build the image; test it, OttlaContainer, testcontainers' modules and compose files on the available Docker engine, or on a private one
	@$(PY) -m tests.support.docker_engine $(PY) -m pytest -s tests/scenario/test_container.py tests/scenario/test_modules_on_an_engine.py $(ARGS)

dist: $(STAMP) ## Build the sdist and a wheel for each installed Python, check them, and test each in a clean environment
	@$(PY) -m client_compat.release

docs: $(STAMP) ## Build the documentation's site in .site; a broken link is an error
	@$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -c docs/site -d .site/.doctrees . .site/html
	@echo "The site is .site/html/index.html"

lint: $(STAMP) ## Check style and import layers
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --no-cache

types: $(STAMP) ## Check types, strictly
	@$(BIN)/mypy

apis: $(STAMP) ## Write the APIs that the handlers declare to broker/api/api_table.py and docs/apis.md
	$(PY) -m tests.support.api_table

settings: $(STAMP) ## Write docs/settings.md from the tables of settings, and docs/releases.md, which lists the settings that Ottla lacks
	$(PY) -m tests.support.settings_page
	$(PY) -m tests.support.releases_page

releases: $(STAMP) maven ## Record what Apache Kafka's releases offer, from their brokers, and write docs/releases.md (ARGS="4.4.0")
	@$(PY) -m tests.support.release_tables $(ARGS)
	@$(PY) -m tests.support.releases_page

fmt: $(STAMP) ## Format the code
	@$(BIN)/ruff check --fix --quiet . && $(BIN)/ruff format .

bench: $(STAMP) maven ## Measure speed, side by side with Apache Kafka, a Rust, a Go and a C broker in the same run
	@$(PY) -m client_compat.bench $(ARGS)

profile: $(STAMP) ## See where the broker's time goes under a load (ARGS="--only transactions --seconds 10")
	@$(PY) -m client_compat.bench.profile $(ARGS)

bench-gateway: $(STAMP) maven go ## Measure what ottla gateway costs, beside toxiproxy and beside no proxy, in the same run (ARGS=--quick)
	@$(PY) -m client_compat.bench.gateway $(ARGS)

bench-audit: $(STAMP) java ## Measure how fast the audit reads logs, beside kafka-dump-log on the same files (ARGS=--quick)
	@$(PY) -m client_compat.bench_audit $(ARGS)

.tools/versitygw: | go
	@echo "Building an S3 server with Go (once)"
	@mkdir -p .tools && GOBIN=$(CURDIR)/.tools go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

object-store: $(STAMP) .tools/versitygw ## Read logs from a real S3 server, and write tables to it, also with whole commands on Spark
	@$(PY) -m pytest tests/unit/spark_jobs/test_filesystem.py tests/unit/spark_jobs/sinks tests/scenario/test_audit_in_an_object_store.py $(ARGS)

compat: $(STAMP) java kcat maven go node rust ## Run every real client's scenarios on Ottla, also like older releases, on Apache Kafka and tansu; writes client_compat/README.md
	@$(PY) -m client_compat.matrix $(or $(ARGS),--write-report)

compat-security: $(STAMP) java maven go node ## Run real clients with TLS, certificates, users, tokens and ACLs on Ottla and Apache Kafka, and compare their messages; writes client_compat/SECURITY.md
	@$(PY) -m client_compat.matrix --scenario '^(security|rights)/' --broker ottla --broker kafka --dir .compat/run-security $(or $(ARGS),--page client_compat/SECURITY.md)

differential: $(STAMP) maven ## Send the same requests to Apache Kafka and Ottla, to one broker and to clusters of three, and print each field that differs
	@$(PY) -m client_compat.differential $(ARGS)

controller-differential: $(STAMP) maven ## Send the same random requests to Apache Kafka's controller and Ottla's, and print each decision that differs
	@$(PY) -m tests.support.controller_differential $(ARGS)

spark: $(STAMP) java ## Audit a log directory with Spark (DIR=.demo/idempotent)
	@if [ ! -e .demo/idempotent ] && [ "$(DIR)" = .demo/idempotent ]; then echo "There is no .demo/idempotent yet: run 'make demo', which leaves it, or name a directory: 'make spark DIR=ottla-data'" >&2; exit 2; fi
	@$(BIN)/ottla audit --engine spark $(DIR) $(ARGS)

audit-corpus: $(STAMP) java maven ## Audit logs with planted errors, valid logs and logs of real brokers: hits, misses and false alarms of each rule
	@$(PY) -m client_compat.audit_corpus $(ARGS)

claims: $(STAMP) maven ## Test what articles say about exactly-once, with real clients (ARGS="6 7 --json")
	@$(PY) -m client_compat.claims $(ARGS)

verify-samples: $(STAMP) ## Run `ottla verify` on the sample programs: the correct ones pass, each wrong one fails for its reason
	@$(PY) -m client_compat.verification $(ARGS)

known-bugs: $(STAMP) ## Reproduce known bugs of exactly-once with the clients that have them (ARGS=torn-transaction)
	@$(PY) -m client_compat.known_bugs $(ARGS)

audit-cluster: $(STAMP) java ## Audit through spark-submit on a standalone Spark master with two workers, and show each worker's share
	@$(PY) -m client_compat.audit_cluster $(ARGS)

spark-releases: $(STAMP) java ## Judge the corpus on DuckDB, on the pinned Spark and on Spark 3.5 (in an environment of its own): equal verdicts, byte for byte
	@$(PY) -m client_compat.spark_releases $(ARGS)

crash: $(STAMP) ## SIGKILL the broker 50 times under load and compare acks with the log
	@$(PY) -m client_compat.crash $(ARGS)

share-crash: $(STAMP) ## SIGKILL the broker 100 times while a share group works; no accepted record may be delivered again (ARGS="--kills 5", ARGS="--brokers 3")
	@$(PY) -m client_compat.crash --share --kills 100 --dir .share-crash $(ARGS)

chaos: $(STAMP) maven ## Inject 500 faults (kills, pauses, cut links, full disks) into three brokers and a controller under load, and judge the result (ARGS="--faults 20 --seed 3")
	@$(PY) -m client_compat.chaos $(ARGS)

cluster-mixed: $(STAMP) maven ## Restart, SIGKILL and SIGSTOP the brokers of a cluster 100 times under load, and judge their directories (ARGS="--faults 12 --fault takeover")
	@$(PY) -m client_compat.cluster_mixed $(ARGS)

streams: $(STAMP) maven ## Restart a Kafka Streams application and its broker ten times; every count has to be emitted once (ARGS="--rounds 10 --broker kafka")
	@$(PY) -m client_compat.streams $(ARGS)

sim: $(STAMP) ## Simulate a cluster with clients and faults from many seeds, and check its invariants (SEEDS=1000 JOBS=2, or ARGS="--seed 17")
	@$(PY) -m ottla.broker.sim --seeds $(SEEDS) --jobs $(JOBS) $(ARGS)

sim-mutations: $(STAMP) ## Break rules of replication, idempotence, transactions and the controller on purpose: the simulation has to find each
	@$(PY) -m ottla.broker.sim --mutations --seeds $(SEEDS) $(ARGS)

soak: $(STAMP) ## Live a week of a small busy cluster, its clocks advanced, and compare what each node holds with the first day (ARGS="--days 2")
	@$(PY) -m tests.support.soak $(ARGS)

fuzz: $(STAMP) maven ## Fuzz frames, batches, TLS and authentication of a live broker, with and without security, through a gateway, and a gateway by a hostile cluster, five minutes each; then its memory and event loop
	@$(PY) -m client_compat.fuzz $(ARGS)
	@$(PY) -m client_compat.fuzz --through-gateway $(ARGS)
	@$(PY) -m client_compat.fuzz.hostile_cluster $(ARGS)
	@$(PY) -m client_compat.fuzz --locked $(ARGS)
	@$(PY) -m client_compat.fuzz.memory
	@$(PY) -m client_compat.fuzz.large_requests

clean: ## Remove the targets' output, but no data directories
	@rm -rf $(VENV) $(VENV)-* .compat .container .site build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
