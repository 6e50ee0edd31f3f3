// SPDX-License-Identifier: Apache-2.0
// Trials on the device of a program: this machine in sluice_identity_tests, an emulated GPU in sluice_emulated_tests.
// The cases of tests/identity/trials run in both, compiled once for both.
#pragma once

#include "sluice/engine/systems/apt_serve.hpp"
#include "sluice/engine/systems/kvpr.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/retention/eager_copy.hpp"
#include "sluice/policy/transfer/fair_share.hpp"

#include "identity/eigen/real_run.hpp"
#include "support/counting_runner.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace sluice::testing {

/// Rebuilding delays nobody, so that requests without room for K and V keep hidden states.
struct StatesFirst : MostPendingFirst {
  StatesFirst() { delay_weight = 0; }
};

using ChaosAhead = With<Chaos, OneStepAhead>;
using ChaosShares = With<Chaos, FairShare>;
using ChaosEager = With<Chaos, LargestVirtualLagFirst, EagerCopy>;
using ChaosStreams = With<Chaos, ChaosWeights>;
using ChaosKeeps = With<Chaos, ChaosStates>;
using AptServeStates = With<AptServe, StatesFirst>;

/// Engines that these cases and others run, compiled in trials/engines.cpp.
#define SLUICE_SHARED_ENGINES(ROW)                                                                                     \
  ROW(ChaosAhead)                                                                                                      \
  ROW(ChaosShares) ROW(ChaosEager) ROW(ChaosStreams) ROW(ChaosKeeps) ROW(AptServeStates) ROW(Kvpr) ROW(DeepSpeedWeights)
#define SLUICE_DECLARE(E)                                                                                              \
  extern template Expected<std::unique_ptr<RealEngine>> make_real<E>(typename Observed<E>::Config);
SLUICE_SHARED_ENGINES(SLUICE_DECLARE)
#undef SLUICE_DECLARE

struct Device {
  RealTrial (*draw)(Random& random);
  /// Runs a trial on a machine whose order `random` determines, if the device has an order to determine. `counts` may
  /// be null.
  RealResult (*run)(const RealTrial& trial, std::int64_t kv_blocks, const MakeReal& make,
                    const std::vector<std::size_t>& only, Random& random, std::shared_ptr<CountedRows> counts);
  int rounds;       ///< of a check_chaos
  bool host_memory; ///< its "device" is this machine, whose link copies block by block
};
/// Defined by each program.
const Device& this_device();

/// `make` on a SteppedClock, so that the seed alone decides which requests are preempted. On a real clock the machine's
/// speed decided whether any was.
MakeReal stepped(MakeReal make, Seconds step = Seconds{3e-4});

/// Trials under a senseless policy: the same bits as alone. `share`: the device's memory for KV over what the largest
/// request takes.
void check_chaos(const MakeReal& make, std::uint64_t seed, double share, std::uint64_t leaving = 0,
                 const std::shared_ptr<CountedRows>& counts = {});

/// `spoil(faults)` plans the faults. `draw`: of the trials; null: the device's.
void check_faults(const MakeReal& make, std::uint64_t seed, int rounds, const std::function<void(FaultPlan&)>& spoil,
                  bool some_fail, RealTrial (*draw)(Random&) = nullptr);

/// Sessions of `turns` turns: each turn's prompt is the whole conversation so far and some new tokens. Turns of one
/// number arrive together, and those of the next number long after they have ended. In half of the trials all sessions
/// begin alike.
struct Sessions {
  RealTrial trial;
  std::vector<RealOutput> expected;
};
Sessions random_sessions(Random& random, int turns);

/// `waiters` requests with one beginning of `blocks` blocks, which lies in the host tier, and then, `records` given,
/// only on the disk: it crosses the link once, and is read from the disk once.
void check_convoy(std::uint64_t seed, std::size_t waiters, std::int64_t blocks,
                  const std::function<std::shared_ptr<RecordStore>()>& records = {});

struct Exercise {
  std::int64_t found = 0, evicted = 0, preempted = 0;
  std::int64_t found_on_device = 0; ///< tokens, of engines that look there
  double kv_seconds = 0, busy_seconds = 0; ///< of the link, in both directions
  void add(const RealResult& result);
};

/// Sessions whose turns find KV of earlier ones in the host tier. `share`: as for check_chaos.
Exercise check_turns(const MakeReal& make, std::uint64_t seed, int rounds, double share, std::uint64_t leaving = 0,
                     double failing = 0);

} // namespace sluice::testing
