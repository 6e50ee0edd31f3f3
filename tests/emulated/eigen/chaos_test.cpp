// SPDX-License-Identifier: Apache-2.0
#include "sluice/admission/largest_virtual_lag_first.hpp"
#include "sluice/decoder/eigen/make_decoder.hpp"
#include "sluice/lookahead/one_step_ahead.hpp"
#include "sluice/retention/eager_copy.hpp"
#include "sluice/transfer/earliest_deadline_first.hpp"
#include "sluice/transfer/fair_share.hpp"
#include "sluice/transfer/next_layer.hpp"

#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/chaos.hpp"

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
  for (int round = 0; round < rounds || (leaving == 0 && exercise.preempted == 0 && round < 6 * rounds); ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    RealTrial trial = random_gpu_trial(random);
    const std::vector<RealOutput> expected = alone(trial);
    trial.leaving = leaving;
    const auto kv = static_cast<std::int64_t>(share * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    const RealResult result = run_real<E>(
        trial, kv, [](auto&) {}, {}, OnGpu<>{random()});
    CHECK_MESSAGE(result.refused == 0, "whoever fits alone is served");
    check_identity(result, expected);
    exercise.add(result);
    cancelled += result.cancelled;
  }
  CHECK((cancelled > 0) == (leaving > 0));
  if (leaving > 0) return;
  CHECK(exercise.bytes > 0);
  CHECK(exercise.preempted > 0);
}

using Chaos = Engine<ChaosPlacement, EveryStep, ChaosRelief, ChaosRetention>;

} // namespace

TEST_CASE("on a device whose order is drawn, another placement for everybody in every step changes no bit") {
  check_chaos<Chaos>(1, 25, 0.8);
  check_chaos<With<Chaos, NextLayer>>(2, 25, 1.1);
  check_chaos<With<Chaos, FairShare>>(3, 25, 1.1);
  check_chaos<With<Chaos, EarliestDeadlineFirst>>(4, 25, 1.1);
}

TEST_CASE("nor does planning beside the iteration, on such a device") {
  check_chaos<With<Chaos, OneStepAhead>>(5, 25, 0.9);
  check_chaos<With<Chaos, OneStepAhead, FairShare, ChaosSwap>>(6, 25, 1.1);
}

TEST_CASE("nor do rotations with copies ahead, on such a device") {
  check_chaos<With<Chaos, LargestVirtualLagFirst, EagerCopy>>(7, 25, 1.1);
}

TEST_CASE("nor do users who leave, on such a device") {
  check_chaos<Chaos>(11, 25, 0.8, 25);
  check_chaos<With<Chaos, FairShare>>(12, 25, 1.1, 25);
  check_chaos<With<Chaos, OneStepAhead>>(13, 25, 0.9, 25);
  check_chaos<With<Chaos, LargestVirtualLagFirst, EagerCopy>>(14, 25, 1.1, 25);
  check_chaos<With<Chaos, ChaosWeights>>(15, 25, 1.1, 25);
}

TEST_CASE("nor do other weights that stream in every step, on such a device") {
  check_chaos<With<Chaos, ChaosWeights>>(8, 25, 1.1);
}

} // namespace sluice::testing
