// SPDX-License-Identifier: Apache-2.0
// A runner of kernels allocates nothing in an iteration like an earlier one.
#include "allocation/allocations.hpp"
#include "kernels/decoder/kernel_runner.hpp"
#include "support/small_models.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

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
    using Kernel = typename KernelFamily<std::remove_const_t<decltype(config)>>::template Kernel<config>;
    const Grid grid = Kernel::grid(params);
    *blocks += grid.x * grid.y;
  }
  void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  Ticket record() { return 0; }
  void wait(const Ticket&, QueueWait) {}
  Memory host(std::size_t bytes) { return {std::make_unique<std::byte[]>(bytes), bytes}; }

  int* blocks;
};

constexpr int most_rows = 300, most_samples = 8, block_tokens = 16;

/// A prompt's chunk, others that decode, and one whose context is long enough to be split.
void iterate(ModelRunner& runner, const std::vector<LayerWeights>& layers, std::byte* block, int decoding) {
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
  add(30, 100);
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

TEST_CASE("a runner of kernels allocates where a larger batch comes, and in no iteration like an earlier one") {
  using Runner = KernelRunner<IdleQueue, KernelRunnerConfig{ElementType::bf16, 16}>;
  for (const testing::SmallModel model : testing::small_models) {
    ModelWeights weights = testing::small_weights(model, ElementType::bf16);
    weights.config.max_positions = 4096;
    if (!weights.positions.empty()) weights.positions.rows = 4096; // which nobody reads
    std::vector<LayerWeights> layers;
    for (const auto& layer : weights.layers)
      layers.emplace_back(weights.layout, layer[0] - weights.layout.places[0].offset, nullptr,
                          weights.layout.bytes.count());
    const KernelRunnerLimits limits{.block_tokens = Tokens{block_tokens}};
    const auto bytes =
        static_cast<std::size_t>(Runner::workspace(weights.config, limits, most_rows, most_samples).count());
    const std::unique_ptr<std::byte, void (*)(std::byte*)> arena(
        static_cast<std::byte*>(std::aligned_alloc(256, bytes)), [](std::byte* at) { std::free(at); });
    std::memset(arena.get(), 0, bytes);
    int blocks = 0;
    Runner runner{IdleQueue{&blocks}, weights, limits, {arena.get(), bytes}};
    alignas(16) std::byte block[16] = {};
    iterate(runner, layers, block, 1);
    const auto allocations = [&](int decoding) {
      const std::int64_t before = allocation_tests::allocations;
      iterate(runner, layers, block, decoding);
      return allocation_tests::allocations - before;
    };
    CHECK(allocations(6) > 0);
    for (const int decoding : {6, 0, 3, 6}) CHECK(allocations(decoding) == 0);
    CHECK(blocks > 0);
  }
}
