// SPDX-License-Identifier: Apache-2.0
// A placement's mistake ends a run with a sentence that names it, in every build, instead of with a wrong result.
#include "sluice/engine/caching.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/policy/relief/preempt_newest.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/drop.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>

using namespace sluice;
using sluice::testing::SmallCost;

namespace {

constexpr int layers = 4;

/// Everything resident regardless of memory, plus one mistake.
enum class Mistake {
  memory,
  host,
  twice,
  stranger,
  left_out,
  layer,
  in_flight,
  no_room,
  copies,
  saved,
  two_places,
  nowhere,
  attends_prompts,
  attends_decodes, // which is none, without tiers
  attends_some_layers,
  late_states,
  undeclared_states,
  unseen_states,
  more_states,
  longer_states,
  states_and_host,
  no_rebuilt_room,
  found_later,
  joined,
  joined_below_none,
  effort,
  none
};

Holding as_states(int all) {
  Holding holding;
  holding.nowhere = holding.hidden = LayerSet::all(all);
  holding.states_on_device = true;
  return holding;
}

template <Mistake M>
struct Careless {
  using role = roles::Placement;
  static constexpr bool places_layers = M != Mistake::found_later;
  static constexpr bool keeps_states = M == Mistake::late_states || M == Mistake::no_rebuilt_room ||
                                       (M >= Mistake::unseen_states && M <= Mistake::states_and_host);
  template <class>
  struct State {};

  [[nodiscard]] Holding least(int all) const {
    if (M == Mistake::no_rebuilt_room || M == Mistake::states_and_host) return as_states(all);
    return {all_tokens, M == Mistake::no_room ? LayerSet::all(all) : LayerSet{}, {}};
  }

  template <class Task, class S>
  Verdict solve(const Task& task, S& /*state*/, Plan& plan) const {
    plan.requests.clear();
    plan.covers_unseen = false;
    plan.in_flight = LayerBlocks{M == Mistake::in_flight ? -1 : 0};
    for (const Claim& claim : task.claims) plan.requests.push_back({claim.slot, Holding{}});
    if (M == Mistake::host || M == Mistake::no_room || M == Mistake::found_later)
      for (RequestPlan& planned : plan.requests) planned.holding.host = LayerSet::all(layers);
    if (M == Mistake::twice) plan.requests.push_back(plan.requests.front());
    if (M == Mistake::stranger) plan.requests.push_back({Slot{77}, Holding{}});
    if (M == Mistake::left_out) plan.requests.pop_back();
    if (M == Mistake::layer) plan.requests.back().holding.host.insert(layers);
    if (M == Mistake::copies) plan.requests.back().holding.copied = Tokens{16};
    if (M == Mistake::saved) plan.requests.back().holding.saved.insert(0);
    if (M == Mistake::two_places) {
      plan.requests.back().holding.host.insert(1);
      plan.requests.back().holding.nowhere.insert(1);
    }
    if (M == Mistake::attends_prompts || M == Mistake::attends_some_layers || M == Mistake::attends_decodes)
      for (RequestPlan& planned : plan.requests) {
        if (M == Mistake::attends_decodes && task.view.row(planned.slot).pending().count() != 1) continue;
        planned.holding.host = LayerSet::all(M == Mistake::attends_some_layers ? layers - 1 : layers);
        planned.holding.attended_on_host =
            M == Mistake::attends_prompts || task.view.row(planned.slot).pending().count() == 1;
      }
    if (M == Mistake::nowhere) plan.requests.back().holding.nowhere.insert(1);
    if (M == Mistake::late_states || M == Mistake::undeclared_states || M == Mistake::no_rebuilt_room)
      for (RequestPlan& planned : plan.requests)
        if (M != Mistake::late_states || task.view.row(planned.slot).computed.count() > 0)
          planned.holding = as_states(layers);
    if (M == Mistake::unseen_states) {
      plan.requests.clear();
      plan.covers_unseen = true;
      plan.unseen = as_states(layers);
    }
    if (M == Mistake::more_states || M == Mistake::longer_states)
      for (RequestPlan& planned : plan.requests) {
        const bool starts = task.view.row(planned.slot).computed.count() == 0;
        planned.holding = as_states(M == Mistake::more_states && starts ? layers - 1 : layers);
        if (M == Mistake::longer_states && starts) planned.holding.head = Tokens{16};
      }
    if (M == Mistake::states_and_host)
      for (RequestPlan& planned : plan.requests) {
        planned.holding = as_states(layers);
        if (planned.slot != plan.requests.front().slot) planned.holding = {all_tokens, LayerSet::all(layers)};
      }
    if (M == Mistake::effort) plan.effort = -1;
    if (M == Mistake::joined_below_none) return {true, static_cast<std::size_t>(-1), Binding::none};
    return {true, task.claims.size() - task.required + (M == Mistake::joined ? 1 : 0), Binding::none};
  }
};

/// The error that ends a run of three requests whose KV grows to 12 layer blocks each; empty if none does.
template <Mistake M, class... More>
std::string error_of(std::int64_t device_blocks, std::int64_t host_blocks) {
  using E = Engine<Careless<M>, EveryStep, SmallCost, BasicSimulated<SmallCost>, More...>;
  auto made = E::make({.limits = {.batch = 4, .batch_tokens = Tokens{64}, .block_tokens = Tokens{16}},
                       .geometry = {layers, Bytes{4096}, Bytes{1 << 20}},
                       .device_blocks = LayerBlocks{device_blocks},
                       .host_blocks = LayerBlocks{host_blocks},
                       .cost = SmallCost{},
                       .backend = BasicSimulated<SmallCost>{SmallCost{}}});
  REQUIRE(made.has_value());
  E& engine = *made;
  for (int i = 0; i < 3; ++i) REQUIRE(engine.submit({.prompt = Tokens{16}, .output = Tokens{32}, .slo = {}}));
  Stepped stepped = Stepped::ran;
  while (stepped == Stepped::ran) stepped = engine.step();
  CHECK((stepped == Stepped::failed) == !engine.status().ok());
  CHECK(engine.ledger().device().used() <= engine.ledger().device().capacity());
  if (engine.status().ok()) {
    CHECK(engine.alive() == 0);
    return {};
  }
  return engine.status().error().line();
}

/// Eight requests at once.
struct Eight {
  int left = 8;
  Expected<std::optional<RequestSpec>> next() {
    if (left-- == 0) return std::optional<RequestSpec>{};
    return std::optional<RequestSpec>{RequestSpec{.prompt = Tokens{1000}, .output = Tokens{20}, .slo = {}}};
  }
};

bool says(const std::string& line, std::initializer_list<const char*> words) {
  INFO(line);
  for (const char* word : words)
    if (line.find(word) == std::string::npos) return false;
  return line.find("a plan of ") == 0 && line.find("Careless<") != std::string::npos &&
         line.find('\n') == std::string::npos;
}

} // namespace

TEST_CASE("a possible plan does not end the run") { CHECK(error_of<Mistake::none>(36, 36).empty()); }

TEST_CASE("a plan that exceeds device memory is refused, with the amounts") {
  CHECK(says(error_of<Mistake::memory>(16, 100), {"layer blocks of device memory", "expected at most 16 together"}));
  CHECK(error_of<Mistake::memory>(36, 0).empty()); // the same placement with enough memory
}

TEST_CASE("a plan that exceeds host memory is refused, with the amounts") {
  CHECK(says(error_of<Mistake::host>(36, 5), {"layer blocks of host memory", "expected at most 5"}));
}

TEST_CASE("a plan names every claim once and no other request") {
  CHECK(says(error_of<Mistake::twice>(100, 100), {"it names request 0 twice", "expected each claim once"}));
  CHECK(says(error_of<Mistake::stranger>(100, 100), {"it names slot 77, which has no claim"}));
  CHECK(says(error_of<Mistake::left_out>(100, 100), {"it leaves out request 2"}));
}

TEST_CASE("a plan names only layers of the model, and no negative number of blocks in flight") {
  CHECK(says(error_of<Mistake::layer>(100, 100), {"request 2 has a layer away", "expected layers 0 to 3"}));
  CHECK(says(error_of<Mistake::in_flight>(100, 100), {"blocks in flight are -1", "expected at least 0"}));
}

TEST_CASE("the transfer rule, not the plan, determines the blocks in flight that it needs") {
  // 3 requests with 3 blocks per layer, all on the host: at least 9 blocks pass through the device.
  CHECK(error_of<Mistake::no_room>(36, 100).empty());
  CHECK(says(error_of<Mistake::no_room>(4, 100), {"0 layer blocks of device memory and", "in flight"}));
}

TEST_CASE("with tiers a plan has no layer nowhere, of which they would have no copy") {
  CHECK(error_of<Mistake::nowhere>(100, 100).empty());
  CHECK(says(error_of<Mistake::nowhere, WriteThrough>(100, 100), {"request 2 has a layer nowhere", "rebuilds = true"}));
}

TEST_CASE("a plan puts a layer in one place, and leaves copies and saved states to the commit") {
  CHECK(says(error_of<Mistake::two_places>(100, 100), {"request 2 has a layer in two places"}));
  CHECK(
      says(error_of<Mistake::copies>(100, 100), {"request 2 has a layer in two places, or tokens below 0, or copies"}));
  CHECK(says(error_of<Mistake::saved>(100, 100), {"request 2 has a layer in two places", "or saved states"}));
}

TEST_CASE("a plan has the host attend no prompts, and only requests with all their layers on the host") {
  CHECK(says(error_of<Mistake::attends_prompts>(100, 100), {"it has the host attend request 0", "a decode with all"}));
  CHECK(says(error_of<Mistake::attends_some_layers>(100, 100), {"it has the host attend request 0", "all layers"}));
}

TEST_CASE("the host attends no decodes beside prefix tiers") {
  CHECK(error_of<Mistake::attends_decodes>(100, 100).empty());
  CHECK(says(error_of<Mistake::attends_decodes, WriteThrough>(100, 100),
             {"it has the host attend request 0", "without prefix tiers"}));
}

TEST_CASE("hidden states are on the device from a request's first token on, or not at all") {
  CHECK(says(error_of<Mistake::late_states>(100, 100), {"it wants hidden states of request 0, which were not kept"}));
  CHECK(says(error_of<Mistake::undeclared_states>(100, 100),
             {"it keeps hidden states of request 0 on the device", "`keeps_states = true` in a Placement"}));
}

TEST_CASE("no layer is off the device where released blocks can be found") {
  CHECK(error_of<Mistake::found_later, Drop>(100, 100).empty());
  CHECK(says(error_of<Mistake::found_later, KeepUntilOverwritten>(100, 100),
             {"request 0 has a layer off the device", "all layers resident"}));
}

TEST_CASE("a plan needs room for one layer's K and V of all requests with hidden states on the device") {
  // The states themselves have no size here; three requests grow to three blocks each.
  CHECK(error_of<Mistake::no_rebuilt_room>(9, 0).empty());
  CHECK(says(error_of<Mistake::no_rebuilt_room>(8, 0), {"and 9 in flight", "expected at most 8 together"}));
}

TEST_CASE("hidden states on the device are of no more layers and tokens than were kept, and no rule's") {
  CHECK(says(error_of<Mistake::more_states>(100, 100), {"it wants hidden states of request 0, which were not kept"}));
  CHECK(says(error_of<Mistake::longer_states>(100, 100), {"it wants hidden states of request 0, which were not kept"}));
  CHECK(says(error_of<Mistake::unseen_states>(100, 100), {"its rule has", "or hidden states on the device"}));
}

TEST_CASE("a rebuilt layer takes room beside the blocks in flight of other requests") {
  // The first request rebuilds 3 blocks. The other two are on the host, and at least 6 blocks of theirs are in flight.
  CHECK(error_of<Mistake::states_and_host>(36, 100).empty());
  CHECK(says(error_of<Mistake::states_and_host>(8, 100), {"0 layer blocks of device memory and 9 in flight"}));
  CHECK(error_of<Mistake::states_and_host>(9, 100).empty());
}

TEST_CASE("no more requests join than there are optional claims") {
  CHECK(says(error_of<Mistake::joined>(100, 100), {"more requests join than there are optional claims"}));
  CHECK(says(error_of<Mistake::joined_below_none>(100, 100), {"more requests join than there are optional claims"}));
}

namespace {

template <int least, int most>
struct Windowed : EveryStep {
  Window window() const { return {least, most}; }
};
template <int seconds>
struct Timed {
  using role = roles::Lookahead;
  static constexpr bool ahead = false;
  Seconds planning_time(std::int64_t /*effort*/) const {
    return Seconds{seconds == 0 ? std::numeric_limits<double>::quiet_NaN() : seconds};
  }
};
template <Kept preempted, Kept reclaimed>
struct Keeps : Drop {
  Kept on_preempt(const View& /*view*/, const RequestRow& /*row*/) const { return preempted; }
  Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return reclaimed; }
};

/// The error that ends a run of four requests, of which a device has room for two; empty if none does.
template <class... Policies>
std::string error_with() {
  using E = Engine<Policies..., SmallCost, BasicSimulated<SmallCost>>;
  auto engine = E::make({.limits = {.batch = 4, .batch_tokens = Tokens{64}, .block_tokens = Tokens{16}},
                         .geometry = {layers, Bytes{4096}, Bytes{1 << 20}},
                         .device_blocks = LayerBlocks{20},
                         .host_blocks = LayerBlocks{100},
                         .cost = SmallCost{},
                         .backend = BasicSimulated<SmallCost>{SmallCost{}}});
  REQUIRE(engine.has_value());
  for (int i = 0; i < 4; ++i) REQUIRE(engine->submit({.prompt = Tokens{16}, .output = Tokens{40}, .slo = {}}));
  while (engine->step() == Stepped::ran) continue;
  return engine->status().ok() ? std::string{} : engine->status().error().line();
}
bool names(const std::string& line, const char* policy, const char* what) {
  INFO(line);
  return line.find(policy) != std::string::npos && line.find(" at ") != std::string::npos &&
         line.find(what) != std::string::npos;
}

} // namespace

TEST_CASE("a window begins at 1, does not end before it begins, and is not so long that planning does not end") {
  CHECK(error_with<Windowed<1, 1>>().empty());
  CHECK(error_with<Windowed<2, Window::longest>>().empty());
  CHECK(names(error_with<Windowed<10, 5>>(), "Windowed", "its window is 10 to 5 steps; expected 1 <= min <= max"));
  CHECK(names(error_with<Windowed<0, 0>>(), "Windowed", "its window is 0 to 0 steps"));
  CHECK(names(error_with<Windowed<1, Window::longest + 1>>(), "Windowed", "<= 100000"));
}

TEST_CASE("planning takes a time, and no time is below 0") {
  CHECK(error_with<Timed<1>>().empty());
  CHECK(names(error_with<Timed<-1>>(), "Timed", "expected a finite time of at least 0"));
  CHECK(names(error_with<Timed<0>>(), "Timed", "planning_time is "));
  const std::string line = error_of<Mistake::effort>(100, 100);
  CHECK(names(line, "Careless", "Plan::effort is -1; expected at least 0"));
}

TEST_CASE("a Retention keeps hidden states only if it says so, and reclaimed KV never on the device") {
  CHECK(error_with<Keeps<Kept::nothing, Kept::nothing>>().empty());
  CHECK(names(error_with<Keeps<Kept::hidden, Kept::nothing>>(), "Keeps", "it keeps hidden states"));
  CHECK(names(error_with<Keeps<Kept::device, Kept::hidden>>(), "Keeps", "it keeps hidden states"));
  CHECK(names(error_with<Keeps<Kept::device, Kept::device>>(), "Keeps", "on_reclaim keeps KV on the device"));
}

namespace {

/// Chooses a request that is not a candidate.
struct Blind : PreemptNewest {
  std::size_t choose(const View& /*view*/, State& /*state*/, std::span<const Claim> candidates) const {
    return candidates.size();
  }
};

} // namespace

TEST_CASE("a victim that is not a candidate ends the run too") {
  using E = Engine<Blind, SmallCost, BasicSimulated<SmallCost>>;
  auto engine = E::make({.limits = {.batch = 4, .batch_tokens = Tokens{64}, .block_tokens = Tokens{16}},
                         .geometry = {layers, Bytes{4096}, Bytes{1 << 20}},
                         .device_blocks = LayerBlocks{20},
                         .host_blocks = LayerBlocks{0},
                         .cost = SmallCost{},
                         .backend = BasicSimulated<SmallCost>{SmallCost{}}});
  REQUIRE(engine.has_value());
  for (int i = 0; i < 2; ++i) REQUIRE(engine->submit({.prompt = Tokens{16}, .output = Tokens{40}, .slo = {}}));
  Stepped stepped = Stepped::ran;
  while (stepped == Stepped::ran) stepped = engine->step();
  REQUIRE(stepped == Stepped::failed);
  CHECK(engine->step() == Stepped::failed); // and the engine stays failed
  const std::string line = engine->status().error().line();
  INFO(line);
  CHECK(line.find("a victim of ") == 0);
  CHECK(line.find("Blind: it is none of the candidates; expected an index below 2") != std::string::npos);
}

TEST_CASE("serve returns the error instead of metrics") {
  using E = Engine<Careless<Mistake::memory>, EveryStep>;
  const ModelShape model = llama3_8b();
  const Expected<Metrics> metrics = serve<E>(Server{model, a100_80(), TokenBlocks{100}}, Eight{});
  REQUIRE(!metrics.has_value());
  CHECK(says(metrics.error().line(), {"layer blocks of device memory"}));
}
