// SPDX-License-Identifier: Apache-2.0
// Confluence where newcomers press, requests are paused and distances change.
#include "sluice/engine/systems/confluence.hpp"

#include "identity/eigen/trials.hpp"

namespace sluice::testing {

namespace {

/// Trials with SLOs that some requests can keep and others cannot. A newcomer presses as soon as a request could pay,
/// however much pauses have cost, and one batch in two is placed by the policy for many requests.
void check_confluence(std::uint64_t seed, int rounds, std::uint64_t leaving = 0) {
  const Device& device = this_device();
  Random random(seed);
  RealExercise exercise;
  std::int64_t cancelled = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    RealTrial trial = device.draw(random);
    if (round % 2 == 1) trial = at_once(std::move(trial));
    // Too short to keep; short enough that a request soon is further ahead and pays; and long enough that none pays.
    constexpr double ttfts_s[] = {0.002, 0.005, 0.005, 10};
    trial.ttft = Seconds{ttfts_s[random.below(4)]};
    trial.slo = Seconds{0.005 + 0.004 * random.uniform()}; // a request alone keeps it, by the planner's cost model
    const std::vector<RealOutput> expected = alone(trial);
    trial.leaving = leaving;
    const double share = round % 3 == 0 ? 0.8 : 1.1; // below 1, a request runs with layers on the host
    const auto kv = static_cast<std::int64_t>(share * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    const MakeReal make = [round](const RealConfig& common) {
      Observed<Confluence>::Config config = real_config<Confluence>(common);
      config.admission.budget.misses = 1e9;
      config.admission.patience = 0;
      config.placement.places.few_at_most = round % 4 < 2 ? 8 : 1;
      return make_real<Confluence>(std::move(config));
    };
    // The seed alone decides whose first token is late, and who pays for it.
    const RealResult result = device.run(trial, kv, stepped(make, Seconds{1e-3}), {}, random, {});
    CHECK_MESSAGE(result.refused == 0, "a request that fits alone is served");
    check_identity(result, expected);
    exercise.add(result);
    cancelled += result.cancelled;
  }
  CHECK((cancelled > 0) == (leaving > 0));
  if (leaving > 0) return; // a leaving request frees memory for the others
  CHECK(exercise.bytes > 0);
  CHECK(exercise.preempted > 0);
}

} // namespace

TEST_CASE("Confluence changes no token and no logit") { check_confluence(81, 15); }

TEST_CASE("cancellations under Confluence change no token and no logit") { check_confluence(83, 8, 25); }

} // namespace sluice::testing
