// SPDX-License-Identifier: Apache-2.0
// FutureClaim: what a batch is expected to hold, against decoding it token by token.
#include "sluice/state/view/future_claims.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

std::vector<FutureClaim> random_claims(Random& random) {
  std::vector<FutureClaim> claims;
  for (std::int64_t i = between(random, 1, 8); i > 0; --i)
    claims.push_back({static_cast<double>(between(random, 1, 60)), static_cast<double>(between(random, 1, 40)),
                      static_cast<std::size_t>(claims.size())});
  std::sort(claims.begin(), claims.end(), FutureClaim::longest_first);
  return claims;
}

/// One token per step for every request with tokens left. Returns, for each token at which requests end, how many still
/// run and what they hold then: the last end first.
std::vector<std::pair<std::size_t, double>> decoded_ends(const std::vector<FutureClaim>& claims) {
  std::vector<std::pair<std::size_t, double>> ends;
  for (double token = 1; token <= 40; ++token) {
    std::size_t running = 0;
    double held = 0;
    bool ended = false;
    for (const FutureClaim& claim : claims) {
      if (claim.remaining < token) continue;
      ++running;
      held += claim.context + token;
      ended = ended || claim.remaining == token;
    }
    if (ended) ends.insert(ends.begin(), {running, held});
  }
  return ends;
}

} // namespace

TEST_CASE("a batch is looked at just before each of its ends, and peaks at one of them") {
  Random random(51);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const std::vector<FutureClaim> claims = random_claims(random);
    std::vector<std::pair<std::size_t, double>> seen;
    CHECK(at_each_end(claims, [&seen](std::size_t requests, double tokens) {
      seen.push_back({requests, tokens});
      return true;
    }));
    double peak = 0;
    for (const auto& end : decoded_ends(claims)) {
      CHECK(std::find(seen.begin(), seen.end(), end) != seen.end());
      peak = std::max(peak, end.second);
    }
    CHECK(future_peak(claims) == peak);
  }
}

TEST_CASE("looking ahead counts only the first places, and stops at the first visit that returns false") {
  Random random(52);
  int stopped = 0;
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    const std::vector<FutureClaim> claims = random_claims(random);
    const auto places = static_cast<std::size_t>(between(random, 0, 8));
    std::vector<FutureClaim> first;
    for (const FutureClaim& claim : claims)
      if (claim.place < places) first.push_back(claim);
    const double limit = 400 * random.uniform();
    std::size_t visits = 0;
    const bool fits = at_each_end(
        claims,
        [&](std::size_t, double tokens) {
          ++visits;
          return tokens <= limit;
        },
        places);
    CHECK(fits == (future_peak(first) <= limit));
    CHECK(visits <= first.size());
    stopped += visits < first.size();
  }
  CHECK(stopped > 100);
}

TEST_CASE("requests with quantiles of their own end as past requests did") {
  HandMade made;
  Random random(53);
  std::vector<std::int64_t> past;
  for (int i = 0; i < 400; ++i) {
    past.push_back(between(random, 1, 10) * 50);
    made.lengths.learn(Tokens{past.back()});
  }
  const ExpectedOutput expected{};
  constexpr int requests = 4000;
  std::vector<double> lengths;
  for (int i = 0; i < requests; ++i) {
    const Slot slot = made.add(Tokens{1}, Tokens{1}, Tokens{0}, Tokens{0}, Phase::waiting);
    const RequestRow& row = made.rows[index(slot)];
    CHECK(expected.draw(row) == expected.draw(row));
    lengths.push_back(expected.remaining(made.lengths, row, expected.draw(row)));
  }
  for (std::int64_t length = 50; length <= 500; length += 50) {
    const auto shorter = [length](auto value) { return static_cast<double>(value) <= static_cast<double>(length); };
    const auto share = [&](const auto& all) {
      return static_cast<double>(std::count_if(all.begin(), all.end(), shorter)) / static_cast<double>(all.size());
    };
    CHECK(share(lengths) == doctest::Approx(share(past)).epsilon(0.1));
  }
}

TEST_CASE("without enough past requests an output is expected to be the first guess, or to go on for a while") {
  HandMade made;
  const Slot slot = made.add(Tokens{10}, Tokens{3}, Tokens{0}, Tokens{0}, Phase::waiting);
  RequestRow row = made.rows[index(slot)];
  const ExpectedOutput expected{.enough = 2, .first_guess = Tokens{100}, .least = Tokens{7}};
  made.lengths.learn(Tokens{5000});
  CHECK(expected.remaining(made.lengths, row, 0.5) == 100);
  row.generated = Tokens{60};
  CHECK(expected.remaining(made.lengths, row, 0.5) == 40);
  row.generated = Tokens{600};
  CHECK(expected.remaining(made.lengths, row, 0.5) == 7);
  made.lengths.learn(Tokens{5000});
  CHECK(expected.remaining(made.lengths, row, 0.5) == 4400);
}
