# Every command of this repository. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .cache/venv/bin
BUF := .cache/npm/node_modules/.bin/buf
SCRIPTS := .ci/run $(wildcard scripts/*.sh)
# The newest release: what the messages on the wire must stay compatible with.
RELEASE = $(shell git tag --list 'v[0-9]*' --merged HEAD --sort=-version:refname | head -n 1)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

.PHONY: run
run: ## start the service on its embedded store
	cargo run

.PHONY: build
build: ## build the service as released, into target/release/reprise
	cargo build --release --bin reprise

.PHONY: test
test: test-tools ## install what the tests need, then run all of them
	scripts/test.sh $(ARGS)

.PHONY: microbench
microbench: ## measure what needs no store: canonical JSON, decide, conversion; ARGS filter
	cargo bench --locked -p reprise-fingerprint -p reprise-domain -p reprise \
		--bench canonical --bench domain --bench convert -- $(ARGS)

.PHONY: test-tools
test-tools: ## install what the tests need: PostgreSQL 15 and 18, PgBouncer
	scripts/tools.sh test

.PHONY: check-tools
check-tools: ## install what the checks need: cargo-deny, buf, shellcheck
	scripts/tools.sh check

.PHONY: check
check: fmt-check lint deny proto shell doc ## all checks: format, lints, dependencies, protos, scripts, docs

.PHONY: fmt
fmt: ## format the code
	cargo fmt --all

.PHONY: fmt-check
fmt-check: ## fail where `make fmt` would change something
	cargo fmt --all --check

.PHONY: lint
lint: ## clippy on everything, warnings are errors
	cargo clippy --workspace --all-targets --profile test -- -D warnings

.PHONY: deny
deny: check-tools ## dependencies: bans, licences, sources; advisories where reachable
	$(VENV)/cargo-deny check --hide-inclusion-graph bans licenses sources
	@if timeout 60 $(VENV)/cargo-deny fetch db >/dev/null 2>&1; then \
		$(VENV)/cargo-deny check advisories; \
	else \
		echo "NOT CHECKED: advisories, their database cannot be reached from here"; \
	fi

.PHONY: proto
proto: check-tools ## lint the protos, compare them with the last release
	$(BUF) lint
	@if [ -n "$(RELEASE)" ]; then \
		echo "$(BUF) breaking, against $(RELEASE)"; \
		$(BUF) breaking --against '.git#tag=$(RELEASE)'; \
	else \
		echo "no release yet: nothing to compare the protos with"; \
	fi

.PHONY: shell
shell: check-tools ## shellcheck the scripts
	$(VENV)/shellcheck $(SCRIPTS)

.PHONY: doc
doc: ## build the documentation, warnings are errors
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --profile test

# Built in one go, so that both are built with the same features.
BENCH = cargo build --release -p reprise -p reprise-tests --bin reprise --example bench && \
	"$${CARGO_TARGET_DIR:-target}/release/examples/bench"

.PHONY: bench
bench: test-tools ## measure speed against direct SQL, an hour; see BENCHMARKS.md
	$(BENCH) $(ARGS)

.PHONY: bench-quick
bench-quick: test-tools ## the first five figures of it, under five minutes
	$(BENCH) --quick $(ARGS)

.PHONY: clean
clean: ## remove everything built or installed here
	rm -rf target .cache
