// SPDX-License-Identifier: Apache-2.0
// bench_tiers: what a block in a full tier of a million blocks costs: to look up, and to write while another is
// evicted, also beside pins; and the memory that a block takes. Requests have 64 blocks. And what WithinSlos' decision
// costs for one request that would join.
#include "sluice/core/random.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/caching/within_slos.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/state/memory/tier_store.hpp"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <list>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace {

using namespace sluice;

constexpr std::size_t blocks = 1'000'000, path = 64;

std::vector<BlockKey> keys_of(std::uint64_t request) {
  std::vector<BlockKey> keys;
  BlockKey key{};
  for (std::size_t i = 0; i < path; ++i) keys.push_back(key = next_key(key, (request << 8) + i));
  return keys;
}

/// A twin of `least_recent` from the standard library. A block that is used again moves within the list, and a new one
/// takes the node of the evicted one, so that only the table allocates.
class ListStore {
 public:
  [[nodiscard]] std::size_t find(std::span<const BlockKey> keys) const {
    std::size_t found = 0;
    while (found < keys.size() && places_.count(static_cast<std::uint64_t>(keys[found])) > 0) ++found;
    return found;
  }
  void store(std::span<const BlockKey> keys) {
    for (std::size_t i = keys.size(); i-- > 0;) {
      const auto [place, added] = places_.try_emplace(static_cast<std::uint64_t>(keys[i]));
      if (!added) {
        list_.splice(list_.end(), list_, place->second);
        continue;
      }
      if (list_.size() < blocks) {
        list_.push_back(static_cast<std::uint64_t>(keys[i]));
      } else {
        places_.erase(list_.front());
        list_.splice(list_.end(), list_, list_.begin());
        list_.back() = static_cast<std::uint64_t>(keys[i]);
      }
      place->second = std::prev(list_.end());
    }
  }

 private:
  std::list<std::uint64_t> list_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
};

template <class Store, class Put>
void write_and_evict(benchmark::State& state, Store& store, Put put) {
  std::uint64_t request = 0;
  for (; request < blocks / path; ++request) put(store, keys_of(request));
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<std::vector<BlockKey>> next;
    for (int i = 0; i < 1000; ++i) next.push_back(keys_of(request++));
    state.ResumeTiming();
    for (const std::vector<BlockKey>& keys : next) put(store, keys);
  }
  state.counters["ns/block"] =
      benchmark::Counter(static_cast<double>(1000 * path) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
template <class Store, class Put>
void look_up(benchmark::State& state, Store& store, Put put) {
  Random random(1);
  for (std::uint64_t request = 0; request < blocks / path; ++request) put(store, keys_of(request));
  std::size_t found = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<std::vector<BlockKey>> next;
    for (int i = 0; i < 1000; ++i) next.push_back(keys_of(random.below(blocks / path)));
    state.ResumeTiming();
    for (const std::vector<BlockKey>& keys : next) found += store.find(keys);
  }
  benchmark::DoNotOptimize(found);
  state.counters["ns/block"] =
      benchmark::Counter(static_cast<double>(1000 * path) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Writes requests to a tier. A block's worth is random and grows with time, so that leaves move through the heap and
/// new blocks are stored; a constant worth would leave each leaf at its place.
class Writer {
 public:
  void operator()(TierStore& store, const std::vector<BlockKey>& keys) {
    constexpr double tier = static_cast<double>(blocks) / static_cast<double>(path); // requests
    ++requests_;
    store.store(keys, TierStore::Forget{}, [&](std::size_t i) { // a key is a hash
      return requests_ + tier * 0x1.0p-64 * static_cast<double>(static_cast<std::uint64_t>(keys[i]));
    });
  }

 private:
  double requests_ = 0;
};

void write_tier(benchmark::State& state) {
  TierStore store(TokenBlocks{static_cast<std::int64_t>(blocks)}, static_cast<Replacement>(state.range(0)));
  write_and_evict(state, store, Writer{});
  state.counters["bytes/block"] = static_cast<double>(store.bytes()) / static_cast<double>(blocks);
  state.SetLabel(std::string{name(store.replacement())});
}
void look_up_tier(benchmark::State& state) {
  TierStore store(TokenBlocks{static_cast<std::int64_t>(blocks)}, static_cast<Replacement>(state.range(0)));
  look_up(state, store, Writer{});
  state.SetLabel(std::string{name(store.replacement())});
}
/// The same, where room is made before each request as on a real machine. If `state.range(1)`, half of the tier is
/// pinned: all that would leave first. Includes a look-up of each block that might leave, as a machine's tier has one.
void evict_beside_pins(benchmark::State& state) {
  TierStore store(TokenBlocks{static_cast<std::int64_t>(blocks)}, static_cast<Replacement>(state.range(0)));
  Writer write;
  std::unordered_set<std::uint64_t> pinned;
  const auto put = [&](const std::vector<BlockKey>& keys) {
    (void)store.make_room_for(
        path, std::numeric_limits<double>::infinity(),
        [&](BlockKey key) { return pinned.count(static_cast<std::uint64_t>(key)) > 0; }, [](BlockKey) {});
    write(store, keys);
  };
  if (state.range(1) != 0)
    for (std::uint64_t request = 0; request < blocks / path / 2; ++request)
      for (const BlockKey key : keys_of(request)) pinned.insert(static_cast<std::uint64_t>(key));
  write_and_evict(state, store, [&](TierStore& /*store*/, const std::vector<BlockKey>& keys) { put(keys); });
  state.SetLabel(std::string{name(store.replacement())});
}
void write_lists(benchmark::State& state) {
  ListStore store;
  write_and_evict(state, store, [](ListStore& to, const std::vector<BlockKey>& keys) { to.store(keys); });
}
void look_up_lists(benchmark::State& state) {
  ListStore store;
  look_up(state, store, [](ListStore& to, const std::vector<BlockKey>& keys) { to.store(keys); });
}

/// A batch of `running` requests that decode behind 2,000 tokens, every eighth with every fourth layer on the host if
/// `offloads`, and one that finds `prefix` blocks of its prompt on the host.
void decide_within_slos(benchmark::State& state) {
  const auto running = static_cast<std::uint32_t>(state.range(0));
  const std::int64_t prefix = state.range(1);
  const bool offloads = state.range(2) != 0;
  const ModelShape shape = llama3_8b();
  const Roofline cost(shape, *find_device("h100"));
  const Geometry geometry{shape.layers, shape.layer_block_bytes(Tokens{16}), shape.layer_weight_bytes()};
  LayerSet away;
  for (int layer = 0; layer < shape.layers; layer += 4) away.insert(layer);
  std::vector<RequestRow> rows(running);
  std::vector<Slot> slots;
  for (std::uint32_t i = 0; i < running; ++i) {
    RequestRow& row = rows[i];
    row.spec.prompt = row.computed = Tokens{2'000};
    row.spec.slo.tbt = Seconds{0.05};
    row.generated = row.delivered = Tokens{1};
    row.blocks = TokenBlocks{125};
    if (offloads && i % 8 == 0) row.holding.host = away;
    slots.push_back(Slot{i});
  }
  RequestRow joins;
  joins.spec.prompt = Tokens{16 * prefix + 100};
  joins.spec.slo = {Seconds{0.5}, Seconds{0.05}};
  FoundPrefix found;
  found.below = Tokens{16 * prefix};
  const Plan plan;
  const Ledger ledger;
  View view;
  view.geometry = geometry;
  view.limits.batch = static_cast<int>(running) + 1;
  view.limits.batch_tokens = Tokens{1'024};
  view.rows = rows;
  view.running = slots;
  view.ledger = &ledger;
  view.plan = &plan;
  static const EstimateTable table{
      [](const void* self, const Work& work) { return static_cast<const Roofline*>(self)->step(work); },
      [](const void* self) { return static_cast<const Roofline*>(self)->link(); },
      &evaluate_after_repeats<DeadlinePool>};
  for (auto _ : state)
    benchmark::DoNotOptimize(
        WithinSlos<WriteThrough>{}.reuse(view, joins, found, cost, Estimate{table, &cost, geometry}));
}

BENCHMARK(decide_within_slos)
    ->ArgNames({"running", "blocks", "offloads"})
    ->ArgsProduct({{16, 256}, {100, 1000}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(write_tier)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);
BENCHMARK(evict_beside_pins)
    ->ArgNames({"rule", "pins"})
    ->ArgsProduct({{0, 1, 2, 3}, {0, 1}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(write_lists)->Unit(benchmark::kMillisecond);
BENCHMARK(look_up_tier)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);
BENCHMARK(look_up_lists)->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
