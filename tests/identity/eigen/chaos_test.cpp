// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/decoder/eigen/make_decoder.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/retention/eager_copy.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "identity/eigen/chaos_checks.hpp"

namespace sluice::testing {

std::unique_ptr<Decoder> decoder_of(const ModelWeights& weights, Tokens block_tokens, int threads) {
  return make_decoder(weights, block_tokens, threads);
}

TEST_CASE("new placements for all requests in every step change no token and no logit") {
  check_chaos<CpuTrials, Chaos>(1, 8, 0.8);
  check_chaos<CpuTrials, With<Chaos, NextLayer>>(2, 8, 1.1);
  check_chaos<CpuTrials, With<Chaos, FairShare>>(3, 8, 1.1);
  check_chaos<CpuTrials, With<Chaos, EarliestDeadlineFirst>>(4, 8, 1.1);
}

TEST_CASE("planning beside the iteration changes no token and no logit") {
  check_chaos<CpuTrials, With<Chaos, OneStepAhead>>(5, 8, 0.9);
  check_chaos<CpuTrials, With<Chaos, OneStepAhead, FairShare, ChaosSwap>>(6, 8, 1.1);
}

TEST_CASE("rotations with copies ahead change no token and no logit") {
  check_chaos<CpuTrials, With<Chaos, LargestVirtualLagFirst, EagerCopy>>(7, 8, 1.1);
}

TEST_CASE("cancellations in any state of a request change no token and no logit") {
  check_chaos<CpuTrials, Chaos>(11, 8, 0.8, 25);
  check_chaos<CpuTrials, With<Chaos, FairShare>>(12, 8, 1.1, 25);
  check_chaos<CpuTrials, With<Chaos, OneStepAhead>>(13, 8, 0.9, 25);
  check_chaos<CpuTrials, With<Chaos, LargestVirtualLagFirst, EagerCopy>>(14, 8, 1.1, 25);
  check_chaos<CpuTrials, With<Chaos, ChaosWeights>>(15, 8, 1.1, 25);
}

TEST_CASE("streaming other weights in every step changes no token and no logit") {
  check_chaos<CpuTrials, With<Chaos, ChaosWeights>>(8, 8, 1.1);
}

} // namespace sluice::testing
