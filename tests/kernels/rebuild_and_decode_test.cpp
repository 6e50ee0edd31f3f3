// SPDX-License-Identifier: Apache-2.0
// RebuildAndDecode: for any split of its blocks, the bits of separate launches; and those compared with double.
#include "kernels/attention/rebuild_and_decode.hpp"
#include "kernels/attention_cases.hpp"
#include "kernels/products/tile_product.hpp"
#include "kernels/rows/rope_and_store.hpp"

#include <numbers>

using namespace sluice;
using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

/// Prefixes of three sequences, `rows` tokens together, which have hidden states but no K and V.
template <ElementType element, int head_dim>
class Prefixes {
 public:
  using T = ElementOf<element>;

  static constexpr int rows = 71;
  static constexpr int inputs = 72; // more than a step of the product, and not a multiple of one
  static constexpr int heads = 3;
  static constexpr int kv_heads = 3;
  static constexpr int block_tokens = 6;
  static constexpr int outputs = (heads + 2 * kv_heads) * head_dim;
  static constexpr int block_numbers = 2 * kv_heads * block_tokens * head_dim;

  Prefixes() {
    std::mt19937 random(head_dim);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<T>& numbers, int count, float deviation, float mean) {
      for (int i = 0; i < count; ++i) numbers.push_back(narrow<T>(mean + deviation * normal(random)));
    };
    fill(hidden_, rows * inputs, 1, 0);
    fill(weights_, outputs * inputs, 0.12F, 0);
    fill(bias_, outputs, 0.1F, 0);
    fill(norm_, head_dim, 0.1F, 1);
    for (int pair = 0; pair < head_dim / 2; ++pair)
      turns_.push_back(std::pow(10000.0, -2.0 * pair / head_dim) / (2 * std::numbers::pi));
    int sequence = 0;
    for (const int tokens : {1, 40, 30}) {
      first_block_.push_back(blocks_);
      for (int t = 0; t < tokens; ++t) {
        positions_.push_back(t);
        sequences_.push_back(sequence);
      }
      blocks_ += pieces(tokens, block_tokens);
      ++sequence;
    }
  }

  struct Blocks {
    std::vector<T> numbers;
    std::vector<void*> table;
  };
  [[nodiscard]] Blocks blocks() const {
    Blocks blocks;
    blocks.numbers.assign(static_cast<std::size_t>(blocks_ * block_numbers), narrow<T>(7));
    for (int i = blocks_ - 1; i >= 0; --i)
      blocks.table.push_back(&blocks.numbers[static_cast<std::size_t>(i * block_numbers)]);
    return blocks;
  }

  [[nodiscard]] RebuildParams params(const Blocks& blocks, std::vector<T>& workspace, int ctas) const {
    workspace.assign(static_cast<std::size_t>(ctas * RebuildTile<element, head_dim>::workspace), narrow<T>(7));
    RebuildParams params;
    params.hidden = hidden_.data();
    params.hidden_stride = inputs;
    params.qkv = halves();
    params.qkv_bias = bias_.data();
    params.key_norm = norm_.data();
    params.turns = turns_.data();
    params.positions = positions_.data();
    params.sequences = sequences_.data();
    params.first_block = first_block_.data();
    params.blocks = blocks.table.data();
    params.block_tokens = Divisor{block_tokens};
    params.workspace = workspace.data();
    params.rows = rows;
    params.inputs = inputs;
    params.heads = heads;
    params.kv_heads = kv_heads;
    return params;
  }

  /// K and V as an iteration makes them: the projection, then RopeAndStore.
  [[nodiscard]] Blocks projected() const {
    Blocks blocks = this->blocks();
    std::vector<T> qkv(static_cast<std::size_t>(rows * outputs));
    std::vector<T> query(static_cast<std::size_t>(rows * heads * head_dim));
    ProductCall product;
    product.x = hidden_.data();
    product.w = halves();
    product.y = qkv.data();
    product.x_stride = inputs;
    product.y_stride = outputs;
    product.rows = rows;
    product.outputs = outputs;
    product.inputs = inputs;
    product.element = element;
    using Product = TileProduct<TileProductConfig{.element = element, .tile_rows = 16}>;
    require_clean(emulate::launch<Product>(Product::grid(product), product, 1));
    RopeAndStoreParams store;
    store.qkv = qkv.data();
    store.qkv_bias = bias_.data();
    store.key_norm = norm_.data();
    store.turns = turns_.data();
    store.positions = positions_.data();
    store.sequences = sequences_.data();
    store.first_block = first_block_.data();
    store.blocks = blocks.table.data();
    store.query = query.data();
    store.query_stride = heads * head_dim;
    store.rows = rows;
    store.heads = heads;
    store.kv_heads = kv_heads;
    store.block_tokens = block_tokens;
    using Store = RopeAndStore<RopeAndStoreConfig{.element = element, .head_dim = head_dim}>;
    require_clean(emulate::launch<Store>(Store::grid(store), store, 2));
    return blocks;
  }

  /// The relative L2 error of K and V, from double.
  [[nodiscard]] double error(const Blocks& blocks) const {
    double off = 0;
    double all = 0;
    std::vector<double> head(static_cast<std::size_t>(head_dim));
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      for (int h = 0; h < 2 * kv_heads; ++h) {
        project(static_cast<int>(row), h, head);
        const int block = first_block_[static_cast<std::size_t>(sequences_[row])] + positions_[row] / block_tokens;
        const T* const got = static_cast<const T*>(blocks.table[static_cast<std::size_t>(block)]) +
                             (h * block_tokens + positions_[row] % block_tokens) * head_dim;
        for (int d = 0; d < head_dim; ++d) {
          const double exact = head[static_cast<std::size_t>(d)];
          const double difference = static_cast<double>(widen(got[d])) - exact;
          off += difference * difference;
          all += exact * exact;
        }
      }
    }
    return std::sqrt(off / all);
  }

 private:
  /// The matrix in two places.
  [[nodiscard]] ProductWeights halves() const {
    constexpr int split = (heads + kv_heads) * head_dim + 3;
    return {weights_.data(), &weights_[static_cast<std::size_t>(split * inputs)], split};
  }

  [[nodiscard]] static double exact(const std::vector<T>& of, int at) {
    return static_cast<double>(widen(of[static_cast<std::size_t>(at)]));
  }
  void project(int row, int h, std::vector<double>& head) const {
    double squares = 0;
    for (int d = 0; d < head_dim; ++d) {
      const int output = (heads + h) * head_dim + d;
      double sum = exact(bias_, output);
      for (int k = 0; k < inputs; ++k) sum += exact(hidden_, row * inputs + k) * exact(weights_, output * inputs + k);
      head[static_cast<std::size_t>(d)] = sum;
      squares += sum * sum;
    }
    if (h >= kv_heads) return;
    const double factor = 1 / std::sqrt(squares / head_dim + 1e-5);
    for (int d = 0; d < head_dim; ++d) head[static_cast<std::size_t>(d)] *= factor * exact(norm_, d);
    for (std::size_t d = 0; d < static_cast<std::size_t>(head_dim / 2); ++d) {
      const double angle = 2 * std::numbers::pi * turns_[d] * positions_[static_cast<std::size_t>(row)];
      const double low = head[d];
      double& high = head[d + static_cast<std::size_t>(head_dim / 2)];
      head[d] = low * std::cos(angle) - high * std::sin(angle);
      high = high * std::cos(angle) + low * std::sin(angle);
    }
  }

  std::vector<T> hidden_;
  std::vector<T> weights_;
  std::vector<T> bias_;
  std::vector<T> norm_;
  std::vector<double> turns_;
  std::vector<int> positions_;
  std::vector<int> sequences_;
  std::vector<int> first_block_;
  int blocks_ = 0;
};

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <ElementType element, int head_dim>
void splits_agree() {
  using Kernel = RebuildAndDecode<RebuildAndDecodeConfig{.element = element, .head_dim = head_dim}>;
  using T = typename Kernel::T;
  constexpr PagedAttentionConfig alone{.element = element, .head_dim = head_dim, .warps = 1};
  const Prefixes<element, head_dim> prefixes;
  const auto projected = prefixes.projected();
  CHECK(prefixes.error(projected) <= attention_error_limit<T>);
  const AttentionCase<T> decoding({head_dim, 2, 3}, {{1, 30}, {1, 0}, {0, 4}, {1, 513}, {1, 90}}, 5);
  const auto attended = decoding.template run<alone>(decoding.whole(), 16, 1);
  require_clean(attended.report);

  struct Split {
    int rebuild, decode;
  };
  unsigned seed = 1;
  std::vector<Split> splits{{1, 1}, {2, 3}, {20, 20}}; // the last has more blocks than work
  if (head_dim == 64) splits.insert(splits.end(), {{3, 0}, {0, 3}});
  for (const Split& split : splits) {
    CAPTURE(head_dim);
    CAPTURE(split.rebuild);
    CAPTURE(split.decode);
    const int split_rows = seed % 2 == 0 ? 0 : attention_split_rows; // folded, or split and merged
    const auto launch = decoding.prepare(decoding.whole(), Kernel::tile_rows, 16, seed, split_rows);
    const auto rebuilt = prefixes.blocks();
    std::vector<T> workspace;
    RebuildAndDecodeParams params;
    params.rebuild = prefixes.params(rebuilt, workspace, split.rebuild);
    params.attention = launch->params;
    params.rebuild_ctas = split.rebuild;
    params.decode_ctas = split.decode;
    if (split.rebuild == 0) params.rebuild.rows = 0;
    if (split.decode == 0) params.attention.tile_count = 0;
    emulate::Report report = emulate::launch<Kernel>(Kernel::grid(params), params, seed);
    require_clean(report);
    if (split.rebuild > 0) CHECK(same(rebuilt.numbers, projected.numbers));
    if (split.decode > 0) {
      const auto fused = decoding.template finish<MergeSegmentsConfig{.element = element, .head_dim = head_dim}>(
          *launch, std::move(report), seed);
      CHECK(same(fused.result, attended.result));
    }
    ++seed;
  }
}

} // namespace

TEST_CASE("a fused launch in f32 has the bits of separate launches") {
  splits_agree<ElementType::f32, 64>();
  splits_agree<ElementType::f32, 80>();
  splits_agree<ElementType::f32, 96>();
  splits_agree<ElementType::f32, 128>();
}

TEST_CASE("a fused launch in f16 has the bits of separate launches") {
  splits_agree<ElementType::f16, 64>();
  splits_agree<ElementType::f16, 80>();
  splits_agree<ElementType::f16, 96>();
  splits_agree<ElementType::f16, 128>();
}

TEST_CASE("a fused launch in bf16 has the bits of separate launches") {
  splits_agree<ElementType::bf16, 64>();
  splits_agree<ElementType::bf16, 80>();
  splits_agree<ElementType::bf16, 96>();
  splits_agree<ElementType::bf16, 128>();
}

TEST_CASE("blocks are split in the ratio of the volumes, and each side has at least one") {
  CHECK(rebuilding_ctas(3, 1, 132) == 99);
  CHECK(rebuilding_ctas(1, 1000, 132) == 1);
  CHECK(rebuilding_ctas(1000, 1, 132) == 131);
}
