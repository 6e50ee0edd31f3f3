// SPDX-License-Identifier: Apache-2.0
// Conservation for engines whose host attends decodes, and that they do so often enough to be tested.
#include "sluice/engine/systems/neo.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/retention/hidden_states.hpp"

#include "engine/trials.hpp"

#include <cstddef>
#include <cstdint>
#include <map>

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
  using hears = Events<events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct State {
    std::int64_t attended = 0, on_device = 0, sat_out = 0, prompts = 0, moved_out = 0, moved_in = 0;
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
};

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
