// SPDX-License-Identifier: Apache-2.0
#include "sluice/admission/fcfs.hpp"
#include "sluice/admission/largest_virtual_lag_first.hpp"
#include "sluice/decoder/eigen/make_decoder.hpp"
#include "sluice/lookahead/one_step_ahead.hpp"
#include "sluice/retention/eager_copy.hpp"
#include "sluice/transfer/earliest_deadline_first.hpp"
#include "sluice/transfer/fair_share.hpp"
#include "sluice/transfer/next_layer.hpp"

#include "identity/eigen/chaos.hpp"
#include "identity/eigen/real_run.hpp"

namespace sluice::testing {

std::unique_ptr<Decoder> decoder_of(const ModelWeights& weights, Tokens block_tokens, int threads) {
  return make_decoder(weights, block_tokens, threads);
}

namespace {

template <class E>
void check_chaos(std::uint64_t seed, int rounds, double share, std::uint64_t leaving = 0) {
  Random random(seed);
  RealExercise exercise;
  std::int64_t cancelled = 0;
  // What a plan that is made beside the iteration finds depends on the machine: more rounds where nobody gave way.
  for (int round = 0; round < rounds || (leaving == 0 && exercise.preempted == 0 && round < 6 * rounds); ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    RealTrial trial = random_real_trial(random);
    const std::vector<RealOutput> expected = alone(trial);
    trial.leaving = leaving;
    const auto kv = static_cast<std::int64_t>(share * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    const RealResult result = run_real<E>(trial, kv);
    CHECK_MESSAGE(result.refused == 0, "whoever fits alone is served");
    check_identity(result, expected);
    exercise.add(result);
    cancelled += result.cancelled;
  }
  CHECK((cancelled > 0) == (leaving > 0));
  if (leaving > 0) return; // who leaves makes room for the others, and may leave before anything moves
  CHECK(exercise.bytes > 0);
  CHECK(exercise.preempted > 0);
}

using Chaos = Engine<ChaosPlacement, EveryStep, ChaosRelief, ChaosRetention>;

} // namespace

TEST_CASE("another placement for everybody in every step changes no token and no logit") {
  check_chaos<Chaos>(1, 8, 0.8);
  check_chaos<With<Chaos, NextLayer>>(2, 8, 1.1);
  check_chaos<With<Chaos, FairShare>>(3, 8, 1.1);
  check_chaos<With<Chaos, EarliestDeadlineFirst>>(4, 8, 1.1);
}

TEST_CASE("nor does planning beside the iteration") {
  check_chaos<With<Chaos, OneStepAhead>>(5, 8, 0.9);
  check_chaos<With<Chaos, OneStepAhead, FairShare, ChaosSwap>>(6, 8, 1.1);
}

TEST_CASE("nor do rotations with copies ahead") {
  check_chaos<With<Chaos, LargestVirtualLagFirst, EagerCopy>>(7, 8, 1.1);
}

TEST_CASE("nor do users who leave, in whatever their requests do") {
  check_chaos<Chaos>(11, 8, 0.8, 25);
  check_chaos<With<Chaos, FairShare>>(12, 8, 1.1, 25);
  check_chaos<With<Chaos, OneStepAhead>>(13, 8, 0.9, 25);
  check_chaos<With<Chaos, LargestVirtualLagFirst, EagerCopy>>(14, 8, 1.1, 25);
  check_chaos<With<Chaos, ChaosWeights>>(15, 8, 1.1, 25);
}

TEST_CASE("nor do other weights that stream in every step") { check_chaos<With<Chaos, ChaosWeights>>(8, 8, 1.1); }

} // namespace sluice::testing
