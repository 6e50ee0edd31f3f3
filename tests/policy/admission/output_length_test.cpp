// SPDX-License-Identifier: Apache-2.0
// OutputLength: a predictor's ranks agree as often as its tau says, and its tokens are spread as the outputs are.
#include "sluice/policy/admission/output_length.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

using namespace sluice;

TEST_CASE("RankedLength agrees with the true order as often as its tau implies") {
  for (const double tau : {0.0, 0.3, 0.5, 0.8}) {
    CAPTURE(tau);
    Random random(42);
    const RankedLength predict{.kendall_tau = tau, .seed = 7};
    RankedLength::State state;
    std::vector<double> truth, predicted;
    for (std::uint32_t i = 0; i < 2200; ++i) {
      RequestRow row;
      row.id = RequestId{i};
      // Log-normal with a tail, as outputs are: the product of four uniform numbers.
      double length = 1;
      for (int k = 0; k < 4; ++k) length *= 0.05 + random.uniform();
      row.spec = RequestSpec{.output = Tokens{1 + static_cast<std::int64_t>(20'000 * length)}, .slo = {}};
      const double guess = predict(state, row);
      if (i < 200) continue; // it must observe some lengths first
      truth.push_back(static_cast<double>(row.output(not_a_policy).count()));
      predicted.push_back(guess);
    }
    double agree = 0;
    double pairs = 0;
    for (std::size_t i = 0; i < truth.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        if (truth[i] == truth[j]) continue;
        ++pairs;
        agree += (truth[i] < truth[j]) == (predicted[i] < predicted[j]) ? 1 : -1;
      }
    CHECK(agree / pairs == doctest::Approx(tau).epsilon(0.05));
  }
}

TEST_CASE("RankedLength: a tau of 1 is the oracle") {
  Random random(43);
  const RankedLength predict{.kendall_tau = 1};
  RankedLength::State state;
  RequestRow row;
  std::vector<std::pair<double, double>> seen;
  for (std::uint32_t i = 0; i < 500; ++i) {
    row.id = RequestId{i};
    row.spec = RequestSpec{.output = Tokens{1 + static_cast<std::int64_t>(random.below(4000))}, .slo = {}};
    const double guess = predict(state, row);
    if (i > 400) seen.emplace_back(static_cast<double>(row.output(not_a_policy).count()), guess);
  }
  // The scale moves a little with every request: clearly shorter must be clearly less.
  for (const auto& [a, guess_a] : seen)
    for (const auto& [b, guess_b] : seen)
      if (1.2 * a < b) CHECK(guess_a < guess_b);
}

TEST_CASE("RankedLength predicts tokens that are spread as the outputs are, in the order of its ranks") {
  for (const double tau : {0.0, 0.55, 1.0}) {
    CAPTURE(tau);
    Random random(44);
    const RankedLength predict{.kendall_tau = tau, .seed = 3};
    RankedLength::State state, ranks;
    std::vector<double> outputs, predicted;
    for (std::uint32_t i = 0; i < 4000; ++i) {
      RequestRow row;
      row.id = RequestId{i};
      double log = 0; // lognormal: the sum of twelve uniform numbers is nearly normal
      for (int k = 0; k < 12; ++k) log += random.uniform() - 0.5;
      row.spec = RequestSpec{.output = Tokens{1 + static_cast<std::int64_t>(200 * std::exp(log))}, .slo = {}};
      const double rank = predict(ranks, row), tokens = predict.tokens(state, row);
      REQUIRE(tokens > 0);
      if (i < 200) continue;
      CHECK((rank > 0) == (tokens > std::exp(ranks.mean)));
      outputs.push_back(static_cast<double>(row.output(not_a_policy).count()));
      predicted.push_back(tokens);
    }
    std::sort(outputs.begin(), outputs.end());
    std::sort(predicted.begin(), predicted.end());
    for (const double share : {0.1, 0.5, 0.9}) {
      const auto at = static_cast<std::size_t>(share * static_cast<double>(outputs.size()));
      CHECK(predicted[at] == doctest::Approx(outputs[at]).epsilon(0.15));
    }
  }
}
