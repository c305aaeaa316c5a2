# Every target works on a fresh machine with Go alone, unless it says what else it needs.
GO ?= go
BIN := bin/sluice

# The version comes from the build information: the tag, or commit and date. A tree without git
# (or one that git refuses to read) builds as "devel".
VCS := $(shell git -C $(CURDIR) status --porcelain >/dev/null 2>&1 && echo true || echo false)

LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

GO_DIRS := kafkaproto log replica controller txn cmd compat

# What drives clients of others, or runs for long, has targets of its own.
FOREIGN := /compat/(clients|bench)(/|$$)
PACKAGES = $(shell $(GO) list ./... | grep -vE '$(FOREIGN)')

# Kafka's own tools: a script that runs each by its name, or a folder of kafka-*.sh.
KAFKA ?= $(abspath ../shared/tools/kafka/kafka)

FUZZTIME ?= 20s
COUNT ?= 1

.PHONY: help build run test verify generate tidy race lint fuzz bench bench-kafka diff compat soak clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

build: ## the static binary, bin/sluice
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(VCS) -o $(BIN) ./cmd/sluice

run: build ## a broker on localhost:9092 that keeps its data
	$(BIN) serve

test: ## everything that needs no JVM and no client of others
	$(GO) test $(PACKAGES)

verify: ## formatting, vet, rules of the house, generated documents
	@out=$$(find $(GO_DIRS) -name '.?*' -prune -o -name '*.go' -print0 | xargs -0 gofmt -l); test -z "$$out" || { echo "not formatted by gofmt:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) test ./compat/tidy
	$(GO) test -run 'Generated|Links|Parse|Replace' ./compat/docs

generate: ## the documents and lists that are made from the code
	$(GO) test -count=1 ./compat/docs -run TestGenerated -update
	$(GO) test -count=1 ./compat/tidy -update

tidy: ## go.mod and go.sum hold what is imported, no more
	$(GO) mod tidy -diff

race: ## the tests under the race detector (needs a C compiler)
	$(GO) test -race -short $(shell $(GO) list ./... | grep -v /compat/)

lint: ## golangci-lint, fetched and built at one version
	$(GO) run $(LINT) run ./...

fuzz: ## every fuzz target, $(FUZZTIME) each
	@GO="$(GO)" FUZZTIME="$(FUZZTIME)" compat/fuzz.sh

bench: ## benchmarks with allocations
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) $(shell $(GO) list ./... | grep -v /compat/) ./compat/bench

bench-kafka: ## the same load on this broker and on Apache Kafka 4.4, as ratios (BENCH="-pairs 5 -only consume")
	$(GO) run ./compat/bench $(BENCH)

diff: ## answers compared field by field with those recorded from Apache Kafka 4.4
	$(GO) test -count=1 ./compat/diff

soak: ## the proofs at their full amounts, into docs/soak/ledger.md (SOAK="-only kill")
	$(GO) run ./compat/soak $(SOAK)

compat: ## clients and tools made by others against the built broker (installs them under compat/.cache)
	compat/run
	@command -v java >/dev/null && test -e "$(KAFKA)" || { echo "README: no JVM or Kafka's tools here"; exit 0; }; \
	SLUICE_README="$(KAFKA)" $(GO) test -count=1 -run Readme ./compat/docs

clean: ## what the other targets made
	rm -rf bin dist
