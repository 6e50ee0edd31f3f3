// SPDX-License-Identifier: Apache-2.0
// The host's room: whose KV counts while a decision is made, who must give room up, and what a preemption moves.
#include "sluice/core/random.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/pie.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/relief/refuse.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/eager_copy.hpp"
#include "sluice/policy/retention/keep_copied.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"
#include "sluice/policy/retention/move_to_host.hpp"
#include "sluice/simulation.hpp"

#include "engine/trials.hpp"
#include "support/chaos.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr int layers = 4;

/// The preempted requests, and what the event says of their KV.
struct Asides {
  using role = roles::Observer;
  using hears = Events<events::Preempted>;
  static constexpr bool wants_timeline = false;
  struct State {
    std::vector<std::pair<RequestId, Kept>> all;
  };
  void on(State& state, const events::Preempted& event) const { state.all.emplace_back(event.row.id, event.kept); }
};

/// An engine with batches of at most `batch`, blocks of four tokens, and memory for so many token blocks.
template <class System>
auto engine_with(int batch, std::int64_t device, std::int64_t host, typename System::admission_type admission = {},
                 BytesPerSecond rate = BytesPerSecond{1e6}) {
  using E = With<System, SmallCost, BasicSimulated<SmallCost>, Summary, Asides>;
  SmallCost world;
  world.rate = rate;
  auto made = E::make(
      {.limits = {.batch = batch, .batch_tokens = Tokens{64}, .block_tokens = Tokens{4}, .max_context = Tokens{256}},
       .geometry = {layers, Bytes{4096}, Bytes{1 << 20}, Bytes{3000}},
       .device_blocks = LayerBlocks{device * layers},
       .host_blocks = LayerBlocks{host * layers},
       .cost = world,
       .backend = BasicSimulated<SmallCost>{world},
       .admission = admission});
  REQUIRE(made);
  return std::move(*made);
}

template <class E>
void submit(E& engine, std::int64_t prompt, std::int64_t output) {
  RequestSpec spec;
  spec.arrival = engine.now();
  spec.prompt = Tokens{prompt};
  spec.output = Tokens{output};
  REQUIRE(engine.submit(spec));
}

/// Steps until all requests have ended, and calls `ran()` after each step.
template <class E, class Ran>
void run(E& engine, Ran&& ran) {
  for (int guard = 0; engine.alive() > 0 && guard < 10'000; ++guard) {
    const Stepped stepped = engine.step();
    if (stepped == Stepped::failed) FAIL(engine.status().error().line());
    check_ledger(engine);
    ran();
  }
  CHECK(engine.alive() == 0);
}

/// Each request's first `Count` layers on the host, fetched in each iteration.
template <int Count>
struct Fetched {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
  };
  [[nodiscard]] constexpr Holding least(int /*count*/) const { return {all_tokens, LayerSet::all(Count)}; }
  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    return join_longest_prefix(task, plan, [&](std::size_t count) {
      plan.requests.clear();
      for (const Claim& claim : task.claims.first(count)) plan.requests.push_back({claim.slot, least(task.layers())});
      return state.trial.fits(task, plan);
    });
  }
};

/// One request runs, until it has eight tokens more than the other one; that one then takes its place.
struct Swaps : Fcfs {
  static constexpr bool steady = false;
  void propose(const View& view, State& state, Proposal& proposal) const {
    Fcfs::propose(view, state, proposal);
    if (view.running.empty() || (state.queue.empty() && view.preempted.empty())) return;
    const RequestRow& row = view.row(view.running.front());
    const Slot other = state.queue.empty() ? view.preempted.front() : state.queue.front();
    if (row.generated < view.row(other).generated + Tokens{8}) return;
    proposal.clear();
    proposal.leaving.push_back(view.running.front());
    proposal.claims.push_back({other, view.row(other).pending(), Tokens{0}, true});
  }
};

/// KV stays on the device, and what leaves it then goes where `To` says.
template <Kept To>
struct Stays : KeepUntilNeeded {
  Kept on_reclaim(const View& /*view*/, const RequestRow& /*row*/) const { return To; }
};

/// How often requests are preempted that take turns and have seven blocks at most when they stop.
template <Kept To>
std::int64_t turns(std::int64_t host) {
  auto engine = engine_with<Engine<EveryStep, Swaps, Stays<To>>>(1, 20, host);
  for (int i = 0; i < 2; ++i) submit(engine, 4, 30);
  run(engine, [] {});
  std::int64_t count = 0;
  for (const RequestRecord& record : engine.template observed<Summary>().requests) {
    CHECK(record.outcome == Outcome::served);
    count += record.times_preempted;
  }
  return count;
}

/// First come, first served, but the oldest request leaves once, when it has 20 tokens. Others run on, and the next one
/// may join.
struct LeavesOnce : Fcfs {
  void propose(const View& view, State& state, Proposal& proposal) const {
    Fcfs::propose(view, state, proposal);
    if (view.running.empty()) return;
    const RequestRow& row = view.row(view.running.front());
    if (row.id != RequestId{0} || row.times_preempted > 0 || row.generated < Tokens{20}) return;
    proposal.clear();
    proposal.leaving.push_back(view.running.front());
    for (const Slot slot : view.running.subspan(1)) proposal.claims.push_back({slot, Tokens{1}, Tokens{0}, true});
    if (state.queue.empty()) return;
    const Slot next = state.queue.front();
    proposal.claims.push_back({next, view.row(next).pending(), Tokens{0}, false});
  }
};

/// First come, first served, but all running requests leave for all others, once, when the first has `At` tokens.
template <int At>
struct AllLeave : Fcfs {
  void propose(const View& view, State& state, Proposal& proposal) const {
    Fcfs::propose(view, state, proposal);
    if (view.running.empty() || (state.queue.empty() && view.preempted.empty())) return;
    const RequestRow& row = view.row(view.running.front());
    if (row.times_preempted > 0 || row.generated < Tokens{At}) return;
    proposal.clear();
    proposal.leaving.assign(view.running.begin(), view.running.end());
    const auto returns = [&](Slot slot) {
      proposal.claims.push_back({slot, view.row(slot).pending(), Tokens{0}, true});
    };
    std::for_each(view.preempted.begin(), view.preempted.end(), returns);
    std::for_each(state.queue.begin(), state.queue.end(), returns);
  }
};

/// Nothing remains of every second request, and of the others all KV moves to the host.
struct DropsOdd : MoveToHost {
  Kept on_preempt(const View& /*view*/, const RequestRow& row) const {
    return index(row.id) % 2 == 1 ? Kept::nothing : Kept::host;
  }
};

/// The same as MoveToHost, and counts the questions.
struct CountsQuestions : MoveToHost {
  inline static std::size_t asked = 0;
  Kept on_preempt(const View& view, const RequestRow& row) const {
    ++asked;
    return MoveToHost::on_preempt(view, row);
  }
};

/// Two layers of each request on the host. The second request goes there whole in the iteration for its 24th token, for
/// which the third has to go.
struct SecondInsteadOfThird : Fetched<2> {
  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    const RequestRow& first = task.view.row(task.claims.front().slot);
    const bool whole = first.id == RequestId{1} && first.context() == Tokens{24};
    if (whole && task.claims.size() > 1) return Verdict::infeasible(Binding::host_memory);
    const Verdict verdict = Fetched<2>::solve(task, state, plan);
    if (whole && verdict.feasible) plan.requests.front().holding.host = LayerSet::all(task.layers());
    return verdict;
  }
};

/// All KV on the device. Once the oldest request is large, it runs only if nobody has KV on the host, or never.
template <bool Never>
struct WantsEmptyHost : AllResident {
  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    const RequestRow& first = task.view.row(task.claims.front().slot);
    if (first.id == RequestId{0} && first.context() >= Tokens{32} &&
        (Never || task.host_budget < task.view.ledger->host().capacity())) {
      plan.in_flight = LayerBlocks{0};
      return Verdict::infeasible(Binding::host_memory);
    }
    return AllResident::solve(task, state, plan);
  }
};

} // namespace

TEST_CASE("a preempted request of which nothing will be left moves nothing, and says so") {
  auto engine = engine_with<Engine<WantsEmptyHost<false>, EveryStep, MoveToHost>>(3, 20, 100);
  for (int i = 0; i < 3; ++i) submit(engine, 4, 40);
  int moved = 0, dropped = 0;
  std::size_t seen = 0;
  run(engine, [&] {
    const auto& all = engine.observed<Asides>().all;
    for (; seen < all.size(); ++seen) {
      const RequestId id = all[seen].first;
      const Kept kept = all[seen].second;
      CAPTURE(index(id));
      for (const RequestRow& row : engine.view().rows)
        if (row.id == id && row.phase == Phase::preempted) CHECK((row.blocks.count() > 0) == (kept == Kept::host));
      ++(kept == Kept::host ? moved : dropped);
    }
  });
  CHECK(moved > 0);
  CHECK(dropped > 0);
  for (const RequestRecord& record : engine.observed<Summary>().requests) CHECK(record.outcome == Outcome::served);
}

TEST_CASE("nobody is preempted for a request that is refused in the end") {
  auto engine = engine_with<Engine<WantsEmptyHost<true>, EveryStep, MoveToHost>>(3, 40, 100);
  for (int i = 0; i < 3; ++i) submit(engine, 4, 40);
  run(engine, [] {});
  const auto& records = engine.observed<Summary>().requests;
  REQUIRE(records.size() == 3);
  for (std::size_t i = 0; i < records.size(); ++i) {
    CHECK((records[i].outcome == Outcome::refused) == (i == 0));
    CHECK(records[i].times_preempted == 0);
  }
}

TEST_CASE("a request that Relief refuses leaves its host memory to the others at once") {
  // Three blocks each in the end, so two requests fit the host, and three do not.
  auto engine = engine_with<Engine<Fetched<layers>, EveryStep, Refuse, MoveToHost>>(3, 20, 7);
  for (int i = 0; i < 3; ++i) submit(engine, 4, 9);
  run(engine, [] {});
  const auto& records = engine.observed<Summary>().requests;
  REQUIRE(records.size() == 3);
  CHECK(std::count_if(records.begin(), records.end(),
                      [](const RequestRecord& one) { return one.outcome == Outcome::served; }) == 2);
  CHECK(records.back().outcome == Outcome::refused);
}

TEST_CASE("a request leaves if the host has room for it, where another one returns from the device") {
  const std::int64_t often = turns<Kept::host>(100);
  CHECK(often > 1);
  CHECK(turns<Kept::host>(7) == often);
  CHECK(turns<Kept::nothing>(0) == often); // it takes no room on the host
}

TEST_CASE(
    "a request does not leave if its KV would find no room on the host, however Retention says that it goes there") {
  CHECK(turns<Kept::host>(1) == 0);
}

TEST_CASE("a request that frees room on the host leaves before one that needs the room") {
  // Each has six blocks, and two of four layers on the host: the first one finds room for the others in the second's.
  auto engine = engine_with<Engine<Fetched<2>, EveryStep, DropsOdd, AllLeave<20>>>(2, 20, 7);
  for (int i = 0; i < 2; ++i) submit(engine, 4, 22);
  submit(engine, 2, 2);
  run(engine, [] {});
  using Aside = std::pair<RequestId, Kept>;
  CHECK(engine.observed<Asides>().all == std::vector<Aside>{{RequestId{1}, Kept::nothing}, {RequestId{0}, Kept::host}});
  for (const RequestRecord& record : engine.observed<Summary>().requests) CHECK(record.outcome == Outcome::served);
}

TEST_CASE("a request stays if one that stays takes the place of a request that would have made room for it") {
  // Two requests of four and eight blocks leave for two others, and stay on the device. When those have six and eight
  // blocks, the host has room for the six, until the request of eight blocks stays and that of eight does not return.
  auto engine = engine_with<Engine<EveryStep, AllLeave<12>, KeepUntilNeeded>>(2, 40, 12);
  for (const std::int64_t prompt : {4, 20, 12, 20}) submit(engine, prompt, 14);
  run(engine, [] {});
  const auto& records = engine.observed<Summary>().requests;
  for (std::size_t i = 0; i < records.size(); ++i) {
    CAPTURE(i);
    CHECK(records[i].outcome == Outcome::served);
    CHECK(records[i].times_preempted == (i < 2 ? 1 : 0));
  }
}

TEST_CASE("what it takes to let requests leave grows with their number, not with its square") {
  constexpr std::size_t many = 64;
  auto engine = engine_with<Engine<EveryStep, CountsQuestions, AllLeave<3>>>(many, 1000, many / 2);
  for (std::size_t i = 0; i <= many; ++i) submit(engine, 1, 5); // a block each when they leave: half of them find room
  CountsQuestions::asked = 0;
  std::size_t asked = 0, left = 0; // in the first step in which any of them leaves
  run(engine, [&] {
    if (left == 0) left = engine.observed<Asides>().all.size(), asked = CountsQuestions::asked;
  });
  CHECK(left == many / 2);
  CHECK(asked < 6 * many);
}

TEST_CASE("claims leave the host's room to a request that leaves, whose KV has found room there") {
  // The first request takes 24 layer blocks of 40 when it leaves, and the second has twelve. The third would take more.
  auto engine = engine_with<Engine<Fetched<2>, EveryStep, MoveToHost, LeavesOnce>>(2, 20, 10);
  submit(engine, 4, 30);
  submit(engine, 4, 24);
  submit(engine, 24, 4);
  run(engine, [&] {
    for (const RequestRow& row : engine.view().rows)
      if (row.id == RequestId{0} && row.phase == Phase::preempted) CHECK(row.computed >= Tokens{20});
  });
  CHECK(!engine.observed<Asides>().all.empty());
  for (const RequestRecord& record : engine.observed<Summary>().requests) CHECK(record.outcome == Outcome::served);
}

TEST_CASE("a request leaves into the room of one that Relief refuses for another") {
  // Each has six blocks, and twelve of 48 layer blocks on the host. The first and the second want twelve more each.
  auto engine = engine_with<Engine<SecondInsteadOfThird, EveryStep, Refuse, MoveToHost, LeavesOnce>>(3, 30, 12);
  for (int i = 0; i < 3; ++i) submit(engine, 4, 24);
  run(engine, [] {});
  using Aside = std::pair<RequestId, Kept>;
  CHECK(engine.observed<Asides>().all == std::vector<Aside>{{RequestId{0}, Kept::host}});
  const auto& records = engine.observed<Summary>().requests;
  REQUIRE(records.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(records[i].outcome == (i == 2 ? Outcome::refused : Outcome::served));
}

TEST_CASE("copies of a preempted request are given up on the host, and its KV stays") {
  // The first request leaves with six blocks: two layers of them on the host, and copies of the two others. The second
  // one has seven in the end. The host has room for both without the copies.
  auto engine = engine_with<Engine<Fetched<2>, EveryStep, KeepCopied, LeavesOnce>>(1, 20, 7, {}, BytesPerSecond{1e9});
  submit(engine, 4, 40);
  submit(engine, 24, 4);
  Tokens most{0}, least{1000};
  run(engine, [&] {
    for (const RequestRow& row : engine.view().rows) {
      if (row.id != RequestId{0}) continue;
      if (row.times_preempted == 0) most = row.holding.copied;
      if (row.phase != Phase::preempted) continue;
      CHECK(row.computed >= Tokens{20});
      least = std::min(least, row.holding.copied);
    }
  });
  CHECK(most.count() == 20);
  CHECK(least.count() < 20);
  for (const RequestRecord& record : engine.observed<Summary>().requests) CHECK(record.outcome == Outcome::served);
}

namespace {

/// Each plan takes longer than all iterations, so they are repeated meanwhile.
struct SlowPlans : OneStepAhead {
  [[nodiscard]] Seconds planning_time(std::int64_t /*effort*/) const { return Seconds{1e9}; }
};

/// The same as LeavesOnce, and the request that has left is expected to run next.
struct NamesNext : LeavesOnce {
  void propose(const View& view, State& state, Proposal& proposal) const {
    LeavesOnce::propose(view, state, proposal);
    proposal.next = proposal.leaving;
    proposal.next.insert(proposal.next.end(), view.preempted.begin(), view.preempted.end());
  }
};

/// All KV on the device. While a request is preempted, a plan made ahead is too late for every iteration.
struct SlowAside : AllResident {
  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    const Verdict verdict = AllResident::solve(task, state, plan);
    plan.effort = task.view.preempted.empty() ? 0 : 1'000'000'000;
    return verdict;
  }
};

/// Copies while a request is preempted, and not before.
struct CopiesAside : KeepCopied {
  LayerBlocks copy_ahead(const View& view, LayerBlocks idle) const {
    return view.preempted.empty() ? LayerBlocks{0} : idle;
  }
};

/// How much of a preempted request is copied that has five full blocks, over a link with time for one in an iteration.
template <class Admission, class Lookahead>
Tokens copied_aside() {
  auto engine =
      engine_with<Engine<Admission, SlowAside, EveryStep, CopiesAside, Lookahead>>(1, 40, 40, {}, BytesPerSecond{3e6});
  submit(engine, 4, 40);
  submit(engine, 4, 40);
  Tokens most{0};
  run(engine, [&] {
    for (const Slot slot : engine.view().preempted) most = std::max(most, engine.view().row(slot).holding.copied);
  });
  return most;
}

/// A few short requests, a host for the longest of them and a few blocks more, and any device that has room for it.
template <class System>
std::int64_t serve_narrow(int rounds) {
  Random random(1);
  std::int64_t preempted = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const auto draw = [&random](std::uint64_t below) { return static_cast<std::int64_t>(random.below(below)); };
    std::vector<RequestSpec> requests;
    std::int64_t longest = 0;
    for (std::int64_t i = 2 + draw(5); i > 0; --i) {
      RequestSpec spec;
      spec.prompt = Tokens{1 + draw(30)};
      spec.output = Tokens{1 + draw(20)};
      longest = std::max(longest, blocks_for(spec.prompt + spec.output - Tokens{1}, Tokens{4}).count());
      requests.push_back(spec);
    }
    auto engine = engine_with<System>(static_cast<int>(1 + draw(5)), longest + 4 + draw(8), longest + draw(6), {},
                                      BytesPerSecond{1e6 * std::pow(1000, random.uniform())});
    for (const RequestSpec& spec : requests) REQUIRE(engine.submit(spec));
    run(engine, [] {});
    for (const RequestRecord& record : engine.template observed<Summary>().requests) {
      CHECK(record.outcome == Outcome::served);
      preempted += record.times_preempted;
    }
  }
  return preempted;
}

} // namespace

TEST_CASE("KV of a preempted request is copied, named by Admission or not, in repeated iterations too") {
  CHECK(copied_aside<LeavesOnce, InStep>() == Tokens{20});
  CHECK(copied_aside<NamesNext, InStep>() == Tokens{20});
  CHECK(copied_aside<LeavesOnce, OneStepAhead>() == Tokens{20});
  CHECK(copied_aside<NamesNext, OneStepAhead>() == Tokens{20});
}

TEST_CASE("an iteration is repeated though copies fill the host") {
  auto engine = engine_with<Engine<Fetched<2>, EveryStep, EagerCopy, SlowPlans>>(1, 20, 7, {}, BytesPerSecond{1e9});
  submit(engine, 4, 40);
  bool full = false;
  Seconds planned{0}; // the first plan's time
  run(engine, [&] {
    if (planned == Seconds{0}) planned = engine.now();
    full = full || engine.ledger().host().free().count() < 2;
  });
  CHECK(full);
  CHECK(planned > Seconds{1000});
  CHECK(engine.now() < 1.5 * planned); // nothing has waited for a second plan
}

TEST_CASE("copies leave room for what the host must have, whatever requests are preempted") {
  const int rounds = all_rounds ? 300 : 30;
  CHECK(serve_narrow<Engine<ChaosPlacement, EveryStep, ChaosRelief, EagerCopy>>(rounds) > 0);
  CHECK(serve_narrow<Engine<ChaosPlacement, EveryStep, ChaosRelief, KeepCopied>>(rounds) > 0);
}

/// Serves requests of which each fits the device alone, on hosts of no room to plenty.
template <class System>
void serve_on_every_host() {
  Random random(7);
  for (std::int64_t host = 0; host <= 40; host += host < 4 ? 1 : 6) {
    auto engine = engine_with<System>(4, 20, host);
    const auto draw = [&random](std::uint64_t most) { return static_cast<std::int64_t>(1 + random.below(most)); };
    for (int i = 0; i < 8; ++i) submit(engine, draw(40), draw(30)); // at most 18 blocks
    run(engine, [] {});
    for (const RequestRecord& record : engine.template observed<Summary>().requests)
      CHECK(record.outcome == Outcome::served);
  }
}

/// Serves a request that fits neither alone, but with half of its layers on each side.
template <class System>
void serve_in_halves() {
  auto engine = engine_with<System>(4, 20, 16);
  submit(engine, 60, 36); // 24 blocks: 48 of 80 layer blocks resident and a layer in flight, 48 of 64 on the host
  run(engine, [] {});
  CHECK(engine.template observed<Summary>().requests.front().outcome == Outcome::served);
}

TEST_CASE("a request is served that needs a part of the host, which has no room for all of it") {
  serve_in_halves<OrbitFlow>();
  serve_in_halves<Confluence>();
  // Not Pie, whose layers on their way back take the room that two of four layers would give up.
}

TEST_CASE("a request that fits the device is served, however small the host") {
  serve_on_every_host<VllmSwap>();
  serve_on_every_host<OrbitFlow>();
  serve_on_every_host<Pie>();
  serve_on_every_host<Confluence>();
}

TEST_CASE("a request that fits the device alone is served without a host, however long its plan is to hold") {
  // An A5000 of 600 token blocks: at its end the request has 599, and a window of steps later more than fit.
  using namespace sluice;
  Server server{llama3_8b(), a5000(), TokenBlocks{600}, {.batch = 4, .batch_tokens = Tokens{32'768}}};
  server.device.host_memory = Bytes{0};
  const GeneratorSpec alone{.name = "alone",
                            .arrivals = {ArrivalKind::poisson, 1, 1.0},
                            .prompt = FixedLength{Tokens{4886}},
                            .output = FixedLength{Tokens{4687}},
                            .requests = 1};
  Shaped<Generator> requests{Generator{alone, 1}, {.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.0346}}}};
  const Expected<Metrics> seen = serve<OrbitFlow>(server, requests);
  REQUIRE(seen);
  CHECK(seen->served == 1);
  CHECK(seen->refused == 0);
}
