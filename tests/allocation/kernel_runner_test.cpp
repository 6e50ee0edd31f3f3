// SPDX-License-Identifier: Apache-2.0
// A kernel runner allocates nothing in an iteration like an earlier one.
#include "allocation/allocations.hpp"
#include "kernels/decoder/kernel_runner.hpp"
#include "kernels/products/bucketed_product.hpp"
#include "support/small_models.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

/// Multiplies nothing.
struct IdleLibrary {
  using Stream = int*;
  using Algorithm = int;
  [[nodiscard]] Expected<std::vector<int>> algorithms(const ProductCall&, const Alignments&) const {
    return std::vector<int>{1};
  }
  [[nodiscard]] LibraryAnswer run(const ProductCall& call, int, int* calls) const {
    *calls += call.outputs;
    return {};
  }
  [[nodiscard]] Bytes workspace() const { return Bytes{0}; }
};

/// Launches nothing, and copies at once.
struct IdleQueue {
  using Ticket = int;
  struct Memory {
    [[nodiscard]] std::byte* data() const { return bytes.get(); }
    [[nodiscard]] std::size_t size() const { return count; }
    std::unique_ptr<std::byte[]> bytes;
    std::size_t count = 0;
  };

  template <auto config>
  void launch(const typename KernelFamily<std::remove_const_t<decltype(config)>>::Params& params) {
    graphs->template launch<&IdleQueue::enqueue<config>>(*this, params);
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    give();
    std::memcpy(to, from, bytes);
  }
  Ticket record() {
    give();
    return 0;
  }
  void wait(const Ticket&, QueueWait) {}
  Memory host(std::size_t bytes) { return {std::make_unique<std::byte[]>(bytes), bytes}; }
  void lend(std::span<std::byte> /*room*/) { products = std::make_shared<BucketedProduct<IdleLibrary>>(IdleLibrary{}); }
  void multiply(const ProductCall& call) { graphs->template launch<&IdleQueue::enqueue_product>(*this, call); }
  template <class Body>
  void graph(const GraphPlace& place, Body&& body) {
    graphs->add(place, std::forward<Body>(body));
  }
  void give() { graphs->give(*this); }
  [[nodiscard]] Expected<std::size_t> captured(std::span<const Launch<IdleQueue>> launches) const {
    return launches.size();
  }
  void replay(std::size_t /*graph*/) {}
  [[nodiscard]] GraphCounts graph_counts() const { return graphs->counts(); }

  template <auto config>
  static void enqueue(IdleQueue& queue,
                      const typename KernelFamily<std::remove_const_t<decltype(config)>>::Params& params) {
    using Kernel = typename KernelFamily<std::remove_const_t<decltype(config)>>::template Kernel<config>;
    const Grid grid = Kernel::grid(params);
    *queue.blocks += grid.x * grid.y;
  }
  static void enqueue_product(IdleQueue& queue, const ProductCall& call) {
    CHECK((*queue.products)(queue.blocks, call).ok());
  }

  int* blocks;
  std::shared_ptr<LaunchGraphs<IdleQueue, std::size_t>> graphs;
  std::shared_ptr<BucketedProduct<IdleLibrary>> products;
};

constexpr int most_rows = 300, most_samples = 8, block_tokens = 16;

/// A prompt's chunk of `prompt` tokens, several decodes, and one decode whose context is long enough to be split.
void iterate(ModelRunner& runner, const std::vector<LayerWeights>& layers, std::byte* block, int decoding,
             int prompt = 100) {
  static std::vector<std::byte*> blocks(256);
  static std::vector<std::int32_t> tokens(most_rows, 1), positions(most_rows);
  static std::vector<SequenceRows> sequences;
  static std::vector<SampleRow> samples;
  std::fill(blocks.begin(), blocks.end(), block);
  sequences.clear();
  samples.clear();
  int row = 0;
  const auto add = [&](int position, int rows) {
    sequences.push_back({row, rows, position, blocks.data(), 0});
    for (int i = 0; i < rows; ++i) positions[static_cast<std::size_t>(row++)] = position + i;
    samples.push_back({row - 1, {.temperature = 1}, 0, position + rows});
  };
  if (prompt > 0) add(30, prompt);
  add(2000, 1);
  for (int i = 0; i < decoding; ++i) add(5 * i, 1);
  runner.begin({tokens.data(), static_cast<std::size_t>(row)}, {positions.data(), static_cast<std::size_t>(row)});
  for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer)
    runner.launch_layer(layer, layers[static_cast<std::size_t>(layer)], sequences, row, 0, {});
  runner.launch_samples(samples);
  CHECK(runner.tokens().size() == samples.size());
  CHECK(!runner.logits(0).empty());
}

} // namespace

TEST_CASE("a kernel runner allocates for a larger batch only, and in no iteration like an earlier one") {
  using Runner = KernelRunner<IdleQueue, KernelRunnerConfig{ElementType::bf16, 16}>;
  for (const testing::SmallModel model : testing::small_models)
    for (const Products products : {Products::invariant, Products::fast}) {
      ModelWeights weights = testing::small_weights(model, ElementType::bf16);
      weights.config.max_positions = 4096;
      if (!weights.positions.empty()) weights.positions.rows = 4096; // never read
      std::vector<LayerWeights> layers;
      for (const auto& layer : weights.layers)
        layers.emplace_back(weights.layout, layer[0] - weights.layout.places[0].offset, nullptr,
                            weights.layout.bytes.count());
      const KernelRunnerLimits limits{.block_tokens = Tokens{block_tokens}, .products = products, .graph_rows = 32};
      const auto bytes =
          static_cast<std::size_t>(Runner::workspace(weights.config, limits, most_rows, most_samples).count());
      const std::unique_ptr<std::byte, void (*)(std::byte*)> arena(
          static_cast<std::byte*>(std::aligned_alloc(256, bytes)), [](std::byte* at) { std::free(at); });
      std::memset(arena.get(), 0, bytes);
      int blocks = 0;
      const auto graphs = std::make_shared<LaunchGraphs<IdleQueue, std::size_t>>();
      Runner runner{IdleQueue{&blocks, graphs, {}}, weights, limits, {arena.get(), bytes}};
      alignas(16) std::byte block[16] = {};
      iterate(runner, layers, block, 1);
      const auto allocations = [&](int decoding, int prompt) {
        const std::int64_t before = allocation_tests::allocations;
        iterate(runner, layers, block, decoding, prompt);
        return allocation_tests::allocations - before;
      };
      CHECK(allocations(6, 100) > 0);
      for (const int decoding : {0, 3})
        (void)allocations(decoding, 100); // a library is asked about each bucket of rows
      for (const int decoding : {6, 0, 3, 6}) CHECK(allocations(decoding, 100) == 0);
      CHECK(blocks > 0);

      // Decodes only: first counted, then captured in a graph, then replayed.
      CHECK(graphs->counts().replayed == 0);
      CHECK(allocations(6, 0) > 0);
      (void)allocations(6, 0);
      const std::int64_t made = graphs->counts().made;
      CHECK(made == static_cast<std::int64_t>(layers.size()) + 1); // and of the samples, however many layers
      for (const int decoding : {5, 7})
        for (int pass = 0; pass < 2; ++pass) (void)allocations(decoding, 0); // other numbers of samples
      CHECK(graphs->counts().made == made + 2);
      for (const int decoding : {6, 5, 7, 6}) CHECK(allocations(decoding, 0) == 0); // 8 rows and 16 tiles, all
      CHECK(graphs->counts().made == made + 2);
      CHECK(graphs->counts().replayed == 9 * static_cast<std::int64_t>(layers.size()) + 7);
    }
}
