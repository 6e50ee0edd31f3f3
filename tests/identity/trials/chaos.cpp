// SPDX-License-Identifier: Apache-2.0
#include "sluice/policy/admission/skip_join_mlfq.hpp"
#include "sluice/policy/retention/keep_copied.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "identity/eigen/trials.hpp"

namespace sluice::testing {

namespace {

/// Quanta shorter than an iteration, so that requests change levels all the time.
struct BriefQuanta : SkipJoinMlfq {
  BriefQuanta() {
    queue.quantum = Seconds{1e-5};
    queue.starvation = Seconds{1e-3};
  }
};

} // namespace

TEST_CASE("new placements for all requests in every step change no token and no logit") {
  check_chaos(&real<Chaos>, 1, 0.8);
  check_chaos(&real<With<Chaos, NextLayer>>, 2, 1.1);
  check_chaos(&real<ChaosShares>, 3, 1.1);
  check_chaos(&real<With<Chaos, EarliestDeadlineFirst>>, 4, 1.1);
}

TEST_CASE("planning beside the iteration changes no token and no logit") {
  check_chaos(&real<ChaosAhead>, 5, 0.9);
  check_chaos(&real<With<ChaosAhead, FairShare, ChaosSwap>>, 6, 1.1);
}

TEST_CASE("rotations with copies ahead change no token and no logit") { check_chaos(&real<ChaosEager>, 7, 1.1); }

TEST_CASE("KV that stays after a preemption, is copied and leaves in the order of the next runs changes no token") {
  check_chaos(&real<With<Chaos, BriefQuanta, KeepCopied>>, 19, 1.1);
  check_chaos(&real<With<Chaos, LargestVirtualLagFirst, KeepCopied>>, 20, 1.1);
  check_chaos(&real<With<Chaos, BriefQuanta, KeepCopied>>, 21, 1.1, 25);
}

TEST_CASE("cancellations in any state of a request change no token and no logit") {
  check_chaos(&real<Chaos>, 11, 0.8, 25);
  check_chaos(&real<ChaosShares>, 12, 1.1, 25);
  check_chaos(&real<ChaosAhead>, 13, 0.9, 25);
  check_chaos(&real<ChaosEager>, 14, 1.1, 25);
  check_chaos(&real<ChaosStreams>, 15, 1.1, 25);
}

TEST_CASE("streaming other weights in every step changes no token and no logit") {
  check_chaos(&real<ChaosStreams>, 8, 1.1);
}

} // namespace sluice::testing
