// SPDX-License-Identifier: Apache-2.0
// What KernelRunner must guarantee in every element: a row's result does not depend on other rows, and tokens are the
// sampler's.
#pragma once

#include "sluice/model/decoder/sampler.hpp"

#include "kernels/decoder/runner_case.hpp"

#include <array>
#include <cmath>

namespace sluice::kernels::test {

/// Ragged batches in random order, prompts in chunks of random lengths, layers cut anywhere, rows of no sequence,
/// blocks anywhere: each row has the bits of its sequence run alone.
template <ElementType element>
void rows_are_their_own(SmallModel model, std::uint64_t seed) {
  CAPTURE(testing::name_of(model));
  CAPTURE(seed);
  Random random{seed};
  RunnerCase<element> one{model, seed}, other{model, seed + 100};
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<typename RunnerCase<element>::Alone> expected;
  std::vector<SequenceKv> kv;
  const std::vector<int> lengths = few         ? std::vector<int>{2, 4}
                                   : sanitized ? std::vector<int>{1, 36, 9}
                                               : std::vector<int>{1, 44, 9, 17, 30};
  for (const int length : lengths) {
    tokens.push_back(random_tokens(random, length, one.config().shape.vocabulary));
    expected.push_back(one.alone(tokens.back(), random));
    kv.emplace_back(one.config(), length, random);
  }
  std::vector<int> done(tokens.size(), 0);
  for (;;) {
    std::vector<std::size_t> order;
    for (std::size_t s = 0; s < tokens.size(); ++s) {
      const bool left = done[s] < static_cast<int>(tokens[s].size());
      if (left && (order.empty() || random.below(3) > 0)) order.push_back(s);
    }
    if (order.empty()) break;
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    std::vector<Part> parts;
    std::vector<int> rows;
    std::vector<std::pair<std::size_t, int>> whose; // for each sampled row: its sequence and its token
    int row = 0;
    for (const std::size_t s : order) {
      if (random.below(3) == 0) { // of no sequence
        parts.push_back({&tokens[0], nullptr, 0, 1});
        ++row;
      }
      const auto left = static_cast<std::uint64_t>(tokens[s].size()) - static_cast<std::uint64_t>(done[s]);
      const int count = random.below(3) == 0 ? static_cast<int>(left) : 1 + static_cast<int>(random.below(left));
      parts.push_back({&tokens[s], &kv[s], done[s], count});
      for (int i = 0; i < count; ++i, ++row) {
        rows.push_back(row);
        whose.emplace_back(s, done[s] + i);
      }
      done[s] += count;
    }
    other.launch(parts, random);
    std::reverse(rows.begin(), rows.end());
    std::reverse(whose.begin(), whose.end());
    const Outcome outcome = other.sample(rows);
    int wrong = 0;
    for (std::size_t i = 0; i < rows.size(); ++i)
      wrong += outcome.logits[i] == expected[whose[i].first].logits[static_cast<std::size_t>(whose[i].second)] ? 0 : 1;
    CHECK(wrong == 0);
  }
  for (std::size_t s = 0; s < tokens.size(); ++s)
    CHECK(kv[s].stored(one.config(), static_cast<int>(tokens[s].size())) == expected[s].stored);
}

/// A prefix that is passed again keeps existing K and V, computes missing ones, and changes no logit: all its rows pass
/// layer 0, only store in layer 1, and are absent from layer 2.
template <ElementType element>
void prefixes_are_rebuilt(SmallModel model, std::uint64_t seed) {
  CAPTURE(testing::name_of(model));
  Random random{seed};
  RunnerCase<element> one{model, seed};
  const int count = few ? 6 : 40;
  const std::vector<std::int32_t> tokens = random_tokens(random, count, one.config().shape.vocabulary);
  auto expected = one.alone(tokens, random);
  const int last = count - 1, blocks = count / block_tokens;
  for (const int lost_blocks : {0, 1, blocks}) {
    const int prefix = few ? 4 : 2 * block_tokens, lost = std::min(prefix, few ? 4 : lost_blocks * block_tokens);
    SequenceKv kv{one.config(), count, random};
    for (std::size_t layer = 0; layer < kv.layers.size(); ++layer) {
      const bool has_all = layer == 2; // no row of the prefix reaches it
      for (int token = has_all ? 0 : lost; token < last; ++token) {
        for (int head = 0; head < 2 * one.config().shape.kv_heads; ++head) {
          const auto from = expected.kv.head(one.config(), layer, token, head);
          std::copy(from.begin(), from.end(), kv.head(one.config(), layer, token, head).begin());
        }
      }
    }
    SequenceKv neighbour{one.config(), 1, random}; // whose blocks come first
    std::vector<std::int32_t> ids{tokens[0], tokens[static_cast<std::size_t>(last)]};
    std::vector<std::int32_t> positions{0, last};
    for (int t = 0; t < prefix; ++t) {
      ids.push_back(tokens[static_cast<std::size_t>(t)]);
      positions.push_back(t);
    }
    ModelRunner& runner = one.runner();
    runner.begin(ids, positions);
    for (int layer = 0; layer < 3; ++layer) {
      std::byte* const* const at = kv.layers[static_cast<std::size_t>(layer)].data();
      std::vector<SequenceRows> rows{{0, 1, 0, neighbour.layers[static_cast<std::size_t>(layer)].data(), 0},
                                     {1, 1, last, at, last}};
      if (layer < 2 && lost > 0) rows.push_back({2, lost, 0, at, 0});
      if (layer < 2 && lost < prefix) rows.push_back({2 + lost, prefix - lost, lost, at, prefix}); // only pass
      const int all = layer == 0 ? 2 + prefix : 2;
      runner.launch_layer(layer, one.whole(layer), rows, all, layer == 1 ? prefix : 0, {});
    }
    const Outcome outcome = one.sample(std::array{0, 1});
    CHECK(outcome.logits[0] == expected.logits.front());
    CHECK(outcome.logits[1] == expected.logits.back());
    CHECK(kv.stored(one.config(), count) == expected.stored);
  }
}

/// K and V below `stored_from` are never written, whatever their bytes: other requests may be reading them.
template <ElementType element>
void what_is_stored_is_left(SmallModel model, std::uint64_t seed) {
  Random random{seed};
  RunnerCase<element> one{model, seed};
  const int count = few ? 4 : 20, stored = count / 2;
  const std::vector<std::int32_t> tokens = random_tokens(random, count, one.config().shape.vocabulary);
  std::vector<std::int32_t> positions;
  for (int i = 0; i < count; ++i) positions.push_back(i);
  SequenceKv kv{one.config(), count, random};
  for (const emulate::Memory& block : kv.memory) std::memset(block.data(), 0x11, block.size()); // small numbers
  const std::vector<std::byte> before = kv.stored(one.config(), stored);
  const std::vector<std::byte> all_before = kv.stored(one.config(), count);
  one.runner().begin(tokens, positions);
  for (int layer = 0; layer < one.config().shape.layers; ++layer) {
    const SequenceRows rows{0, count, 0, kv.layers[static_cast<std::size_t>(layer)].data(), stored};
    one.runner().launch_layer(layer, one.whole(layer), {&rows, 1}, count, 0, {});
  }
  one.device().finish();
  CHECK(kv.stored(one.config(), stored) == before);
  CHECK(kv.stored(one.config(), count) != all_before);
}

/// `tokens` equals `sluice::sample` of the row's logits, for any request.
template <ElementType element>
void tokens_are_the_samplers(SmallModel model, std::uint64_t seed) {
  Random random{seed};
  RunnerCase<element> one{model, seed};
  const int count = few ? 3 : 24;
  const std::vector<std::int32_t> tokens = random_tokens(random, count, one.config().shape.vocabulary);
  SequenceKv kv{one.config(), count, random};
  const Part part{&tokens, &kv, 0, count};
  one.launch({&part, 1});
  std::vector<SampleRow> samples;
  for (int row = 0; row < count; ++row) {
    Sampling sampling{.temperature = row % 3 == 0 ? 0 : 0.3 + 2 * random.uniform(), .seed = random()};
    if (random.below(2) == 0) sampling.top_k = static_cast<int>(random.below(12));
    if (random.below(2) == 0) sampling.top_p = 0.2 + 0.8 * random.uniform();
    samples.push_back({row, sampling, random(), row + 1});
  }
  const Outcome outcome = one.sample(std::span<const SampleRow>{samples});
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::vector<float> logits = numbers(outcome.logits[i]);
    CHECK(outcome.tokens[i] == sample(logits, samples[i].sampling, samples[i].sequence, samples[i].position));
    if (samples[i].sampling.temperature == 0) CHECK(outcome.tokens[i] == greedy_token(logits));
  }
}

template <ElementType element>
void holds_what_it_promises() {
  for (const SmallModel model : testing::small_models) {
    if (sanitized && model != SmallModel::opt && model != SmallModel::mixtral) continue;
    if (few && model != SmallModel::mixtral) continue;
    rows_are_their_own<element>(model, 1);
    if (element == ElementType::f32 && !sanitized) rows_are_their_own<element>(model, 2);
    prefixes_are_rebuilt<element>(model, 3);
    what_is_stored_is_left<element>(model, 5);
    tokens_are_the_samplers<element>(model, 4);
  }
}

} // namespace sluice::kernels::test
