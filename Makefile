# `go test ./...` is the one test command; these are short names around it.
.PHONY: build test lint race fuzz bench demo ci

build:            ## the programs, into bin/
	CGO_ENABLED=0 go build -o bin/ ./cmd/...

test:             ## every test; needs Go alone
	go test ./...

lint:             ## format, vet, staticcheck
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	go vet ./...
	go tool staticcheck ./...

race:             ## every test under the race detector; needs a C compiler
	CGO_ENABLED=1 go test -race ./...

FUZZ_SECONDS ?= 20
fuzz:             ## each fuzz target for FUZZ_SECONDS
	@set -e; for package in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "--- $$package $$target"; \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_SECONDS)s $$package; \
	  done; \
	done

bench:            ## ratios against plain publishes; writes bench/out.json
	go run ./internal/bench

demo: build       ## one session on the embedded server, with a scripted provider
	bin/loopd demo

ci:               ## all that must hold before a change is taken
	bash .ci/run
