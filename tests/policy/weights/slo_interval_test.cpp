// SPDX-License-Identifier: Apache-2.0
// Select-N's interval: the rule against all intervals, the record against the evaluator, refusals against both.
#include "sluice/core/random.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"
#include "sluice/policy/weights/slo_interval.hpp"

#include "engine/trials.hpp"
#include "policy/weights/round_machine.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Computation that grows with the tokens, as on a real machine: weights are read once per batch, KV per context token.
struct GrowingCost {
  using role = roles::Cost;
  struct State {};
  double read_s = 1e-3;
  double token_s = 1e-5;
  double context_s = 1e-7;
  double around_s = 1e-3;
  BytesPerSecond rate{1e9};

  [[nodiscard]] StepTime step(const Work& work) const {
    double context = static_cast<double>(work.decode_context.count());
    for (const ChunkWork& chunk : work.chunks) context += static_cast<double>((chunk.fresh + chunk.cached).count());
    const double tokens = token_s * static_cast<double>(work.tokens().count());
    return {Seconds{around_s}, Seconds{std::max(read_s, tokens) + context_s * context}, Seconds{around_s}};
  }
  [[nodiscard]] LinkCost link() const { return {rate, Seconds{1e-6}}; }
  [[nodiscard]] const GrowingCost& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};

struct World {
  GrowingCost cost;
  Geometry geometry;
};

World random_world(Random& random) {
  World world;
  world.geometry = {4 + static_cast<int>(random.below(60)), Bytes{4096}, Bytes{1'000'000}};
  world.cost.read_s = 2e-4 + 1e-3 * random.uniform();
  world.cost.token_s = 1e-6 + 1e-5 * random.uniform();
  world.cost.context_s = 1e-8 + 1e-7 * random.uniform();
  world.cost.around_s = 2e-3 * random.uniform();
  world.cost.rate = BytesPerSecond{1e6 / (world.cost.read_s * (0.3 + 12 * random.uniform()))};
  return world;
}

/// The smallest of all intervals with which the work takes at most `slo`; 0: none. Uses only the evaluator.
int smallest_by_search(const World& world, const Work& work, Seconds slo) {
  StreamedStep step;
  for (int interval = 1; interval <= world.geometry.layers; ++interval)
    if (step.of(world.cost, world.geometry, work, interval_level(world.geometry, interval).plan) <= slo * (1 + 1e-9))
      return interval;
  return 0;
}

InferencePhase random_phase(Random& random) {
  return random.below(2) == 0 ? InferencePhase::prefill : InferencePhase::decode;
}

IntervalQuestion<GrowingCost> question(const World& world, InferencePhase phase, const Work& work, std::int64_t batch,
                                       Tokens length) {
  return {world.cost, world.geometry, phase, work, batch, length};
}

struct Scene {
  World world;
  View view;
  std::vector<RequestRow> rows;
  std::vector<Claim> claims;

  explicit Scene(const World& of) : world(of) { view.geometry = of.geometry; }
  void add(Tokens context, Seconds tbt) {
    RequestRow row;
    row.spec = RequestSpec{.prompt = context, .output = Tokens{100}, .slo = {.tbt = tbt}};
    row.computed = context;
    row.generated = Tokens{1};
    claims.push_back({Slot{static_cast<std::uint32_t>(rows.size())}, Tokens{1}, Tokens{0}, true});
    rows.push_back(row);
  }
  [[nodiscard]] WeightsTask<GrowingCost> task(LayerBlocks demand, LayerBlocks own) {
    view.rows = rows;
    Work steady;
    for (const RequestRow& row : rows) steady.decode_context += row.context() + Tokens{1};
    steady.decodes = steady.samples = static_cast<std::int64_t>(rows.size());
    return {view, world.cost, claims, demand, own, steady};
  }
};

SLUICE_CONSERVES(SelectN)
using SelectNEvaluated = With<SelectN, SloInterval>;
SLUICE_CONSERVES(SelectNEvaluated)

} // namespace

TEST_CASE("Select-N takes the smallest interval that meets the SLO, like a search through all intervals") {
  Random random{79};
  int streamed = 0;
  for (int trial = 0; trial < 600; ++trial) {
    Scene scene{random_world(random)};
    Seconds tightest{std::numeric_limits<double>::infinity()};
    for (std::uint64_t i = 0; i < 1 + random.below(8); ++i) {
      scene.add(Tokens{static_cast<std::int64_t>(1 + random.below(4000))}, Seconds{1e9});
    }
    const auto task = scene.task(LayerBlocks{0}, LayerBlocks{0});
    const Seconds resident = scene.world.cost.step(task.steady).total(scene.world.geometry.layers);
    for (RequestRow& row : scene.rows) {
      row.spec.slo.tbt = resident * (0.95 + 3 * random.uniform());
      tightest = std::min(tightest, row.spec.slo.tbt);
    }
    SloInterval::State state;
    std::vector<WeightsLevel> levels;
    SloInterval{}.offer(task, state, levels);
    const int expected = smallest_by_search(scene.world, task.steady, tightest);
    INFO(scene.world.geometry.layers << " layers, interval " << expected);
    const WeightsPlan plan = expected == 0 ? WeightsPlan{} : interval_level(scene.world.geometry, expected).plan;
    CHECK(levels.empty() == (plan.level < 1));
    if (levels.empty()) continue;
    ++streamed;
    StreamedStep step;
    const WeightsPlan& taken = levels.front().plan; // equally many layers, spaced most evenly: never slower
    CHECK(taken.freed == plan.freed);
    CHECK(step(task, taken) <= step(task, plan) * (1 + 1e-9));
    int longer = taken.streamed.lowest() + 1;
    CHECK(taken.streamed == interval_level(scene.world.geometry, longer).plan.streamed);
    CHECK(interval_level(scene.world.geometry, ++longer).plan.streamed.count() < plan.streamed.count());
    for (std::size_t i = 0; i < levels.size(); ++i) {
      CHECK(step(task, levels[i].plan) <= tightest * (1 + 1e-9));
      CHECK((i == 0 || levels[i].plan.level < levels[i - 1].plan.level));
    }
  }
  CHECK(streamed > 300);
}

TEST_CASE("offloadable layers: the count's ceiling never offloads more than the SLO allows; the printed floor does") {
  Random random{80};
  int printed_exceeds = 0, meets = 0, counted = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const World world = random_world(random);
    Work work;
    work.decodes = work.samples = 1 + static_cast<std::int64_t>(random.below(64));
    work.decode_context = Tokens{work.decodes * static_cast<std::int64_t>(1 + random.below(2000))};
    const Seconds resident = world.cost.step(work).total(world.geometry.layers);
    const Seconds slo = resident * (1 + 2 * random.uniform());
    const auto asked = question(world, InferencePhase::decode, work, work.decodes, Tokens{1});
    const int most = EvaluatedInterval::counted_layers(asked, slo);
    if (most < 1) continue;
    ++counted;
    const int layers = world.geometry.layers;
    const auto offloads = [&](int interval) { return interval_level(world.geometry, interval).plan.streamed.count(); };
    const int interval = EvaluatedInterval::counted_interval(asked, slo);
    CHECK(offloads(interval) <= most);
    if (interval > 1) CHECK(layers / (interval - 1) > most); // it is the smallest such interval
    printed_exceeds += offloads(layers / most) > most ? 1 : 0;
    StreamedStep step;
    meets += step.of(world.cost, world.geometry, work, interval_level(world.geometry, interval).plan) <= slo ? 1 : 0;
  }
  CHECK(counted > 500);
  CHECK(printed_exceeds > 50);
  CHECK_MESSAGE(meets < counted, "a sum of transfers within the SLO does not hide each one: the evaluator decides");
}

TEST_CASE(
    "a recorded interval meets the SLO for any question within the record, and equals the evaluator's at its points") {
  Random random{81};
  int exact = 0, larger = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const World world = random_world(random);
    const IntervalGrid grid{.max_batch = 32,
                            .least_length = Tokens{16},
                            .max_length = Tokens{2048},
                            .slo_step = Seconds{1e-3},
                            .slo_steps = 300};
    std::int64_t told = 0;
    const IntervalRecord record =
        record_intervals(world.cost, world.geometry, {"m", "d", "t"}, grid, [&](std::int64_t done, std::int64_t all) {
          CHECK(done == ++told);
          CHECK(all == 2 * grid.batches() * grid.lengths());
        });
    CHECK(told == 2 * grid.batches() * grid.lengths());
    const RecordedInterval source{&record};
    for (int i = 0; i < 100; ++i) {
      const InferencePhase phase = random_phase(random);
      const auto batch = static_cast<std::int64_t>(1 + random.below(32));
      const Tokens length{static_cast<std::int64_t>(1 + random.below(2048))};
      RecordedWork recorded;
      const Work& work = recorded.of(phase, batch, length);
      const Seconds resident = world.cost.step(work).total(world.geometry.layers);
      const Seconds slo = resident * (0.9 + 2 * random.uniform());
      RecordedInterval::State state;
      const int interval = source.smallest(question(world, phase, work, batch, length), state, slo);
      const int least = smallest_by_search(world, work, slo);
      if (interval == 0) continue;
      REQUIRE(least > 0);
      CHECK(interval >= least);
      StreamedStep step;
      CHECK(step.of(world.cost, world.geometry, work, interval_level(world.geometry, interval).plan) <=
            slo * (1 + 1e-9));
      larger += interval > least ? 1 : 0;
    }
    for (int i = 0; i < 100; ++i) { // a point of the grid, an SLO of the grid
      const InferencePhase phase = random_phase(random);
      const int b = static_cast<int>(random.below(static_cast<std::uint64_t>(grid.batches())));
      const int l = static_cast<int>(random.below(static_cast<std::uint64_t>(grid.lengths())));
      RecordedWork recorded;
      const Work& work = recorded.of(phase, IntervalGrid::batch(b), grid.length(l));
      const Seconds slo = grid.slo_step * static_cast<double>(1 + random.below(300));
      int least = smallest_by_search(world, work, slo);
      if (least > 0 && interval_level(world.geometry, least).plan.level < 1)
        least = 0; // frees nothing, so it is not recorded
      const IntervalAnswer answer = record.look_up(phase, IntervalGrid::batch(b), grid.length(l), slo);
      CHECK(answer.interval == least);
      CHECK(answer.recorded);
      CHECK(answer.resident == world.cost.step(work).total(world.geometry.layers));
      exact += least > 0 ? 1 : 0;
    }
  }
  CHECK(exact > 500);
  CHECK(larger > 100);
}

TEST_CASE("an engine's own record, made point by point, equals the record made at once") {
  Random random{82};
  const World world = random_world(random);
  const RecordedInterval lazy;
  RecordedInterval::State state;
  StreamedStep step;
  for (int i = 0; i < 300; ++i) {
    const InferencePhase phase = random_phase(random);
    const auto batch = static_cast<std::int64_t>(1 + random.below(300));
    const Tokens length{static_cast<std::int64_t>(1 + random.below(9000))};
    RecordedWork recorded;
    const Work& asked = recorded.of(phase, batch, length);
    const Seconds slo = world.cost.step(asked).total(world.geometry.layers) * (0.9 + 3 * random.uniform());
    const int interval = lazy.smallest(question(world, phase, asked, batch, length), state, slo);
    RecordedWork rounded;
    const Work& neighbour =
        rounded.of(phase, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(batch))),
                   Tokens{std::max<std::int64_t>(
                       16, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length.count()))))});
    int expected = smallest_by_search(world, neighbour, Seconds{0.002} * std::floor(slo.count() / 0.002));
    if (expected > 0 && interval_level(world.geometry, expected).plan.level < 1) expected = 0;
    CHECK(interval == expected);
  }
}

TEST_CASE("a longer interval in force stays until KV needs the memory of a shorter one") {
  Machine machine{40, 1, 4, 40};
  SloInterval::State state;
  std::vector<WeightsLevel> levels;
  const auto interval = [&](double slo_s, std::int64_t demand, std::int64_t own) {
    machine.rows[0].spec.slo.tbt = Seconds{slo_s};
    levels.clear();
    SloInterval{}.offer(machine.task(LayerBlocks{demand}, LayerBlocks{own}), state, levels);
    return levels.empty() ? 0 : levels.front().plan.streamed.lowest() + 1;
  };
  CHECK(interval(40, 0, 0) == 5); // 4 layers hide one transfer: the first question, nothing in force
  CHECK(interval(80, 0, 100) == 5);
  CHECK(interval(80, 7'000, 0) == 5); // 8 layers of 1,000 blocks less the slot
  const int shorter = interval(80, 7'001, 0);
  CHECK(shorter < 5);
  CHECK(interval(40, 0, 0) == 5); // the SLO has priority
  CHECK(interval(30, 0, 0) == 0); // cannot be met: nothing streams
  CHECK(interval(80, 0, 0) == 0); // nothing needs to stream
  CHECK(interval(80, 1, 0) == shorter);
}

TEST_CASE("as many joining requests count as fit the memory that their own interval frees") {
  Random random{86};
  int fewer = 0, alone = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    Scene scene{random_world(random)};
    const bool of_one = trial % 10 == 0; // there is less memory than its first request needs
    const std::size_t count = 2 + random.below(30);
    const std::size_t required = of_one ? 1 : 1 + random.below(count);
    const Geometry& geometry = scene.world.geometry;
    std::vector<LayerBlocks> demand(count + 1);
    for (std::size_t i = 0; i < count; ++i) {
      const auto blocks = static_cast<std::int64_t>(1 + random.below(200));
      scene.add(Tokens{16 * blocks}, Seconds{0.02 + 0.2 * random.uniform()});
      scene.claims[i].required = i < required;
      scene.rows[i].blocks = blocks_for(scene.rows[i].computed, Tokens{16});
      demand[i + 1] = demand[i] + across_layers(scene.rows[i].blocks + TokenBlocks{1}, geometry.layers);
    }
    const double needed =
        of_one ? static_cast<double>(demand[1].count()) : 1.2 * static_cast<double>(demand[count].count());
    const LayerBlocks own{static_cast<std::int64_t>(random.uniform() * needed)};
    const auto plan_of = [&](std::size_t prefix) {
      Work work;
      Seconds slo{1e9};
      for (std::size_t i = 0; i < prefix; ++i) {
        slo = std::min(slo, scene.rows[i].spec.slo.tbt);
        work.decode_context += scene.rows[i].context() + Tokens{1};
      }
      work.decodes = work.samples = static_cast<std::int64_t>(prefix);
      const int interval = smallest_by_search(scene.world, work, slo);
      return interval == 0 ? WeightsPlan{} : interval_level(geometry, interval).plan;
    };
    std::size_t prefix = count;
    while (prefix > required && demand[prefix] > own + plan_of(prefix).freed) --prefix;
    LayerBlocks freed = plan_of(prefix).freed;
    if (prefix == 1 && demand[1] > own + freed) { // alone, it must be able to end
      for (int interval = geometry.layers; interval >= 1; --interval) {
        const LayerBlocks wider = interval_level(geometry, interval).plan.freed;
        if (demand[1] > own + wider) continue;
        freed = wider;
        break;
      }
      alone += 1;
    }
    SloInterval::State state;
    std::vector<WeightsLevel> levels;
    SloInterval{}.offer(scene.task(demand[count], own), state, levels);
    CHECK((levels.empty() ? LayerBlocks{0} : levels.front().plan.freed) == freed);
    fewer += prefix < count && plan_of(prefix).freed > plan_of(count).freed ? 1 : 0;
  }
  CHECK(fewer > 20);
  CHECK(alone > 10);
}

TEST_CASE("a guarantee is met by an interval that frees enough within the SLO, and no request with such an interval is "
          "refused") {
  Random random{83};
  int refused = 0, promised = 0, too_large = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    const World world = random_world(random);
    const Geometry& geometry = world.geometry;
    RequestSpec spec;
    spec.prompt = Tokens{static_cast<std::int64_t>(1 + random.below(6000))};
    spec.output = Tokens{static_cast<std::int64_t>(2 + random.below(1000))};
    Work last;
    last.decodes = last.samples = 1;
    last.decode_context = spec.prompt + spec.output;
    const Seconds resident = world.cost.step(last).total(geometry.layers);
    spec.slo.tbt = resident * (0.8 + 6 * random.uniform());
    const LayerBlocks room{static_cast<std::int64_t>(
        random.below(static_cast<std::uint64_t>(geometry.blocks_in(geometry.layers * 1.3).count())))};
    const Limits limits;
    const LayerBlocks own{1000}, needed = room - own;
    const KnownSpec known = spec;
    const Submission<GrowingCost> request{
        known, Seconds{0}, limits, geometry, world.cost, own, std::max(LayerBlocks{0}, needed), last.decode_context};
    const Status answer = SloInterval{}.promise(request);
    StreamedStep step;
    bool large_enough = needed <= LayerBlocks{0};
    bool in_time = large_enough && resident <= spec.slo.tbt;
    Seconds best = large_enough ? resident : Seconds{std::numeric_limits<double>::infinity()};
    for (int interval = 1; interval <= geometry.layers && needed > LayerBlocks{0}; ++interval) {
      const WeightsPlan plan = interval_level(geometry, interval).plan;
      if (plan.freed < needed) continue;
      large_enough = true;
      best = std::min(best, step.of(world.cost, geometry, last, plan));
      in_time = best <= spec.slo.tbt;
    }
    if (!large_enough) { // refused for memory, with its own figures
      ++too_large;
      REQUIRE(answer.ok());
      CHECK(SloInterval{}.most_freed(geometry) < needed);
    } else if (in_time) {
      REQUIRE(answer.ok());
      if (needed > LayerBlocks{0}) { // alone, the request gets the memory
        Scene scene{world};
        scene.add(spec.prompt, spec.slo.tbt);
        SloInterval::State state;
        std::vector<WeightsLevel> levels;
        SloInterval{}.offer(scene.task(room, own), state, levels);
        REQUIRE(!levels.empty());
        CHECK(levels.front().plan.freed >= needed);
      }
      promised += needed > LayerBlocks{0} ? 1 : 0;
    } else {
      ++refused;
      REQUIRE(!answer.ok());
      CHECK(answer.error().code == ErrorCode::infeasible);
      CHECK(answer.error().what.find(detail::milliseconds(best)) != std::string::npos);
      CHECK(answer.error().what.find(detail::milliseconds(spec.slo.tbt)) != std::string::npos);
      SloInterval lenient;
      lenient.refuses = false;
      CHECK(lenient.promise(request).ok());
    }
  }
  CHECK(refused > 100);
  CHECK(promised > 100);
  CHECK(too_large > 100);
}

TEST_CASE("the SLO of the first token counts less the time that the request has waited") {
  const World world{{}, {8, Bytes{4096}, Bytes{1'000'000}}};
  RequestSpec spec;
  spec.arrival = Seconds{10};
  spec.prompt = Tokens{5000};
  Seconds needed{0};
  Limits limits;
  for (const ChunkWork chunk :
       {ChunkWork{Tokens{2048}, Tokens{0}}, {Tokens{2048}, Tokens{2048}}, {Tokens{904}, Tokens{4096}}}) {
    Work work;
    work.chunks = {&chunk, 1};
    needed += world.cost.step(work).total(8);
  }
  const auto refusal = [&](double ttft, double waited) {
    spec.slo.ttft = Seconds{ttft};
    const KnownSpec known = spec;
    const Submission<GrowingCost> request{known,      Seconds{10 + waited}, limits,         world.geometry,
                                          world.cost, LayerBlocks{0},       LayerBlocks{0}, Tokens{5001}};
    const Status answer = SloInterval{}.promise(request);
    return answer.ok() ? std::string{} : answer.error().what;
  };
  CHECK(refusal(needed.count(), 0).empty());
  CHECK(refusal(needed.count() + 0.5, 0.5).empty());
  const std::string why = refusal(needed.count() + 0.5, 0.6);
  CHECK(why.find(detail::milliseconds(needed)) != std::string::npos);
  CHECK(why.find("it has waited 600 ms") != std::string::npos);
}

TEST_CASE("a token SLO that only a long answer's end misses is refused if the client's bound shows it, else served") {
  const World world{{}, {8, Bytes{4096}, Bytes{1'000'000}}};
  const auto decode = [&world](std::int64_t context) {
    Work work;
    work.decodes = work.samples = 1;
    work.decode_context = Tokens{context};
    return world.cost.step(work).total(world.geometry.layers);
  };
  using E = With<SelectNEvaluated, GrowingCost, BasicSimulated<GrowingCost>>;
  const auto accepts = [&world](Seconds slo, bool bounded) {
    E engine = *E::make({.limits = {.batch = 8, .batch_tokens = Tokens{2048}},
                         .geometry = world.geometry,
                         .device_blocks = LayerBlocks{100'000},
                         .host_blocks = LayerBlocks{0},
                         .cost = world.cost,
                         .backend = BasicSimulated<GrowingCost>{world.cost}});
    RequestSpec spec{Seconds{0}, Tokens{100}, Tokens{1000}, {Seconds{1e9}, slo}};
    spec.output_is_bound = bounded;
    return engine.submit(spec).has_value();
  };
  for (const bool bounded : {false, true}) {
    CHECK_FALSE(accepts(decode(101) * 0.999, bounded));
    CHECK(accepts(decode(101) * 1.001, bounded) == !bounded);
    CHECK(accepts(decode(1099) * 0.999, bounded) == !bounded);
    CHECK(accepts(decode(1100) * 1.001, bounded));
  }
}

TEST_CASE("a request alone whose KV outgrows what its SLO's interval frees misses its SLO, and ends") {
  // 8 layers of 1 MB weights, blocks of 4 KB: the memory of 20 tokens' KV is there while all weights are resident.
  const World world{{}, {8, Bytes{4096}, Bytes{1'000'000}}};
  const auto ends = [&world]<class System>(std::type_identity<System>) {
    using E = With<System, GrowingCost, BasicSimulated<GrowingCost>>;
    E engine = *E::make({.limits = {.batch = 8, .batch_tokens = Tokens{2048}},
                         .geometry = world.geometry,
                         .device_blocks = LayerBlocks{16},
                         .host_blocks = LayerBlocks{0},
                         .cost = world.cost,
                         .backend = BasicSimulated<GrowingCost>{world.cost}});
    Work one;
    one.decodes = one.samples = 1;
    one.decode_context = Tokens{17};
    const Seconds slo = world.cost.step(one).total(world.geometry.layers) * 1.01;
    const Expected<RequestId> id = engine.submit({Seconds{0}, Tokens{16}, Tokens{1500}, {Seconds{1e9}, slo}});
    REQUIRE_MESSAGE(id, id.error().line());
    int streamed = 0;
    std::int64_t generated = 0; // a request that is given up on the way has fewer
    for (int i = 0; i < 4000 && engine.step() == Stepped::ran; ++i) {
      streamed = std::max(streamed, engine.plan().weights.streamed.count());
      const View view = engine.view();
      if (!view.running.empty()) generated = view.row(view.running.front()).generated.count();
    }
    CHECK(engine.alive() == 0);
    CHECK(generated == 1499);
    CHECK(streamed > 0);
  };
  ends(std::type_identity<SelectN>{});
  ends(std::type_identity<SelectNEvaluated>{});
  ends(std::type_identity<FlexGenWeights>{});
}

TEST_CASE(
    "Select-N meets the SLO of every token where DeepSpeed does not, and a prefill instance meets every prompt's SLO") {
  Random random{84};
  int deepspeed_late = 0, runs = 0;
  int checked = 0;
  for (int trial = 0; trial < 60; ++trial) {
    World world = random_world(random);
    const int batch = 1 + static_cast<int>(random.below(8));
    Work full;
    full.decodes = full.samples = batch;
    full.decode_context = Tokens{batch * 200};
    const Seconds slo = world.cost.step(full).total(world.geometry.layers) * (1.05 + random.uniform());
    const auto longest_gap = [&](auto engine) {
      for (int i = 0; i < batch; ++i)
        REQUIRE(engine.submit({Seconds{0}, Tokens{100}, Tokens{100}, {Seconds{1e9}, slo}}).has_value());
      Seconds longest{0};
      int since_change = -5; // prompts, and slots that fill
      for (int i = 0; i < 100; ++i, ++since_change) {
        const Seconds before = engine.now();
        const LayerSet streamed = engine.plan().weights.streamed;
        REQUIRE(engine.step() == Stepped::ran);
        if (!(streamed == engine.plan().weights.streamed)) since_change = -1; // this iteration, and the slots' next
        if (since_change > 0) longest = std::max(longest, engine.now() - before);
        checked += since_change > 0 ? 1 : 0;
      }
      return longest;
    };
    const auto make = [&]<class System>(std::type_identity<System>) {
      using E = With<System, GrowingCost, BasicSimulated<GrowingCost>>;
      return *E::make({.limits = {.batch = 8, .batch_tokens = Tokens{2048}},
                       .geometry = world.geometry,
                       .device_blocks = LayerBlocks{100'000},
                       .host_blocks = LayerBlocks{0},
                       .cost = world.cost,
                       .backend = BasicSimulated<GrowingCost>{world.cost}});
    };
    INFO(world.geometry.layers << " layers, batch " << batch);
    CHECK(longest_gap(make(std::type_identity<SelectN>{})) <= slo * (1 + 1e-9));
    CHECK(longest_gap(make(std::type_identity<SelectNEvaluated>{})) <= slo * (1 + 1e-9));
    deepspeed_late += longest_gap(make(std::type_identity<DeepSpeedWeights>{})) > slo ? 1 : 0;
    ++runs;

    // A prefill instance: prompts only, one after the other, each within the SLO of its first token.
    using P = With<SelectNEvaluated, GrowingCost, BasicSimulated<GrowingCost>>;
    P::weights_type weights;
    weights.phase = InferencePhase::prefill;
    auto prompts = *P::make({.limits = {.batch = 1, .batch_tokens = Tokens{2048}},
                             .geometry = world.geometry,
                             .device_blocks = LayerBlocks{100'000},
                             .host_blocks = LayerBlocks{0},
                             .cost = world.cost,
                             .backend = BasicSimulated<GrowingCost>{world.cost},
                             .weights = weights});
    Work prompt;
    const ChunkWork chunk{Tokens{1024}, Tokens{0}};
    prompt.chunks = {&chunk, 1};
    prompt.samples = 1;
    const Seconds resident = world.cost.step(prompt).total(world.geometry.layers);
    const Seconds ttft = resident * 1.5;
    int streamed = 0;
    for (int i = 0; i < 5; ++i) {
      const Seconds arrival = prompts.now();
      REQUIRE(prompts.submit({arrival, Tokens{1024}, Tokens{1}, {ttft, Seconds{1e9}}}).has_value());
      REQUIRE(prompts.step() == Stepped::ran);
      if (i > 0) CHECK(prompts.now() - arrival <= ttft * (1 + 1e-9));
      streamed = prompts.plan().weights.streamed.count();
    }
    const int expected = smallest_by_search(world, prompt, ttft);
    const WeightsPlan plan = expected > 0 ? interval_level(world.geometry, expected).plan : WeightsPlan{};
    CHECK(streamed == (plan.level < 1 ? 0 : plan.streamed.count()));
  }
  CHECK(checked > 3 * runs * 85);
  CHECK(deepspeed_late > 30);
}

TEST_CASE("a model larger than the device is served while enough of its weights stream") {
  Random random{85};
  int served = 0, refused = 0;
  const auto serve = [&]<class System>(std::type_identity<System>, const Trial& trial, int missing_layers) {
    using E = With<System, SmallCost, BasicSimulated<SmallCost>, Audit>;
    SmallCost world;
    world.rate = BytesPerSecond{3e7};
    const Geometry geometry{trial.layers, Bytes{4096}, Bytes{1 << 20}};
    const LayerBlocks own = LayerBlocks{0} - geometry.blocks_in(missing_layers);
    auto made = E::make({.limits = {.batch = trial.batch, .batch_tokens = Tokens{64}, .max_context = Tokens{256}},
                         .geometry = geometry,
                         .device_blocks = own,
                         .host_blocks = LayerBlocks{0},
                         .cost = world,
                         .backend = BasicSimulated<SmallCost>{world}});
    REQUIRE(made.has_value());
    E& engine = *made;
    for (const RequestSpec& request : trial.requests) (engine.submit(request) ? served : refused) += 1;
    while (engine.step() == Stepped::ran) {
      check_ledger(engine);
      CHECK(engine.ledger().device().capacity() == own + engine.plan().weights.freed);
      CHECK(engine.ledger().device().used() <= engine.ledger().device().capacity());
    }
    CHECK(engine.alive() == 0);
    CHECK(engine.template observed<Audit>().broken_promises == 0);
  };
  for (int round = 0; round < 40; ++round) {
    Trial trial = random_trial(random);
    trial.layers += 6;
    for (RequestSpec& request : trial.requests) request.slo.tbt = request.slo.tbt * 4;
    const int missing = 1 + static_cast<int>(random.below(4));
    CAPTURE(round);
    serve(std::type_identity<SelectN>{}, trial, missing);
    serve(std::type_identity<SelectNEvaluated>{}, trial, missing);
    serve(std::type_identity<DeepSpeedWeights>{}, trial, missing);
    serve(std::type_identity<FlexGenWeights>{}, trial, missing);
  }
  CHECK(served > 500);
  CHECK(refused > 20);
  // Without weights that could stream, this is a configuration error.
  CHECK(!(With<VllmRecompute, SmallCost, BasicSimulated<SmallCost>>::make(
              {.limits = {},
               .geometry = {4, Bytes{4096}, Bytes{1 << 20}},
               .device_blocks = LayerBlocks{-1},
               .host_blocks = LayerBlocks{0},
               .cost = SmallCost{},
               .backend = BasicSimulated<SmallCost>{SmallCost{}}})
              .has_value()));
}
