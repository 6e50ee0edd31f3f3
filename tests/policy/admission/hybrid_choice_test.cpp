// SPDX-License-Identifier: Apache-2.0
// HybridChoice: the value of Apt-Serve's greedy beside the best of all choices.
#include "sluice/policy/admission/hybrid_choice.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace hybrid {
namespace {

double value_of(const HybridCandidate& one, CacheForm form) {
  return form == CacheForm::nothing ? 0 : form == CacheForm::kv ? one.pending_s : one.states_value();
}
std::int64_t room_of(const HybridCandidate& one, CacheForm form) {
  return form == CacheForm::nothing ? 0 : form == CacheForm::kv ? one.kv : one.states;
}

/// The best value of all choices of the candidates from `first` on.
double best_of(const std::vector<HybridCandidate>& all, std::size_t first, std::int64_t memory) {
  if (memory < 0) return -std::numeric_limits<double>::infinity();
  if (first == all.size()) return 0;
  double best = best_of(all, first + 1, memory);
  for (const CacheForm form : {CacheForm::states, CacheForm::kv}) {
    if (form == CacheForm::states && all[first].states == 0) continue;
    best = std::max(best, value_of(all[first], form) + best_of(all, first + 1, memory - room_of(all[first], form)));
  }
  return best;
}

std::vector<HybridCandidate> draw(Random& random, bool halves) {
  const auto count = static_cast<std::size_t>(between(random, 1, 8));
  const double per_block = 0.02 * static_cast<double>(between(random, 0, 40)); // of delay
  std::vector<HybridCandidate> all;
  for (std::size_t i = 0; i < count; ++i) {
    HybridCandidate one;
    one.pending_s = 0.5 * static_cast<double>(between(random, 0, 40));
    one.kv = 2 * between(random, 1, 12);
    one.states = halves ? one.kv / 2 : between(random, 0, one.kv - 1);
    one.delay_s = per_block * static_cast<double>(one.kv);
    all.push_back(one);
  }
  return all;
}

} // namespace
} // namespace hybrid

TEST_CASE("the greedy's choice fits, and is worth at least half of the best choice") {
  using namespace hybrid;
  Random random(3);
  int optimal = 0, alone = 0, mixed = 0;
  HybridChoice choice;
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    const bool halves = between(random, 0, 1) == 0;
    const std::vector<HybridCandidate> all = draw(random, halves);
    const std::int64_t memory = between(random, 0, 60);
    const double value = choice.choose(all, memory);
    std::int64_t used = 0;
    double counted = 0;
    std::size_t states = 0, kv = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      used += room_of(all[i], choice.form(i));
      counted += value_of(all[i], choice.form(i));
      states += choice.form(i) == CacheForm::states ? 1U : 0U;
      kv += choice.form(i) == CacheForm::kv ? 1U : 0U;
      CHECK((choice.form(i) != CacheForm::states || all[i].states > 0));
    }
    CHECK(choice.order().size() == states + kv);
    CHECK(used <= memory);
    CHECK(value == doctest::Approx(counted));
    const double best = best_of(all, 0, memory);
    CHECK(value <= best + 1e-9);
    CHECK(2 * value >= best - 1e-9);
    optimal += value >= best - 1e-9 ? 1 : 0;
    alone += choice.order().size() == 1 ? 1 : 0;
    mixed += states > 0 && kv > 0 ? 1 : 0;
  }
  CHECK(optimal > 1000);
  CHECK(optimal < 4000);
  CHECK(mixed > 100);
  CHECK(alone > 100);
}

TEST_CASE("without delay everybody who may gets hidden states, and with much delay nobody does") {
  HybridChoice choice;
  const std::vector<HybridCandidate> free{{4, 0, 10, 5}, {3, 0, 10, 5}, {2, 0, 10, 5}};
  CHECK(choice.choose(free, 15) == 9);
  for (std::size_t i = 0; i < 3; ++i) CHECK(choice.form(i) == CacheForm::states);
  CHECK(choice.choose(free, 30) == 9);
  for (std::size_t i = 0; i < 3; ++i) CHECK(choice.form(i) == CacheForm::kv);
  const std::vector<HybridCandidate> dear{{4, 3, 10, 5}, {3, 3, 10, 5}, {2, 3, 10, 5}};
  CHECK(choice.choose(dear, 15) == 4);
  CHECK(choice.form(0) == CacheForm::kv);
  CHECK(choice.form(1) == CacheForm::nothing);
}

TEST_CASE("a request of much value that the others leave no room for gets the memory alone") {
  HybridChoice choice;
  CHECK(choice.choose(std::vector<HybridCandidate>{{1, 0, 1, 0}, {50, 0, 100, 0}}, 100) == 50);
  CHECK(choice.form(0) == CacheForm::nothing);
  CHECK(choice.form(1) == CacheForm::kv);
  // One that fits only as hidden states gets those.
  CHECK(choice.choose(std::vector<HybridCandidate>{{50, 30, 100, 50}}, 60) == 20);
  CHECK(choice.form(0) == CacheForm::states);
}

TEST_CASE("after a refusal nobody else gets memory, and the accepted ones get K and V in what remains") {
  HybridChoice choice;
  const std::vector<HybridCandidate> all{{5, 1, 10, 5}, {4, 1, 10, 5}, {3, 1, 10, 5}};
  int asked = 0;
  const auto two = [&asked](std::size_t) { return ++asked <= 2; };
  CHECK(choice.choose(all, 100, two) == 9);
  CHECK(asked == 3);
  CHECK(choice.order().size() == 2);
  CHECK(choice.form(0) == CacheForm::kv);
  CHECK(choice.form(1) == CacheForm::kv);
  CHECK(choice.form(2) == CacheForm::nothing);
  asked = 0;
  CHECK(choice.choose(all, 15, two) == 8); // room for one of them
  CHECK(choice.form(0) == CacheForm::kv);
  CHECK(choice.form(1) == CacheForm::states);
}

TEST_CASE("where nobody has waited yet, all join before anyone gets K and V") {
  HybridChoice choice;
  CHECK(choice.choose(std::vector<HybridCandidate>(4, {0, 0, 10, 5}), 29) == 0);
  CHECK(choice.order().size() == 4);
  CHECK(choice.form(0) == CacheForm::kv);
  CHECK(choice.form(1) == CacheForm::states);
}

TEST_CASE("nobody is asked after the candidate that is not accepted") {
  HybridChoice choice;
  const std::vector<HybridCandidate> all{{5, 0, 10, 0}, {4, 0, 10, 0}, {3, 0, 10, 0}};
  CHECK(choice.choose(all, 100, [](std::size_t i) { return i < 1; }) == 5);
  CHECK(choice.order().size() == 1);
}
