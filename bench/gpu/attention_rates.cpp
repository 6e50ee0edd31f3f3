// SPDX-License-Identifier: Apache-2.0
// Attention at a model's sizes: for decoding, bytes of K and V compared with a device copy's; for prompts, operations
// compared with a product's.
#include "bench.hpp"
#include "kernels/attention/attention_plan.hpp"
#include "kernels/rows/rope_and_store.hpp"

#include <cmath>
#include <memory>
#include <numeric>

namespace gpu_bench {
namespace {

using namespace sluice;
using namespace sluice::kernels;

using Memory = Device::Memory;

struct AttentionSize {
  int sequences = 1;
  int tokens = 1; ///< of each, with those that have queries
  int rows = 1;   ///< of each: 1 decodes
};

/// Sequences whose blocks lie in a pool in arbitrary order, and the other inputs of an attention launch.
template <ElementType element, int dim, int warps>
class Attention {
 public:
  using T = ElementOf<element>;
  static constexpr PagedAttentionConfig config{element, dim, warps, 2};
  static constexpr MergeSegmentsConfig merge{element, dim};
  static constexpr int block_tokens = 16;

  Attention(Bench& bench, AttentionSize size)
      : device_(bench.device),
        size_(size),
        kv_heads_(bench.size(8, 2)),
        block_numbers_(static_cast<std::uint64_t>(2 * kv_heads_ * block_tokens) * dim) {
    blocks_of_one_ = (size.tokens + block_tokens - 1) / block_tokens;
    const int blocks = blocks_of_one_ * size.sequences;
    for (int b = 0; b < blocks; ++b) place_.push_back(b);
    for (std::uint64_t b = static_cast<std::uint64_t>(blocks); b > 1; --b) // anywhere in the pool
      std::swap(place_[b - 1], place_[static_cast<std::size_t>(b * 0x9e3779b97f4a7c15ULL >> 33U) % b]);
    pool_ = filled<T>(device_, stored_, static_cast<std::uint64_t>(blocks) * block_numbers_);
    std::vector<void*> table;
    for (const int b : place_)
      table.push_back(pool_.data() + static_cast<std::uint64_t>(b) * block_numbers_ * sizeof(T));
    table_ = uploaded(device_, table);
    std::vector<int> first;
    for (int s = 0; s < size.sequences; ++s) first.push_back(s * blocks_of_one_);
    first_ = uploaded(device_, first);

    std::vector<AttentionRows> rows;
    for (int s = 0; s < size.sequences; ++s) rows.push_back({s * size.rows, size.rows, size.tokens - size.rows});
    constexpr int sms = 132; // an H100's; a runner asks for this many blocks, too
    plan_ = plan_attention(rows, group, 16 * warps, attention_split_rows, 12 * sms / kv_heads_);
    tiles_ = uploaded(device_, plan_.tiles);
    merged_ = uploaded(device_, plan_.merged);
    const auto partials = static_cast<std::uint64_t>(plan_.partial_rows * kv_heads_);
    values_ = poisoned(device_, partials * dim * 4);
    maxima_ = poisoned(device_, partials * 4);
    totals_ = poisoned(device_, partials * 4);
    query_ = filled<T>(device_, asked_, all_rows() * row_numbers());
    result_ = poisoned(device_, all_rows() * row_numbers() * sizeof(T));
  }

  /// For `plan_attention`'s tiles of 16 rows a warp.
  [[nodiscard]] PagedAttentionParams params() const {
    PagedAttentionParams params;
    params.query = query_.data();
    params.result = result_.data();
    params.query_stride = params.result_stride = static_cast<int>(row_numbers());
    params.blocks = reinterpret_cast<void* const*>(table_.data());
    params.first_block = reinterpret_cast<const int*>(first_.data());
    params.block_tokens = Divisor{block_tokens};
    params.tiles = reinterpret_cast<const AttentionTile*>(tiles_.data());
    params.tile_count = static_cast<int>(plan_.tiles.size());
    params.kv_heads = kv_heads_;
    params.group = group;
    params.scale = 1.0F / std::sqrt(static_cast<float>(dim));
    params.values = floats(values_);
    params.maxima = floats(maxima_);
    params.totals = floats(totals_);
    return params;
  }
  void enqueue() {
    device_.template launch<config>(params());
    enqueue_merge();
  }
  void enqueue_merge() {
    if (plan_.merged.empty()) return;
    MergeSegmentsParams merging;
    merging.merged = reinterpret_cast<const AttentionTile*>(merged_.data());
    merging.merged_count = static_cast<int>(plan_.merged.size());
    merging.kv_heads = kv_heads_;
    merging.group = group;
    merging.values = floats(values_);
    merging.maxima = floats(maxima_);
    merging.totals = floats(totals_);
    merging.result = result_.data();
    merging.result_stride = static_cast<int>(row_numbers());
    device_.template launch<merge>(merging);
  }

  /// Compares some rows and heads with softmax in double.
  [[nodiscard]] Refcheck check() {
    RelativeError error;
    const int heads = kv_heads_ * group;
    for (const int sequence : {0, size_.sequences - 1}) {
      for (const int row : {0, size_.rows / 2, size_.rows - 1}) {
        for (const int head : {0, heads - 1}) {
          const auto at = static_cast<std::uint64_t>(sequence * size_.rows + row) * row_numbers() +
                          static_cast<std::uint64_t>(head * dim);
          const std::vector<T> got = downloaded<T>(device_, result_, at, dim);
          const std::vector<double> exact = softmax(sequence, row, head, at);
          for (std::size_t d = 0; d < dim; ++d) error.add(static_cast<double>(widen(got[d])), exact[d]);
        }
      }
    }
    return {error.value(), error_limit<T>, error.count()};
  }

  [[nodiscard]] double bytes() const { // of K and V, each read once
    return 2.0 * sizeof(T) * size_.sequences * size_.tokens * kv_heads_ * dim;
  }
  [[nodiscard]] double operations() const { // two products of each row's tokens
    double seen = 0;
    for (int row = 0; row < size_.rows; ++row) seen += size_.tokens - size_.rows + row + 1;
    return 4.0 * seen * size_.sequences * kv_heads_ * group * dim;
  }

 private:
  static constexpr int group = 4;
  [[nodiscard]] std::uint64_t row_numbers() const { return static_cast<std::uint64_t>(kv_heads_ * group) * dim; }
  [[nodiscard]] std::uint64_t all_rows() const { return static_cast<std::uint64_t>(size_.sequences * size_.rows); }
  static float* floats(const Memory& memory) { return reinterpret_cast<float*>(memory.data()); }

  [[nodiscard]] std::vector<double> softmax(int sequence, int row, int head, std::uint64_t at) const {
    const int tokens = size_.tokens - size_.rows + row + 1;
    const auto number = [&](int token, bool is_value, int d) {
      const auto block = static_cast<std::size_t>(sequence * blocks_of_one_ + token / block_tokens);
      const int of_head = (is_value ? kv_heads_ : 0) + head / group;
      return stored_.at<T>(static_cast<std::uint64_t>(place_[block]) * block_numbers_ +
                           static_cast<std::uint64_t>((of_head * block_tokens + token % block_tokens) * dim + d));
    };
    std::vector<double> scores(static_cast<std::size_t>(tokens)), result(dim);
    double largest = -1e300, total = 0;
    for (int t = 0; t < tokens; ++t) {
      double score = 0;
      for (int d = 0; d < dim; ++d) score += asked_.at<T>(at + static_cast<std::uint64_t>(d)) * number(t, false, d);
      scores[static_cast<std::size_t>(t)] = score / std::sqrt(static_cast<double>(dim));
      largest = std::max(largest, scores[static_cast<std::size_t>(t)]);
    }
    for (int t = 0; t < tokens; ++t) {
      const double weight = std::exp(scores[static_cast<std::size_t>(t)] - largest);
      total += weight;
      for (int d = 0; d < dim; ++d) result[static_cast<std::size_t>(d)] += weight * number(t, true, d);
    }
    for (double& one : result) one /= total;
    return result;
  }

  Device& device_;
  AttentionSize size_;
  int kv_heads_, blocks_of_one_ = 0;
  std::uint64_t block_numbers_;
  std::vector<int> place_;
  Numbers stored_{21, 2}, asked_{22, 2};
  AttentionPlan plan_;
  Memory pool_, table_, first_, tiles_, merged_, values_, maxima_, totals_, query_, result_;
};

/// The ceiling is a device copy's rate for decoding rows, and cuBLAS's rate for prompts on tensor cores.
template <int warps, ElementType element = ElementType::bf16, int dim = 128>
void attention(Bench& bench, const std::string& name, AttentionSize size) {
  using Launch = Attention<element, dim, warps>;
  const std::string text = std::to_string(size.sequences) + " x " + std::to_string(size.rows) + " rows of " +
                           std::to_string(size.tokens) + " tokens, " + std::to_string(bench.size(32, 8)) +
                           " heads on " + std::to_string(bench.size(8, 2)) + " of " + std::to_string(dim) +
                           ", blocks of 16, " + name_of(element);
  bench.row(name, text, [&](Row& row) {
    const bool decodes = size.rows == 1;
    std::vector<std::unique_ptr<Launch>> all;
    all.push_back(std::make_unique<Launch>(bench, size));
    Launch& one = *all.front();
    one.enqueue();
    bench.device.finish();
    row.checks = true;
    row.check = one.check();
    const int sets = decodes ? bench.sets(one.bytes()) : 1;
    for (int i = 1; i < sets; ++i) all.push_back(std::make_unique<Launch>(bench, size));
    row.samples =
        bench.device.time(bench.repetitions, sets, [&](int i) { all[static_cast<std::size_t>(i)]->enqueue(); });
    row.unit = decodes ? "GB/s" : "TFLOP/s";
    row.amount = decodes ? one.bytes() * 1e-9 : one.operations() * 1e-12;
    if (decodes)
      row.against = "ceilings/device copy";
    else if (element != ElementType::f32)
      row.against = "ceilings/cublas";
  });
}

} // namespace

void attention_rates(Bench& bench) {
  const bool tiny = bench.tiny;
  const auto size = [tiny](AttentionSize full, AttentionSize small) { return tiny ? small : full; };
  attention<1>(bench, "attention, 8 decode at 4k", size({8, 4096, 1}, {2, 530, 1}));
  attention<1>(bench, "attention, 32 decode at 4k", size({32, 4096, 1}, {3, 33, 1}));
  attention<1>(bench, "attention, 8 decode at 16k", size({8, 16384, 1}, {1, 600, 1}));
  attention<4>(bench, "attention, a prompt of 4k", size({1, 4096, 4096}, {1, 40, 40}));
  attention<4>(bench, "attention, a chunk of 512 at 16k", size({1, 16384, 512}, {1, 530, 9}));
  attention<1>(bench, "attention, 8 decode at 1k", size({8, 1024, 1}, {2, 33, 1}));
  attention<1>(bench, "attention, 8 decode at 2k", size({8, 2048, 1}, {2, 70, 1}));
}

void attention_configurations(Bench& bench) {
  const char *decoding = "attention, each configuration, decoding", *prompts = "attention, each configuration, prompts";
  if constexpr (Device::real) {
    const AttentionSize many = bench.tiny ? AttentionSize{2, 530, 1} : AttentionSize{16, 4096, 1};
    const AttentionSize prompt = bench.tiny ? AttentionSize{1, 40, 40} : AttentionSize{2, 2048, 2048};
    each_element([&]<ElementType element>() {
      attention<1, element, 32>(bench, decoding, many);
      attention<1, element, 64>(bench, decoding, many);
      attention<1, element, 80>(bench, decoding, many);
      attention<1, element, 96>(bench, decoding, many);
      attention<1, element, 128>(bench, decoding, many);
      attention<1, element, 192>(bench, decoding, many);
      attention<1, element, 256>(bench, decoding, many);
      attention<4, element, 32>(bench, prompts, prompt);
      attention<4, element, 64>(bench, prompts, prompt);
      attention<4, element, 80>(bench, prompts, prompt);
      attention<4, element, 96>(bench, prompts, prompt);
      attention<4, element, 128>(bench, prompts, prompt);
      attention<4, element, 192>(bench, prompts, prompt);
      attention<4, element, 256>(bench, prompts, prompt);
    });
  } else {
    bench.skip(decoding, 21, "the tests of the kernels run it on the emulator");
    bench.skip(prompts, 21, "the tests of the kernels run it on the emulator");
  }
}

} // namespace gpu_bench
