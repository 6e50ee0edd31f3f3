// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/units.hpp"
#include "sluice/world/machine/link_schedule.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

namespace sluice {
namespace {

constexpr KvBlockShape streamed_shape{4, 32, 4};
constexpr int streamed_layers = 8;

CopySince at(int second) { return CopySince{std::chrono::seconds{second}}; }

/// One iteration in which every layer's KV crosses the link, through room for two streamed_layers.
class Streamed {
 public:
  Streamed(int requests, int blocks, CopiesCount count = CopiesCount::when_begun)
      : requests_(requests),
        blocks_(blocks),
        device_(streamed_shape.bytes() * (2 * std::int64_t{requests} * blocks)),
        store_(streamed_shape, device_, LayerBlocks{std::int64_t{streamed_layers} * requests * blocks},
               2 * std::int64_t{requests} * blocks),
        sequences_(store_, streamed_layers),
        weights_(ModelWeights{}, device_, Bytes{0}, Bytes{1}),
        schedule_(store_, sequences_, weights_, streamed_layers, true, count) {
    for (int layer = 0; layer < streamed_layers; ++layer)
      for (int request = 0; request < requests_; ++request) fill(request, layer);
  }

  /// How many needs the schedule looks at per block. Layers compute as soon as their blocks have arrived.
  double looks_per_block(TransferOrder order) {
    begin(order);
    const std::int64_t before = schedule_.looks().needs;
    std::int64_t arrived = 0;
    for (int layer = 0; layer < streamed_layers; ++layer) {
      while (schedule_.next(Way::to_device)) {
        (void)schedule_.ended(Way::to_device, CopyOutcome::done, {}, {});
        ++arrived;
      }
      CHECK(arrived >= std::int64_t{requests_} * blocks_ * (layer + 1));
      if (layer % 2 == 0) schedule_.computes(layer); // nobody has seen the others start
      for (int request = 0; request < requests_; ++request) leave(request, layer);
      schedule_.launched(layer);
      schedule_.computed(layer);
    }
    return static_cast<double>(schedule_.looks().needs - before) / static_cast<double>(arrived);
  }

  /// When the first copy of the second layer could begin, and the times before and after the first layer's end.
  std::array<CopySince, 3> second_layer_opened() {
    begin({TransferOrder::Start::previous_own_layer_ends, TransferOrder::Share::equal});
    while (schedule_.next(Way::to_device)) (void)schedule_.ended(Way::to_device, CopyOutcome::done, {}, {});
    schedule_.computes(0);
    CHECK_FALSE(schedule_.next(Way::to_device));
    for (int request = 0; request < requests_; ++request) leave(request, 0);
    schedule_.launched(0);
    const CopySince before = std::chrono::steady_clock::now();
    schedule_.computed(0);
    const CopySince after = std::chrono::steady_clock::now();
    const std::optional<PlacedCopy> copy = schedule_.next(Way::to_device);
    REQUIRE(copy);
    (void)schedule_.ended(Way::to_device, CopyOutcome::done, {}, {});
    return {before, copy->since, after};
  }
  /// The same for two neighbours without a copy, which are evicted one after the other: one copy.
  std::array<CopySince, 3> evicted() {
    BlockTable& one = table(0, 0);
    for (std::int32_t block = 0; block < 2; ++block) {
      REQUIRE(store_.step(one.one(block), BlockEvent::release));
      REQUIRE(store_.take(one, one.cut(block), 1) == 1);
    }
    const CopySince before = std::chrono::steady_clock::now();
    schedule_.evict(sequences_.ref(*sequences_.find(slot(0)), 0, 0), one.one(0));
    const CopySince after = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() == after) continue;
    schedule_.evict(sequences_.ref(*sequences_.find(slot(0)), 0, 1), one.one(1));
    const std::optional<PlacedCopy> copy = schedule_.next(Way::to_host);
    REQUIRE(copy);
    return {before, copy->since, after};
  }

 private:
  void begin(TransferOrder order) {
    std::vector<KvNeed> needs;
    for (int layer = 0; layer < streamed_layers; ++layer) {
      schedule_.room().reserved(layer, true) = schedule_.room().missing(layer) = std::int64_t{requests_} * blocks_;
      for (int request = 0; request < requests_; ++request)
        table(request, layer).each(0, blocks_, [](BlockRun& run) { run.awaited = true; });
    }
    for (int position = 0; position < 2 * streamed_layers; ++position)
      for (int request = 0; request < requests_; ++request) {
        KvNeed need;
        need.slot = static_cast<std::uint32_t>(request);
        need.generation = sequences_.generation(slot(request));
        need.layer = position % streamed_layers;
        need.position = position;
        need.previous = position - 1;
        need.end = blocks_;
        needs.push_back(need);
      }
    std::vector<WeightNeed> no_weights;
    schedule_.begin(order, needs, 0, no_weights);
  }
  static Slot slot(int request) { return Slot{static_cast<std::uint32_t>(request)}; }
  BlockTable& table(int request, int layer) {
    BlockTable& one = sequences_.of(slot(request), RequestId{static_cast<std::uint32_t>(request)})
                          .tables[static_cast<std::size_t>(layer)];
    one.grow(blocks_);
    return one;
  }
  void fill(int request, int layer) {
    BlockTable& one = table(request, layer);
    REQUIRE(store_.take(one, 0, blocks_) == blocks_);
    one[0].tokens = 4;
    PlacedCopy copy;
    REQUIRE(store_.step(one[0], BlockEvent::evict));
    REQUIRE(store_.send(one, 0, blocks_, false, copy) == blocks_);
    store_.ended({static_cast<std::size_t>(one[0].device), static_cast<std::size_t>(blocks_)});
    REQUIRE(store_.sent(one[0]));
  }
  void leave(int request, int layer) {
    table(request, layer).each(0, blocks_, [&](BlockRun& run) {
      REQUIRE(store_.step(run, BlockEvent::evict));
      CHECK(run.on_host());
    });
  }

  int requests_, blocks_;
  DeviceMemory device_;
  KvStore store_;
  KvSequences sequences_;
  WeightStore weights_;
  LinkSchedule schedule_;
};

} // namespace

TEST_CASE("choosing a copy costs no more for many requests than for few") {
  for (const TransferOrder::Start start : {TransferOrder::Start::room, TransferOrder::Start::previous_layer_starts,
                                           TransferOrder::Start::previous_own_layer_ends})
    for (const TransferOrder::Share share : {TransferOrder::Share::equal, TransferOrder::Share::nearest}) {
      CAPTURE(static_cast<int>(start));
      CAPTURE(static_cast<int>(share));
      Streamed few(4, 64), many(64, 4); // the same bytes
      const double of_few = few.looks_per_block({start, share}), of_many = many.looks_per_block({start, share});
      CHECK(of_many <= 1.5 * of_few);
      CHECK(of_many <= 2);
    }
}

TEST_CASE("a link with threads is told since when a copy could begin") {
  Streamed streamed{3, 4, CopiesCount::when_ended};
  for (const auto& [before, since, after] : {streamed.second_layer_opened(), streamed.evicted()}) {
    CHECK(before <= since);
    CHECK(since <= after);
  }
}

TEST_CASE("a need is open since the last of the events that it waits for") {
  constexpr int layers = 3;
  const auto need = [](int position, int previous, bool first) {
    KvNeed one;
    one.position = position;
    one.layer = position % layers;
    one.previous = previous;
    one.first = first;
    one.end = 1;
    return one;
  };
  const auto opened = [&](TransferOrder::Start start) {
    std::vector<KvNeed> list{need(0, -1, true), need(0, -1, false), need(2, 0, false), need(3, 2, false)};
    KvNeeds needs{layers};
    needs.begin(list, 1, start, at(0));
    IterationProgress progress;
    for (int layer = 0; layer < layers; ++layer) {
      progress.computing = layer;
      needs.reach(progress, at(10 * layer + 1));
      progress.launched = layer + 1;
      needs.reach(progress, at(10 * layer + 2));
      progress.computed = layer + 1;
      needs.reach(progress, at(10 * layer + 3));
    }
    std::vector<CopySince> times;
    for (std::size_t i = 0; i < needs.size(); ++i) times.push_back(needs[i].since);
    return times;
  };
  CHECK(opened(TransferOrder::Start::room) == std::vector{at(0), at(0), at(0), at(2)});
  CHECK(opened(TransferOrder::Start::previous_layer_starts) == std::vector{at(0), at(0), at(11), at(21)});
  CHECK(opened(TransferOrder::Start::previous_own_layer_ends) == std::vector{at(0), at(0), at(3), at(23)});
}

TEST_CASE("streamed weights are open since they have a slot and their order lets them start") {
  constexpr int layers = 4;
  const std::byte image[64] = {};
  // The times at which the copies of the layers' weights could begin, through two slots.
  const auto opened = [&](TransferOrder::Start start) {
    ModelWeights model;
    model.config.shape.layers = layers;
    model.layout.add(LayerTensor::query, 4, 4, ElementType::f32);
    model.layers.assign(layers, {image});
    DeviceMemory device{Bytes{1000}};
    WeightStore store{model, device, Bytes{0}, Bytes{1}, 32};
    WeightsPlan plan;
    plan.streamed = LayerSet::all(layers);
    plan.slots = 2;
    REQUIRE(store.load(plan, [](const PlacedCopy&) {}));
    WeightPassages passages{store, layers};
    std::vector<WeightNeed> list{{0, false}, {1, false}, {2, false}, {3, false}, {layers, false}};
    passages.begin(list);
    IterationProgress progress;
    passages.open(progress, start, at(0));
    std::vector<CopySince> times;
    const auto pump = [&] {
      WeightPassages::Piece piece;
      while (const std::optional<PlacedCopy> copy = passages.next(100, piece)) {
        passages.complete(piece, false);
        passages.ended(piece);
        times.push_back(copy->since);
      }
    };
    pump();
    for (int layer = 0; layer < layers; ++layer) {
      progress.computing = layer;
      passages.open(progress, start, at(10 * layer + 1));
      store.computed(layer);
      progress.launched = layer + 1;
      passages.open(progress, start, at(10 * layer + 2));
      progress.computed = layer + 1;
      passages.open(progress, start, at(10 * layer + 3));
      pump(); // late: the copies could begin before
    }
    return times;
  };
  const auto both = [](std::initializer_list<int> seconds) { // each layer has two pieces
    std::vector<CopySince> times;
    for (const int second : seconds) times.insert(times.end(), 2, at(second));
    return times;
  };
  CHECK(opened(TransferOrder::Start::room) == both({0, 0, 2, 12, 22}));
  CHECK(opened(TransferOrder::Start::previous_layer_starts) == both({0, 1, 11, 21, 31}));
}

} // namespace sluice
