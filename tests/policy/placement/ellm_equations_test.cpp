// SPDX-License-Identifier: Apache-2.0
// eLLM's equations against the paper's own figures and against plain sums, as printed and as corrected.
#include "sluice/model/named.hpp"
#include "sluice/policy/placement/ellm_equations.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr FlopsPerSecond a100{312e12};

BatchSums sums_of(const std::vector<std::int64_t>& lengths) {
  BatchSums sums;
  for (const std::int64_t length : lengths) sums.add(Tokens{length});
  return sums;
}

std::vector<std::int64_t> random_lengths(Random& random) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t count = between(random, 1, 60); count > 0; --count) lengths.push_back(between(random, 1, 4000));
  return lengths;
}

} // namespace

TEST_CASE("memory: 4 L h bytes per token if every head has K and V, less by the share of heads that have them") {
  const EllmEquations llama13(llama2_13b());
  const BatchSums one = sums_of({1});
  CHECK(llama13.kv_bytes(one, 0) == 4.0 * 40 * 5120);
  CHECK(llama13.kv_bytes(one, 0) == EllmEquations(llama2_13b(), ellm_printed).kv_bytes(one, 0));
  CHECK(llama13.kv_bytes(sums_of({1000, 500}), 0.25) == doctest::Approx(0.75 * 1500 * 4 * 40 * 5120));
  // Llama2-70B has 8 KV heads of 64 (Table 1: GQA): the printed formula counts eight times too much.
  const BatchSums some = sums_of({10, 200});
  CHECK(EllmEquations(llama2_70b(), ellm_printed).kv_bytes(some, 0.1) ==
        doctest::Approx(8 * EllmEquations(llama2_70b()).kv_bytes(some, 0.1)));
}

TEST_CASE("workspace: 40 h b s r at first, 8 h b s r (l1 + l2) once the pair is known") {
  const EllmEquations equations(llama2_13b());
  const BatchSums batch = sums_of({700, 700, 700});
  CHECK(equations.most_workspace_bytes(batch, 0.4) == doctest::Approx(40.0 * 5120 * 3 * 700 * 0.4));
  for (const LayerPair pair : ellm_pairs) {
    const double bytes = equations.workspace_bytes(batch, 0.4, pair);
    CHECK(bytes == doctest::Approx(8.0 * 5120 * 3 * 700 * 0.4 * (pair.swapped + pair.recomputed)));
    CHECK(bytes <= equations.most_workspace_bytes(batch, 0.4));
  }
}

TEST_CASE("there are six pairs: one or two layers recomputed, one to three swapped") {
  for (int recomputed = 1; recomputed <= 2; ++recomputed)
    for (int swapped = 1; swapped <= 3; ++swapped)
      CHECK(std::count(ellm_pairs.begin(), ellm_pairs.end(), LayerPair{recomputed, swapped}) == 1);
  CHECK(ellm_pairs.size() == 6);
}

TEST_CASE("volumes are the printed sums, request by request") {
  Random random(21);
  const ModelShape shape = llama2_13b();
  const double h = shape.hidden, L = shape.layers, V = shape.vocabulary;
  const EllmEquations printed(shape, ellm_printed);
  EllmForm no_output = ellm_printed;
  no_output.output_for_recomputed = no_output.output_per_context_token = false;
  const EllmEquations meant(shape, no_output);
  for (int round = 0; round < 100; ++round) {
    const std::vector<std::int64_t> lengths = random_lengths(random);
    const BatchSums batch = sums_of(lengths);
    const double r = random.uniform();
    const LayerPair pair = ellm_pairs[static_cast<std::size_t>(random.below(6))];
    const double l1 = pair.swapped, l2 = pair.recomputed;
    double rec = 0, dec = 0, k1 = 0, k2 = 0, seven = 0, five = 0;
    for (const std::int64_t length : lengths) {
      const auto s = static_cast<double>(length);
      rec += 24 * h * h * L * s * r + 4 * h * L * s * s * r * r + 2 * h * V * s * r;                        // (2)
      dec += 24 * h * h * L + 4 * h * L * (s + 1) + 2 * h * V * s;                                          // (3)
      seven += (24 * h * h * s * r + 4 * h * s * s * r * r) * l2 / L + 2 * s * r * h * V;                   // (7)
      k1 += 24 * h * h * l2 * s * r + 4 * h * l2 * s * s * r * r + 2 * h * V * s * r;                       // (8)
      k2 += 24 * h * h * (l1 + l2) + 4 * h * (l1 + l2) * (s + 1) + 2 * h * V * s;                           // (9)
      five += 24 * h * h * L * (s * r + 1) + 4 * h * L * (s * s * r * r + s + 1) + 2 * h * V * s * (1 + r); // (5)
    }
    CHECK(printed.recompute_volume(batch, r) == doctest::Approx(rec));
    CHECK(printed.decode_volume(batch) == doctest::Approx(dec));
    CHECK(printed.seconds(batch, r, a100) == doctest::Approx((rec + dec) / 312e12));
    CHECK(printed.seconds_per_request(batch, r, a100) == doctest::Approx(five / 312e12 / batch.requests));
    CHECK(printed.recompute_seconds(batch, r, pair.recomputed, a100) == doctest::Approx(seven / 312e12));
    CHECK(printed.k1_volume(batch, r, pair) == doctest::Approx(k1));
    CHECK(printed.k2_volume(batch, pair) == doctest::Approx(k2));
    // The surplus: an output layer for tokens that are not sampled.
    const double rows = 2 * h * V * batch.tokens * r;
    CHECK(meant.recompute_volume(batch, r) == doctest::Approx(rec - rows));
    CHECK(meant.decode_volume(batch) == doctest::Approx(dec - 2 * h * V * (batch.tokens - batch.requests)));
    CHECK(meant.k1_volume(batch, r, pair) == doctest::Approx(k1 - rows));
    CHECK(meant.k2_volume(batch, pair) == doctest::Approx(k2 - 2 * h * V * batch.tokens));
  }
}

TEST_CASE("(7) as printed is 1 / L of the layers' time, plus an output layer") {
  const ModelShape shape = llama2_13b();
  const BatchSums batch = sums_of({1000, 2000});
  EllmForm divided = ellm_corrected;
  divided.recompute_divided_by_layers = true;
  for (const int layers : {1, 2}) {
    const double meant = EllmEquations(shape).recompute_seconds(batch, 0.3, layers, a100);
    CHECK(EllmEquations(shape, divided).recompute_seconds(batch, 0.3, layers, a100) == doctest::Approx(meant / 40));
  }
  // All layers, one after the other, take the time of (2).
  CHECK(EllmEquations(shape).recompute_seconds(batch, 0.3, shape.layers, a100) ==
        doctest::Approx(EllmEquations(shape).recompute_volume(batch, 0.3) / 312e12));
}

TEST_CASE("the output layer as printed outweighs the decode of all layers for ShareGPT's lengths") {
  // 222 + 1,346 tokens on average (section 6.1): 2 s h V against 24 h^2 L + 4 h L (s + 1).
  const EllmEquations printed(llama2_13b(), ellm_printed);
  const EllmEquations corrected(llama2_13b());
  const BatchSums one = sums_of({222 + 1346});
  CHECK(printed.decode_volume(one) > 15 * corrected.decode_volume(one));
}

TEST_CASE("(5) does not depend on the batch and is smallest without recomputation: it shows no gain from batching") {
  Random random(22);
  for (const EllmForm form : {ellm_printed, ellm_corrected}) {
    const EllmEquations equations(llama2_13b(), form);
    for (int round = 0; round < 50; ++round) {
      const Tokens length{between(random, 1, 4000)};
      BatchSums batch;
      batch.add(length);
      const double alone = equations.seconds_per_request(batch, 0, a100);
      for (std::int64_t more = between(random, 1, 100); more > 0; --more) batch.add(length);
      CHECK(equations.seconds_per_request(batch, 0, a100) == doctest::Approx(alone));
      CHECK(equations.seconds_per_request(batch, 0.01 + 0.9 * random.uniform(), a100) > alone);
    }
  }
}

TEST_CASE("swapping is linear in tokens and layers, and the chosen mismatch is the least of six") {
  CHECK(ellm_swap_seconds(1000, 40, 40, 2e-5, 1e-3) == doctest::Approx(2e-5 * 1000 + 1e-3));
  CHECK(ellm_swap_seconds(1000, 3, 40, 2e-5, 1e-3) == doctest::Approx(3 * ellm_swap_seconds(1000, 1, 40, 2e-5, 1e-3)));
  Random random(23);
  for (int round = 0; round < 300; ++round) {
    const double swap = random.uniform(), recompute = random.uniform();
    const LayerPair chosen = least_mismatch([&](LayerPair pair) { return swap * pair.swapped; },
                                            [&](LayerPair pair) { return recompute * pair.recomputed; });
    for (const LayerPair other : ellm_pairs)
      CHECK(std::abs(swap * chosen.swapped - recompute * chosen.recomputed) <=
            std::abs(swap * other.swapped - recompute * other.recomputed));
  }
}

TEST_CASE("threads follow the ratio of (8) and (9), in warps") {
  Random random(24);
  const EllmEquations equations(llama2_13b());
  for (int round = 0; round < 100; ++round) {
    const BatchSums batch = sums_of(random_lengths(random));
    const double r = random.uniform();
    const LayerPair pair = ellm_pairs[static_cast<std::size_t>(random.below(6))];
    const int threads = equations.k1_threads(batch, r, pair);
    CHECK(threads % 32 == 0);
    CHECK(threads >= 32);
    CHECK(threads <= 992);
    CHECK(threads <=
          equations.k1_threads(batch, std::min(1.0, r + 0.1), pair)); // more recomputation, at least as many threads
  }
}
