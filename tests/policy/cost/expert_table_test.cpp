// SPDX-License-Identifier: Apache-2.0
// ExpertTable and ExpertParallel: uniform routing, and engines that share experts.
#include "sluice/core/random.hpp"
#include "sluice/policy/cost/expert_parallel.hpp"
#include "sluice/policy/cost/served_tables.hpp"

#include "policy/cost/decoding.hpp"
#include "policy/cost/small_bundle.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

TEST_CASE("uniform routing touches as many experts as drawing them does") {
  const ExpertShare experts{16, 8, 3};
  CHECK(experts.touched(0) == 0);
  CHECK(experts.touched(1) == doctest::Approx(1.5)); // 3 of 16, half of them here
  CHECK(experts.touched(2) == doctest::Approx(8 * (1 - 13.0 * 13.0 / 256.0)));
  Random rng(3);
  double touched = 0;
  const int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    std::array<bool, 16> chosen{};
    for (int token = 0; token < 5; ++token) {
      std::array<int, 16> order{};
      for (int i = 0; i < 16; ++i) order[static_cast<std::size_t>(i)] = i;
      for (std::size_t i = 0; i < 3; ++i) {
        std::swap(order[i], order[i + rng.below(16 - i)]);
        chosen[static_cast<std::size_t>(order[i])] = true;
      }
    }
    for (std::size_t i = 0; i < 8; ++i) touched += chosen[i] ? 1 : 0;
  }
  CHECK(touched / trials == doctest::Approx(experts.touched(5)).epsilon(0.02));
}

TEST_CASE("times lie between the measured tokens and experts") {
  const ExpertTable table({4, 4, 1}, {{1, MeasuredLine{{{1, 10.0}}}}, {3, MeasuredLine{{{1, 20.0}, {3, 40.0}}}}});
  CHECK(table.at(1, 1) == 10.0);
  CHECK(table.at(3, 2) == doctest::Approx(30.0));
  CHECK(table.at(2, 1) == doctest::Approx(15.0));
  // 3 tokens that choose one of 4 experts touch 4 (1 - 27/64) = 2.3125.
  CHECK(table.seconds(3) == doctest::Approx(20.0 + 10.0 * 1.3125));
  CHECK(table.seconds(0) == 0);
  // With half of the experts here, 6 tokens make as many choices as 3 would here alone.
  const ExpertTable half({4, 2, 1}, {{3, MeasuredLine{{{1, 20.0}, {2, 40.0}}}}});
  CHECK(half.seconds(6) == doctest::Approx(20.0 + 20.0 * (2 * (1 - 729.0 / 4096.0) - 1)));
}

TEST_CASE("engines that share experts end together") {
  constexpr int layers = 2;
  const ExpertTable experts({4, 2, 1}, {{1, MeasuredLine{{{1, 1e-3}}}}, {11, MeasuredLine{{{1, 11e-3}}}}});
  const ServedProfile plain(small_bundle(), {}, layers);
  PeerLink link;
  link.rate = BytesPerSecond{1000};
  link.launch = Seconds{0.25};
  const ExpertParallel group(plain, experts, AllReduce(link, 2), 10.0);
  const Work four = decoding(4, 10), two = decoding(2, 500);
  const std::vector<RankWork> ranks{{&four, Seconds{0.5}}, {&two, Seconds{0.75}}};
  // 6 tokens: 3 per device take 3 ms in each layer. Gathering and scattering 60 bytes: each 0.25 s and 30 / 1000 s.
  CHECK(group.joint(ranks).count() == doctest::Approx(0.75 + layers * (3e-3 + 2 * (0.25 + 0.03))));
  // An engine without requests computes one token.
  const std::vector<RankWork> one{{&four, Seconds{0.5}}, {}};
  CHECK(group.joint(one).count() == doctest::Approx(0.5 + layers * (2.5e-3 + 2 * (0.25 + 0.025))));
}

TEST_CASE("engines with graphs are padded to the largest batch") {
  constexpr int layers = 2;
  const ExpertTable experts({4, 2, 1}, {{1, MeasuredLine{{{1, 1e-3}}}}, {11, MeasuredLine{{{1, 11e-3}}}}});
  Serving serving;
  serving.graphs = CudaGraphs({1, 2, 4, 8}, {});
  const ServedProfile padded(small_bundle(), serving, layers);
  const ExpertParallel group(padded, experts, AllReduce{}, 10.0);
  const Work three = decoding(3, 10), one = decoding(1, 10);
  const Seconds alone = padded.step(one).total(layers);
  const std::vector<RankWork> ranks{{&three, Seconds{0}}, {&one, alone}};
  // Both compute 4 tokens. The smaller engine's layers take 3 tokens more: 8 kernels of 0.1 us in two layers, and
  // embedding and last norm once. 8 tokens: 4 per device.
  const double more = 3 * 0.1e-6 * (8 * layers + 2);
  CHECK(group.joint(ranks).count() == doctest::Approx(alone.count() + more + layers * 4e-3));
  // Beyond the largest graph nothing is padded: 9 and 1 tokens.
  const Work nine = decoding(9, 10);
  const std::vector<RankWork> large{{&nine, Seconds{1}}, {&one, alone}};
  CHECK(group.joint(large).count() == doctest::Approx(1 + layers * 5e-3));
}
