# Flint's everyday commands. `make` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

.PHONY: help build run demo test lint fmt bench-overhead bench-coldstart bench-quick bench-parts fuzz-short samples clean

help: ## this list
	@echo 'make TARGET, where TARGET is'
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20
	@echo 'First time here: ./bootstrap.sh, then make run'

build: ## the release binary
	@scripts/build.sh

run: ## build, start on 127.0.0.1:3233, resize the photographs with three functions, stay up (LISTEN=…, DATA_DIR=…)
	@scripts/demo.sh --stay $(if $(LISTEN),--listen $(LISTEN)) $(if $(DATA_DIR),--data-dir $(DATA_DIR))

demo: ## the same on a free port with its own data; stops the server; exit code 0 or 1
	@scripts/demo.sh

test: ## every test
	@scripts/test.sh

lint: ## formatting, clippy, licences and sources of the dependencies
	@scripts/test.sh format clippy deny

fmt: ## format the Rust code
	@. scripts/lib.sh && cargo fmt --all

bench-overhead: ## what Flint adds to a call (both cores should be free), as JSON
	@flint=$$(scripts/build.sh) && "$$flint" bench overhead --json

bench-coldstart: ## how a new instance comes to be, in every way there is (both cores should be free), as JSON
	@flint=$$(scripts/build.sh) && "$$flint" bench coldstart --json

bench-quick: ## what SPECIFICATION.md promises of speed and memory, measured quickly, as one table (both cores should be free; ten minutes)
	@flint=$$(scripts/build.sh) && scripts/baselines/install.sh && "$$flint" bench promises

bench-parts: ## what SPECIFICATION.md promises of Flint's parts by themselves, as one table (both cores should be free; ten minutes)
	@scripts/bench-parts.sh

fuzz-short: ## every fuzz target for 20 seconds (SECONDS_EACH=…)
	@scripts/fuzz-short.sh $(SECONDS_EACH)

samples: ## the dependencies and jars of the sample functions
	@functions/samples/build.sh

clean: ## what was built here (cargo's target directory too)
	@scripts/clean.sh
