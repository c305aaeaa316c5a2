# Every target works on a fresh machine with Go alone, unless it says what else it needs.
GO ?= go
BIN := bin/sluice

.PHONY: build run test verify race fuzz bench diff clean

build: ## the static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN) ./cmd/sluice

run: build ## a broker on localhost:9092
	$(BIN) serve

test: ## everything that needs no other program
	$(GO) test ./...

verify: ## format and vet
	@test -z "$$(gofmt -l cmd compat controller kafkaproto log replica txn)" || { gofmt -l .; exit 1; }
	$(GO) vet ./...

race: ## the tests under the race detector
	$(GO) test -race -short $(shell $(GO) list ./... | grep -v /compat/)

fuzz: ## every fuzz target for a short time
	@for p in $$($(GO) list ./... ); do for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	  echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 20s -fuzzminimizetime 1x $$p || exit 1; done; done

bench: ## benchmarks with allocations
	$(GO) test -run '^$$' -bench . -benchmem $(shell $(GO) list ./... | grep -v /compat/)

diff: ## answers compared field by field with those recorded from Apache Kafka 4.4
	$(GO) test ./compat/diff

clean:
	rm -rf bin dist
