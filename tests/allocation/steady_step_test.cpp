// SPDX-License-Identifier: Apache-2.0
// A steady step allocates nothing, and an engine's memory does not grow with the length of its trace.
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/ellm.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/replan/once.hpp"
#include "sluice/policy/retention/hidden_states.hpp"
#include "sluice/report/observer/summary.hpp"

#include "allocation/allocations.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

// Every allocation of this program goes through these operators, which is why it is a separate program. The array and
// nothrow forms of the standard library call them.
std::atomic<std::int64_t> allocation_tests::allocations{0};

namespace {

using allocation_tests::allocations;

void* counted(std::size_t size, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  size = (size + alignment - 1) / alignment * alignment; // as aligned_alloc requires
  if (void* memory = std::aligned_alloc(alignment, size == 0 ? alignment : size)) return memory;
  throw std::bad_alloc{};
}
} // namespace

void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
// Inlined, they would show g++ a free() of what operator new returned, which it reports as mismatched.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

using namespace sluice;

namespace {

struct Memory {
  std::int64_t device = std::int64_t{1} << 40; ///< layer blocks
  std::int64_t host = std::int64_t{1} << 40;
  Bytes layer_weights{0};
};

template <class E>
E make_engine(int batch, Memory memory = {}, const Device& device = a100_80()) {
  const ModelShape shape = llama3_8b();
  const Roofline cost{shape, device};
  const Limits limits{.batch = batch, .max_context = Tokens{std::int64_t{1} << 40}};
  auto made = E::make({.limits = limits,
                       .geometry = {shape.layers, shape.layer_block_bytes(limits.block_tokens), memory.layer_weights,
                                    shape.layer_hidden_bytes(limits.block_tokens)},
                       .device_blocks = LayerBlocks{memory.device},
                       .host_blocks = LayerBlocks{memory.host},
                       .cost = cost,
                       .backend = Simulated{cost}});
  REQUIRE(made.has_value());
  return std::move(*made);
}

template <class E>
void submit(E& engine, std::int64_t count, Tokens output) {
  for (std::int64_t i = 0; i < count; ++i)
    REQUIRE(engine.submit({.arrival = engine.now(), .prompt = Tokens{100}, .output = output, .slo = {}}).has_value());
}

template <class E>
std::int64_t allocations_of(E& engine, int steps) {
  int ran = 0;
  const std::int64_t before = allocations.load();
  for (int i = 0; i < steps; ++i) ran += engine.step() == Stepped::ran ? 1 : 0;
  const std::int64_t during = allocations.load() - before;
  CHECK(ran == steps);
  return during;
}

struct Asked : Fcfs {
  static constexpr bool steady = false; // the engine asks every policy in every step
};

} // namespace

TEST_CASE("the counter counts") {
  const std::int64_t before = allocations.load();
  std::vector<int> memory(100);
  memory.resize(1000);
  CHECK(allocations.load() - before == 2);
}

TEST_CASE_TEMPLATE("a decode step allocates nothing, whether or not requests wait", E, Engine<>, Engine<Asked>,
                   Engine<EveryStep>, Engine<TokenDeposit>, Engine<Asked, OffloadAll, Once>, Engine<HiddenStates>,
                   Engine<Asked, HiddenStates>) {
  auto engine = make_engine<E>(32);
  submit(engine, 1000, Tokens{1'000'000});
  allocations_of(engine, 64); // prompts are computed, vectors find their size
  REQUIRE(engine.view().running.size() == 32);
  CHECK(allocations_of(engine, 2000) == 0);
}

TEST_CASE("a decode step with a Summary that has reserved its memory allocates nothing") {
  auto engine = make_engine<Engine<Summary>>(32);
  // The engine exposes what an observer has collected; the caller may reserve its memory before the run.
  const_cast<Summary::State&>(engine.observed<Summary>()).reserve(2000, 10'000);
  submit(engine, 1000, Tokens{1'000'000});
  allocations_of(engine, 64);
  CHECK(allocations_of(engine, 2000) == 0);
}

TEST_CASE("OrbitFlow allocates nothing while it decodes under a plan that offloads, or when it plans again") {
  // Four requests of 100 + 2000 tokens, with memory for about half of their KV: 32 layers x 132 blocks each.
  auto engine = make_engine<OrbitFlowPool>(4, {.device = 32 * 300});
  submit(engine, 4, Tokens{2000});
  bool offloads = false;
  std::int64_t planned = 0, last = -1;
  const auto watch = [&] {
    for (const Slot slot : engine.view().running) offloads |= !engine.view().row(slot).holding.all_resident();
    planned += engine.plan().made_at_step != last ? 1 : 0;
    last = engine.plan().made_at_step;
  };
  // The first run lets the workspaces grow to the largest problem.
  while (engine.alive() > 0 && engine.step() == Stepped::ran) watch();
  REQUIRE(offloads);
  REQUIRE(planned > 3);
  submit(engine, 4, Tokens{2000});
  allocations_of(engine, 8);
  planned = 0;
  offloads = false;
  std::int64_t during = 0;
  for (int i = 0; i < 1500; ++i) {
    during += allocations_of(engine, 1);
    watch();
  }
  CHECK(during == 0);
  CHECK(offloads);
  CHECK(planned > 1);
}

TEST_CASE_TEMPLATE("memory grows with the number of live requests, not with the number of requests so far", E, Engine<>,
                   OrbitFlowPool) {
  auto engine = make_engine<E>(3, {.device = 32 * 12}); // too little for three requests of 60 to 140 tokens
  std::int64_t submitted = 0, most_alive = 0, during = 0;
  // The load is constant: allocations in the second half would never stop.
  for (int half = 0; half < 2; ++half) {
    const std::int64_t before = allocations.load();
    for (int i = 0; i < 4000; ++i) {
      while (engine.alive() < 12) {
        const RequestSpec spec{.prompt = Tokens{40 + submitted % 50}, .output = Tokens{20 + submitted % 30}, .slo = {}};
        REQUIRE(engine.submit(spec).has_value());
        ++submitted;
      }
      most_alive = std::max(most_alive, engine.alive());
      engine.step();
    }
    during = allocations.load() - before;
  }
  CHECK(submitted > 300);
  CHECK(engine.view().rows.size() <= static_cast<std::size_t>(most_alive));
  // std::deque, the queue of waiting requests, takes a new block of 128 slots now and then and returns the last one.
  CHECK(during <= submitted / 64);
}

TEST_CASE(
    "eLLM allocates nothing while it chooses batch and share in every step, rebuilds some layers and fetches others") {
  auto engine = make_engine<Ellm>(8, {.device = 32 * 300});
  bool rebuilds = false;
  const auto watch = [&] {
    for (const Slot slot : engine.view().running) rebuilds |= !engine.view().row(slot).holding.nowhere.empty();
  };
  submit(engine, 8, Tokens{2000});
  while (engine.alive() > 0 && engine.step() == Stepped::ran) watch();
  REQUIRE(rebuilds);
  submit(engine, 8, Tokens{2000});
  allocations_of(engine, 8);
  rebuilds = false;
  std::int64_t during = 0;
  for (int i = 0; i < 1500; ++i) {
    during += allocations_of(engine, 1);
    watch();
  }
  CHECK(during == 0);
  CHECK(rebuilds);
}

TEST_CASE("SuperInfer allocates nothing while it rotates requests through the host and copies their blocks ahead") {
  auto engine = make_engine<SuperInfer>(8, {.device = 32 * 300});
  std::int64_t rotated = 0;
  bool copied = false;
  const auto watch = [&] {
    rotated = 0;
    for (const Slot slot : engine.view().running) {
      rotated += engine.view().row(slot).times_preempted;
      copied |= engine.view().row(slot).holding.copied.count() > 0;
    }
  };
  submit(engine, 8, Tokens{2000});
  while (engine.alive() > 0 && engine.step() == Stepped::ran) watch();
  submit(engine, 8, Tokens{2000});
  allocations_of(engine, 500); // memory is full, and the lists of two decisions reach their size
  copied = false;
  std::int64_t during = 0;
  for (int i = 0; i < 1500; ++i) {
    during += allocations_of(engine, 1);
    watch();
  }
  CHECK(during == 0);
  CHECK(copied);
  CHECK(rotated > 100);
}

TEST_CASE("MIRAGE allocates nothing while KV grows into the memory of weights that stream") {
  // This link hides the transfers of some layers, and an A100's would hide no layer's.
  auto engine =
      make_engine<Mirage>(8, {.device = 32 * 300, .layer_weights = llama3_8b().layer_weight_bytes()}, gh200_96());
  bool lent = false, resident = false;
  const auto watch = [&] {
    lent |= engine.plan().weights.level > 0;
    resident |= engine.plan().weights.level == 0;
  };
  submit(engine, 8, Tokens{2000});
  while (engine.alive() > 0 && engine.step() == Stepped::ran) watch();
  REQUIRE(lent);
  submit(engine, 8, Tokens{2000});
  allocations_of(engine, 8);
  lent = resident = false;
  std::int64_t during = 0;
  for (int i = 0; i < 1500; ++i) {
    during += allocations_of(engine, 1);
    watch();
  }
  CHECK(during == 0);
  CHECK(resident);
  CHECK(lent);
}
