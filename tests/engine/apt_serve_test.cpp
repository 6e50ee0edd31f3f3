// SPDX-License-Identifier: Apache-2.0
// AptServe: requests whose hidden states are on the device, in whole runs.
#include "sluice/engine/systems/apt_serve.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

using namespace sluice;
using namespace sluice::testing;

namespace apt {
namespace {

template <int Weight>
struct Weighted : MostPendingFirst {
  Weighted() { delay_weight = Weight; }
};

struct Seen {
  std::int64_t states = 0;  ///< iterations of requests with hidden states
  std::int64_t changed = 0; ///< requests that got K and V instead
  std::int64_t most = 0;    ///< sum over the runs of the largest batch
};

template <int Weight>
using Weighing = With<AptServe, Weighted<Weight>, SmallCost, BasicSimulated<SmallCost>>;

/// Random trials in which nobody is late, to the last token.
template <class E>
Seen run(int rounds) {
  Random random(23);
  Seen seen;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    trial.batch = 16;
    trial.device = LayerBlocks{trial.layers * 12};
    for (RequestSpec& spec : trial.requests) {
      spec.slo = {Seconds{1000}, Seconds{1000}};
      spec.arrival = Seconds{0};
    }
    auto made = E::make(trial_config<E>(trial, SmallCost{}));
    REQUIRE(made.has_value());
    E& engine = *made;
    for (const RequestSpec& spec : trial.requests) (void)engine.submit(spec);
    std::map<RequestId, bool> had;
    std::size_t most = 0;
    for (Stepped stepped = Stepped::ran; stepped == Stepped::ran; stepped = engine.step()) {
      const View view = engine.view();
      most = std::max(most, view.running.size());
      for (const Slot slot : view.running) {
        const RequestRow& row = view.row(slot);
        CHECK((row.holding.all_resident() || row.holding.states_on_device));
        seen.states += row.holding.states_on_device ? 1 : 0;
        seen.changed += had[row.id] && !row.holding.states_on_device && row.computed.count() > 0 ? 1 : 0;
        had[row.id] = row.holding.states_on_device;
      }
    }
    CHECK(engine.status().ok());
    CHECK(engine.alive() == 0);
    seen.most += static_cast<std::int64_t>(most);
  }
  return seen;
}

} // namespace
} // namespace apt

TEST_CASE("requests keep hidden states where memory is short, get K and V later, and more of them run at once") {
  const apt::Seen states = apt::run<apt::Weighing<0>>(30);
  const apt::Seen kv = apt::run<apt::Weighing<1'000'000'000>>(30);
  CHECK(states.states > 100);
  CHECK(states.changed > 10);
  CHECK(states.most > kv.most);
  CHECK(kv.states == 0);
  CHECK(kv.changed == 0);
}
