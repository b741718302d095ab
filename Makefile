## make check   everything CI checks: gofmt, vet, staticcheck, go mod tidy -diff, all tests with the
##              race detector and the coverage gates, each fuzz target for FUZZTIME (10s)
## make build   compile everything; the command line goes to bin/harness
## make test    the tests alone (PKG=./engine/router for some of them)
## make cover   the tests, and the coverage of every package; leaves cover.out
## make fuzz    every fuzz target for FUZZTIME (5m)
## make sdks    install the stock iii SDKs, which tests and benchmarks run, into the user's cache;
##              needs node, npm and python3
## make bench   every benchmark (PKG for some packages, BENCH for a pattern)
## make bench-sdk  dev with two processes on the stock Node SDK, beside the iii engine's figures
## make fmt     format the code
## make vet, make lint, make tidy   one check each of those `make check` makes first
##
## With Go and make alone the tests run without the race detector, which needs a C compiler, and those
## that need another tool are skipped; both are said. Under CI=true either is a failure.

GO ?= go
PKG ?= ./...
BENCH ?= .

# A CC that names no program would make Go try cgo and fail; without CC, Go looks for itself.
ifeq ($(origin CC),environment)
ifeq ($(shell command -v $(firstword $(CC))),)
export CGO_ENABLED := 0
endif
endif

.DEFAULT_GOAL := help
.PHONY: help sdks bench-sdk build fmt fmt-check vet lint tidy test cover check fuzz bench

help:
	@sed -n 's/^## \{0,1\}//p' Makefile

build:
	$(GO) build ./...
	$(GO) build -o bin/ ./engine/cmd/harness

fmt:
	$(GO) fmt ./...

fmt-check:
	$(GO) run ./scripts/check gofmt

vet:
	$(GO) vet ./...

lint:
	$(GO) tool staticcheck ./...

tidy:
	$(GO) mod tidy -diff

test:
	$(GO) run ./scripts/check test $(PKG)

cover:
	$(GO) run ./scripts/check cover

check: fmt-check vet lint tidy
	$(GO) run ./scripts/check all -fuzztime $(or $(FUZZTIME),10s)

fuzz:
	$(GO) run ./scripts/check fuzz -time $(or $(FUZZTIME),5m) $(PKG)

bench-sdk:
	$(GO) run ./scripts/bench -sdk

sdks:
	$(GO) run ./scripts/sdks

bench:
	$(GO) run ./scripts/bench -bench '$(BENCH)' $(PKG)
