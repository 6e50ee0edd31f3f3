// SPDX-License-Identifier: Apache-2.0
// Attention over long contexts: compared with softmax in double, and the same bits however the work is shared.
#include "sluice/core/random.hpp"
#include "sluice/model/decoder/eigen/paged_attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace sluice;

ModelShape shape_of(int heads, int kv_heads, int head_dim) {
  ModelShape shape;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_dim = head_dim;
  return shape;
}

ModelShape latents_of(int heads, int head_dim, LatentAttention latent) {
  ModelShape shape = shape_of(heads, 1, head_dim);
  shape.latent = latent;
  return shape;
}

struct Context {
  ModelShape shape;
  int block_tokens;
  std::vector<std::vector<float>> blocks;
  std::vector<float*> pointers;
  std::vector<std::byte*> addresses; ///< the same

  [[nodiscard]] const float* key(int token, int head) const {
    return pointers[static_cast<std::size_t>(token / block_tokens)] +
           (head * block_tokens + token % block_tokens) * shape.kv_width();
  }
  [[nodiscard]] const float* value(int token, int head) const {
    return key(token, head) + (shape.has_latents() ? 0 : shape.kv_heads * block_tokens * shape.head_dim);
  }
};

/// Tokens after the last are NaN: nothing may read them.
Context random_context(const ModelShape& shape, int tokens, int block_tokens) {
  Context context{shape, block_tokens, {}, {}, {}};
  Random random{17}; // in the order of tokens, so that the context is the same in blocks of any size
  const auto floats = static_cast<std::size_t>(kv_block_floats(shape, Tokens{block_tokens}));
  for (int t = 0; t < tokens; t += block_tokens)
    context.blocks.emplace_back(floats, std::numeric_limits<float>::quiet_NaN());
  for (auto& block : context.blocks) {
    context.pointers.push_back(block.data());
    context.addresses.push_back(reinterpret_cast<std::byte*>(block.data()));
  }
  for (int t = 0; t < tokens; ++t) {
    for (int head = 0; head < shape.kv_heads; ++head) {
      for (const float* from : {context.key(t, head), context.value(t, head)}) {
        float* to = context.pointers[static_cast<std::size_t>(t / block_tokens)] +
                    (from - context.pointers[static_cast<std::size_t>(t / block_tokens)]);
        for (int d = 0; d < shape.kv_width(); ++d) to[d] = static_cast<float>(random.uniform() * 2 - 1);
      }
    }
  }
  return context;
}

struct Sharing {
  int threads;
  int block_tokens;
  int chunk; ///< rows per call
};

/// The first token that any of the last `rows` tokens attends to.
int first_seen(int tokens, int rows, int window) { return window > 0 ? std::max(0, tokens - rows + 1 - window) : 0; }

std::vector<float> attended(const ModelShape& shape, int tokens, int rows, const std::vector<float>& queries,
                            int window, const Sharing& sharing) {
  const Context context = random_context(shape, tokens, sharing.block_tokens);
  ThreadPool pool{sharing.threads};
  PagedAttention attention{shape, Tokens{sharing.block_tokens}, sharing.threads};
  const std::int64_t stride = std::int64_t{shape.heads} * shape.kv_width();
  std::vector<float> result(queries.size());
  for (int row = 0; row < rows; row += sharing.chunk) {
    const int count = std::min(sharing.chunk, rows - row);
    const SequenceRows sequence{0, count, tokens - rows + row, context.addresses.data(), 0};
    for (int t = 0; t < first_seen(tokens - rows + row + 1, 1, window); ++t) // nothing may read them any more
      for (int head = 0; head < shape.kv_heads; ++head)
        for (const float* from : {context.key(t, head), context.value(t, head)}) {
          float* const block = context.pointers[static_cast<std::size_t>(t / context.block_tokens)];
          std::fill_n(block + (from - block), shape.kv_width(), std::numeric_limits<float>::quiet_NaN());
        }
    attention.run(pool, std::span{&sequence, 1}, count, window, queries.data() + row * stride,
                  result.data() + row * stride, stride);
  }
  return result;
}

} // namespace

TEST_CASE("attention over several segments, or a window of them, agrees with softmax in double, with the same bits for "
          "any threads, blocks and chunks") {
  struct Case {
    ModelShape shape;
    int tokens;
    int rows;
    int window = 0;
  };
  // Three segments, the last page with a few tokens; heads of whole registers; more segments than are split at once.
  // For each number of queries computed side by side, heads of whole column tiles, and heads with a remainder.
  // Latents: V is the beginning of K.
  // Windows: a token, within a page, over pages, over segments, longer than the context.
  const Case cases[] = {{shape_of(3, 1, 20), 4133, 6},
                        {shape_of(2, 2, 64), 2099, 3},
                        {shape_of(1, 1, 2), 16901, 2},
                        {shape_of(8, 1, 128), 2100, 1},
                        {shape_of(4, 1, 80), 203, 3},
                        {shape_of(14, 2, 96), 301, 3},
                        {shape_of(4, 2, 128), 130, 2},
                        {shape_of(32, 2, 72), 211, 1},
                        {shape_of(4, 2, 20), 2111, 4, 1},
                        {shape_of(3, 1, 16), 193, 6, 13},
                        {shape_of(2, 1, 64), 2099, 53, 50},
                        {shape_of(6, 2, 24), 4133, 7, 2100},
                        {shape_of(1, 1, 16), 16901, 3, 260},
                        {shape_of(4, 4, 32), 150, 3, 4096},
                        {latents_of(5, 24, {.rank = 36, .rotated = 8, .value = 16}), 4133, 6},
                        {latents_of(20, 24, {.rank = 64, .rotated = 16, .value = 8}), 2099, 3},
                        {latents_of(3, 24, {.rank = 8, .rotated = 20, .value = 16}), 193, 6, 13}};
  for (const Case& with : cases) {
    const auto& [shape, tokens, rows, window] = with;
    CAPTURE(with.window);
    Random random{18};
    std::vector<float> queries(static_cast<std::size_t>(rows * shape.heads * shape.kv_width()));
    for (float& value : queries) value = static_cast<float>(random.uniform() * 6 - 3);
    const std::vector<float> expected = attended(shape, tokens, rows, queries, window, {1, 16, 1});
    double worst = 0;
    const Context context = random_context(shape, tokens, 16);
    for (int row = 0; row < rows; ++row) {
      for (int head = 0; head < shape.heads; ++head) {
        const int width = shape.kv_width(), value_dim = AttentionPages::value_dim(shape);
        const auto at = static_cast<std::size_t>((row * shape.heads + head) * width);
        const auto result = static_cast<std::size_t>(row * shape.heads * width + head * value_dim);
        const int kv_head = head / (shape.heads / shape.kv_heads);
        std::vector<double> values(static_cast<std::size_t>(value_dim), 0);
        double total = 0;
        for (int t = first_seen(tokens - rows + row + 1, 1, window); t <= tokens - rows + row; ++t) {
          double score = 0;
          for (int d = 0; d < width; ++d)
            score += static_cast<double>(queries[at + static_cast<std::size_t>(d)]) *
                     static_cast<double>(context.key(t, kv_head)[d]);
          const double weight = std::exp(score / std::sqrt(shape.head_dim));
          total += weight;
          for (int d = 0; d < value_dim; ++d)
            values[static_cast<std::size_t>(d)] += weight * static_cast<double>(context.value(t, kv_head)[d]);
        }
        for (int d = 0; d < value_dim; ++d) {
          const double off = static_cast<double>(expected[result + static_cast<std::size_t>(d)]) -
                             values[static_cast<std::size_t>(d)] / total;
          worst = std::abs(off) <= worst ? worst : std::abs(off);
        }
      }
    }
    CHECK(worst < 1e-6); // the values' mean is near zero, their magnitude 1
    for (const Sharing& sharing : {Sharing{2, 16, 1}, Sharing{3, 16, 6}, Sharing{1, 16, 4}, Sharing{2, 24, 1},
                                   Sharing{1, 5, 5}, Sharing{1, 8, 1}, Sharing{1, 32, 4}}) {
      CAPTURE(sharing.threads);
      CAPTURE(sharing.block_tokens);
      const std::vector<float> got = attended(shape, tokens, rows, queries, window, sharing);
      int unlike = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        unlike += std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(expected[i]) ? 0 : 1;
      CHECK(unlike == 0);
    }
  }
}
