// SPDX-License-Identifier: Apache-2.0
// Recorded and Replayed: an engine on a replayed clock repeats the recorded decisions, and reports where it diverges.
#include "sluice/core/random.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/report/observer/decision_log.hpp"
#include "sluice/world/read_clock_record.hpp"
#include "sluice/world/real/async_thread.hpp"
#include "sluice/world/recorded.hpp"
#include "sluice/world/replayed.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// A machine that never takes the same time twice: iterations are up to three times as long and stall at random,
/// evictions progress partly, idling ends late, and the clock moves whenever it is read. In real time it also plans on
/// a thread, which is ready at random, and sometimes a request ends early or fails.
template <bool real>
class Noisy {
 public:
  using role = roles::Backend;
  static constexpr bool keeps_requests = false;
  static constexpr bool real_time = real;
  static constexpr bool ends_requests = real;
  static constexpr bool plans_async = real;
  static constexpr bool predicts = false;
  Noisy(SmallCost world, std::uint64_t seed) : all_(std::make_shared<All>(world, seed)) {}

  [[nodiscard]] Seconds now() const { return all_->now += Seconds{1.7e-5}; }
  void idle_until(Seconds when) { all_->now = std::max(all_->now, when) + Seconds{1e-3 * all_->random.uniform()}; }
  void idle_until(Seconds when, Doorbell& bell) requires real {
    if (std::isinf(when.count()) || all_->random.below(2) == 0) when = now() + Seconds{0.2 * all_->random.uniform()};
    (void)bell.hear();
    idle_until(when);
  }
  Status load() requires real { return {}; }
  template <class Transfer>
  void launch(const Iteration& iteration) {
    all_->base.template launch<Transfer>(iteration);
  }
  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    Random& random = all_->random;
    IterationCost cost = all_->base.template wait<Transfer>(iteration, state);
    const double u = random.uniform();
    cost.duration = cost.duration * (0.7 + 2.3 * u * u * u);
    cost.stall = std::min(cost.duration, cost.stall + cost.duration * (0.1 * random.uniform()));
    const double background = state.background_blocks * random.uniform();
    if (real) state.clear();
    state.background_blocks = background;
    all_->now += cost.duration;
    all_->outcomes.clear();
    for (const Claim& claim : iteration.batch) {
      if (random.below(60) == 0)
        all_->outcomes.push_back({claim.slot, false, {}});
      else if (random.below(60) == 0)
        all_->outcomes.push_back({claim.slot, true, "it is lost, and so is its KV"});
    }
    return cost;
  }
  template <class Transfer, class Sink>
  void replay(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    all_->base.template replay<Transfer>(iteration, state, sink);
  }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const requires real { return all_->outcomes; }
  void async(void (*work)(void*), void* what) requires real { all_->planner.start(work, what); }
  [[nodiscard]] bool async_done() requires real {
    if (all_->random.below(3) == 0) return false;
    all_->planner
        .join(); // readiness is random only: it does not depend on how fast this machine plans under other load
    return true;
  }
  void join_async() requires real {
    all_->planner.join();
    all_->now += Seconds{1e-3 * all_->random.uniform()};
  }

 private:
  struct All {
    All(SmallCost world, std::uint64_t seed) : base(world), random(seed) {}
    BasicSimulated<SmallCost> base;
    Random random;
    Seconds now{0.25};
    std::vector<RequestOutcome> outcomes;
    AsyncThread planner;
  };
  std::shared_ptr<All> all_;
};

/// Any backend, which also records the part of the plans' deltas that each iteration left.
template <class Base>
struct Spied : Base {
  std::vector<double>* background;
  Spied(Base base, std::vector<double>& all) : Base(std::move(base)), background(&all) {}
  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    const IterationCost cost = Base::template wait<Transfer>(iteration, state);
    background->push_back(state.background_blocks);
    return cost;
  }
};

/// Each request's tokens and their times, to the bit.
struct Tokened {
  using role = roles::Observer;
  using hears = Events<events::Delivered>;
  static constexpr bool wants_timeline = false;
  struct State {
    std::vector<std::pair<RequestId, double>> tokens;
  };
  void on(State& state, const events::Delivered& event) const {
    state.tokens.emplace_back(event.row.id, event.when.count());
  }
};

struct Served {
  std::string log;
  std::vector<std::pair<RequestId, double>> tokens;
  std::int64_t steps = 0;
  /// The decisions without their times.
  [[nodiscard]] std::vector<std::string> decisions() const {
    std::vector<std::string> all;
    std::istringstream lines{log};
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = line.find("  ");
      const std::size_t end = line.find(", predicted");
      all.push_back(line.substr(at, end == std::string::npos ? end : end - at));
    }
    return all;
  }
};

/// Events of an engine between its steps: users cancel and timers ring, at random or as recorded.
struct Between {
  std::optional<Random> random{};
  const Replay* replay = nullptr;

  /// Performs the next such event, before anything else; returns false if there is none.
  template <class E>
  bool happens(E& engine, std::size_t submitted) {
    if (replay != nullptr) return replay->repeat(engine, static_cast<std::int64_t>(submitted));
    if (!random) return false;
    if (random->below(4) == 0) { // a timer that rings slightly late
      engine.release_due(engine.now() + Seconds{1e-3 * random->uniform()});
      CHECK(engine.next_due() > engine.now());
    }
    for (const RequestRow& row : engine.view().rows)
      if (row.phase != Phase::ended && random->below(150) == 0) return engine.cancel(row.id).ok();
    return false;
  }
};

/// Serves a trial to its end.
template <class System, class Backend>
Served serve_with(const Trial& trial, Backend backend, Bytes weights, Between between = {}) {
  using E = With<System, SmallCost, Backend, DecisionLog, Tokened>;
  auto made = E::make({.limits = {.batch = trial.batch, .batch_tokens = Tokens{64}, .max_context = Tokens{256}},
                       .geometry = {trial.layers, Bytes{4096}, weights, Bytes{3000}},
                       .device_blocks = trial.device,
                       .host_blocks = trial.host,
                       .cost = SmallCost{},
                       .backend = std::move(backend)});
  REQUIRE(made.has_value());
  E& engine = *made;
  std::size_t next = 0;
  for (int guard = 0; guard < 200'000; ++guard) {
    if (between.happens(engine, next)) continue;
    if (next < trial.requests.size() && trial.requests[next].arrival <= engine.now()) {
      (void)engine.submit(trial.requests[next++]);
      continue;
    }
    const Stepped stepped = engine.step();
    if (stepped == Stepped::failed) FAIL(engine.status().error().line());
    if (stepped == Stepped::idle) {
      if (next == trial.requests.size()) break;
      if constexpr (E::backend_type::real_time) {
        Doorbell bell;
        engine.idle_until(trial.requests[next].arrival, bell);
      } else {
        engine.idle_until(trial.requests[next].arrival);
      }
    }
  }
  REQUIRE(engine.alive() == 0);
  return {engine.template observed<DecisionLog>().text(), engine.template observed<Tokened>().tokens, engine.steps()};
}

Expected<ClockRecord> read_back(const std::string& text) {
  return read_clock_record(LineReader{std::make_unique<std::istringstream>(text), "clock.csv"});
}

template <class System, bool real_time>
void check_replays(int rounds) {
  using BackendWorld = Noisy<real_time>;
  using Real = Spied<Recorded<BackendWorld>>;
  using Again = Spied<Replayed<BackendWorld, SmallCost>>;
  Random random{31};
  double left_in_background = 0;
  std::int64_t late = 0, ready = 0, ended = 0, failed = 0, cancelled = 0, released = 0;
  int decided_otherwise = 0, parted = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    trial.host = std::max(trial.host, LayerBlocks{200}); // so that at least one request is served
    trial.layers = std::min(trial.layers, 4);            // otherwise OrbitFlow's solver takes most of the time
    trial.batch = std::min(trial.batch, 4);
    trial.device = std::min(trial.device, LayerBlocks{trial.layers * 16});
    if (trial.requests.size() > 10) trial.requests.resize(10);
    for (RequestSpec& spec : trial.requests) spec.output = std::min(spec.output, Tokens{40});
    SmallCost world;
    world.rate = BytesPerSecond{5e5 + 5e6 * random.uniform()};
    if (round % 2 == 1) world.lanes = Lanes::each_way;
    const Bytes weights{1 << 20};
    const std::uint64_t noise = random();

    ClockRecord record;
    std::vector<double> background, background_again, unread;
    const std::uint64_t leaves = random();
    const Served real = serve_with<System>(trial, Real{{BackendWorld{world, noise}, record}, background}, weights,
                                           {.random = Random{leaves}});
    REQUIRE(real.steps > 0);
    const Expected<ClockRecord> read = read_back(record.text());
    REQUIRE_MESSAGE(read.has_value(), read.error().line());

    Replay replay{*read};
    const Served again =
        serve_with<System>(trial, Again{{replay, world}, background_again}, weights, {.replay = &replay});
    CHECK_MESSAGE(replay.status().ok(), replay.status().error().line());
    CHECK(replay.finished());
    CHECK(again.log == real.log);
    CHECK(again.tokens == real.tokens);
    CHECK(again.steps == real.steps);
    CHECK(background_again == background);
    for (const double blocks : background) left_in_background += blocks;
    for (const ClockEvent& event : read->events) {
      late += event.kind == ClockEvent::Kind::late;
      ready += event.kind == ClockEvent::Kind::ready;
      cancelled += event.kind == ClockEvent::Kind::cancel;
      released += event.kind == ClockEvent::Kind::release;
      for (const ClockEvent::Outcome& outcome : event.outcomes) ++(outcome.failed ? failed : ended);
    }

    // Other noise gives another run, and a record with other times gives another replay, so the comparisons above can
    // fail.
    ClockRecord other_record;
    const Served other =
        serve_with<System>(trial, Real{{BackendWorld{world, noise + 1}, other_record}, unread}, weights);
    CHECK(other.log != real.log);
    decided_otherwise += other.decisions() != real.decisions() ? 1 : 0;
    ClockRecord disturbed = *read;
    for (ClockEvent& event : disturbed.events) {
      event.now = event.now * 1.5;
      event.cost.duration = event.cost.duration * 1.5;
    }
    Replay elsewhen{disturbed};
    const Served slower = serve_with<System>(trial, Again{{elsewhen, world}, unread}, weights);
    CHECK(slower.log != real.log);
    if (!elsewhen.status().ok()) {
      ++parted;
      CHECK(elsewhen.status().error().where.find("step ") == 0);
      CHECK_FALSE(elsewhen.finished());
    }
  }
  CHECK(decided_otherwise > rounds / 2);
  CHECK(parted > rounds / 2);
  if (!real_time) CHECK(left_in_background > 0);
  const bool beside = real_time && System::lookahead_type::ahead;
  CHECK(cancelled > 0);
  CHECK((released > 0) == System::delivery_type::deposits);
  CHECK((late > 0) == beside);
  CHECK((ready > 0) == beside);
  CHECK((ended > 0) == real_time);
  CHECK((failed > 0) == real_time);
}

} // namespace

static_assert(Backend<Recorded<BasicSimulated<SmallCost>>>);
static_assert(Backend<Replayed<BasicSimulated<SmallCost>, SmallCost>>);
static_assert(!EndsRequests<Recorded<Simulated>> && !PlansAsync<Replayed<Simulated, SmallCost>>);
static_assert(EndsRequests<Recorded<Noisy<true>>> && PlansAsync<Replayed<Noisy<true>, SmallCost>>);
static_assert(is_real_time<Recorded<Noisy<true>>> && is_real_time<Replayed<Noisy<true>, SmallCost>>);

TEST_CASE("a replayed run repeats the recorded decisions; a disturbed one does not") {
  SUBCASE("OrbitFlow, in virtual time") { check_replays<OrbitFlow, false>(3); }
  SUBCASE("OrbitFlow, in real time") { check_replays<OrbitFlow, true>(4); }
  SUBCASE("SuperInfer, in real time") { check_replays<SuperInfer, true>(10); }
  SUBCASE("vLLM with swapping, in virtual time") { check_replays<VllmSwap, false>(10); }
}

TEST_CASE("an engine that diverges from the record is reported with its step, and continues by the model") {
  using Virtual = Replayed<Noisy<false>, SmallCost>;
  Random random{5};
  Trial trial = random_trial(random);
  ClockRecord record;
  (void)serve_with<VllmSwap>(trial, Recorded<Noisy<false>>{Noisy<false>{SmallCost{}, 3}, record}, Bytes{1 << 20});
  Trial longer = trial;
  longer.requests[2].prompt += Tokens{40};
  Replay replay{record};
  const Served other = serve_with<VllmSwap>(longer, Virtual{replay, SmallCost{}}, Bytes{1 << 20});
  CHECK(other.steps > 0);
  REQUIRE_FALSE(replay.status().ok());
  const std::string line = replay.status().error().line();
  CHECK(line.find("the engine asks for") != std::string::npos);
  CHECK(line.find("as the record has it") != std::string::npos);

  ClockRecord cut = record;
  cut.events.resize(cut.events.size() / 2);
  Replay half{cut};
  (void)serve_with<VllmSwap>(trial, Virtual{half, SmallCost{}}, Bytes{1 << 20});
  REQUIRE_FALSE(half.status().ok());
  CHECK(half.status().error().line().find("its end") != std::string::npos);

  const Replay empty{ClockRecord{}};
  CHECK_FALSE(empty.status().ok());
}

TEST_CASE("a recorded clock stands still between events, and repeats its base's times") {
  ClockRecord record;
  Recorded<Noisy<true>> backend{Noisy<true>{SmallCost{}, 1}, record};
  const Seconds before = backend.now();
  CHECK(backend.now() == before);
  backend.idle_until(before); // nothing to wait for
  CHECK(record.events.size() == 1);
  backend.idle_until(before + Seconds{1});
  CHECK(backend.now() > before + Seconds{1});
  CHECK(backend.now() == record.events.back().now);
  CHECK(record.events.back().asked == before + Seconds{1});
}

TEST_CASE("any record is read back bit for bit") {
  Random random{77};
  for (int round = 0; round < 200; ++round) {
    ClockRecord record;
    record.events.push_back({.kind = ClockEvent::Kind::start, .now = Seconds{random.uniform()}});
    const auto odd = [&] {
      const double tiny = random.below(20) == 0 ? 1e-300 : 1;
      return random.below(5) == 0 ? 0.0 : random.uniform() * tiny;
    };
    for (std::uint64_t i = random.below(30); i > 0; --i) {
      ClockEvent event;
      event.now = record.events.back().now + Seconds{odd() * 1e3};
      if (random.below(6) == 0) {
        event = detail::plain_event(random.below(2) == 0 ? ClockEvent::Kind::late : ClockEvent::Kind::joined);
        event.now = record.events.back().now;
      } else if (random.below(4) == 0) {
        event.kind = ClockEvent::Kind::idle;
        event.asked = Seconds{odd()};
      } else if (random.below(8) == 0) {
        const ClockEvent cancel = detail::cancel_event(Slot{static_cast<std::uint32_t>(random())},
                                                       static_cast<std::int64_t>(random.below(9)));
        event = cancel;
        event.now = record.events.back().now;
      } else if (random.below(8) == 0) {
        event = detail::loaded_event(Slot{static_cast<std::uint32_t>(random())});
        if (random.below(2) == 0) event.kind = ClockEvent::Kind::loading;
        event.now = record.events.back().now;
      } else if (random.below(8) == 0) {
        event = detail::name_event(RequestId{static_cast<std::uint32_t>(random())}, random.below(9));
        event.now = record.events.back().now;
        for (std::uint64_t n = random.below(4); n > 0; --n)
          event.keys.push_back(BlockKey{random.below(3) == 0 ? random.below(20) : random()});
      } else {
        event.cost = {Seconds{odd()}, Seconds{odd()}, Seconds{odd()}};
        event.background_blocks = odd() * 1e6;
        event.requests = static_cast<std::int64_t>(random.below(100));
        event.batch = random();
        for (std::uint64_t n = random.below(3); n > 0; --n) {
          const bool failed = random.below(2) == 0, recomputes = failed && random.below(2) == 0;
          event.outcomes.push_back({Slot{static_cast<std::uint32_t>(random())}, failed, "lost, by 1, 2", recomputes});
        }
        event.tokens = std::numeric_limits<std::int64_t>::max() - static_cast<std::int64_t>(random.below(5));
      }
      record.events.push_back(event);
    }
    const Expected<ClockRecord> read = read_back(record.text());
    REQUIRE_MESSAGE(read.has_value(), read.error().line());
    REQUIRE(read->events.size() == record.events.size());
    for (std::size_t i = 0; i < record.events.size(); ++i) {
      const ClockEvent &a = record.events[i], &b = read->events[i];
      CHECK(a.same_question(b));
      CHECK(a.kind == b.kind);
      CHECK(a.keys == b.keys);
      CHECK(a.now == b.now);
      CHECK(a.cost.duration == b.cost.duration);
      CHECK(a.cost.stall == b.cost.stall);
      CHECK(a.cost.link == b.cost.link);
      CHECK(a.background_blocks == b.background_blocks);
    }
    CHECK(read->text() == record.text());
  }
}

TEST_CASE("a malformed record is reported in one line: where, what, and what was expected") {
  const std::string header = std::string{ClockRecord::header} + '\n', start = "0,start,0,0,0,0,0,0,0,0,0,0,\n",
                    run = "0,run,1,0,1,0.5,0,0,3,40,7,0,\n";
  CHECK(read_back(header + start + run).has_value());
  struct Wrong {
    std::string text, at, says;
  };
  for (const Wrong& wrong :
       {Wrong{"", "clock.csv:0", "the header is ''"},
        {"a,b\n", "clock.csv:1", "the header is 'a,b'"},
        {header, "clock.csv:1", "no line after the header"},
        {header + run, "clock.csv:2", "expected 'start'"},
        {header + start + start, "clock.csv:3", "the event is 'start'"},
        {header + start + "0,walk,1,0,1,0,0,0,1,1,7,0,\n", "clock.csv:3", "the event is 'walk'"},
        {header + start + "0,run,1,0,1,0,0,0,1\n", "clock.csv:3", "number of fields"},
        {header + start + "0,run,1,0,1,0,0,0,1,1,1\n", "clock.csv:3", "number of fields"},
        {header + start + "1,run,1,0,1,0,0,0,1,1,7,0,\n", "clock.csv:3", "the step is 1; expected 0"},
        {header + start + run + run, "clock.csv:4", "the step is 0; expected 1"},
        {header + start + "0,run,1,0,-1,0,0,0,1,1,7,0,\n", "clock.csv:3", "duration_s is '-1'"},
        {header + start + "0,run,1,0,nan,0,0,0,1,1,7,0,\n", "clock.csv:3", "duration_s is 'nan'"},
        {header + start + "0,run,inf,0,1,0,0,0,1,1,7,0,\n", "clock.csv:3", "now_s is 'inf'"},
        {header + start + "0,run,1,0,1,,0,0,1,1,7,0,\n", "clock.csv:3", "stall_s is ''"},
        {header + start + "0,run,1,0,1,0,0,0,1.5,1,7,0,\n", "clock.csv:3", "requests is '1.5'"},
        {header + start + "0,run,1,0,1,0,0,0,1,99999999999999999999,7,0,\n", "clock.csv:3", "tokens is"},
        {header + start + run + "1,idle,0.5,0.5,0,0,0,0,0,0,0,0,\n", "clock.csv:4", "before the last"},
        {header + start + "0,failed,0,0,0,0,0,0,0,0,0,0,why\n", "clock.csv:3", "outside of an iteration"},
        {header + start + run + "1,failed,0,0,0,0,0,0,0,0,0,-1,why\n", "clock.csv:4", "slot is '-1'"},
        {header + start + "0,run,1,0,1,0,-2,0,1,1,7,0,\n", "clock.csv:3", "link_s is '-2'"},
        {header + start + "0,run,1,0,1,0,0,0,1,1,7,0,why\n", "clock.csv:3", "a 'run' has the reason 'why'"},
        {header + start + "0,name,0,0,0,0,0,0,0,2,0,0,5f 1g\n", "clock.csv:3", "a key is '1g'"},
        {header + start + "0,name,0,0,0,0,0,0,0,2,0,0,5f  1\n", "clock.csv:3", "a key is ''"},
        {header + start + "0,name,0,0,0,0,0,0,0,2,0,0,5f \n", "clock.csv:3", "a key is '5f'"},
        {header + start + "0,name,0,0,0,0,0,0,0,2,0,0,1ffffffffffffffff\n", "clock.csv:3", "a key is"}}) {
    CAPTURE(wrong.text);
    const Expected<ClockRecord> read = read_back(wrong.text);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().where == wrong.at);
    CHECK(read.error().line().find(wrong.says) != std::string::npos);
    CHECK_FALSE(read.error().expected.empty());
  }
}
