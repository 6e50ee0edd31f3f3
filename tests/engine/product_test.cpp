// SPDX-License-Identifier: Apache-2.0
// Product: which engines it lists, omits and names; and that omitted repeats really are repeats.
#include "sluice/engine/product.hpp"
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/layout/all_layers.hpp"
#include "sluice/policy/layout/layer_groups.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/placement/fewest_layers.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"
#include "sluice/policy/placement/token_wise.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/relief/refuse.hpp"
#include "sluice/policy/replan/decode_window.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/replan/once.hpp"
#include "sluice/policy/retention/eager_copy.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"
#include "sluice/policy/retention/move_to_host.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"
#include "sluice/policy/weights/parameter_remap.hpp"
#include "sluice/world/cpu/cpu.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

template <class A, class B>
constexpr bool same = std::is_same_v<A, B>;

// One role, one model: one engine. ------------------------------------------------------------------------------------
using One = Product<Choices<AllResident>>;
static_assert(One::combinations == 1 && same<One::engines, Parts<Engine<>>>);

// The last list varies fastest; a role that is not listed has its default.
using Four = Product<Choices<OffloadAll, FewestLayers>, Choices<PreemptNewest, PauseLargest>>;
static_assert(same<Four::engines, Parts<Engine<OffloadAll>, Engine<OffloadAll, PauseLargest>, Engine<FewestLayers>,
                                        Engine<FewestLayers, PauseLargest>>>);
static_assert(same<Four::models<2>, Parts<FewestLayers, PreemptNewest>>);
static_assert(same<Four::part<0, 2>, Parts<Engine<OffloadAll>, Engine<OffloadAll, PauseLargest>>>);
static_assert(same<Four::part<3, 4>, Parts<Engine<FewestLayers, PauseLargest>>>);

// Conflicts are omitted: single layers on a layout of all layers or none.
using Layouts = Product<Choices<FewestLayers, OffloadAll, AllResident>, Choices<PerLayer, LayerGroups<4>, AllLayers>>;
static_assert(Layouts::combinations == 9 && Layouts::count(Combined::conflicts) == 1);
static_assert(Layouts::fate<2> == Combined::conflicts && same<Layouts::models<2>, Parts<FewestLayers, AllLayers>>);
static_assert(Layouts::count(Combined::repeats) == 0 && Layouts::count(Combined::engine) == 8);
// So are combinations that a real-time backend cannot run.
using Real = Product<Choices<Cpu>, Choices<Drop, KeepUntilOverwritten>, Choices<InStep, OneStepAhead>>;
static_assert(Real::count(Combined::conflicts) == 1 && Real::fate<2> == Combined::engine &&
              Real::fate<3> == Combined::conflicts);

// Repeats are omitted; the first model of the role stands for them.
using Rules = Product<Choices<AllResident, FewestLayers>, Choices<NextLayer, FairShare, DeadlinePool>>;
static_assert(same<Rules::engines, Parts<Engine<NextLayer>, Engine<FewestLayers, NextLayer>,
                                         Engine<FewestLayers, FairShare>, Engine<FewestLayers, DeadlinePool>>>);
static_assert(Rules::count(Combined::repeats) == 2 && Rules::fate<1> == Combined::repeats);
static_assert(Rules::original<2>() == 0 && Rules::original<0>() == 0 && Rules::original<5>() == 5);

// If two roles have no effect, both have their first models.
using Both = Product<Choices<AllResident>, Choices<FairShare, NextLayer>, Choices<OnBatchChange, EveryStep>>;
static_assert(same<Both::engines, Parts<Engine<FairShare>>> && Both::original<3>() == 0);

// A rule has an effect again if weights stream, or if preempted requests are fetched layer by layer.
using Streams = Product<Choices<AllResident>, Choices<NextLayer, FairShare>, Choices<ResidentWeights, ParameterRemap>,
                        Choices<Drop, MoveToHost, KeepUntilNeeded, EagerCopy>>;
static_assert(Streams::count(Combined::repeats) == 2); // FairShare with Drop and MoveToHost, weights resident
static_assert(same<Streams::engine<Streams::original<8>()>, Engine<NextLayer>>);

// A refused request leaves nothing behind, unless the admission preempts others for it.
using Refusing = Product<Choices<Fcfs, LargestVirtualLagFirst>, Choices<Refuse>, Choices<MoveToHost, Drop>>;
static_assert(
    same<Refusing::engines, Parts<Engine<Refuse, MoveToHost>, Engine<LargestVirtualLagFirst, Refuse, MoveToHost>,
                                  Engine<LargestVirtualLagFirst, Refuse, Drop>>>);

// A product as large as a program's, compared with a count by hand of each rule's omissions. --------------------------
using Large =
    Product<Choices<AllResident, FewestLayers, OffloadAll, TokenWise>, Choices<DeadlinePool, FairShare, NextLayer>,
            Choices<ResidentWeights, ParameterRemap>, Choices<Fcfs, LargestVirtualLagFirst>,
            Choices<PreemptNewest, Refuse>, Choices<Drop, MoveToHost, KeepUntilNeeded>,
            Choices<OnBatchChange, EveryStep>, Choices<PerLayer, AllLayers>>;

struct Counted {
  std::size_t engines = 0, conflicts = 0, repeats = 0;
};
/// The same by nested loops over positions in the lists above, without Product's code.
Counted by_brute_force() {
  Counted counted;
  std::set<std::vector<int>> kept;
  for (int placement = 0; placement < 4; ++placement)
    for (int rule = 0; rule < 3; ++rule)
      for (int weights = 0; weights < 2; ++weights)
        for (int admission = 0; admission < 2; ++admission)
          for (int relief = 0; relief < 2; ++relief)
            for (int retention = 0; retention < 3; ++retention)
              for (int replan = 0; replan < 2; ++replan)
                for (int layout = 0; layout < 2; ++layout) {
                  const bool resident = placement == 0, layer_by_layer = placement == 1 || placement == 3;
                  if (layer_by_layer && layout == 1) {
                    ++counted.conflicts;
                    continue;
                  }
                  const bool preempts = relief == 0 || admission == 1;
                  const int kept_rule = resident && weights == 0 && (retention != 2) ? 0 : rule;
                  const std::vector<int> engine{
                      placement, kept_rule, weights, admission, relief, preempts ? retention : 0, resident ? 0 : replan,
                      layout};
                  // An engine that preempts no request fetches none back, so its transfer rule may lose its effect
                  // together with its retention.
                  std::vector<int> last = engine;
                  if (resident && weights == 0 && last[5] != 2) last[1] = 0;
                  kept.insert(last);
                }
  counted.engines = kept.size();
  counted.repeats = Large::combinations - counted.conflicts - counted.engines;
  return counted;
}

template <class... Es>
std::vector<std::string> names(Parts<Es...>) {
  return {engine_name<Es>()...};
}

// Roles without effect: both models give the same run. ----------------------------------------------------------------

/// Everything in a run that users and the link see.
struct Diary {
  using role = roles::Observer;
  using hears =
      Events<events::Refused, events::Preempted, events::Resumed, events::Ended, events::Delivered, events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct State {
    std::vector<double> lines;
    void line(double what, RequestId id, double a, double b) {
      lines.insert(lines.end(), {what, static_cast<double>(index(id)), a, b});
    }
  };
  void on(State& state, const events::Refused& event) const { state.line(1, event.id, event.now.count(), 0); }
  void on(State& state, const events::Preempted& event) const {
    state.line(2, event.row.id, event.now.count(), static_cast<double>(event.kept));
  }
  void on(State& state, const events::Resumed& event) const { state.line(3, event.row.id, event.now.count(), 0); }
  void on(State& state, const events::Ended& event) const { state.line(4, event.row.id, event.now.count(), 0); }
  void on(State& state, const events::Delivered& event) const {
    state.line(5, event.row.id, event.when.count(), static_cast<double>(event.count.count()));
  }
  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    state.lines.insert(state.lines.end(), {6, record.start.count(), record.duration.count(), record.stall.count()});
    state.lines.insert(state.lines.end(),
                       {static_cast<double>(record.to_device.count()), static_cast<double>(record.to_host.count())});
  }
};

template <class System>
std::vector<double> diary(const Trial& trial, const SmallCost& world) {
  using E = With<System, SmallCost, BasicSimulated<SmallCost>, Diary>;
  auto engine = E::make(trial_config<E>(trial, world));
  REQUIRE(engine.has_value());
  serve_to_end(*engine, trial);
  return engine->template observed<Diary>().lines;
}

/// Calls `check(trial, world)` for random worlds, some with a small host, half of them with two lanes.
template <class Check>
void random_worlds(int rounds, Check&& check) {
  Random random(19);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const Trial trial = random_trial(random);
    SmallCost world;
    world.rate = BytesPerSecond{2e5 + 2e6 * random.uniform()};
    if (round % 2 == 1) world.lanes = Lanes::each_way;
    check(trial, world);
  }
}

bool preempts(const std::vector<double>& lines) { return std::find(lines.begin(), lines.end(), 2.0) != lines.end(); }

constexpr int worlds = 150;

} // namespace

TEST_CASE("a large product has as many engines, conflicts and repeats as nested loops find") {
  const Counted counted = by_brute_force();
  CHECK(Large::combinations == 4 * 3 * 2 * 2 * 2 * 3 * 2 * 2);
  CHECK(Large::count(Combined::conflicts) == counted.conflicts);
  CHECK(Large::count(Combined::engine) == counted.engines);
  CHECK(Large::count(Combined::repeats) == counted.repeats);
}

TEST_CASE("every engine of a product has its own type and name") {
  const std::vector<std::string> all = names(Large::engines{});
  CHECK(all.size() == Large::count(Combined::engine));
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == all.size());
}

TEST_CASE("an engine is named by the policies that differ from the defaults, in the order of the roles") {
  CHECK(engine_name<Engine<>>() == "Engine<>");
  CHECK(engine_name<Engine<Refuse, AllLayers, EveryStep, FairShare>>() ==
        "Engine<FairShare, EveryStep, Refuse, AllLayers>");
  // The printed text compiles to the same type.
  static_assert(same<Engine<FairShare, EveryStep, Refuse, AllLayers>, Engine<Refuse, AllLayers, EveryStep, FairShare>>);
}

TEST_CASE("the transfer rule has no effect if nothing is fetched during an iteration") {
  int preempted = 0;
  random_worlds(worlds, [&preempted](const Trial& trial, const SmallCost& world) {
    const auto dropped = diary<Engine<Drop>>(trial, world);
    CHECK(diary<Engine<Drop, NextLayer>>(trial, world) == dropped);
    CHECK(diary<Engine<Drop, FairShare>>(trial, world) == dropped);
    CHECK(diary<Engine<Drop, EarliestDeadlineFirst>>(trial, world) == dropped);
    const auto moved = diary<Engine<MoveToHost>>(trial, world);
    CHECK(diary<Engine<MoveToHost, NextLayer>>(trial, world) == moved);
    CHECK(diary<Engine<MoveToHost, FairShare>>(trial, world) == moved);
    CHECK(diary<Engine<MoveToHost, EarliestDeadlineFirst>>(trial, world) == moved);
    if (preempts(moved)) ++preempted;
  });
  CHECK(preempted > worlds / 4); // otherwise nothing was fetched
}

TEST_CASE("the transfer rule has an effect if preempted requests are fetched layer by layer") {
  int differ = 0;
  random_worlds(worlds, [&differ](const Trial& trial, const SmallCost& world) {
    if (diary<Engine<KeepUntilNeeded>>(trial, world) != diary<Engine<KeepUntilNeeded, NextLayer>>(trial, world))
      ++differ;
  });
  CHECK(differ > 0);
}

TEST_CASE("when to plan has no effect on AllResident") {
  int preempted = 0;
  random_worlds(worlds, [&preempted](const Trial& trial, const SmallCost& world) {
    const auto on_change = diary<Engine<OnBatchChange, MoveToHost>>(trial, world);
    CHECK(diary<Engine<EveryStep, MoveToHost>>(trial, world) == on_change);
    CHECK(diary<Engine<DecodeWindow, MoveToHost>>(trial, world) == on_change);
    CHECK(diary<Engine<Once>>(trial, world) == diary<Engine<OnBatchChange>>(trial, world));
    // A constant plan, and a request swapped in as a whole: the following steps move nothing for it.
    CHECK(diary<Engine<Once, MoveToHost>>(trial, world) == diary<Engine<OnBatchChange, MoveToHost>>(trial, world));
    if (preempts(on_change)) ++preempted;
  });
  CHECK(preempted > worlds / 4);
}

TEST_CASE("retention has no effect if victims are refused") {
  random_worlds(worlds, [](const Trial& trial, const SmallCost& world) {
    const auto dropped = diary<Engine<Refuse, Drop>>(trial, world);
    CHECK(diary<Engine<Refuse, MoveToHost>>(trial, world) == dropped);
    CHECK(diary<Engine<Refuse, KeepUntilNeeded>>(trial, world) == dropped);
  });
}
