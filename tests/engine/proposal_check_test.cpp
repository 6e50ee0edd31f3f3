// SPDX-License-Identifier: Apache-2.0
// An admission's mistake, and what any policy throws, end a run with a sentence that names the policy, in every build.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/least_first.hpp"
#include "sluice/policy/admission/output_length.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/replan/every_step.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>

using namespace sluice;
using sluice::testing::SmallCost;

namespace {

enum class Slip {
  none,
  drops_running,
  claims_twice,
  leaves_too,
  leaves_twice,
  claims_nobody,
  claims_stranger,
  lets_waiting_leave,
  refuses_running,
  refuses_twice,
  refuses_too,
  optional_first,
  too_many_tokens,
  fewer_than_none,
  reserves_fewer_than_none,
  reserves_all,
  too_large_a_batch,
  over_budget,
  brings_back,
  presses_for_free,
  presses_optionally,
  presses_when_full,
  takes_a_place,
  takes_a_place_unpressed,
  takes_two_places,
  takes_a_place_for_others,
  takes_a_place_early,
};
constexpr bool takes_place(Slip slip) { return slip >= Slip::presses_when_full && slip < Slip::takes_a_place_early; }

/// First come, first served, with one mistake once two requests run.
template <Slip M>
struct Hasty : Fcfs {
  static constexpr bool steady = false;

  void propose(const View& view, State& state, Proposal& proposal) const {
    Fcfs::propose(view, state, proposal);
    auto& claims = proposal.claims;
    if (M == Slip::claims_nobody) claims.clear();
    if (M == Slip::brings_back)
      for (const Slot slot : view.preempted)
        if (!view.row(slot).may_return) claims.push_back({slot, Tokens{1}, Tokens{1}, false});
    if (view.running.size() < 2) return;
    if (M == Slip::drops_running) claims.erase(claims.begin());
    if (M == Slip::claims_twice) claims.push_back(claims.front());
    if (M == Slip::leaves_too) proposal.leaving.push_back(claims.front().slot);
    if (M == Slip::leaves_twice) {
      proposal.leaving.assign(2, claims.front().slot);
      claims.erase(claims.begin());
    }
    if (M == Slip::claims_stranger) claims.push_back({Slot{77}, Tokens{1}, Tokens{0}, false});
    if (M == Slip::lets_waiting_leave && !state.queue.empty()) proposal.leaving.push_back(state.queue.front());
    const auto refuse = [&](Slot slot) { proposal.refused.push_back({slot, "of a whim"}); };
    if (M == Slip::refuses_running) {
      refuse(claims.front().slot);
      claims.erase(claims.begin());
    }
    if (M == Slip::refuses_twice && !state.queue.empty()) {
      std::erase_if(claims, [](const Claim& claim) { return !claim.required; });
      for (int i = 0; i < 2; ++i) refuse(state.queue.front());
    }
    if (M == Slip::refuses_too && !claims.back().required) refuse(claims.back().slot);
    if (M == Slip::optional_first) claims.front().required = false;
    if (M == Slip::presses_for_free || M == Slip::presses_optionally)
      for (Claim& claim : claims)
        if (view.row(claim.slot).phase != Phase::running) {
          claim.required = M == Slip::presses_for_free;
          claim.at_cost_of = claim.required ? claim.slot : claims.front().slot;
          break;
        }
    if (M == Slip::takes_a_place_early && view.running.size() == 2 && !state.queue.empty()) {
      std::erase_if(claims, [](const Claim& claim) { return !claim.required; });
      claims.push_back({state.queue.front(), Tokens{1}, Tokens{0}, true, claims.front().slot, true});
    }
    if (takes_place(M) && view.running.size() == 3 && state.queue.size() > (M >= Slip::takes_two_places ? 1 : 0)) {
      const auto press = [&](std::size_t waiting, std::size_t pays) {
        claims.push_back({state.queue[waiting], Tokens{1}, Tokens{0}, true, claims[pays].slot, true});
      };
      press(0, 1);
      if (M == Slip::presses_when_full) claims.back().instead = false;
      if (M == Slip::takes_a_place_unpressed) claims.back().at_cost_of = nobody;
      if (M == Slip::takes_two_places) press(1, 2);
      if (M == Slip::takes_a_place_for_others) claims.push_back({state.queue[1], Tokens{0}, Tokens{0}, false});
    }
    if (M == Slip::too_many_tokens) claims.front().tokens = Tokens{5};
    if (M == Slip::fewer_than_none) claims.front().tokens = Tokens{-1};
    if (M == Slip::reserves_fewer_than_none) claims.front().reserve = Tokens{-1};
    if (M == Slip::reserves_all) claims.front().reserve = Tokens{std::numeric_limits<std::int64_t>::max()};
    if (M == Slip::too_large_a_batch)
      for (const Slot slot : state.queue)
        if (std::none_of(claims.begin(), claims.end(), [slot](const Claim& claim) { return claim.slot == slot; }))
          claims.push_back({slot, Tokens{1}, Tokens{0}, false});
    if (M == Slip::over_budget)
      for (const Slot slot : state.queue)
        if (claims.size() < 3) claims.push_back({slot, view.row(slot).pending(), Tokens{0}, false});
  }
};

template <class E>
E small_engine() {
  auto made = E::make({.limits = {.batch = 3, .batch_tokens = Tokens{32}, .block_tokens = Tokens{16}},
                       .geometry = {4, Bytes{4096}, Bytes{1 << 20}},
                       .device_blocks = LayerBlocks{36},
                       .host_blocks = LayerBlocks{100},
                       .cost = SmallCost{},
                       .backend = BasicSimulated<SmallCost>{SmallCost{}}});
  REQUIRE(made.has_value());
  return *std::move(made);
}

/// The error that ends a run of five requests; empty if none does.
template <class... Policies>
std::string line_of(std::int64_t* left = nullptr) {
  auto engine = small_engine<Engine<Policies..., SmallCost, BasicSimulated<SmallCost>>>();
  Stepped stepped = Stepped::ran;
  for (int i = 0; i < 5; ++i) {
    (void)engine.submit({.prompt = Tokens{i < 2 ? 16 : 40}, .output = Tokens{32}, .slo = {}});
    if (stepped == Stepped::ran) stepped = engine.step();
  }
  while (stepped == Stepped::ran) stepped = engine.step();
  CHECK((stepped == Stepped::failed) == !engine.status().ok());
  if (stepped == Stepped::failed) CHECK(engine.step() == Stepped::failed); // it stays failed
  if (left != nullptr) *left = engine.alive();
  return engine.status().ok() ? "" : engine.status().error().line();
}

bool tells(const std::string& line, const char* policy, const char* what) {
  INFO(line);
  return line.find(policy) == 0 && line.find(" s: ") != std::string::npos && line.find(what) != std::string::npos &&
         line.find('\n') == std::string::npos;
}
template <Slip M>
bool proposal_tells(const char* what) {
  const std::string line = line_of<Hasty<M>>();
  INFO(line);
  CHECK(tells(line, "a proposal of ", what));
  return line.find("Hasty<") != std::string::npos;
}

} // namespace

TEST_CASE("a possible proposal does not end the run") {
  std::int64_t left = -1;
  CHECK(line_of<Hasty<Slip::none>>(&left).empty());
  CHECK(left == 0);
}

TEST_CASE("every running request has a claim or leaves, and not both") {
  CHECK(proposal_tells<Slip::drops_running>("request 0 runs and has no claim; expected a claim for each running"));
  CHECK(proposal_tells<Slip::leaves_too>("request 0 leaves or is refused, and has a claim; expected one of both"));
  CHECK(proposal_tells<Slip::leaves_twice>("it names request 0 twice"));
  CHECK(proposal_tells<Slip::lets_waiting_leave>("request 2 leaves, but does not run"));
}

TEST_CASE("a proposal refuses only requests that have never run, each once, and claims none of them") {
  CHECK(proposal_tells<Slip::refuses_running>("request 0 is refused, but has run"));
  CHECK(proposal_tells<Slip::refuses_twice>("twice; expected each request once"));
  CHECK(proposal_tells<Slip::refuses_too>("leaves or is refused, and has a claim; expected one of both"));
}

TEST_CASE("a proposal claims live requests, each once, required ones first") {
  CHECK(proposal_tells<Slip::claims_twice>("it names request 0 twice; expected each request once"));
  CHECK(proposal_tells<Slip::claims_stranger>("it names slot 77, which holds no live request"));
  CHECK(proposal_tells<Slip::presses_for_free>("presses, or is required after one that does, in a way"));
  CHECK(proposal_tells<Slip::presses_optionally>("presses, or is required after one that does, in a way"));
  CHECK(proposal_tells<Slip::optional_first>("comes after an optional one; expected required claims first"));
}

TEST_CASE("a proposal stays within the requests' tokens and the limits") {
  CHECK(proposal_tells<Slip::too_many_tokens>("it claims 5 tokens of request 0; expected 0 to 1"));
  CHECK(proposal_tells<Slip::fewer_than_none>("it claims -1 tokens of request 0"));
  CHECK(proposal_tells<Slip::reserves_fewer_than_none>("it reserves room for -1 tokens of request 0; expected 0 to "));
  CHECK(proposal_tells<Slip::reserves_all>("it reserves room for 9223372036854775807 tokens of request 0"));
  CHECK(proposal_tells<Slip::too_large_a_batch>("claims; expected at most 3, the batch limit"));
  CHECK(proposal_tells<Slip::over_budget>("tokens in one iteration; expected at most 32, the token budget"));
}

TEST_CASE("in a full batch, one pressing claim may count the place of the request that pays") {
  std::int64_t left = -1;
  CHECK(line_of<Hasty<Slip::takes_a_place>>(&left).empty());
  CHECK(left == 0);
  CHECK(proposal_tells<Slip::presses_when_full>("it has 4 claims; expected at most 3, the batch limit"));
  CHECK(proposal_tells<Slip::takes_a_place_unpressed>("takes the place of a running request without pressing"));
  CHECK(proposal_tells<Slip::takes_two_places>("before another required claim, or in a batch"));
  CHECK(proposal_tells<Slip::takes_a_place_for_others>("it has 4 claims; expected at most 3, the batch limit"));
  CHECK(proposal_tells<Slip::takes_a_place_early>("or in a batch that has a place; expected at most one such claim"));
}

TEST_CASE("an admission that claims nobody ends with the requests left") {
  std::int64_t left = 0;
  CHECK(line_of<Hasty<Slip::claims_nobody>>(&left).empty());
  CHECK(left == 5);
}

namespace {

/// Lets no preempted request return, except where nothing else runs.
struct NeverBack : PreemptNewest {
  [[nodiscard]] bool may_return(const View& /*view*/, const RequestRow& /*request*/) const { return false; }
};

struct NoKey {
  struct State {};
  static constexpr bool knows_lengths = false;
  double operator()(State& /*state*/, const RequestRow& row) const {
    return row.id == RequestId{2} ? std::numeric_limits<double>::quiet_NaN() : 0;
  }
};

/// Reads lengths through an oracle without saying that it is one.
struct Smuggles {
  struct State {
    KnownLength::State lengths;
  };
  static constexpr bool knows_lengths = false;
  double operator()(State& state, const RequestRow& row) const { return KnownLength{}(state.lengths, row); }
};
struct SmugglesOpenly : Smuggles {
  static constexpr bool knows_lengths = true;
};

struct ThrowingRelief : PreemptNewest {
  std::size_t choose(const View& /*view*/, State& /*state*/, std::span<const Claim> /*candidates*/) const {
    throw std::out_of_range("no candidate");
  }
};
struct ThrowingAdmission : Fcfs {
  void propose(const View& view, State& state, Proposal& proposal) const {
    if (view.step > 2) throw 7; // NOLINT(hicpp-exception-baseclass): what a mistaken policy may do
    Fcfs::propose(view, state, proposal);
  }
};
struct ThrowingReplan : EveryStep {
  bool due(const View& view, const State& /*state*/, std::uint64_t /*candidates*/) const {
    if (view.step > 2) throw std::logic_error("no plan");
    return true;
  }
};

} // namespace

TEST_CASE("a preempted request has a claim only if Relief lets it return") {
  CHECK(tells(line_of<Hasty<Slip::brings_back>, NeverBack>(), "a proposal of ",
              "is preempted and may not return, but has a claim"));
}

TEST_CASE("a key that is not a number ends the run before requests get lost") {
  CHECK(tells(line_of<BasicLeastFirst<NoKey>>(), "BasicLeastFirst<",
              "it threw an exception: the key of request 2 is not a number"));
}

TEST_CASE("a policy that hides that a part of it is an oracle ends the run") {
  CHECK(
      tells(line_of<BasicLeastFirst<Smuggles>>(), "BasicLeastFirst<", "a part of it reads how long an answer will be"));
  CHECK(line_of<BasicLeastFirst<SmugglesOpenly>>().empty());
}

TEST_CASE("what a policy throws ends the run with the policy's name and the time") {
  const std::string relief = line_of<ThrowingRelief>();
  CHECK(relief.find("ThrowingRelief at ") != std::string::npos);
  CHECK(relief.find("it threw an exception: no candidate") != std::string::npos);
  const std::string admission = line_of<ThrowingAdmission>();
  CHECK(admission.find("ThrowingAdmission at ") != std::string::npos);
  CHECK(admission.find("an object that is no std::exception") != std::string::npos);
  CHECK(line_of<ThrowingReplan>().find("ThrowingReplan at ") != std::string::npos);
  // Decided one step ahead, it ends the run in the same way.
  CHECK(line_of<ThrowingReplan, OneStepAhead>().find("ThrowingReplan at ") != std::string::npos);
}

TEST_CASE("an interrupt passes through policies and engine, and is no policy's mistake") {
  auto engine = small_engine<With<OrbitFlow, SmallCost, BasicSimulated<SmallCost>>>();
  for (int i = 0; i < 3; ++i) (void)engine.submit({.prompt = Tokens{16}, .output = Tokens{32}, .slo = {}});
  REQUIRE(engine.step() == Stepped::ran);
  interrupt_as(SIGINT);
  CHECK_THROWS_AS(while (engine.step() == Stepped::ran){}, Dropped);
  interrupt_as(0);
  CHECK(engine.status().ok());
}
