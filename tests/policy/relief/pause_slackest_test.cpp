// SPDX-License-Identifier: Apache-2.0
// PauseSlackest: the preempted request, against a ranking of all candidates by hand.
#include "sluice/policy/relief/pause_slackest.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <tuple>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// A scene of decoding requests with any slack, and perhaps a newcomer.
struct Scene {
  HandMade made;
  std::vector<Claim> claims;
};
Scene random_scene(Random& random, bool newcomer) {
  Scene scene;
  for (std::int64_t i = between(random, 1, 8); i > 0; --i) {
    const Tokens generated{between(random, 0, 40)};
    const Slot slot = scene.made.decoding(Tokens{between(random, 1, 200)}, generated, Tokens{100});
    RequestRow& row = scene.made.rows[index(slot)];
    row.delivered = generated - Tokens{random.below(3) == 0 ? between(random, 0, generated.count()) : 0};
    row.spec.arrival = Seconds{static_cast<double>(between(random, 80, 100))};
    row.spec.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.25}};
    scene.claims.push_back({slot, Tokens{1}, Tokens{0}, true});
  }
  if (newcomer) {
    const Slot slot = scene.made.add(Tokens{50}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
    scene.claims.push_back({slot, Tokens{1}, Tokens{50}, true});
  }
  return scene;
}

} // namespace

TEST_CASE("KV that has grown costs the newest request") {
  Random random(1);
  PauseSlackest::State state;
  for (int round = 0; round < 200; ++round) {
    const Scene scene = random_scene(random, false);
    CHECK(PauseSlackest{}.choose(scene.made.view(), state, scene.claims) == scene.claims.size() - 1);
  }
}

TEST_CASE("a newcomer costs a request that has lost its SLO, then a covered one, then the one furthest ahead") {
  Random random(2);
  PauseSlackest::State state;
  int behind = 0, covered = 0, ahead = 0, none = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const Scene scene = random_scene(random, true);
    const View view = scene.made.view();
    const std::size_t chosen = PauseSlackest{}.choose(view, state, scene.claims);
    REQUIRE(chosen < scene.claims.size());
    /// Started, behind, deposit, seconds ahead: the request with more is preempted.
    const auto rank = [&](std::size_t i) {
      const RequestRow& row = view.row(scene.claims[i].slot);
      const double due = row.spec.arrival.count() + row.spec.slo.ttft.count() +
                         static_cast<double>(row.generated.count()) * row.spec.slo.tbt.count();
      const bool started = row.generated.count() > 0;
      const double key = started ? due - view.now.count() : -static_cast<double>(row.context().count());
      return std::tuple{started, started && due < view.now.count(), started ? row.deposit().count() : 0, key};
    };
    for (std::size_t i = 0; i < scene.claims.size(); ++i) {
      CHECK(rank(i) <= rank(chosen));
      if (rank(i) == rank(chosen)) CHECK(i <= chosen); // ties: the last that joined
    }
    const auto [started, is_behind, deposit, key] = rank(chosen);
    behind += is_behind;
    covered += started && !is_behind && deposit > 0;
    ahead += started && !is_behind && deposit == 0;
    none += !started;
  }
  CHECK(behind > 50);
  CHECK(covered > 50);
  CHECK(ahead > 50);
  CHECK(none > 0);
}
