// SPDX-License-Identifier: Apache-2.0
// Hidden states on a real machine: saved as they are computed, and used to rebuild missing K and V.
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/relief/preempt_newest.hpp"
#include "sluice/policy/retention/drop.hpp"

#include "identity/eigen/counted.hpp"
#include "identity/eigen/trials.hpp"
#include "support/all_hidden.hpp"
#include "support/stepped_clock.hpp"

namespace sluice::testing {

TEST_CASE("a request that returns with hidden states passes no layer again; one that returns without them passes all") {
  using Recompute = Engine<Fcfs, EveryStep, PreemptNewest, Drop>;
  Random random(5);
  CountedRows with, without;
  std::int64_t preempted = 0;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    RealTrial trial = at_once(random_real_trial(random));
    trial.slo = Seconds{10};
    trial.room_for_hidden = true;
    const std::vector<RealOutput> expected = alone(trial);
    const std::int64_t kv = trial.largest() + trial.layers() + 8;
    const auto nothing = [](auto&) {};
    const Counted counted;
    const RealResult result = run_real<With<Recompute, AllHidden>>(trial, kv, nothing, {}, counted);
    check_identity(result, expected);
    CHECK(result.refused == 0);
    preempted += result.preempted;
    with.passed += counted.counts->passed;
    with.stored += counted.counts->stored;
    with.restored += counted.counts->restored;
    // Each token passes each layer once, whichever request is preempted.
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < trial.prompts.size(); ++i)
      tokens += static_cast<std::int64_t>(trial.prompts[i].size()) + trial.outputs[i] - 1;
    CHECK(counted.counts->passed == tokens * trial.layers());
    CHECK(counted.counts->kept == tokens * (trial.layers() - 1)); // each state once, too
    const Counted dropping;
    check_identity(run_real<Recompute>(trial, kv, nothing, {}, dropping), expected);
    without.passed += dropping.counts->passed;
    without.restored += dropping.counts->restored;
  }
  CHECK(preempted > 0);
  CHECK(with.restored > 0);
  CHECK(without.restored == 0);
  CHECK(with.passed < without.passed);
}

TEST_CASE("KVPR's prefixes pass no layer again, however many blocks the requests fill") {
  Random random(9);
  CountedRows all;
  std::int64_t growing = 0; // requests that fill more than one block after their prompt
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    RealTrial trial = at_once(random_real_trial(random));
    DecoderConfig config = trial.weights.config;
    config.shape.hidden = 32;
    config.shape.kv_heads = config.shape.heads;
    trial.weights = random_weights(config, random.below(1000));
    trial.room_for_hidden = true;
    trial.slo = Seconds{10};
    const auto requests = static_cast<std::int64_t>(trial.prompts.size());
    const Counted counted;
    const RealResult result = run_real<Kvpr>(
        trial, requests * trial.largest(), [](auto& settings) { settings.cost.rate = BytesPerSecond{2e6}; }, {},
        counted);
    check_identity(result, alone(trial));
    CHECK(result.refused == 0);
    CHECK(result.preempted == 0);
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < trial.prompts.size(); ++i) {
      tokens += static_cast<std::int64_t>(trial.prompts[i].size()) + trial.outputs[i] - 1;
      growing += trial.outputs[i] > 2 * trial.limits.block_tokens.count() ? 1 : 0;
    }
    // A request is split when it has a full block, so a block may have been computed before its states were wanted.
    const std::int64_t again = counted.counts->passed - tokens * trial.layers();
    CHECK(again >= 0);
    CHECK(again <= requests * trial.limits.block_tokens.count() * trial.layers());
    all.stored += counted.counts->stored;
    all.restored += counted.counts->restored;
  }
  CHECK(growing > 0);
  CHECK(all.stored > 0);
  CHECK(all.restored > 0);
}

namespace {

/// Compares, after each iteration, the device memory that a machine uses with the ledger's.
class ComparesRoom final : public WorldOf<RealBackend> {
 public:
  struct Seen {
    std::int64_t tokens = 0;      ///< that were computed, also those computed again
    std::int64_t with_states = 0; ///< scheduled requests with hidden states
  };
  /// `beside`: what weights and buffers take.
  ComparesRoom(const RealBackend& backend, const TokenWorld& machine, Bytes beside, Bytes block, Seen& seen)
      : WorldOf(backend), machine_(&machine), beside_(beside), block_(block), seen_(&seen) {}

  IterationCost wait(const Iteration& iteration) override {
    const IterationCost cost = WorldOf::wait(iteration);
    CHECK(machine_->device_memory().used() - beside_ == block_ * iteration.view.ledger->device().used().count());
    for (const Claim& claim : iteration.batch) {
      seen_->tokens += claim.tokens.count();
      seen_->with_states += iteration.view.row(claim.slot).holding.states_on_device ? 1 : 0;
    }
    return cost;
  }

 private:
  const TokenWorld* machine_;
  Bytes beside_, block_;
  Seen* seen_;
};

} // namespace

TEST_CASE("AptServe's ledger and the machine count the same room, and no layer recomputes a token") {
  Random random(43);
  std::int64_t with_states = 0, preempted = 0;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    RealTrial trial = at_once(random_real_trial(random));
    DecoderConfig config = trial.weights.config;
    config.shape.hidden = 32; // a half or a quarter of K and V: a block holds states of two or four token blocks
    trial.weights = random_weights(config, random.below(1000));
    trial.slo = Seconds{10};
    trial.room_for_hidden = false; // the device has no block that the ledger does not know
    trial.loads = true;
    const std::vector<RealOutput> expected = alone(trial);
    const Counted counted;
    ComparesRoom::Seen seen;
    const RealResult result = run_real<AptServeStates>(
        trial, trial.largest() + trial.layers(),
        [&](auto& settings) {
          const TokenWorld& machine = **counted.machine;
          const Bytes beside = machine.device_memory().used() + trial.weights.outer_bytes() +
                               trial.weights.layout.bytes * trial.layers();
          auto world = std::make_shared<ComparesRoom>(settings.backend, machine, beside,
                                                      settings.geometry.layer_block_bytes, seen);
          settings.backend = Cpu{std::make_shared<SteppedClock>(RealBackend{world}, Seconds{3e-4})};
        },
        {}, counted);
    CHECK(result.refused == 0);
    check_identity(result, expected);
    CHECK(result.moved.to_host.bytes.count() == 0);
    CHECK(counted.counts->passed == seen.tokens * trial.layers());
    with_states += seen.with_states;
    preempted += result.preempted;
  }
  CHECK(with_states > 0);
  CHECK(preempted > 0);
}

} // namespace sluice::testing
