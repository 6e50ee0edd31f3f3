// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/decoder/eigen/make_decoder.hpp"
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/retention/eager_copy.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/chaos_checks.hpp"

namespace sluice::testing {

std::unique_ptr<Decoder> decoder_of(const ModelWeights& weights, Tokens block_tokens, int threads) {
  return make_decoder(weights, block_tokens, threads);
}

TEST_CASE("new placements for all requests in every step change no bit on a device with random execution order") {
  check_chaos<GpuTrials, Chaos>(1, 25, 0.8);
  check_chaos<GpuTrials, With<Chaos, NextLayer>>(2, 25, 1.1);
  check_chaos<GpuTrials, With<Chaos, FairShare>>(3, 25, 1.1);
  check_chaos<GpuTrials, With<Chaos, EarliestDeadlineFirst>>(4, 25, 1.1);
}

TEST_CASE("planning concurrently with the iteration changes no bit on a device with random execution order") {
  check_chaos<GpuTrials, With<Chaos, OneStepAhead>>(5, 25, 0.9);
  check_chaos<GpuTrials, With<Chaos, OneStepAhead, FairShare, ChaosSwap>>(6, 25, 1.1);
}

TEST_CASE("rotations with eager copies change no bit on a device with random execution order") {
  check_chaos<GpuTrials, With<Chaos, LargestVirtualLagFirst, EagerCopy>>(7, 25, 1.1);
}

TEST_CASE("hidden states kept instead of K and V change no bit on a device with random execution order") {
  check_chaos<GpuTrials, With<Chaos, ChaosHidden>>(16, 25, 0.8);
  check_chaos<GpuTrials, With<Chaos, ChaosHidden, FairShare>>(17, 25, 1.1);
  check_chaos<GpuTrials, With<Chaos, ChaosHidden, EarliestDeadlineFirst, ChaosWeights>>(18, 25, 1.1, 25);
}

TEST_CASE("hidden states kept on the device change no bit on a device with random execution order") {
  check_chaos<GpuTrials, With<Chaos, ChaosStates>>(31, 25, 0.8);
  check_chaos<GpuTrials, With<Chaos, ChaosStates, ChaosHidden, FairShare>>(32, 25, 1.1);
  check_chaos<GpuTrials, With<Chaos, ChaosStates, EarliestDeadlineFirst, ChaosWeights>>(33, 25, 1.1, 25);
}

TEST_CASE("a host with little memory for hidden states changes no bit") {
  Random random(19);
  for (int round = 0; round < 25; ++round) {
    CAPTURE(round);
    RealTrial trial = random_gpu_trial(random);
    const std::vector<RealOutput> expected = alone(trial);
    trial.host_blocks = trial.largest() * static_cast<std::int64_t>(3 + random.below(9)) / 10;
    const RealResult result = run_real<With<Engine<EveryStep, ChaosRelief>, ChaosHidden>>(
        trial, 11 * trial.largest() / 10 + trial.layers(), [](auto&) {}, {}, GpuTrials::where(random));
    check_identity(result, expected);
  }
}

TEST_CASE("cancellations change no bit on a device with random execution order") {
  check_chaos<GpuTrials, Chaos>(11, 25, 0.8, 25);
  check_chaos<GpuTrials, With<Chaos, FairShare>>(12, 25, 1.1, 25);
  check_chaos<GpuTrials, With<Chaos, OneStepAhead>>(13, 25, 0.9, 25);
  check_chaos<GpuTrials, With<Chaos, LargestVirtualLagFirst, EagerCopy>>(14, 25, 1.1, 25);
  check_chaos<GpuTrials, With<Chaos, ChaosWeights>>(15, 25, 1.1, 25);
}

TEST_CASE("streaming other weights in every step changes no bit on a device with random execution order") {
  check_chaos<GpuTrials, With<Chaos, ChaosWeights>>(8, 25, 1.1);
}

} // namespace sluice::testing
