// SPDX-License-Identifier: Apache-2.0
// Recorded and Replayed: an engine that is told a run's times again decides as that run did, and says when it does not.
#include "sluice/backend/read_clock_record.hpp"
#include "sluice/backend/recorded.hpp"
#include "sluice/backend/replayed.hpp"
#include "sluice/core/random.hpp"
#include "sluice/observer/decision_log.hpp"
#include "sluice/systems/orbitflow.hpp"
#include "sluice/systems/superinfer.hpp"
#include "sluice/systems/vllm.hpp"

#include "engine/trials.hpp"
#include "support/silent_observer.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// A machine that never takes the same time twice: iterations are up to thrice as long and stall by chance, evictions
/// get only so far, idling ends late, and the clock moves whenever somebody looks.
class Noisy {
 public:
  using role = roles::Backend;
  Noisy(SmallCost world, std::uint64_t seed) : base_(world), random_(seed) {}

  [[nodiscard]] Seconds now() const { return now_ += Seconds{1.7e-5}; }
  void idle_until(Seconds when) { now_ = std::max(now_, when) + Seconds{1e-3 * random_.uniform()}; }
  template <class Transfer>
  IterationCost run(const Iteration& iteration, typename Transfer::State& state) {
    IterationCost cost = base_.run<Transfer>(iteration, state);
    const double u = random_.uniform();
    cost.duration = cost.duration * (0.7 + 2.3 * u * u * u);
    cost.stall = std::min(cost.duration, cost.stall + cost.duration * (0.1 * random_.uniform()));
    state.behind_blocks *= random_.uniform();
    now_ += cost.duration;
    return cost;
  }
  template <class Transfer, class Sink>
  void replay(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    base_.replay<Transfer>(iteration, state, sink);
  }

 private:
  BasicSimulated<SmallCost> base_;
  Random random_;
  mutable Seconds now_{0.25};
};

/// Any backend, and what each of its iterations left of the plans' deltas.
template <class Base>
struct Spied : Base {
  std::vector<double>* behind;
  Spied(Base base, std::vector<double>& all) : Base(std::move(base)), behind(&all) {}
  template <class Transfer>
  IterationCost run(const Iteration& iteration, typename Transfer::State& state) {
    const IterationCost cost = Base::template run<Transfer>(iteration, state);
    behind->push_back(state.behind_blocks);
    return cost;
  }
};

/// What each request got, and when, to the bit.
struct Tokened : SilentObserver {
  struct State {
    std::vector<std::pair<RequestId, double>> tokens;
  };
  void delivered(State& state, const RequestRow& row, Tokens, Seconds when) const {
    state.tokens.emplace_back(row.id, when.count());
  }
};

struct Outcome {
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

/// Serves a trial to its end.
template <class System, class Backend>
Outcome serve_with(const Trial& trial, Backend backend, Bytes weights) {
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
    while (next < trial.requests.size() && trial.requests[next].arrival <= engine.now())
      (void)engine.submit(trial.requests[next++]);
    if (engine.step() == Stepped::idle) {
      if (next == trial.requests.size()) break;
      engine.idle_until(trial.requests[next].arrival);
    }
  }
  REQUIRE(engine.alive() == 0);
  return {engine.template observed<DecisionLog>().text(), engine.template observed<Tokened>().tokens, engine.steps()};
}

Expected<ClockRecord> read_back(const std::string& text) {
  return read_clock_record(LineReader{std::make_unique<std::istringstream>(text), "clock.csv"});
}

template <class System>
void check_replays() {
  using Real = Spied<Recorded<Noisy>>;
  using Again = Spied<BasicReplayed<SmallCost>>;
  Random random{31};
  double left_behind = 0;
  int decided_otherwise = 0, parted = 0;
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    trial.host = std::max(trial.host, LayerBlocks{200}); // so that somebody is served
    trial.layers = std::min(trial.layers, 4);            // or the solver takes most of the time
    trial.device = std::min(trial.device, LayerBlocks{trial.layers * 16});
    for (RequestSpec& spec : trial.requests) spec.output = std::min(spec.output, Tokens{48});
    SmallCost world;
    world.rate = BytesPerSecond{5e5 + 5e6 * random.uniform()};
    if (round % 2 == 1) world.lanes = Lanes::each_way;
    const Bytes weights{1 << 20};
    const std::uint64_t noise = random();

    ClockRecord record;
    std::vector<double> behind, behind_again, unread;
    const Outcome real = serve_with<System>(trial, Real{{Noisy{world, noise}, record}, behind}, weights);
    REQUIRE(real.steps > 0);
    const Expected<ClockRecord> read = read_back(record.text());
    REQUIRE_MESSAGE(read.has_value(), read.error().line());

    Replay replay{*read};
    const Outcome again = serve_with<System>(trial, Again{{replay, world}, behind_again}, weights);
    CHECK_MESSAGE(replay.status().ok(), replay.status().error().line());
    CHECK(replay.finished());
    CHECK(again.log == real.log);
    CHECK(again.tokens == real.tokens);
    CHECK(again.steps == real.steps);
    CHECK(behind_again == behind);
    for (const double blocks : behind) left_behind += blocks;

    // Other noise is another run, and a record of other times is another replay: what is compared above can differ.
    ClockRecord other_record;
    const Outcome other = serve_with<System>(trial, Real{{Noisy{world, noise + 1}, other_record}, unread}, weights);
    CHECK(other.log != real.log);
    decided_otherwise += other.decisions() != real.decisions() ? 1 : 0;
    ClockRecord disturbed = *read;
    for (ClockEvent& event : disturbed.events) {
      event.now = event.now * 1.5;
      event.cost.duration = event.cost.duration * 1.5;
    }
    Replay elsewhen{disturbed};
    const Outcome slower = serve_with<System>(trial, Again{{elsewhen, world}, unread}, weights);
    CHECK(slower.log != real.log);
    if (!elsewhen.status().ok()) {
      ++parted;
      CHECK(elsewhen.status().error().where.find("step ") == 0);
      CHECK_FALSE(elsewhen.finished());
    }
  }
  CHECK(decided_otherwise > rounds / 2);
  CHECK(parted > rounds / 2);
  CHECK(left_behind > 0);
}

} // namespace

static_assert(Backend<Recorded<BasicSimulated<SmallCost>>>);
static_assert(Backend<BasicReplayed<SmallCost>>);

TEST_CASE("a replayed run decides as the recorded one, a disturbed one otherwise: OrbitFlow") {
  check_replays<OrbitFlow>();
}
TEST_CASE("a replayed run decides as the recorded one, a disturbed one otherwise: SuperInfer") {
  check_replays<SuperInfer>();
}
TEST_CASE("a replayed run decides as the recorded one, a disturbed one otherwise: vLLM with swapping") {
  check_replays<VllmSwap>();
}

TEST_CASE("an engine that does something else is told at which step, and goes on by the model") {
  Random random{5};
  Trial trial = random_trial(random);
  ClockRecord record;
  (void)serve_with<VllmSwap>(trial, Recorded<Noisy>{Noisy{SmallCost{}, 3}, record}, Bytes{1 << 20});
  Trial longer = trial;
  longer.requests[2].prompt += Tokens{40};
  Replay replay{record};
  const Outcome other = serve_with<VllmSwap>(longer, BasicReplayed<SmallCost>{replay, SmallCost{}}, Bytes{1 << 20});
  CHECK(other.steps > 0);
  REQUIRE_FALSE(replay.status().ok());
  const std::string line = replay.status().error().line();
  CHECK(line.find("the engine asks for") != std::string::npos);
  CHECK(line.find("as the record has it") != std::string::npos);

  ClockRecord cut = record;
  cut.events.resize(cut.events.size() / 2);
  Replay half{cut};
  (void)serve_with<VllmSwap>(trial, BasicReplayed<SmallCost>{half, SmallCost{}}, Bytes{1 << 20});
  REQUIRE_FALSE(half.status().ok());
  CHECK(half.status().error().line().find("its end") != std::string::npos);

  const Replay empty{ClockRecord{}};
  CHECK_FALSE(empty.status().ok());
}

TEST_CASE("a recorded clock stands still while nobody runs, and tells what its base told") {
  ClockRecord record;
  Recorded<Noisy> backend{Noisy{SmallCost{}, 1}, record};
  const Seconds before = backend.now();
  CHECK(backend.now() == before);
  backend.idle_until(before); // nothing to wait for
  CHECK(record.events.size() == 1);
  backend.idle_until(before + Seconds{1});
  CHECK(backend.now() > before + Seconds{1});
  CHECK(backend.now() == record.events.back().now);
  CHECK(record.events.back().asked == before + Seconds{1});
}

TEST_CASE("any record is read as it was written, to the bit") {
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
      if (random.below(4) == 0) {
        event.kind = ClockEvent::Kind::idle;
        event.asked = Seconds{odd()};
      } else {
        event.cost = {Seconds{odd()}, Seconds{odd()}};
        event.behind_blocks = odd() * 1e6;
        event.requests = static_cast<std::int64_t>(random.below(100));
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
      CHECK(a.now == b.now);
      CHECK(a.cost.duration == b.cost.duration);
      CHECK(a.cost.stall == b.cost.stall);
      CHECK(a.behind_blocks == b.behind_blocks);
    }
    CHECK(read->text() == record.text());
  }
}

TEST_CASE("a wrong record is one line that says where, what, and what would be right") {
  const std::string header = std::string{ClockRecord::header} + '\n', start = "0,start,0,0,0,0,0,0,0\n",
                    run = "0,run,1,0,1,0.5,0,3,40\n";
  CHECK(read_back(header + start + run).has_value());
  struct Wrong {
    std::string text, at, says;
  };
  for (const Wrong& wrong : {Wrong{"", "clock.csv:0", "the header is ''"},
                             {"a,b\n", "clock.csv:1", "the header is 'a,b'"},
                             {header, "clock.csv:1", "no line after the header"},
                             {header + run, "clock.csv:2", "expected 'start'"},
                             {header + start + start, "clock.csv:3", "the event is 'start'"},
                             {header + start + "0,walk,1,0,1,0,0,1,1\n", "clock.csv:3", "the event is 'walk'"},
                             {header + start + "0,run,1,0,1,0,0,1\n", "clock.csv:3", "number of fields"},
                             {header + start + "0,run,1,0,1,0,0,1,1,1\n", "clock.csv:3", "number of fields"},
                             {header + start + "1,run,1,0,1,0,0,1,1\n", "clock.csv:3", "the step is 1; expected 0"},
                             {header + start + run + run, "clock.csv:4", "the step is 0; expected 1"},
                             {header + start + "0,run,1,0,-1,0,0,1,1\n", "clock.csv:3", "duration_s is '-1'"},
                             {header + start + "0,run,1,0,nan,0,0,1,1\n", "clock.csv:3", "duration_s is 'nan'"},
                             {header + start + "0,run,inf,0,1,0,0,1,1\n", "clock.csv:3", "now_s is 'inf'"},
                             {header + start + "0,run,1,0,1,,0,1,1\n", "clock.csv:3", "stall_s is ''"},
                             {header + start + "0,run,1,0,1,0,0,1.5,1\n", "clock.csv:3", "requests is '1.5'"},
                             {header + start + "0,run,1,0,1,0,0,1,99999999999999999999\n", "clock.csv:3", "tokens is"},
                             {header + start + run + "1,idle,0.5,0.5,0,0,0,0,0\n", "clock.csv:4", "before the last"}}) {
    CAPTURE(wrong.text);
    const Expected<ClockRecord> read = read_back(wrong.text);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().where == wrong.at);
    CHECK(read.error().line().find(wrong.says) != std::string::npos);
    CHECK_FALSE(read.error().expected.empty());
  }
}
