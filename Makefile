# Every verb sets up what it needs.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMPLETE := $(VENV)/.complete
# Images for containers often forbid bytecode. Each run of pytest, and each mesh that a test starts, would compile all
# modules anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install demo picture docs reference demo-spark test test-tools test-long test-deep test-clients test-outside lint coverage fmt lock fuzz fuzz-guided bench bench-peers bench-spark bench-journal bench-check bench-document release clean
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## ?/\1\t/' | expand -t 14

install: $(STAMP) ## make .venv with .venv/bin/kafka-mesh
$(STAMP): PACKAGES := dev
# With those of the documents and of all tests.
$(COMPLETE): PACKAGES := dev,docs,spark,deltalake
$(STAMP) $(COMPLETE): pyproject.toml requirements.lock
	@command -v $(PYTHON) >/dev/null || { echo "kafka-mesh needs Python 3.11 or newer; name it with PYTHON=..."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint requirements.lock --editable '.[$(PACKAGES)]'
	@touch $(STAMP) $@

demo: install ## the main job on embedded clusters, e.g. make demo ARGS="--duration 20"
	@$(BIN)/kafka-mesh demo $(ARGS)

picture: install ## take the picture of the demo anew, of a real run
	@$(BIN)/python -m mesh.demo.picture docs/pictures/demo.svg

docs: $(COMPLETE) ## build the site of docs/ in build/site; warnings are errors; make docs ARGS="--serve" shows it while you write
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(if $(filter --serve,$(ARGS)),serve,build --strict)

reference: install ## write the pages that are generated from code: evidence, metrics, commands and others
	@$(BIN)/python -m tests.reference

demo-spark: $(COMPLETE) ## Spark lands a topic of two clusters beside a consumer, e.g. make demo-spark ARGS="--duration 30"
	@$(BIN)/python -m mesh.demo.landing $(ARGS)

test: test-tools ## all tests that a change must pass, three at a time: minutes; real brokers where Java 17 and Maven are
	$(BIN)/python -m tests.second_chance -m "not long and not alone and (not kafka or smoke)" -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

test-tools: $(COMPLETE) ## what make test needs besides Python: Kafka's jars, and an archive of their classes
	$(BIN)/python -m tests.integration.jars
	$(BIN)/python -m tests.integration.class_archive

test-long: install ## the other tests by shards of some ten minutes, e.g. make test-long SHARD=router; SHARD=all runs one after the other
	@$(BIN)/python -m tests.shards --check $(SHARD)
	$(BIN)/pip install --quiet --constraint requirements.lock --editable '.[dev,spark,deltalake,release]'
	$(BIN)/python -m tests.integration.jars all
	$(BIN)/python -m tests.integration.class_archive
	$(BIN)/python -m tests.clients.building
	$(BIN)/python -m tests.shards $(SHARD)

test-deep: $(COMPLETE) ## the long tests that CI has no time for, three at a time
	$(BIN)/python -m tests.clients.building
	$(BIN)/pytest -m deep -n 3 --dist loadgroup $(ARGS)

test-clients: install ## every client of docs/clients.md on real brokers, three tests at a time
	$(BIN)/python -m tests.clients.building
	$(BIN)/pytest -m long -n 3 tests/clients $(ARGS)

test-outside: install ## kgo's and librdkafka's own tests through a mesh, as pool and as relay; the latter's with KAFKA_MESH_LIBRDKAFKA=FOLDER, where they are built
	$(BIN)/pytest -m outside tests/outside $(ARGS)

.PHONY: chaos soak lives machines
SECONDS ?= 60
MINUTES ?= 0
chaos: install ## kill and hang everything by the plan of a seed, e.g. make chaos SEED=7 SECONDS=60, or MINUTES=30 for the seeds that follow
	$(BIN)/python -m tests.clients.building
	$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) --seconds $(SECONDS) --minutes $(MINUTES)

lives: install ## random lives of a pool, its leases and its logs, against a model of the promises, e.g. make lives MINUTES=60 SEED=1
	$(BIN)/python -m tests.pool.random_lives $(if $(SEED),--seed $(SEED)) --minutes $(if $(filter-out 0,$(MINUTES)),$(MINUTES),10)

machines: install ## the state machines of the tests, each alone, with random seeds, e.g. make machines MINUTES=60
	$(BIN)/python -m tests.random_machines --minutes $(if $(filter-out 0,$(MINUTES)),$(MINUTES),10)

soak: install ## five million records past stuck members, with an eye on memory, e.g. make soak MINUTES=10
	$(BIN)/python -m tests.chaos.soak --minutes $(if $(filter-out 0,$(MINUTES)),$(MINUTES),10)

lint: install ## ruff, mypy --strict, import contracts, names that nobody uses, the English of docs and docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.prose
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(BIN)/vulture mesh pyspark_kafka_mesh benchmarks tests/used_elsewhere.py

coverage: install ## how much of each file of the pure packages its own test file covers, alone
	$(BIN)/python -m tests.coverage_by_file $(ARGS)

fmt: install ## format and fix what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fuzz: install ## hostile requests by the million, against the decoder and the whole server, e.g. make fuzz ARGS="--seed 7 --requests 2000000"
	$(BIN)/python -m tests.wire.fuzz $(ARGS)
	$(BIN)/python -m tests.listener.fuzz $(ARGS)

.PHONY: fuzz-relay
COUNT ?= 1000000
fuzz-relay: install ## hostile clients and brokers at a relay, e.g. make fuzz-relay COUNT=1000000 ARGS="--seed 7"
	$(BIN)/python -m tests.runtime.relay.fuzz --count $(COUNT) $(ARGS)

TARGET ?= server
fuzz-guided: install ## coverage-guided, e.g. make fuzz-guided TARGET=decode ARGS="-runs=1000000" (tests/fuzz)
	$(BIN)/pip install --quiet --editable '.[dev,fuzz]'
	$(BIN)/python -m tests.fuzz $(TARGET) $(ARGS)

bench: install ## side by side on a real broker, e.g. make bench ARGS="--case java-s1k --rounds 5"; --list
	$(BIN)/python -m benchmarks $(ARGS)

bench-peers: install ## the same with Kroxylicious in the same rounds
	$(BIN)/python -m benchmarks --peers $(ARGS)

bench-spark: $(COMPLETE) ## the source for Spark beside Spark's own, e.g. make bench-spark ARGS="--rounds 3 --records 500000"
	$(BIN)/python -m benchmarks.spark $(ARGS)

bench-journal: install ## what part of the mesh's CPU its journal takes, to a tenth of a per cent, e.g. make bench-journal ARGS="--topic s100"
	$(BIN)/python -m benchmarks.journal $(ARGS)

bench-check: install ## every case of the benchmark in its short form, as a test: nothing is compared
	KAFKA_MESH_EVERY_CASE=1 $(BIN)/pytest -m long tests/benchmarks $(ARGS)

bench-document: install ## write what make bench measured into docs/performance.md
	$(BIN)/python -m benchmarks.document $(ARGS)

lock: ## renew requirements.lock from pyproject.toml
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --extra dev --extra bench --extra docs --extra release --extra spark --extra deltalake --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-annotate --no-header --output-file requirements.lock pyproject.toml

release: install ## the wheel, the source, the Helm chart and the list of what the wheel needs in dist/, each checked
	$(BIN)/pip install --quiet --constraint requirements.lock --editable '.[dev,release]'
	$(BIN)/python -m tests.release dist

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
