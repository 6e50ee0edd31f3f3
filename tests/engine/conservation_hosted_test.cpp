// SPDX-License-Identifier: Apache-2.0
// Conservation for engines whose host attends decodes, and that they do so often enough to be tested.
#include "sluice/engine/systems/neo.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/retention/hidden_states.hpp"

#include "engine/trials.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace hosted_conservation {

using namespace sluice;

/// Every decode on the host runs in every iteration, however long the device waits for it.
struct NeverWaits : LoadAware {
  NeverWaits() { patience = Seconds{0}; }
};
using NeoWaits = With<Neo, NeverWaits>;
using NeoAhead = With<Neo, OneStepAhead>;
/// Preempted requests come back from hidden states, so that an iteration rebuilds beside the host's attention.
using NeoHidden = With<Neo, HiddenStates>;

/// Counts what the host attends.
struct CountsHosted {
  using role = roles::Observer;
  using hears = Events<events::Iterated, events::Preempted>;
  static constexpr bool wants_timeline = false;
  struct State {
    std::int64_t attended = 0, on_device = 0, sat_out = 0, prompts = 0, moved_out = 0, moved_in = 0, dropped = 0;
    std::int64_t together = 0, most_together = 0; ///< preempted at the same moment
    Seconds last{-1};
    std::map<RequestId, bool> was_hosted;
  };
  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    std::map<RequestId, bool> hosted;
    for (const Claim& claim : record.batch) {
      const RequestRow& row = record.rows[index(claim.slot)];
      const bool attended = row.holding.attended_on_host;
      hosted[row.id] = attended;
      state.attended += attended && claim.tokens.count() > 0;
      state.sat_out += attended && claim.tokens.count() == 0;
      state.on_device += row.holding.all_resident() && row.pending().count() == 1;
      state.prompts += !attended && !row.holding.all_resident();
      if (const auto before = state.was_hosted.find(row.id); before != state.was_hosted.end()) {
        state.moved_out += attended && !before->second && row.generated.count() > 1;
        state.moved_in += !attended && before->second;
      }
    }
    state.was_hosted.swap(hosted);
  }
  /// KV that the host attends makes room only if it is dropped.
  void on(State& state, const events::Preempted& event) const {
    state.together = event.now == state.last ? state.together + 1 : 1;
    state.most_together = std::max(state.most_together, state.together);
    state.last = event.now;
    const auto was = state.was_hosted.find(event.row.id);
    if (was == state.was_hosted.end() || !was->second) return;
    CHECK(event.kept == Kept::nothing);
    ++state.dropped;
  }
};

/// A simulated backend that follows each request's KV from one iteration to the next, and checks that it has crossed
/// the link where it is read.
struct WatchesCrossing : BasicSimulated<sluice::testing::SmallCost> {
  WatchesCrossing(BasicSimulated base = BasicSimulated{}) : BasicSimulated(std::move(base)) {}

  struct Was {
    bool attended = false, resident = false;
    double blocks = 0; ///< layer blocks
  };
  static inline int out = 0, in = 0, returned_early = 0; ///< iterations
  std::map<RequestId, Was> last, preempted;              ///< by the last iteration; before they left
  double left = 0; ///< layer blocks that had not crossed when the last iteration ended

  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    std::map<RequestId, Was> here;
    double moved_out = 0, moved_in = 0, returned = 0;
    for (const Claim& claim : iteration.batch) {
      const RequestRow& row = iteration.view.row(claim.slot);
      const Was is{row.holding.attended_on_host, row.holding.all_resident(),
                   static_cast<double>(row.blocks.count() * iteration.view.geometry.layers)};
      here[row.id] = is;
      if (const auto was = last.find(row.id); was != last.end()) {
        if (is.attended && was->second.resident) moved_out += was->second.blocks;
        if (is.resident && was->second.attended) moved_in += was->second.blocks;
      } else if (const auto before = preempted.find(row.id); before != preempted.end()) {
        if (is.attended) returned += before->second.blocks;
        preempted.erase(before);
      }
    }
    for (const auto& [id, was] : last)
      if (!here.contains(id)) preempted[id] = was;
    last = here;
    CHECK(iteration.urgent_out_blocks >= moved_out + std::min(left, returned) - 1e-6);
    CHECK(iteration.first_blocks >= moved_in - 1e-6);
    out += moved_out > 0;
    in += moved_in > 0;
    returned_early += std::min(left, returned) > 0;
    const IterationCost cost = BasicSimulated::wait<Transfer>(iteration, state);
    left = state.background_blocks;
    return cost;
  }
};

/// Now and then a decode is preempted, moves to the host, and returns as one that the host attends.
struct LeavesAndReturns : LoadAware {
  void propose(const View& view, State& state, Proposal& proposal, const Estimate& estimate) const {
    LoadAware::propose(view, state, proposal, estimate);
    for (Claim& claim : proposal.claims) {
      const RequestRow& row = view.row(claim.slot);
      if (row.phase == Phase::preempted && row.pending() == Tokens{1} && !row.holding.host.empty()) {
        claim.on_host = true;
        claim.tokens = Tokens{1};
      }
    }
    if (view.step % 5 != 0 || proposal.claims.size() < 2 || proposal.claims.front().on_host ||
        view.row(proposal.claims.front().slot).phase != Phase::running)
      return;
    proposal.leaving.push_back(proposal.claims.front().slot);
    proposal.claims.erase(proposal.claims.begin());
  }
};

template <class E>
void watch(Random& random) {
  for (int round = 0; round < 60; ++round) {
    const sluice::testing::Trial trial = sluice::testing::random_trial(random);
    auto made = E::make(sluice::testing::trial_config<E>(trial, {}));
    REQUIRE(made.has_value());
    for (const RequestSpec& spec : trial.requests) (void)made->submit(spec);
    while (made->step() == Stepped::ran) {
    }
    CHECK(made->status().ok());
  }
}

TEST_CASE("what the host attends has crossed the link, and what returns to the device has arrived") {
  Random random(18);
  watch<With<Neo, sluice::testing::SmallCost, WatchesCrossing>>(random);
  CHECK(WatchesCrossing::out > 20);
  CHECK(WatchesCrossing::in > 20);
  watch<With<Neo, LeavesAndReturns, sluice::testing::SmallCost, WatchesCrossing>>(random);
  CHECK(WatchesCrossing::returned_early > 20);
}

TEST_CASE("with a full host, decodes that it attends are dropped one by one, and the others go on") {
  using E = With<Neo, sluice::testing::SmallCost, BasicSimulated<sluice::testing::SmallCost>, CountsHosted>;
  sluice::testing::Trial trial{4, 6, LayerBlocks{4 * 12}, LayerBlocks{4 * 26}, {}};
  for (int i = 0; i < 8; ++i) {
    RequestSpec spec;
    spec.arrival = Seconds{0.01 * i};
    spec.prompt = Tokens{100};
    spec.output = Tokens{150};
    trial.requests.push_back(spec);
  }
  auto made = E::make(sluice::testing::trial_config<E>(trial, {}));
  REQUIRE(made.has_value());
  for (const RequestSpec& spec : trial.requests) (void)made->submit(spec);
  while (made->step() == Stepped::ran) {
  }
  CHECK(made->status().ok());
  CHECK(made->alive() == 0);
  CHECK(made->template observed<CountsHosted>().dropped > 0);
  CHECK(made->template observed<CountsHosted>().most_together == 1);
}

TEST_CASE("in random small worlds the host attends often, decodes sit out, and requests move both ways") {
  CountsHosted::State sum;
  double waited_s = 0;
  Random random(17);
  for (int round = 0; round < 30; ++round) {
    using E = With<Neo, sluice::testing::SmallCost, BasicSimulated<sluice::testing::SmallCost>, CountsHosted, Why>;
    const sluice::testing::Trial trial = sluice::testing::random_trial(random);
    auto made = E::make(sluice::testing::trial_config<E>(trial, {}));
    REQUIRE(made.has_value());
    E& engine = *made;
    for (const RequestSpec& spec : trial.requests) (void)engine.submit(spec);
    while (engine.step() == Stepped::ran) {
    }
    CHECK(engine.status().ok());
    CHECK(engine.alive() == 0);
    const CountsHosted::State& seen = engine.template observed<CountsHosted>();
    sum.attended += seen.attended;
    sum.on_device += seen.on_device;
    sum.sat_out += seen.sat_out;
    sum.prompts += seen.prompts;
    sum.moved_out += seen.moved_out;
    sum.moved_in += seen.moved_in;
    for (const RequestTime& time : Why{}.at_end(engine.template observed<Why>(), engine.now()))
      waited_s += seconds_of(time.spent[static_cast<std::size_t>(TimeCause::host)]);
  }
  CHECK(20 * sum.attended > sum.on_device);
  CHECK(sum.sat_out > 50);
  CHECK(sum.prompts > 20);
  CHECK(sum.moved_out > 20);
  CHECK(sum.moved_in > 20);
  CHECK(waited_s > 0); // `--why` has a cause for it
}

SLUICE_CONSERVES(Neo)
SLUICE_CONSERVES(NeoWaits)
SLUICE_CONSERVES(NeoAhead)
SLUICE_CONSERVES(NeoHidden)

} // namespace hosted_conservation
