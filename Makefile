# The two commands of the README, and the few that a developer runs. All the building is CMake's: see CMakePresets.json.
JOBS ?= 2
OUT ?= out/demo
RELEASE := build/release

.PHONY: demo test serve bench reproductions build setup umbrella fields transcripts format ci clean
.DEFAULT_GOAL := build

## demo: build sluice-compare and compare a dozen systems on generated workloads, one of each seed: who leads and tables on
## the screen, a report in out/demo; SYSTEMS=all for all of them
SEEDS ?= 1..8
SYSTEMS ?= OneAtATime,VllmRecompute,VllmSwap,FutureMemory,Ellm,Pie,Confluence,FastServe,AptServe,Scorpio,OrbitFlow,SuperInfer,FlexGenPlus
demo: $(RELEASE)/build.ninja
	@cmake --build --preset release -j$(JOBS) --target sluice-compare
	$(RELEASE)/bin/sluice-compare --systems $(SYSTEMS) --deposit off --seeds $(SEEDS) --out $(OUT) --no-traces --iteration-rows 800 --audit

## test: build and run the test suite, without training (`.ci/run train`)
test: $(RELEASE)/build.ninja
	@cmake --build --preset release -j$(JOBS) --target tests
	@.ci/test-summary release -j$(JOBS) -LE '^train$$'

## serve: build sluice-serve and start it on the model that comes with the repository; SYSTEM=SuperInfer, FLAGS="--port 8081"
# The system with which requests without an SLO end soonest: docs/serving.md has the figures.
SYSTEM = Confluence
FLAGS =
serve: $(RELEASE)/build.ninja
	@cmake --build --preset release -j$(JOBS) --target sluice-serve
	$(RELEASE)/bin/sluice-serve --model demo --system $(SYSTEM) $(FLAGS)

## bench: what a step, a policy asked, a plan, a copy and a machine's host cost, in one table; about two minutes
bench: $(RELEASE)/build.ninja
	@cmake --build --preset release -j$(JOBS) --target bench_engine --target bench_placement --target bench_copy --target bench_host
	@bench/table.py $(RELEASE)/bin

## reproductions: write the tables of docs/reproductions.md and docs/reproductions/ anew; NAMES="superinfer mirage-c1" for some
NAMES =
reproductions: $(RELEASE)/build.ninja
	@cmake --build --preset release -j$(JOBS) --target sluice-compare $(addprefix --target ,$(if $(NAMES),$(filter bench_%,$(NAMES)),bench_orbitflow_paper bench_orbitflow_feedback bench_select_n_paper bench_ellm_paper bench_superinfer_paper bench_mirage_paper))
	@bench/reproductions.py $(NAMES)

## build: everything, benchmarks included
build: $(RELEASE)/build.ninja
	@cmake --build --preset release -j$(JOBS)

# Configured once: afterwards the build itself sees a changed CMakeLists.txt or a new file.
$(RELEASE)/build.ninja: | setup
	@cmake --preset release

## setup: install what is missing (Debian 12, root or sudo); nothing happens when nothing is
setup:
	@.ci/setup

## umbrella: write sluice/sluice.hpp, simulation.hpp and explore.hpp anew after adding or removing a header
umbrella:
	@cmake -P cmake/umbrella.cmake

## fields: write docs/fields.md anew after a field of View, RequestRow, PlacementTask or Plan has changed
fields:
	@cmake -P cmake/fields.cmake

## transcripts: record tests/transcripts anew with the programs that are built; git diff shows what changed
transcripts:
	@for file in tests/transcripts/*.txt; do SLUICE_BIN=$(CURDIR)/$(RELEASE)/bin tests/transcripts/play $$file --record; done

## format: clang-format every source in place
format:
	@git ls-files -z '*.hpp' '*.cpp' '*.cu' '*.cuh' '*.js' | xargs -0 clang-format-14 -i

## ci: everything that .ci/run checks
ci:
	@.ci/run

clean:
	@rm -rf build out
