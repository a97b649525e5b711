# Verbs only; CMake does the work. Variables: PRESET PREFIX DESTDIR JOBS DEMO_ARGS CTEST_ARGS BENCH_QUICK PEERS_ARGS FUZZ_SECONDS

PRESET ?= release
PREFIX ?= /usr/local
JOBS ?= 2
BUILD := build/$(PRESET)
CTEST := ctest --output-on-failure --no-tests=error -j$(JOBS) $(CTEST_ARGS)

.PHONY: help setup build demo check check-fast bench bench-peers chaos sanitize fuzz fuzz-ci install format clean abi-baseline
.DEFAULT_GOAL := help

help: ## Print this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1|/p' Makefile | while IFS='|' read -r verb text; do \
	  printf '  make %-13s %s\n' "$$verb" "$$text"; done
	@echo '  Variables: JOBS=2 (at a time) PRESET=release PREFIX=/usr/local DESTDIR='


setup: ## Install the Debian packages that are missing and make .venv
	@scripts/setup.sh
	@scripts/python_env.sh base || test $$? -eq 3

build: ## Configure and build PRESET (release: RelWithDebInfo, -O3)
	@cmake --preset $(PRESET)
	@cmake --build --preset $(PRESET) -j$(JOBS)

demo: setup ## Actors and a learner share trajectories through geard (DEMO_ARGS="--env ...")
	@cmake --preset $(PRESET)
	@cmake --build --preset $(PRESET) -j$(JOBS) --target geard gearctl gear
	@scripts/python_env.sh
	@.venv/bin/python bindings/python/examples/demo.py $(DEMO_ARGS)

check: setup build ## Every test
	@scripts/python_env.sh || test $$? -eq 3
	@$(CTEST) --test-dir $(BUILD)

check-fast: setup build ## The tests that take seconds
	@$(CTEST) --test-dir $(BUILD) -LE '^(slow|stress)$$'

bench: setup build ## Measure every row against its baseline (BENCH_QUICK=1: under 40 s)
	@mkdir -p build/bench
	@$(BUILD)/gear_bench

chaos: setup build ## Kill clients and geard under load, verify everything (CHAOS_SECONDS=600 GEAR_TEST_SEED)
	@$(BUILD)/gear_chaos $(BUILD)/geard

bench-peers: setup build ## Measure GEAR against Reverb, cpprb and TorchRL (PEERS_SECONDS PEERS_REPEATS PEERS_ARGS)
	@scripts/python_env.sh
	@scripts/bench_peers.sh $(PEERS_ARGS)

sanitize: setup ## Tests under address, undefined and thread sanitizers
	@scripts/sanitize.sh $(JOBS)

fuzz: setup ## Each libFuzzer target for FUZZ_SECONDS (600), JOBS at a time, then the parser files' line coverage (needs clang)
	@if ! command -v clang++ >/dev/null; then echo "skipped: clang++ is missing, whose libFuzzer this uses"; exit 0; fi; \
	cmake --preset fuzz && cmake --build --preset fuzz -j$(JOBS) --target gear_fuzzers || exit 1; \
	JOBS=$(JOBS) FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) tests/fuzz/run.sh build/fuzz || test $$? -eq 77

fuzz-ci: ## As fuzz, 60 s each
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=60

install: build ## Install to PREFIX (/usr/local) under DESTDIR
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)

format: ## clang-format the sources
	@scripts/format.sh

abi-baseline: build ## Accept today's ABI as the one that must not break
	@/usr/bin/env python3 tests/abi/abi.py baseline . $(BUILD)/libgear.so

clean: ## Remove build/
	@rm -rf build
