// SPDX-License-Identifier: Apache-2.0
// simulate and serve: a workload through an engine, and the times of events on its clock.
#include "sluice/core/stopwatch.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/orbitflow_baselines.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/state/plan/space.hpp"
#include "sluice/workload/generator.hpp"
#include "sluice/workload/session_generator.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Requests from a list; optionally an error after the last.
struct ListedTrace {
  std::vector<RequestSpec> requests;
  bool broken = false;
  std::size_t at = 0;

  Expected<std::optional<RequestSpec>> next() {
    if (at < requests.size()) return std::optional{requests[at++]};
    if (broken) return Error{ErrorCode::bad_input, "list:3", "torn", "whole"};
    return std::optional<RequestSpec>{};
  }
};
static_assert(TraceReader<ListedTrace>);

/// The same, with arrivals that count the engine's iterations.
struct SteppedTrace : ListedTrace {
  [[nodiscard]] bool arrivals_in_steps() const { return true; }
};
static_assert(TraceReader<SteppedTrace> && KnowsArrivalUnit<SteppedTrace> && !KnowsArrivalUnit<ListedTrace>);

/// When each iteration started, its batch, and when each token was generated.
struct Notes {
  using role = roles::Observer;
  using hears = Events<events::Submitted, events::Delivered, events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct Iteration {
    double start, end, planning;
    std::vector<RequestId> batch;
    bool repeated;
  };
  struct State {
    std::vector<Iteration> iterations;
    std::map<RequestId, std::vector<double>> tokens;
    std::map<RequestId, double> came;
  };
  void on(State& state, const events::Submitted& event) const {
    state.came[event.row.id] = event.row.spec.arrival.count();
  }
  void on(State& state, const events::Delivered& event) const {
    for (std::int64_t i = 0; i < event.count.count(); ++i) state.tokens[event.row.id].push_back(event.when.count());
  }
  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    Iteration one{
        record.start.count(), (record.start + record.duration).count(), record.planning.count(), {}, record.repeated};
    for (const Claim& claim : record.batch) one.batch.push_back(record.rows[index(claim.slot)].id);
    state.iterations.push_back(one);
  }
  /// The first iteration that a request was part of.
  static std::size_t joined(const State& state, RequestId id) {
    for (std::size_t i = 0; i < state.iterations.size(); ++i)
      for (const RequestId other : state.iterations[i].batch)
        if (other == id) return i;
    return state.iterations.size();
  }
};

/// AllResident, with the effort of one node per plan.
struct Ponders : AllResident {
  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    const Verdict verdict = AllResident::solve(task, state, plan);
    plan.effort = 1;
    return verdict;
  }
};

/// Places like FewestLayers, by judging plans, and says nothing of its effort, or that it is `said`.
template <int said>
struct Judges {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
  };
  [[nodiscard]] Holding least(int layers) const { return {.host = LayerSet::all(layers)}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    if (said >= 0) plan.effort = said;
    return join_longest_prefix(task, plan, [&](std::size_t count) {
      for (int out = 0; out <= task.layers(); ++out) {
        plan.requests.clear();
        for (const Claim& claim : task.claims.first(count))
          plan.requests.push_back({claim.slot, Holding{.host = evenly_spaced_layers(task.layers(), out)}});
        if (state.trial.fits(task, plan)) return true;
      }
      return false;
    });
  }
};

template <class E>
using Noted = With<E, SmallCost, BasicSimulated<SmallCost>, Notes>;

template <class E>
E engine_of(LayerBlocks device = LayerBlocks{4 * 60}, Seconds per_effort = Seconds{0}) {
  return *E::make({.limits = {.batch = 8, .batch_tokens = Tokens{256}, .max_context = Tokens{512}},
                   .geometry = {4, Bytes{4096}, Bytes{1 << 20}},
                   .device_blocks = device,
                   .host_blocks = LayerBlocks{100'000},
                   .cost = SmallCost{},
                   .backend = BasicSimulated<SmallCost>{SmallCost{}},
                   .lookahead = {.per_effort = per_effort}});
}

RequestSpec request(double arrival, std::int64_t prompt, std::int64_t output) {
  return {Seconds{arrival}, Tokens{prompt}, Tokens{output}, {}};
}

} // namespace

TEST_CASE("a placement that says no effort is charged what its judgements take, and one that says it, that") {
  const auto planning = [](auto placement, Seconds per_effort) {
    using E = With<Noted<Engine<decltype(placement)>>, Summary>;
    ListedTrace reader{{request(0, 30, 40), request(0, 50, 40), request(0, 70, 40)}};
    E engine = engine_of<E>(LayerBlocks{30}, per_effort);
    REQUIRE(simulate(engine, reader).ok());
    return engine.template observed<Summary>();
  };
  const std::int64_t before = judged_ns();
  const Summary::State unsaid = planning(Judges<-1>{}, Seconds{2e-6});
  const double judged_s = 1e-9 * static_cast<double>(judged_ns() - before);
  CHECK(judged_s > 0);
  CHECK(unsaid.planning_total_s == doctest::Approx(judged_s).epsilon(1e-9)); // all of it, and nothing of the world's
  CHECK(unsaid.counted_plans == static_cast<std::int64_t>(unsaid.planning_wall_s.size()));
  CHECK(planning(Judges<-1>{}, Seconds{2e-6}).planning_total_s == unsaid.planning_total_s);
  CHECK(planning(Judges<-1>{}, Seconds{1e-6}).planning_total_s == doctest::Approx(unsaid.planning_total_s / 2));
  CHECK(planning(Judges<-1>{}, Seconds{0}).planning_total_s == 0);

  const Summary::State free = planning(Judges<0>{}, Seconds{2e-6}), three = planning(Judges<3>{}, Seconds{2e-6});
  CHECK(free.planning_total_s == 0);
  CHECK(free.counted_plans == 0);
  CHECK(three.planning_total_s == doctest::Approx(3 * 2e-6 * static_cast<double>(three.planning_wall_s.size())));
  CHECK(three.counted_plans == 0);
}

TEST_CASE("a judgement drops the run after an interrupt, and one that is dropped costs nothing") {
  const std::int64_t before = judged_ns();
  judge(JudgedCosts::fits, 3);
  CHECK(judged_ns() - before == JudgedCosts::fits.call_ns + 3 * JudgedCosts::fits.request_ns);
  interrupt_as(2);
  CHECK_THROWS_AS(judge(JudgedCosts::fits, 3), Dropped);
  interrupt_as(0);
  CHECK(judged_ns() - before == JudgedCosts::fits.call_ns + 3 * JudgedCosts::fits.request_ns);
}

TEST_CASE("any assignment or addition sets an effort, and nothing else does") {
  CHECK_FALSE(Effort{}.said());
  CHECK(Effort{0}.said());
  Effort effort;
  CHECK((++effort).said());
  CHECK(effort == 1);
  CHECK((Effort{} += 0).said());
  CHECK_FALSE(Effort::counted(7).said());
  CHECK(Effort::counted(7) == 7);
}

TEST_CASE("the engine idles between requests that are far apart, and serves each as if it were the only one") {
  using E = Noted<Engine<>>;
  ListedTrace reader{{request(0, 30, 10), request(1000, 30, 10), request(5000, 30, 10)}};
  E engine = engine_of<E>();
  REQUIRE(simulate(engine, reader).ok());
  const Notes::State& notes = engine.observed<Notes>();
  REQUIRE(notes.tokens.size() == 3);
  const std::vector<double>& first = notes.tokens.at(RequestId{0});
  for (std::uint32_t id = 1; id < 3; ++id) {
    const double arrival = notes.came.at(RequestId{id});
    const std::vector<double>& tokens = notes.tokens.at(RequestId{id});
    REQUIRE(tokens.size() == first.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) CHECK(tokens[i] - arrival == doctest::Approx(first[i]));
  }
  CHECK(notes.iterations.size() == 30); // idle time has no steps
}

TEST_CASE("no request is served before its arrival, and iterations do not overlap") {
  Random random(71);
  for (int round = 0; round < 20; ++round) {
    using E = Noted<DynamicHeuristic>;
    const Trial trial = random_trial(random);
    ListedTrace reader{trial.requests};
    E engine = engine_of<E>();
    REQUIRE(simulate(engine, reader).ok());
    const Notes::State& notes = engine.observed<Notes>();
    for (const auto& [id, tokens] : notes.tokens) {
      CHECK(tokens.front() > notes.came.at(id));
      CHECK(notes.iterations[Notes::joined(notes, id)].start >= notes.came.at(id));
    }
    for (std::size_t i = 1; i < notes.iterations.size(); ++i)
      CHECK(notes.iterations[i].start >= notes.iterations[i - 1].end - 1e-9);
  }
}

TEST_CASE("deciding one step ahead notices an arrival one iteration later than deciding in step") {
  using InTime = Noted<Engine<InStep>>;
  using Ahead = Noted<Engine<OneStepAhead>>;
  for (const double arrival : {0.012, 0.03, 0.0555, 0.08}) {
    CAPTURE(arrival);
    ListedTrace one{{request(0, 20, 100), request(arrival, 20, 5)}}, same = one;
    InTime in_time = engine_of<InTime>();
    Ahead ahead = engine_of<Ahead>();
    REQUIRE(simulate(in_time, one).ok());
    REQUIRE(simulate(ahead, same).ok());
    const Notes::State& now = in_time.observed<Notes>();
    const Notes::State& later = ahead.observed<Notes>();
    // In step: the first iteration that starts after the arrival. Ahead: that one was already decided.
    const std::size_t joined = Notes::joined(now, RequestId{1});
    REQUIRE(joined > 0);
    CHECK(now.iterations[joined].start >= arrival);
    CHECK(now.iterations[joined - 1].start < arrival);
    CHECK(Notes::joined(later, RequestId{1}) == joined + 1);
    CHECK(later.tokens.at(RequestId{0}).size() == 100);
    CHECK(later.tokens.at(RequestId{1}).size() == 5);
  }
}

TEST_CASE("a plan that takes longer than an iteration: InStep waits, OneStepAhead repeats the last batch") {
  // An iteration takes about 8 ms, a plan 20 ms.
  using InTime = Noted<Engine<Ponders, EveryStep, InStep>>;
  using Ahead = Noted<Engine<Ponders, EveryStep, OneStepAhead>>;
  const auto run = [](auto engine) {
    ListedTrace reader{{request(0, 40, 200), request(0, 40, 200)}};
    REQUIRE(simulate(engine, reader).ok());
    std::int64_t repeated = 0;
    double planning = 0;
    const Notes::State& notes = engine.template observed<Notes>();
    for (const Notes::Iteration& one : notes.iterations) {
      repeated += one.repeated ? 1 : 0;
      planning += one.planning;
    }
    for (const auto& [id, tokens] : notes.tokens) CHECK(tokens.size() == 200);
    return std::tuple{repeated, planning, notes.iterations.back().end};
  };
  const Seconds slow{0.02};
  const auto [free_repeated, free_planning, free_end] = run(engine_of<InTime>());
  const auto [in_repeated, in_planning, in_end] = run(engine_of<InTime>(LayerBlocks{4 * 60}, slow));
  const auto [ahead_repeated, ahead_planning, ahead_end] = run(engine_of<Ahead>(LayerBlocks{4 * 60}, slow));
  CHECK(free_planning == 0);
  CHECK(in_repeated == 0);
  CHECK(in_planning > 100 * 0.02); // nearly every step waited
  CHECK(in_end == doctest::Approx(free_end + in_planning).epsilon(0.01));
  CHECK(ahead_repeated > 50); // most iterations repeated the last batch
  CHECK(ahead_planning < 0.1 * in_planning);
  CHECK(ahead_end < in_end - 1);
}

TEST_CASE("simulate stops when the `tell` callback says so, and returns a reader's error") {
  using E = Noted<Engine<>>;
  ListedTrace torn{{request(0, 10, 5), request(1, 10, 5)}, true};
  E engine = engine_of<E>();
  const Status status = simulate(engine, torn);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().where == "list:3");

  ListedTrace whole{{request(0, 10, 100), request(0, 10, 100)}};
  E stopped = engine_of<E>();
  SimulationProgress last;
  const auto tell = [&](const SimulationProgress& progress) {
    last = progress;
    return progress.steps < 20;
  };
  REQUIRE(simulate(stopped, whole, tell, 10).ok());
  CHECK(last.steps == 20);
  CHECK(last.submitted == 2);
  CHECK(last.alive == 2);
  CHECK(stopped.alive() == 2);
}

TEST_CASE("serve equals make, simulate and measure, with any observers") {
  const Server server{.model = llama3_8b(), .device = a5000(), .kv_blocks = TokenBlocks{700}, .limits = {.batch = 4}};
  GeneratorSpec few = demo_workload();
  few.requests = 6;
  using E = With<Engine<>, Summary>;
  Expected<E> engine = E::make(configure<E>(server));
  REQUIRE(engine);
  Generator requests{few, 3};
  REQUIRE(simulate(*engine, requests).ok());
  const Metrics by_hand = measure(engine->observed<Summary>(), engine->now());
  const Expected<Metrics> served = serve<Engine<>>(server, Generator{few, 3});
  REQUIRE(served);
  std::vector<double> one, other;
  for_each_metric(by_hand, [&](const char*, auto number) { one.push_back(static_cast<double>(number)); });
  for_each_metric(*served, [&](const char*, auto number) { other.push_back(static_cast<double>(number)); });
  const auto planned_on_this_machine = [](std::string_view name) { return name.find("wall") != name.npos; };
  std::size_t i = 0;
  for_each_metric(by_hand, [&](std::string_view name, auto) {
    CAPTURE(name);
    if (!planned_on_this_machine(name)) CHECK((one[i] == other[i] || (std::isnan(one[i]) && std::isnan(other[i]))));
    ++i;
  });
  CHECK(served->served == 6);

  Server tiny = server;
  tiny.kv_blocks = TokenBlocks{0};
  const Expected<Metrics> refused = serve<Engine<>>(tiny, Generator{few, 3});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::bad_input);
}

namespace {

/// Sessions of small requests, for the engine of `engine_of`.
SessionGenerator small_sessions(std::uint64_t seed) {
  return {*parse_sessions(
              "sessions:rate=3,sessions=25,turns=uniform(1,5),system=20,first=uniform(30,120),growth=uniform(5,60),"
              "output=uniform(1,30),user=lognormal(0.3,1),longest=400"),
          seed};
}

/// The arrival, the end and the outcome of each request, by session and turn.
struct Turns {
  using role = roles::Observer;
  using hears = Events<events::Submitted, events::Refused, events::Ended>;
  static constexpr bool wants_timeline = false;
  struct Turn {
    RequestSpec spec;
    double end = 0;
    bool refused = false;
  };
  struct State {
    std::map<std::pair<std::uint32_t, std::int32_t>, Turn> turns;
  };
  void on(State& state, const events::Submitted& event) const { at(state, event.row.spec.whole(not_a_policy)); }
  void on(State& state, const events::Refused& event) const {
    Turn& turn = at(state, event.spec);
    turn.end = event.now.count();
    turn.refused = true;
  }
  void on(State& state, const events::Ended& event) const {
    at(state, event.row.spec.whole(not_a_policy)).end = event.now.count();
  }
  static Turn& at(State& state, const RequestSpec& spec) {
    Turn& turn = state.turns[{spec.session, spec.turn}];
    turn.spec = spec;
    return turn;
  }
};

} // namespace

TEST_CASE("in a session a request arrives when the one before it is answered or refused and its delay is over") {
  const auto check = [](auto policies, Tokens longest) {
    using E = With<typename decltype(policies)::type, SmallCost, BasicSimulated<SmallCost>, Turns>;
    E engine = *E::make({.limits = {.batch = 8, .batch_tokens = Tokens{256}, .max_context = longest},
                         .geometry = {4, Bytes{4096}, Bytes{1 << 20}},
                         .device_blocks = LayerBlocks{4 * 60},
                         .host_blocks = LayerBlocks{100'000},
                         .cost = SmallCost{},
                         .backend = BasicSimulated<SmallCost>{SmallCost{}}});
    SessionGenerator source = small_sessions(3);
    const std::vector<RequestSpec> all = *read_all(source);
    SessionGenerator again = small_sessions(3);
    const Status status = simulate(engine, again);
    REQUIRE(status);
    const auto& turns = engine.template observed<Turns>().turns;
    REQUIRE(turns.size() == all.size()); // none is lost, whatever was refused
    std::int64_t refused = 0;
    for (const RequestSpec& spec : all) {
      const Turns::Turn& turn = turns.at({spec.session, spec.turn});
      refused += turn.refused ? 1 : 0;
      if (!spec.follows) {
        CHECK(turn.spec.arrival == spec.arrival);
        continue;
      }
      const double before = turns.at({spec.session, spec.turn - 1}).end;
      CHECK(turn.spec.arrival.count() == doctest::Approx(before + spec.delay.count()).epsilon(1e-12));
      CHECK(turn.end >= turn.spec.arrival.count());
    }
    return refused;
  };
  CHECK(check(std::type_identity<Engine<>>{}, Tokens{512}) == 0);
  CHECK(check(std::type_identity<DynamicHeuristic>{}, Tokens{512}) == 0);
  CHECK(check(std::type_identity<Engine<OneStepAhead>>{}, Tokens{512}) == 0);
  CHECK(check(std::type_identity<Engine<>>{}, Tokens{150}) > 0); // long turns are refused, and their sessions go on
}

TEST_CASE("a later turn finds the prompt and the answer before it, and a job is served from arrival to last token") {
  using E = With<VllmPrefixCaching, SmallCost, BasicSimulated<SmallCost>, Summary>;
  E engine = engine_of<E>(LayerBlocks{4 * 400});
  SessionGenerator source = small_sessions(5);
  const std::vector<RequestSpec> all = *read_all(source);
  SessionGenerator again = small_sessions(5);
  REQUIRE(simulate(engine, again));
  const auto& records = engine.observed<Summary>().requests;
  REQUIRE(records.size() == all.size());
  std::map<std::pair<std::uint32_t, std::int32_t>, const RequestRecord*> by_turn;
  for (const RequestRecord& record : records) by_turn[{record.session, record.turn}] = &record;
  std::map<std::uint32_t, double> jobs;
  Tokens prompts{0}, found{0};
  for (const RequestSpec& spec : all) {
    const RequestRecord& record = *by_turn.at({spec.session, spec.turn});
    prompts += record.prompt;
    found += record.found;
    jobs[spec.session] = record.last.count() - by_turn.at({spec.session, 0})->arrival.count();
    if (!spec.follows) continue;
    // With room for all: the blocks of the prompt before and of its answer but the last token, which has no KV.
    const RequestRecord& before = *by_turn.at({spec.session, spec.turn - 1});
    if (spec.prompt < before.prompt) continue; // compacted
    CHECK(record.found == Tokens{(before.prompt + before.output - Tokens{1}).count() / 16 * 16});
  }
  const Metrics metrics = measure(engine.observed<Summary>(), engine.now());
  CHECK(metrics.sessions == 25);
  CHECK(metrics.sessions_served == 25);
  double sum = 0;
  for (const auto& [session, seconds] : jobs) sum += seconds;
  CHECK(metrics.mean_job_s == doctest::Approx(sum / 25));
  CHECK(metrics.found_share ==
        doctest::Approx(static_cast<double>(found.count()) / static_cast<double>(prompts.count())));
  CHECK(metrics.mean_ttft_later_turns_s < metrics.mean_ttft_first_turn_s);
}

TEST_CASE("an engine keeps the ends of answers only for a driver that takes them") {
  const auto serve_by_hand = [](bool takes) {
    using E = With<Engine<>, SmallCost, BasicSimulated<SmallCost>>;
    E engine = engine_of<E>(LayerBlocks{4 * 400});
    std::vector<Answered> answers;
    if (takes) engine.take_answers(answers);
    SessionGenerator source = small_sessions(5);
    for (const RequestSpec& spec : *read_all(source)) REQUIRE(engine.submit(spec));
    const std::int64_t submitted = engine.alive();
    while (engine.step() == Stepped::ran) CHECK((takes || !engine.has_answers()));
    REQUIRE(engine.alive() == 0);
    engine.take_answers(answers);
    CHECK(answers.size() == (takes ? static_cast<std::size_t>(submitted) : 0));
    CHECK_FALSE(engine.has_answers());
  };
  serve_by_hand(false);
  serve_by_hand(true);
}

TEST_CASE("arrivals that count iterations wait for the engine's own, and those that nothing needs are skipped") {
  // A device that is ten times as slow gets the same batches: its requests arrive ten times as late. Between the second
  // and the third arrival the engine has nothing to do.
  const auto run = [](double slower) {
    Device device = a100_80();
    device.memory_bandwidth = device.memory_bandwidth * (1 / slower);
    device.half_precision_peak = device.half_precision_peak * (1 / slower);
    using E = Engine<Notes>;
    const Server server{llama3_8b(), device, TokenBlocks{100}, {.batch = 4}};
    E engine = *E::make(configure<E>(server));
    SteppedTrace trace;
    for (const double arrival : {0.0, 7.0, 1000.0})
      trace.requests.push_back({Seconds{arrival}, Tokens{16}, Tokens{10}, {}});
    REQUIRE(simulate(engine, trace).ok());
    CHECK(engine.steps() == 17 + 10); // the second joins the eighth iteration, and then nothing runs until the third
    return engine.observed<Notes>();
  };
  const auto fast = run(1), slow = run(10);
  REQUIRE(fast.iterations.size() == slow.iterations.size());
  for (std::size_t i = 0; i < fast.iterations.size(); ++i) CHECK(fast.iterations[i].batch == slow.iterations[i].batch);
  REQUIRE(fast.came.size() == 3);
  for (const auto* of : {&fast, &slow}) {
    std::size_t number = 0;
    for (const auto& [id, came] : of->came) { // each came when its first iteration began
      CHECK(came == of->iterations[Notes::joined(*of, id)].start);
      CHECK(Notes::joined(*of, id) == std::array{0u, 7u, 17u}[number++]);
    }
  }
  CHECK(slow.came.rbegin()->second > 5 * fast.came.rbegin()->second);
}

TEST_CASE("a configuration for a machine has SuperInfer's rotation budget for its link and memory") {
  const auto rotation = [](const Device& device, std::int64_t blocks) {
    return configure<SuperInfer>(Server{llama3_8b(), device, TokenBlocks{blocks}, {}}).admission.rotation.count();
  };
  CHECK(rotation(gh200_144(), 20'000) == LargestVirtualLagFirst{}.rotation.count());
  CHECK(rotation(a5000(), 600) <= 240); // 0.4 of the memory
  const std::int64_t by_link = rotation(a5000(), 20'000);
  CHECK(by_link < 240);
  CHECK(by_link == rotation(a5000(), 10'000));
  Device faster = a5000();
  faster.host_to_device = BytesPerSecond{2 * faster.host_to_device.count()};
  faster.device_to_host = BytesPerSecond{2 * faster.device_to_host.count()};
  CHECK(rotation(faster, 20'000) / 2 == by_link);
}

TEST_CASE("arrivals that count iterations are refused in sessions") {
  using E = Engine<>;
  E engine = *E::make(configure<E>(Server{llama3_8b(), a100_80(), TokenBlocks{100}, {}}));
  SteppedTrace trace;
  RequestSpec first{Seconds{0}, Tokens{16}, Tokens{2}, {}};
  first.session = 1;
  RequestSpec second = first;
  second.follows = true;
  trace.requests = {first, second};
  const Status status = simulate(engine, trace);
  REQUIRE(!status.ok());
  CHECK(status.error().line() ==
        "arrivals: they count engine steps, and a request follows another; expected a workload without sessions");
}
