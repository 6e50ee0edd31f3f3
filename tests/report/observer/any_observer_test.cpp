// SPDX-License-Identifier: Apache-2.0
// AnyObserver and AnyEvent: a run-time listener receives the same events as an observer in the engine's type.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/report/observer/any_observer.hpp"
#include "sluice/report/observer/chosen_iteration.hpp"
#include "sluice/report/observer/decision_log.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/releases.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/world/simulated.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Three observers behind one listener.
struct Several final : EventListener {
  ListeningObserver<Summary> summary;
  ListeningObserver<ChosenIteration> chosen;
  ListeningObserver<DecisionLog> log;
  void hear(const AnyEvent& event) override {
    summary.hear(event);
    chosen.hear(event);
    log.hear(event);
  }
};

/// Receives one event by its type, and all events without a type.
struct Counting {
  using role = roles::Observer;
  using hears = Events<events::Ended, events::Refused>;
  static constexpr bool wants_timeline = false;
  struct State {
    int ended = 0, any = 0;
  };
  void on(State& state, const events::Ended&) const { ++state.ended; }
  void on(State& state, const AnyEvent&) const { ++state.any; }
};
static_assert(explain<Counting>());

template <class... Os>
using PoliciesOf = Policies<typename With<OrbitFlow, Os...>::composition>;

} // namespace

TEST_CASE_TEMPLATE("a listener receives the events of an observer of the same engine", System, OrbitFlow, VllmSwap) {
  using E =
      With<System, SmallCost, BasicSimulated<SmallCost>, Summary, ChosenIteration, DecisionLog, AnyObserver<true>>;
  Random random(9);
  std::size_t layers = 0;
  for (int round = 0; round < 10; ++round) {
    CAPTURE(round);
    const Trial trial = random_trial(random);
    Several heard;
    auto config = trial_config<E>(trial, SmallCost{});
    std::get<AnyObserver<true>>(config.observers).listener = &heard;
    auto engine = E::make(std::move(config));
    REQUIRE(engine.has_value());
    serve_to_end(*engine, trial);

    const Metrics own = measure(engine->template observed<Summary>(), engine->now());
    const Metrics told = measure(heard.summary.state, engine->now());
    CHECK(own.requests == static_cast<std::int64_t>(trial.requests.size()));
    std::vector<std::pair<std::string_view, double>> numbers;
    for_each_metric(own, [&](std::string_view name, auto number) { numbers.emplace_back(name, number); });
    std::size_t at = 0;
    for_each_metric(told, [&](std::string_view name, auto number) {
      CAPTURE(name);
      const double other = numbers[at++].second;
      CHECK((static_cast<double>(number) == other || (number != number && other != other)));
    });
    CHECK(heard.log.state.text() == engine->template observed<DecisionLog>().text());
    const RecordedIteration& one = engine->template observed<ChosenIteration>().kept;
    const RecordedIteration& other = heard.chosen.state.kept;
    CHECK(one.step == other.step);
    REQUIRE(one.layer_slices.size() == other.layer_slices.size());
    for (std::size_t i = 0; i < one.layer_slices.size(); ++i)
      CHECK(one.layer_slices[i].end_s == other.layer_slices[i].end_s);
    layers += one.layer_slices.size();
  }
  CHECK(layers > 0); // the listener replays iterations
}

TEST_CASE("an engine makes no event that none of its observers hears") {
  CHECK(PoliciesOf<AnyObserver<false>>::hears<events::Iterated>);
  CHECK(PoliciesOf<Counting>::hears<events::Ended>);
  CHECK_FALSE(PoliciesOf<Counting>::hears<events::Iterated>);
  CHECK_FALSE(PoliciesOf<>::hears<events::Ended>);
  CHECK(PoliciesOf<Counting, Summary>::hears<events::Delivered>);
}

TEST_CASE("an event of any type reaches the hook for its type") {
  RequestRow row;
  row.id = RequestId{7};
  const events::Ended ended{row, Seconds{3}};
  const AnyEvent any = ended;
  REQUIRE(any.get<events::Ended>() == &ended);
  CHECK(any.get<events::Cancelled>() == nullptr);

  Counting::State state;
  tell(Counting{}, state, any);
  tell(Counting{}, state, AnyEvent{events::Resumed{row, Seconds{3}}}); // it does not receive that one
  tell(Counting{}, state, AnyEvent{events::Refused{row.id, row.spec.whole(not_a_policy), Seconds{3}, "too long"}});
  tell(Counting{}, state, events::Resumed{row, Seconds{3}});
  CHECK(state.ended == 1);
  CHECK(state.any == 1);
  AnyObserver<false>::State nothing;
  AnyObserver<false>{}.on(nothing, any); // no listener
}
