// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/decoder/eigen/make_decoder.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/admission/skip_join_mlfq.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/retention/eager_copy.hpp"
#include "sluice/policy/retention/keep_copied.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"
#include "sluice/world/real/world_of.hpp"

#include "identity/eigen/chaos_checks.hpp"

namespace sluice::testing {

namespace {

/// Decides beside the iteration without a thread, so that a seed and no scheduler chooses which decisions are late.
class LateByChance final : public WorldOf<RealBackend> {
 public:
  LateByChance(const RealBackend& machine, std::uint64_t seed) : WorldOf(machine), random_(seed) {}
  void async(void (*work)(void*), void* what) override { work(what); }
  bool async_done() override { return random_.below(2) == 0; }
  void join_async() override {}

 private:
  Random random_;
};

/// Quanta shorter than an iteration, so that requests change levels all the time.
struct BriefQuanta : SkipJoinMlfq {
  BriefQuanta() {
    queue.quantum = Seconds{1e-5};
    queue.starvation = Seconds{1e-3};
  }
};

} // namespace

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

TEST_CASE("a late decision has room for what its requests have grown to meanwhile") {
  for (const std::uint64_t seed : {216U, 543U, 2422U}) { // of 2,500, those that refused the most without that room
    CAPTURE(seed);
    Random random(seed);
    const RealTrial trial = at_once(random_real_trial(random));
    const std::vector<RealOutput> expected = alone(trial);
    const auto kv = static_cast<std::int64_t>(0.9 * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    for (int again = 0; again < 10; ++again) {
      const RealResult result = run_real<With<Chaos, OneStepAhead>>(trial, kv, [&](auto& config) {
        config.backend = Cpu{std::make_shared<LateByChance>(config.backend, random())};
      });
      CHECK(result.refused == 0);
      check_identity(result, expected);
    }
  }
}

TEST_CASE("rotations with copies ahead change no token and no logit") {
  check_chaos<CpuTrials, With<Chaos, LargestVirtualLagFirst, EagerCopy>>(7, 8, 1.1);
}

TEST_CASE("KV that stays after a preemption, is copied and leaves in the order of the next runs changes no token") {
  check_chaos<CpuTrials, With<Chaos, BriefQuanta, KeepCopied>>(19, 8, 1.1);
  check_chaos<CpuTrials, With<Chaos, LargestVirtualLagFirst, KeepCopied>>(20, 8, 1.1);
  check_chaos<CpuTrials, With<Chaos, BriefQuanta, KeepCopied>>(21, 8, 1.1, 25);
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
