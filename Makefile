# What the README names; .ci/run calls the same.

CARGO ?= cargo
LOCKED := --locked
# Arguments for `make demo` and `make bench...`, as in: make demo ARGS="--replicas 7"
ARGS ?=
# How long `make sim` and `make soak` run, and from which seed on the latter does.
MINUTES ?= 5
HOURS ?= 8
SEED ?= 1000000
# How many seeds `make seeds` runs.
SEEDS ?= 6000
# Which study `make study` runs.
NAME ?= batch-sizes
# Which commit's program `make upgrade` begins with.
REV ?= HEAD~1
# What `make sanitize-store` is built for.
HOST ?= x86_64-unknown-linux-gnu
# Which fuzz target `make fuzz` runs.
TARGET ?= all

# The build that `make demo` waits for; bench, study and soak take the release.
QUICK := --profile quick

.DEFAULT_GOAL := help
.PHONY: help demo test bench bench-backup bench-matrix attack bench-crypto bench-transport bench-store bench-store-full bench-store-threshold bench-store-test study studies-quick snow-studies pay-bench crash-store kill-store loom coverage pictures sim seeds soak twins upgrade mutants mutants-outside large model spec audit format-check pages services lint deny docs links book dist wasm snow-page package production unit unit-computing unit-waiting fuzz sanitize-store header bindings redis-clients

help: ## Print this.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Run a cluster with load on this machine, kill its leader, check every answer.
	$(CARGO) run $(LOCKED) $(QUICK) --bin quorate -- demo --seconds 20 $(ARGS)

bench: ## Measure four-replica clusters on this machine: JSON lines, then a table.
	$(CARGO) run $(LOCKED) --release --bin quorate -- bench $(ARGS)

bench-matrix: ## Measure every combination that works, then with one replica dead: about half an hour, resumable.
	$(CARGO) run $(LOCKED) --release --bin quorate -- bench matrix --out target/bench-matrix.jsonl $(ARGS)

bench-backup: ## What backups cost a cluster under load, and how long a restore takes; ARGS="ITEMS SECONDS".
	$(CARGO) build $(LOCKED) --release --bin quorate
	bench/backup.py target/release/quorate $(ARGS)

attack: ## Flood clusters on this machine in every way of THREAT_MODEL.md: what honest clients keep; a quarter of an hour, ARGS="--quick" for three minutes.
	$(CARGO) run $(LOCKED) --release --bin quorate -- bench attacks $(ARGS)

bench-crypto: ## Measure the signature schemes on this machine: a table, or ARGS="-o json".
	$(CARGO) run $(LOCKED) --release -p quorate-crypto --example bench_crypto -- $(ARGS)

bench-transport: ## What a message between two replicas costs, by its size, over TCP, QUIC and UDP.
	$(CARGO) run $(LOCKED) --release --package quorate-transport --example transport_cost -- $(ARGS)

study: ## Run a study of experiments/ in full (NAME=batch-sizes), resumable, and put its rows, table and charts into docs/studies.
	$(CARGO) run $(LOCKED) --release --bin quorate -- experiment run experiments/$(NAME).toml $(ARGS)
	$(CARGO) run $(LOCKED) --release --bin quorate -- experiment keep results/$(NAME) docs/studies/$(NAME)

studies-quick: ## Run every study of experiments/ in its quick form: to see that they work, not to quote.
	$(CARGO) build $(LOCKED) $(QUICK) --bin quorate
	for study in experiments/*.toml; do \
		target/quick/quorate experiment run $$study --quick --out target/studies-quick/$$(basename $$study .toml) \
			|| exit 1; \
	done
	target/quick/quorate snow study --quick --out target/studies-quick

snow-studies: ## The studies of the Snow family in full (docs/studies-snow.md), by name: ARGS="failure", ARGS="spends --attempts 100000".
	$(CARGO) run $(LOCKED) $(QUICK) --bin quorate -- snow study --out docs/studies $(ARGS)

pay-bench: ## Twenty payment nodes under load; six of them are killed and started again, and nothing accepted may be lost.
	$(CARGO) run $(LOCKED) $(QUICK) --bin quorate -- pay bench -n 20 --outstanding 800 --durability os --kill 6 $(ARGS)

bench-store: ## The store beside LMDB, redb, fjall and RocksDB (needs clang and cmake), resumable; ARGS="--items 10000000" (33 GiB of disk), "--help".
	cd bench/store && $(CARGO) run $(LOCKED) --release --features all -- $(ARGS)

bench-store-full: ## The store with 10^8 items: some 25 GiB of disk, about an hour, resumable; ARGS="--engines quorate,lmdb" for LMDB too (65 GiB).
	cd bench/store && $(CARGO) run $(LOCKED) --release --features heed -- \
		--engines quorate --items 100000000 --seconds 60 --out target/results/full $(ARGS)

bench-store-threshold: ## The store's threshold of sluggish splitting against time and footprint: half an hour, resumable.
	cd bench/store && $(CARGO) run $(LOCKED) --release -- threshold $(ARGS)

bench-store-test: ## Format, lints and tests of the store's benchmark, which `make test` does not build (needs clang and cmake).
	cd bench/store && $(CARGO) fmt --check
	cd bench/store && $(CARGO) clippy $(LOCKED) --release --features all --all-targets -- -D warnings
	cd bench/store && $(CARGO) test $(LOCKED) --release --features all

crash-store: ## Lose the power of a store in 100,000 ways and more; ARGS="states seed".
	$(CARGO) run $(LOCKED) --release --package quorate-store --example crash_states -- $(ARGS)

kill-store: ## kill -9 a store under load 200 times.
	QUORATE_STORE_KILLS=200 $(CARGO) test $(LOCKED) --package quorate-store --test lazy_trie kill

fuzz: ## Fuzz everything that reads what others send, MINUTES in all; TARGET=name for one; wants a C++ compiler.
	ci/fuzz.sh $(TARGET) $$(( $(MINUTES) * 60 )) $(ARGS)

# The flag is not stable, the runtime is shipped with every toolchain. SIGBUS is for the store's own handler.
sanitize-store: ## The store's tests, and those of its C library, under the address sanitizer, leaks included; some minutes.
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/sanitize ASAN_OPTIONS=handle_sigbus=0 \
		QUORATE_STORE_C_FLAGS="-fsanitize=address -g" \
		$(CARGO) test $(LOCKED) --target $(HOST) --package quorate-store --package quorate-store-c --lib --tests $(ARGS)

header: ## Write crates/store-c/quorate_store.h from the crate.
	QUORATE_WRITE_HEADER=1 $(CARGO) test $(LOCKED) --package quorate-store-c --test header

bindings: ## The store's C tests, and the Go package with its tests and example (wants go).
	$(CARGO) test $(LOCKED) --package quorate-store-c
	$(CARGO) build $(LOCKED) --package quorate-store-c
	@command -v go >/dev/null || { echo "go is missing: install Go 1.23 or newer" >&2; exit 1; }
	cd bindings/go && CGO_LDFLAGS="-L$(CURDIR)/target/debug" go vet ./... && CGO_LDFLAGS="-L$(CURDIR)/target/debug" go test -race -count=1 ./...
	cd examples/go && CGO_LDFLAGS="-L$(CURDIR)/target/debug" go run . $$(mktemp -d)/planets

loom: ## Every interleaving of the store's readers with its writer, and of its writers with the thread that makes checkpoints.
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test $(LOCKED) --package quorate-store --lib -- readers wish

sim: ## Five minutes of clusters on virtual time in which anything may go wrong; MINUTES=n for more.
	$(CARGO) run $(LOCKED) $(QUICK) --bin quorate -- sim --minutes $(MINUTES) $(ARGS)

# As the tests are built: it is as fast as the quick build, which is not built for it.
seeds: ## The first seeds of the simulator, the same on every machine; SEEDS=n, else six thousand.
	$(CARGO) run $(LOCKED) --bin quorate -- sim --seeds $(SEEDS)

soak: ## The same for a night (HOURS=n), with a report in docs/soak.md.
	$(CARGO) run $(LOCKED) --release --bin quorate -- sim --minutes $$(( $(HOURS) * 60 )) --seed $(SEED) \
		--markdown docs/soak.md $(ARGS)

mutants: ## Put each known bug into the core and see that the simulator finds it; writes docs/mutants.md.
	RUSTFLAGS="--cfg quorate_mutants" CARGO_TARGET_DIR=target/mutants $(CARGO) run $(LOCKED) --release \
		--package quorate-sim --example mutants -- -o markdown $(ARGS) > target/mutants.md
	mv target/mutants.md docs/mutants.md

mutants-outside: ## Put each bug of ci/mutants.txt into the crates around the core and see that its test fails; some minutes; ARGS="name ..." for some.
	ci/mutants.sh $(ARGS)

large: ## Sixty-four replicas as processes start, commit and stop; some minutes on two cores.
	QUORATE_TEST_REPLICAS=64 $(CARGO) test $(LOCKED) --package quorate --test processes -- committees

model: ## Every execution within a bound: all variants and their mutants, some minutes; ARGS=--steps prints the ways.
	$(CARGO) run $(LOCKED) --release -p quorate-model -- $(ARGS)

spec: ## The TLA+ specification explored, and recorded runs of the core held against it; wants java and mvn, some minutes.
	ci/tlc.sh
	$(CARGO) run $(LOCKED) -p quorate-model --bin quorate-spec -- explore
	$(CARGO) run $(LOCKED) -p quorate-model --bin quorate-spec -- traces $(ARGS)

redis-clients: ## Fetch redis-py, node-redis and, with Go, go-redis into target/tools, for the gateway's tests.
	python3 -m venv target/tools/redis-py && target/tools/redis-py/bin/pip install --quiet redis==8.1.0
	mkdir -p target/tools/node-redis && cd target/tools/node-redis && npm install --silent --no-audit --no-fund redis@6.3.1
	command -v go >/dev/null || { ci/skip.sh "go-redis" "go is missing" "install Go 1.24 or newer"; exit; }; \
	mkdir -p target/tools/go-redis && cd target/tools/go-redis && { test -f go.mod || go mod init client; } && go get github.com/redis/go-redis/v9@v9.23.0

# What a step had to skip on this machine it appends to the list, which is printed in the end.
SKIPPED := $(CURDIR)/target/skipped.txt

test: ## Everything a change must pass; what this machine lacks is fetched into target/, or skipped and said.
	@mkdir -p target && : > $(SKIPPED)
	@$(MAKE) --no-print-directory QUORATE_SKIPPED=$(SKIPPED) format-check pages deny lint docs links wasm snow-page production unit services
	@echo "make test: passed$$(test ! -s $(SKIPPED) || echo ', all but these:')"
	@sort -u $(SKIPPED)

audit: ## Look for known vulnerabilities (fetches the advisory database).
	ci/deny.sh advisories

format-check: ## The formatting.
	$(CARGO) fmt --all --check

lint: ## Clippy, warnings denied; in crates/core also the purity rules of its clippy.toml.
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- -D warnings

pages: ## Widths of comments, length of the README, files that comments and pages name, and what docs/studies.md and its pages say of kept rows.
	ci/pages.sh
	@if python3 -c 'import tomllib' 2>/dev/null; then ci/studies.py --check; \
	else ci/skip.sh studies "there is no python3 of 3.11 or newer" "install Python 3.11"; fi

services: ## The bank of examples/, and a crate of `quorate new`: format, lints, tests.
	ci/services.sh

deny: ## Bans, licences and sources of the dependencies.
	ci/deny.sh bans licenses sources

docs: ## The documentation, warnings denied.
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(LOCKED) --workspace --no-deps

snow-page: ## The module of the demonstration page is what its sources give; ARGS=--write builds both anew.
	ci/snow-page.sh $(ARGS)

wasm: ## Proof that crates/core needs no operating system.
	ci/wasm.sh

production: ## Proof that the program for production links no crate of the laboratory.
	ci/production.sh

coverage: ## Which lines of the protocols the core's tests run; fails under 95 %, and under 100 % of the safety rules.
	ci/coverage/run.sh

upgrade: ## Upgrade a cluster under load from the program of REV to this tree's, replica by replica, and back; builds both.
	ci/upgrade.py $(REV) $(ARGS)

twins: ## Twins testing: every scenario of three views, samples of up to twelve, for every protocol; some minutes.
	$(CARGO) build $(LOCKED) $(QUICK) --bin quorate
	target/quick/quorate twins run --protocol all --views 3 --exhaustive $(ARGS)
	target/quick/quorate twins run --protocol every --views 7 --sample 20000 $(ARGS)
	target/quick/quorate twins run --protocol every --views 12 --sample 10000 $(ARGS)
	target/quick/quorate twins run --protocol every --views 5 --by-phase --one-way --sample 10000 $(ARGS)

dist: ## What a release consists of, in target/dist: static program, archive, Debian package, SBOM, checksums; PROFILE=dev to see that it works.
	ci/dist.sh

package: ## Install the Debian package of `make dist` in fresh userlands, run what is in it as units of systemd, purge it; wants root, debootstrap, systemd-nspawn and a mirror.
	ci/package.sh $(ARGS)

book: ## One searchable site of README, docs and the rest in target/book/html, its links checked; fetches mdBook.
	ci/book.py
	test -x target/tools/mdbook/bin/mdbook || $(CARGO) install $(LOCKED) --root target/tools/mdbook mdbook@0.5.4
	target/tools/mdbook/bin/mdbook build target/book
	ci/book.py --built

links: ## Every link of README, docs and the rest leads somewhere.
	@if command -v python3 >/dev/null; then ci/book.py; \
	else ci/skip.sh links "there is no python3" "install Python 3"; fi

pictures: ## Draw docs/pictures again from the transcripts in tests/scripts.
	$(CARGO) run $(LOCKED) --quiet --package quorate-lab --example sequence -- --manifest docs/pictures/manifest.txt tests/scripts

# Tests that wait for nothing but the processor. All others start processes, or look at clocks.
# With quorate-lab among them cargo chooses the same features as for the workspace, and builds
# nothing anew.
COMPUTE := -p quorate-adversary -p quorate-core -p quorate-crypto -p quorate-lab -p quorate-merkle \
	-p quorate-model -p quorate-plot -p quorate-sim -p quorate-snow

unit: ## All tests, and the first seeds of the simulator. What only computes runs beside what mostly waits.
	$(CARGO) test $(LOCKED) --workspace --no-run
	ci/beside.sh unit-waiting "unit-computing seeds"

unit-computing:
	$(CARGO) test $(LOCKED) --no-fail-fast $(COMPUTE)

unit-waiting:
	$(CARGO) test $(LOCKED) --no-fail-fast --workspace $(patsubst -p,--exclude,$(COMPUTE))
