// SPDX-License-Identifier: Apache-2.0
// No listed system but an oracle decides by the lengths of answers to come.
#include "sluice/core/random.hpp"
#include "sluice/report/observer/decision_log.hpp"
#include "sluice/workload/content.hpp"

#include "listed_systems/small_world.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace sluice;

namespace {

/// Everything that an engine does, as text: its decisions (DecisionLog), each iteration's batch and memory, and when
/// tokens reach their users. The lengths of refused requests are left out.
struct Deeds final : EventListener {
  void hear(const AnyEvent& event) override {
    if (const auto* refused = event.get<events::Refused>()) {
      note("refuse " + std::to_string(index(refused->id)) + ": " + std::string{refused->reason});
      gone.insert(index(refused->id));
    } else if (const auto* delivered = event.get<events::Delivered>()) {
      char text[80];
      std::snprintf(text, sizeof text, "deliver %u: %lld at %.12g", index(delivered->row.id),
                    static_cast<long long>(delivered->count.count()), delivered->when.count());
      note(text);
    } else if (const auto* iterated = event.get<events::Iterated>()) {
      const IterationRecord& of = iterated->record;
      char text[120];
      std::snprintf(text, sizeof text, "%.12g s %.12g s %lld %lld %lld:", of.start.count(), of.duration.count(),
                    static_cast<long long>(of.device_used.count()), static_cast<long long>(of.host_used.count()),
                    static_cast<long long>(of.in_flight.count()));
      std::string batch = text;
      for (const Claim& claim : of.batch)
        batch +=
            " " + std::to_string(index(of.rows[index(claim.slot)].id)) + "x" + std::to_string(claim.tokens.count());
      note(std::move(batch));
    } else {
      if (const auto* ended = event.get<events::Ended>()) gone.insert(index(ended->row.id));
      tell(DecisionLog{}, log, event);
      for (std::string& line : log.lines) note(std::move(line));
      log.lines.clear();
    }
  }
  void note(std::string line) { lines.push_back(std::move(line)); }

  std::vector<std::string> lines;
  std::set<std::uint32_t> gone; ///< requests that have ended or were refused
  DecisionLog::State log;
};

struct Asked {
  RequestSpec spec;
  std::vector<BlockKey> keys; ///< of its prompt's blocks; a session's later prompts begin with the earlier ones
};

constexpr int step_slos = 3; ///< a usual TBT SLO, in decode steps of one request

struct World : testing::SmallWorld {
  [[nodiscard]] std::vector<Asked> requests(std::uint64_t seed) const {
    Random random(seed);
    std::vector<Asked> all;
    double now = 0;
    for (std::uint32_t i = 0; i < 40; ++i) {
      Asked one;
      now += 2 * 20 * step(Tokens{1}).count() * random.uniform();
      one.spec.arrival = Seconds{now};
      one.spec.prompt = Tokens{static_cast<std::int64_t>(30 + random.below(900))};
      one.spec.output = Tokens{static_cast<std::int64_t>(2 + random.below(400))};
      one.spec.slo.ttft = step(Tokens{1}) * 2000;
      one.spec.slo.tbt = step(one.spec.prompt) * (random.below(4) == 0 ? 1 + 0.01 * random.uniform() : step_slos);
      one.spec.priority = static_cast<std::int32_t>(random.below(3));
      one.spec.session = 1 + static_cast<std::uint32_t>(random.below(8));
      for (const Asked& before : all) one.spec.turn += before.spec.session == one.spec.session ? 1 : 0;
      BlockKey key{};
      for (std::int64_t block = 0; block < one.spec.prompt / setup.limits.block_tokens; ++block)
        one.keys.push_back(key = next_key(key, one.spec.session));
      all.push_back(std::move(one));
    }
    return all;
  }
};

/// The requests of `asked` in a new engine of the system, for at most `steps` steps.
struct Run {
  Deeds deeds;
  std::vector<std::int64_t> generated; ///< tokens of each live request after the last step; 0 of others
  std::int64_t steps = 0;

  Run(const engines::System& system, const World& world, const std::vector<Asked>& asked, std::int64_t most)
      : generated(asked.size()) {
    const Slo slo{world.step(Tokens{1}) * 2000, world.step(Tokens{1}) * step_slos};
    Expected<engines::Simulated> made =
        system.simulate({.setup = world.setup, .slo = slo, .deposit = true, .listener = &deeds});
    REQUIRE_MESSAGE(made, made.error().line());
    auto& engine = made->engine;
    std::size_t next = 0;
    while (steps < most) {
      for (; next < asked.size() && asked[next].spec.arrival <= engine.now(); ++next)
        (void)engine.submit(asked[next].spec, asked[next].keys);
      const Stepped stepped = engine.step();
      if (stepped == Stepped::failed) FAIL(engine.status().error().line());
      if (stepped == Stepped::idle) {
        const Seconds arrival = next < asked.size() ? asked[next].spec.arrival : never_due;
        const Seconds until = std::min(arrival, engine.next_load());
        if (until == never_due) break;
        engine.idle_until(until);
        continue;
      }
      ++steps;
    }
    const View view = engine.view();
    for (const RequestRow& row : view.rows)
      if (row.phase != Phase::ended) generated.at(index(row.id)) = row.generated.count();
  }
};

/// In a world whose KV memory holds a few hundred tokens while all weights are resident. Most systems refuse for lack
/// of it requests that can never end, which a server would have to fail later: those do not judge the systems.
bool needs_more_memory(const Run& run) {
  return std::any_of(run.deeds.lines.begin(), run.deeds.lines.end(),
                     [](const std::string& line) { return line.find("its KV takes") != std::string::npos; });
}

/// The same requests, of which those that are still live after a run, or have not come yet, have other lengths.
std::vector<Asked> with_other_ends(std::vector<Asked> asked, const Run& run, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (!run.deeds.gone.contains(static_cast<std::uint32_t>(i)))
      asked[i].spec.output = Tokens{run.generated[i] + 1 + static_cast<std::int64_t>(random.below(400))};
  return asked;
}

} // namespace

// The rule: whatever an engine does in its first n steps follows from what has happened by then. Answers that have
// ended are known; how long the others will be is not, so it may be anything above what they have generated. Shuffling
// all lengths would compare only the steps until the first answer ends.
TEST_CASE("no system decides by lengths that no server knows, except those marked as oracles") {
  const World world;
  std::vector<std::string_view> oracles, seen_to_foresee;
  std::int64_t cuts = 0;
  for (const engines::System& system : engines::published()) {
    if (system.simulate == nullptr) continue;
    CAPTURE(system.name);
    if (system.foresees) oracles.push_back(system.name);
    bool same = true;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      const std::vector<Asked> asked = world.requests(seed);
      const Run whole(system, world, asked, 40'000);
      for (const std::int64_t share : {1, 3, 6}) {
        const std::int64_t steps = whole.steps * share / 10;
        const Run cut(system, world, asked, steps);
        const Run other(system, world, with_other_ends(asked, cut, 100 * seed + static_cast<std::uint64_t>(share)),
                        steps);
        ++cuts;
        const auto [was, is] = std::mismatch(cut.deeds.lines.begin(), cut.deeds.lines.end(), other.deeds.lines.begin(),
                                             other.deeds.lines.end());
        const bool equal = was == cut.deeds.lines.end() && is == other.deeds.lines.end();
        same = same && equal;
        if (!equal && !system.foresees)
          FAIL_CHECK(system.name, " did: ", was == cut.deeds.lines.end() ? "nothing" : *was,
                     "\nand with other lengths to come: ", is == other.deeds.lines.end() ? "nothing" : *is);
      }
    }
    if (system.foresees && !same) seen_to_foresee.push_back(system.name);
  }
  World tight;
  tight.setup.device_blocks = across_layers(TokenBlocks{30}, tight.model.layers);
  std::vector<std::string_view> stream;
  for (const engines::System& system : engines::published()) {
    if (system.simulate == nullptr || system.foresees) continue;
    CAPTURE(system.name);
    const std::vector<Asked> asked = tight.requests(1);
    const Run whole(system, tight, asked, 40'000);
    if (needs_more_memory(whole)) continue;
    stream.push_back(system.name);
    for (const std::int64_t share : {1, 3, 6}) {
      const Run cut(system, tight, asked, whole.steps * share / 10);
      const Run other(system, tight, with_other_ends(asked, cut, 300 + static_cast<std::uint64_t>(share)),
                      whole.steps * share / 10);
      CHECK(cut.deeds.lines == other.deeds.lines);
    }
  }
  for (const std::string_view name : {"SelectN", "FlexGenWeights"})
    CHECK_MESSAGE(std::find(stream.begin(), stream.end(), name) != stream.end(), name);
  MESSAGE(cuts, " cuts; ", oracles.size(), " oracles, of which ", seen_to_foresee.size(), " decided otherwise");
  for (const std::string_view name : {"SjfOracle", "LengthRanked", "FlexGenPlus", "OrbitFlowSrtf"})
    CHECK_MESSAGE(std::find(seen_to_foresee.begin(), seen_to_foresee.end(), name) != seen_to_foresee.end(), name);
}
