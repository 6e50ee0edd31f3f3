// SPDX-License-Identifier: Apache-2.0
// BusCoordinator against enumeration and Figure 8; RemapController by its rules; SharedBus's division; TakeTurns.
#include "sluice/core/random.hpp"
#include "sluice/engine/node/bus.hpp"
#include "sluice/engine/node/bus_coordinator.hpp"
#include "sluice/engine/node/remap_controller.hpp"
#include "sluice/engine/node/sharing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

using namespace sluice;

namespace {

/// A model in Select-N's Figure 8, in the figure's terms.
struct Figure8Model {
  double layers;
  double mem_per_layer;
  double iter_time;
  std::vector<int> valid_intervals;
};

/// Lines 31 to 48: chooses the pair with the most host memory among those whose rates are below the bandwidth; {0, 0}
/// if there is none.
std::array<int, 2> figure_8(const Figure8Model& one, const Figure8Model& two, double bandwidth) {
  const auto transferred = [](const Figure8Model& model, int interval) {
    return model.layers * model.mem_per_layer / interval;
  };
  std::array<int, 2> best{0, 0};
  double most = -1;
  for (const int first : one.valid_intervals)
    for (const int second : two.valid_intervals) {
      const double rate = transferred(one, first) / one.iter_time + transferred(two, second) / two.iter_time;
      if (!(rate < bandwidth)) continue;
      const double host = transferred(one, first) + transferred(two, second);
      if (host > most) {
        most = host;
        best = {first, second};
      }
    }
  return best;
}

/// Whether every engine gets its minimum rate on a bus with equal shares, each at most the engine's rate: by bisection.
bool keeps_slos(const std::vector<double>& rates, const std::vector<double>& least, double bus) {
  if (std::accumulate(least.begin(), least.end(), 0.0) >= bus) return false;
  double low = 0, high = bus;
  for (int round = 0; round < 200; ++round) {
    const double each = (low + high) / 2;
    double sum = 0;
    for (const double rate : rates) sum += std::min(rate, each);
    (sum < bus ? low : high) = each;
  }
  for (std::size_t i = 0; i < rates.size(); ++i)
    if (std::min(rates[i], high) < least[i] * (1 - 1e-12)) return false;
  return true;
}

WeightsLevel level_of(int level, double bytes, double step_s, std::int64_t freed) {
  WeightsLevel made;
  made.plan.level = level;
  made.plan.freed = LayerBlocks{freed};
  made.moved_per_iteration = Bytes{static_cast<std::int64_t>(bytes)};
  made.step = Seconds{step_s};
  return made;
}

} // namespace

TEST_CASE("the coordinator chooses Figure 8's pair, on random pairs of models") {
  Random random{8};
  int chosen = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::array<Figure8Model, 2> models;
    std::array<std::vector<WeightsLevel>, 2> levels;
    std::array<Member, 2> members;
    for (std::size_t i = 0; i < 2; ++i) {
      Figure8Model& model = models[i];
      // A number of layers that every interval divides, as in the figure's `layers / intv`.
      model.layers = 27720;
      model.mem_per_layer = 1000.0 * static_cast<double>(1 + random.below(50));
      model.iter_time = 0.01 + random.uniform();
      const int least = 1 + static_cast<int>(random.below(6));
      const int most = least + static_cast<int>(random.below(6));
      for (int interval = least; interval <= most; ++interval) {
        model.valid_intervals.push_back(interval);
        levels[i].push_back(
            level_of(100 - interval, model.layers * model.mem_per_layer / interval, model.iter_time, 0));
      }
      members[i].levels = levels[i];
      members[i].alive = true;
      // A maximum: without streaming the model would not fit. (The figure expresses that only as an infinite interval.)
      members[i].own = LayerBlocks{0};
      members[i].batch.demand = members[i].batch.running = members[i].batch.first = LayerBlocks{1};
      for (WeightsLevel& level : levels[i]) level.plan.freed = LayerBlocks{5};
    }
    const double bandwidth = 1e6 * static_cast<double>(random.below(30'000));
    const std::array<int, 2> expected = figure_8(models[0], models[1], bandwidth);
    const BusCoordinator coordinator{BytesPerSecond{bandwidth}};
    const std::vector<int> got = coordinator.best(members, trial % 2 == 0 ? 0 : 1);
    if (expected[0] == 0) {
      CHECK(got.empty());
      CHECK(coordinator.grant(members, 0) == 100 - models[0].valid_intervals.back());
      continue;
    }
    ++chosen;
    REQUIRE(got.size() == 2);
    CHECK(got[0] == 100 - expected[0]);
    CHECK(got[1] == 100 - expected[1]);
  }
  CHECK(chosen > 1000);
}

TEST_CASE("for any number of engines the chosen combination is the best of all") {
  Random random{4};
  for (int trial = 0; trial < 800; ++trial) {
    const std::size_t count = 1 + random.below(5);
    std::vector<std::vector<WeightsLevel>> levels(count);
    std::vector<Member> members(count);
    for (std::size_t i = 0; i < count; ++i) {
      const int most = 1 + static_cast<int>(random.below(5));
      for (int level = most; level >= 1; --level)
        levels[i].push_back(level_of(level, 1e6 * level * (1 + random.uniform()), 0.1 + random.uniform(), 10 * level));
      members[i].levels = levels[i];
      members[i].alive = i == 0 || random.below(4) > 0;
      members[i].own = LayerBlocks{static_cast<std::int64_t>(random.below(50)) - 20};
      members[i].batch.demand = LayerBlocks{static_cast<std::int64_t>(random.below(60))};
      members[i].link = BytesPerSecond{1e9};
      if (trial % 2 == 1) members[i].batch.slo = Seconds{0.1 + 2 * random.uniform()};
    }
    const double bus = 1e7 * random.uniform() * static_cast<double>(count);
    // Every combination; -1 for no streaming.
    double most = -1;
    std::size_t running = 0;
    for (const Member& member : members)
      if (member.alive) ++running;
    std::vector<int> at(count, -1);
    for (;;) {
      double host = 0;
      std::vector<double> rates(count, 0), least(count, 0);
      bool valid = true;
      for (std::size_t i = 0; i < count; ++i) {
        if (!members[i].alive) {
          valid = valid && at[i] == -1;
          continue;
        }
        LayerBlocks reachable = members[i].own;
        for (const WeightsLevel& level : levels[i]) reachable = std::max(reachable, members[i].own + level.plan.freed);
        LayerBlocks has = members[i].own;
        if (at[i] >= 0) {
          const WeightsLevel& level = levels[i][static_cast<std::size_t>(at[i])];
          has += level.plan.freed;
          host += static_cast<double>(level.moved_per_iteration.count());
          const auto bytes = static_cast<double>(level.moved_per_iteration.count());
          rates[i] = bytes / level.step.count();
          // By its SLO: transfers get the SLO's remaining time. It never needs more than it uses without neighbours.
          const double rest = members[i].batch.slo.count() - std::max(0.0, level.step.count() - bytes / 1e9);
          least[i] = rest > 0 ? std::min(rates[i], bytes / rest) : rates[i];
          // An engine that is late even without neighbours gets at most an even share.
          if (members[i].batch.slo > Seconds{0} && members[i].batch.slo < level.step)
            least[i] = std::min(least[i], bus / static_cast<double>(running) * (1 - 1e-9));
        }
        valid = valid && has >= std::min(members[i].batch.demand, reachable);
      }
      if (valid && (host == 0 || keeps_slos(rates, least, bus))) most = std::max(most, host);
      std::size_t digit = 0;
      while (digit < count && ++at[digit] == static_cast<int>(levels[digit].size())) at[digit++] = -1;
      if (digit == count) break;
    }
    const std::vector<int> got = BusCoordinator{BytesPerSecond{bus}}.best(members, 0);
    REQUIRE(got.empty() == (most < 0));
    if (got.empty()) continue;
    double host = 0;
    for (std::size_t i = 0; i < count; ++i)
      for (const WeightsLevel& level : levels[i])
        if (level.plan.level == got[i]) host += static_cast<double>(level.moved_per_iteration.count());
    CHECK(host == doctest::Approx(most));
  }
}

TEST_CASE("if the bus cannot carry all batches, the running requests divide it, and batches are cut to fit") {
  // Each level streams as many megabytes per tenth of a second and frees ten times as many blocks.
  const std::vector<WeightsLevel> levels{level_of(9, 9e6, 0.1, 90), level_of(5, 5e6, 0.1, 50),
                                         level_of(2, 2e6, 0.1, 20)};
  std::array<Member, 2> members;
  for (Member& member : members) {
    member.levels = levels;
    member.batch.demand = LayerBlocks{1000}; // only the highest level suffices, and twice 90 MB/s is too much
    member.alive = true;
  }
  const BusCoordinator coordinator{BytesPerSecond{1.2e8}};
  CHECK(coordinator.best(members, 0).empty());
  members[0].batch.running = LayerBlocks{15};
  members[1].batch.running = LayerBlocks{75}; // it has 90 MB/s already
  CHECK(coordinator.grant(members, 0) == 2);
  CHECK(coordinator.grant(members, 1) == 9);
  members[1].batch.running = LayerBlocks{35};
  CHECK(coordinator.grant(members, 0) + coordinator.grant(members, 1) == 11); // 9 and 2 are more than 5 and 5
  members[0].batch.running = LayerBlocks{30};
  CHECK(coordinator.grant(members, 0) == 5);
  CHECK(coordinator.grant(members, 1) == 5);
  // The running requests exceed the bus: it carries as much as fits, and no engine uses more than its rate.
  members[0].batch.running = members[1].batch.running = LayerBlocks{80};
  CHECK(coordinator.grant(members, 0) + coordinator.grant(members, 1) == 11);
  members[0].batch.running = LayerBlocks{45};
  members[1].batch.running = LayerBlocks{85};
  CHECK(coordinator.grant(members, 0) == 2);
  CHECK(coordinator.grant(members, 1) == 9);
  members[0].batch.running = LayerBlocks{85};
  members[1].batch.running = LayerBlocks{45};
  members[1].batch.first = LayerBlocks{35}; // without neighbours it takes that much
  CHECK(coordinator.grant(members, 0) == 5);
  CHECK(coordinator.grant(members, 1) == 5);
  members[0].batch.first = members[1].batch.first = LayerBlocks{60};
  CHECK(coordinator.grant(members, 0) == 9); // no room for one request each: none is refused or preempted
}

TEST_CASE("an engine with an idle neighbour has its minimum interval") {
  const std::vector<WeightsLevel> levels{level_of(9, 9e6, 0.1, 5), level_of(3, 3e6, 0.1, 5)};
  std::array<Member, 2> members;
  for (Member& member : members) { // too large for their devices without streaming
    member.levels = levels;
    member.own = LayerBlocks{-4};
    member.batch.demand = LayerBlocks{1};
    member.alive = true;
  }
  const BusCoordinator coordinator{BytesPerSecond{1e8}};
  CHECK(coordinator.grant(members, 0) == 3); // 90 MB/s and 30 or more are too much
  members[1].alive = false;
  CHECK(coordinator.grant(members, 0) >= 9);
  members[0].link = BytesPerSecond{9e7};
  CHECK(BusCoordinator{BytesPerSecond{9e7}}.grant(members, 0) >= 9); // even if it has the whole bus and waits for it
  members[0].batch.slo = Seconds{0.1};
  CHECK(BusCoordinator{BytesPerSecond{4e7}}.grant(members, 0) == 3); // on a slower bus it gets what its SLO allows
}

TEST_CASE("an engine that cannot meet its SLO does not shrink the others' batches") {
  const std::vector<WeightsLevel> slow{level_of(9, 9e6, 0.1, 90)};
  const std::vector<WeightsLevel> levels{level_of(9, 2e6, 0.1, 90), level_of(2, 1e6, 0.1, 20)};
  std::array<Member, 2> members;
  members[0].levels = slow;
  members[0].own = LayerBlocks{-50};
  members[0].batch = {LayerBlocks{30}, LayerBlocks{30}, LayerBlocks{10}, Seconds{0.05}};
  members[1].levels = levels;
  members[1].batch = {LayerBlocks{70}, LayerBlocks{70}, LayerBlocks{10}, Seconds{0.2}};
  for (Member& member : members) {
    member.alive = true;
    member.link = BytesPerSecond{9e7};
  }
  const BusCoordinator coordinator{BytesPerSecond{9e7}};
  CHECK(coordinator.grant(members, 1) == 9);
  CHECK(coordinator.grant(members, 0) == 9);
}

TEST_CASE("a long queue takes nothing from a neighbour whose batch the bus can carry") {
  const std::vector<WeightsLevel> levels{level_of(9, 9e6, 0.1, 90), level_of(5, 5e6, 0.1, 50),
                                         level_of(2, 2e6, 0.1, 20)};
  std::array<Member, 2> members;
  for (Member& member : members) {
    member.levels = levels;
    member.alive = true;
  }
  members[0].batch.demand = LayerBlocks{50};
  members[1].batch.demand = LayerBlocks{1000};
  const BusCoordinator coordinator{BytesPerSecond{1.15e8}};
  CHECK(coordinator.grant(members, 0) == 9); // more on the host than 5 and 5, or than 5 and 2
  CHECK(coordinator.grant(members, 1) == 2);
  CHECK(BusCoordinator{BytesPerSecond{1.05e8}}.grant(members, 0) == 5);
  CHECK(BusCoordinator{BytesPerSecond{1.05e8}}.grant(members, 1) == 5);
}

TEST_CASE("many engines on one bus are searched in bounded time, and at least one streams") {
  std::vector<std::vector<WeightsLevel>> levels(16);
  std::vector<Member> members(16);
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (int level = 30; level >= 1; level -= 3)
      levels[i].push_back(level_of(level, 1e6 * (level + 2), 0.05, 10 * level));
    members[i].levels = levels[i];
    members[i].alive = true;
    members[i].link = BytesPerSecond{1e9};
    members[i].batch = {LayerBlocks{50}, LayerBlocks{10}, LayerBlocks{10}, Seconds{0.1}};
  }
  const std::vector<int> chosen = BusCoordinator{BytesPerSecond{2.5e9}}.best(members, 0, BusCoordinator::Room::running);
  REQUIRE(chosen.size() == members.size());
  double owed = 0;
  for (const int level : chosen) owed += level > 0 ? 1e6 * (level + 2) / 0.1 : 0;
  CHECK(owed < 2.5e9);
  CHECK(owed > 0.6 * 2.5e9);
}

TEST_CASE("only inactive models lend memory, in the given order, and never beyond what each can spare") {
  Random random{12};
  for (int trial = 0; trial < 5000; ++trial) {
    const std::size_t count = 2 + random.below(5);
    std::vector<Member> members(count);
    std::vector<int> layers(count, 0);
    const std::size_t asks = random.below(count);
    for (std::size_t i = 0; i < count; ++i) {
      Member& member = members[i];
      member.alive = true;
      member.layer_weight_bytes = Bytes{static_cast<std::int64_t>(1 + random.below(1000))};
      member.inactive = i != asks && random.below(4) > 0;
      member.active_until = Seconds{static_cast<double>(random.below(4))};
      member.priority = static_cast<int>(random.below(2));
      member.lendable = member.inactive ? static_cast<int>(random.below(10)) : 0;
      if (i != asks && random.below(2) == 0) layers[i] = static_cast<int>(random.below(4));
      member.lent = layers[i] + static_cast<int>(random.below(3));
    }
    const std::vector<int> before = layers;
    RemapController controller;
    if (random.below(2) == 0) controller.order = RemapController::Order::least_recent_first;
    const Bytes missing{static_cast<std::int64_t>(random.below(9000)) - 2000};
    controller.lend(members, asks, missing, layers);
    std::int64_t has = 0;
    bool more = false;
    bool less = false;
    for (std::size_t i = 0; i < count; ++i) {
      has += layers[i] * members[i].layer_weight_bytes.count();
      CHECK(layers[i] >= 0);
      if (layers[i] > before[i]) {
        more = true;
        CHECK(members[i].inactive);
        CHECK(members[i].lent + layers[i] - before[i] <= members[i].lendable);
      }
      less = less || layers[i] < before[i];
    }
    CHECK_FALSE((more && less));
    CHECK(layers[asks] == before[asks]);
    if (more) { // at most what it uses
      CHECK(has - missing.count() < 1000);
    }
    if (has < missing.count()) // every engine has given what it could
      for (std::size_t i = 0; i < count; ++i)
        if (members[i].inactive) CHECK(members[i].lent + layers[i] - before[i] >= members[i].lendable);
    // Of two lenders, the later one in the order lends only if the earlier one has nothing left.
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < count; ++b) {
        if (a == b || !members[a].inactive || !members[b].inactive || layers[b] <= before[b]) continue;
        const bool recent = controller.order == RemapController::Order::most_recent_first;
        const bool earlier = members[a].priority != members[b].priority
                                 ? members[a].priority < members[b].priority
                                 : (recent ? members[a].active_until > members[b].active_until
                                           : members[a].active_until < members[b].active_until);
        if (earlier) CHECK(members[a].lent + layers[a] - before[a] >= members[a].lendable);
      }
    // Asked again, it may return the spare part of the last large layer; then nothing changes. With spare memory,
    // everything returns.
    const auto ask_again = [&](Bytes wanted, std::vector<int> has_now) {
      std::vector<Member> then = members;
      for (std::size_t i = 0; i < count; ++i) then[i].lent += has_now[i] - before[i];
      controller.lend(then, asks, wanted, has_now);
      return has_now;
    };
    const std::vector<int> asked_twice = ask_again(missing, layers);
    CHECK(ask_again(missing, asked_twice) == asked_twice);
    const std::vector<int> again = ask_again(Bytes{-1'000'000}, asked_twice);
    CHECK(std::accumulate(again.begin(), again.end(), 0) == before[asks]);
    // An engine without requests keeps nothing, not even the margin.
    members[asks].alive = false;
    const std::vector<int> idle = ask_again(Bytes{-1}, asked_twice);
    const int kept = std::accumulate(idle.begin(), idle.end(), 0) - idle[asks];
    CHECK(kept == 0);
  }
}

TEST_CASE("a bus is divided evenly, no lane gets more than it wants, and no wanted bandwidth is unused") {
  Random random{6};
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<double> wanted(1 + random.below(8));
    for (double& want : wanted) want = 0.1 + random.uniform();
    std::vector<double> given(wanted.size());
    const double capacity = 0.1 + 6 * random.uniform();
    divide_fairly(capacity, wanted, given);
    const double sum = std::accumulate(given.begin(), given.end(), 0.0);
    const double all = std::accumulate(wanted.begin(), wanted.end(), 0.0);
    CHECK(sum == doctest::Approx(std::min(capacity, all)));
    const double most = *std::max_element(given.begin(), given.end());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      CHECK(given[i] <= wanted[i] * (1 + 1e-12));
      if (given[i] < wanted[i] - 1e-12) CHECK(given[i] == doctest::Approx(most));
    }
  }
}

TEST_CASE("turns rotate, last a quantum if others wait, and end without work") {
  const TakeTurns turns{Seconds{2}};
  TakeTurns::State state;
  Occupancy now{{true, true, true}, {false, false, false}};
  CHECK(turns.may_run(state, now, 0, Seconds{0}));
  CHECK_FALSE(turns.may_run(state, now, 1, Seconds{1}));
  CHECK(turns.inactive(state, 1));
  CHECK(turns.may_run(state, now, 0, Seconds{1.9}));
  now.runs[0] = true;
  CHECK_FALSE(turns.may_run(state, now, 1, Seconds{3})); // an iteration is not interrupted
  now.runs[0] = false;
  CHECK_FALSE(turns.may_run(state, now, 0, Seconds{3}));
  CHECK(turns.may_run(state, now, 1, Seconds{3}));
  now.has_work = {true, false, false};
  CHECK_FALSE(turns.may_run(state, now, 1, Seconds{3.1}));
  CHECK(turns.may_run(state, now, 0, Seconds{3.1}));
  CHECK(turns.may_run(state, now, 0, Seconds{100})); // no other engine waits
}
