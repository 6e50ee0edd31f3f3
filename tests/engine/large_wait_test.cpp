// SPDX-License-Identifier: Apache-2.0
// Confluence: a request larger than the device waits for a bounded time among others that never stop arriving, and
// lets them in.
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/policy/admission/batching.hpp"
#include "sluice/policy/admission/large_yields.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

using namespace sluice;
using namespace sluice::testing;

namespace {

using SmallConfluence = With<Confluence, SmallCost, BasicSimulated<SmallCost>>;

/// Requests that never stop arriving, and a large one among them.
struct Crowd {
  Trial trial{};
  RequestSpec large;
  std::int64_t most_output = 0; ///< of a small request
  double every_s = 0;           ///< between two arrivals, on average
  double late_share = 0;        ///< of small requests with the long TTFT SLO
  double long_ttft_s = 0;
};

/// A small request that fits the device; its TTFT SLO is short or long.
RequestSpec small_request(const Crowd& crowd, Random& random, double arrival) {
  RequestSpec spec;
  spec.arrival = Seconds{arrival};
  spec.prompt = Tokens{static_cast<std::int64_t>(1 + random.below(30))};
  spec.output = Tokens{static_cast<std::int64_t>(1 + random.below(static_cast<std::uint64_t>(crowd.most_output)))};
  spec.slo = {.ttft = Seconds{random.uniform() < crowd.late_share ? crowd.long_ttft_s : 0.5 + random.uniform()},
              .tbt = Seconds{0.01 + 0.05 * random.uniform()}};
  return spec;
}

Crowd random_crowd(Random& random) {
  Crowd crowd;
  crowd.trial.layers = 4 + static_cast<int>(random.below(4));
  crowd.trial.batch = 2 + static_cast<int>(random.below(5));
  const auto blocks = static_cast<std::int64_t>(5 + random.below(4)); // of 16 tokens
  crowd.trial.device = LayerBlocks{crowd.trial.layers * blocks};
  crowd.trial.host = LayerBlocks{100'000};
  crowd.large.prompt = Tokens{16 * blocks - static_cast<std::int64_t>(random.below(20))};
  crowd.large.output = Tokens{std::min<std::int64_t>(250, 40 * blocks)} - crowd.large.prompt;
  crowd.large.slo = {.ttft = Seconds{0.2 + random.uniform()}, .tbt = Seconds{0.001 + 0.003 * random.uniform()}};
  crowd.most_output = 10 + static_cast<std::int64_t>(random.below(40));
  crowd.every_s = 0.01 + 0.1 * random.uniform();
  crowd.late_share = random.uniform();
  crowd.long_ttft_s = 1 + 20 * random.uniform();
  return crowd;
}

/// What became of the large request, from when it was larger than the device and behind its schedule.
struct LargeServed {
  bool ended = false;
  std::int64_t pauses = 0;
  double run_s = 0; ///< time in the batch
  double all_s = 0; ///< all time
  double longest_pause_s = 0;
  double longest_step_s = 0;
  double others_wait_s = 0; ///< the longest time in which it ran and no other request got a token
  std::int64_t alive = 0;   ///< requests at its end
};

/// Serves so many `larges` alike from the start, and follows the first of them.
LargeServed serve(const Crowd& crowd, Random& random, int larges = 1) {
  auto made = SmallConfluence::make(trial_config<SmallConfluence>(crowd.trial, SmallCost{}));
  REQUIRE(made.has_value());
  SmallConfluence& engine = *made;
  const auto id = engine.submit(crowd.large);
  REQUIRE(id.has_value());
  for (int i = 1; i < larges; ++i) REQUIRE(engine.submit(crowd.large).has_value());
  LargeServed out;
  double next = 0.1, begin = -1, paused_at = -1, others_at = 0;
  std::int64_t others = 0;
  for (int guard = 0; guard < 200'000 && !out.ended; ++guard) {
    for (; Seconds{next} <= engine.now(); next += 2 * crowd.every_s * random.uniform())
      REQUIRE(engine.submit(small_request(crowd, random, next)).has_value());
    const double before = engine.now().count();
    const Stepped stepped = engine.step();
    REQUIRE(stepped != Stepped::failed);
    REQUIRE(stepped != Stepped::idle);
    const View view = engine.view();
    const double now = view.now.count();
    const auto is_it = [&](Slot slot) { return view.row(slot).id == *id; };
    const auto at = std::find_if(view.running.begin(), view.running.end(), is_it);
    const auto paused = std::find_if(view.preempted.begin(), view.preempted.end(), is_it);
    const bool runs = at != view.running.end(), waits = paused != view.preempted.end();
    if (begin < 0 && (runs || waits) && LargeYields{}.yields(view, view.row(runs ? *at : *paused))) begin = now;
    out.ended = begin >= 0 && !runs && !waits;
    std::int64_t of_others = view.served->tokens - (out.ended ? crowd.large.output.count() : 0);
    if (runs || waits) of_others -= view.row(runs ? *at : *paused).generated.count();
    if (of_others != others || begin < 0 || waits) others_at = now;
    others = of_others;
    if (begin < 0) continue;
    out.all_s = now - begin;
    out.run_s += waits ? 0 : now - before;
    out.longest_step_s = std::max(out.longest_step_s, now - before);
    out.others_wait_s = std::max(out.others_wait_s, now - others_at);
    if (waits && paused_at < 0) {
      paused_at = before;
      ++out.pauses;
    }
    if (waits) out.longest_pause_s = std::max(out.longest_pause_s, now - paused_at);
    if (!waits) paused_at = -1;
  }
  out.alive = engine.alive();
  return out;
}

} // namespace

TEST_CASE("a request larger than the device waits for a bounded time among small ones that never stop arriving") {
  Random random(77);
  std::int64_t paused = 0, overloaded = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const Crowd crowd = random_crowd(random);
    const LargeServed out = serve(crowd, random);
    const double unit_s = std::max(crowd.large.slo.ttft, 10 * crowd.large.slo.tbt).count();
    const LargeYields yields{};
    const double step_s = out.longest_step_s, turn_s = yields.run * unit_s;
    // Of each request in the batch the last token comes within this time, if nobody joins: PromptChunk::least tokens of
    // their prompts in an iteration, then one token each.
    const double prompts = std::ceil(30.0 * crowd.trial.batch / PromptChunk{}.least);
    const double drain_s = (prompts + static_cast<double>(crowd.most_output)) * step_s;
    const double pause_s = yields.wait * unit_s + drain_s + 2 * step_s;
    REQUIRE(out.ended);
    CHECK(out.longest_pause_s <= pause_s);
    CHECK(out.all_s <= out.run_s + (out.run_s / turn_s + 1) * pause_s);
    CHECK(out.others_wait_s <= turn_s + 2 * crowd.every_s + 3 * step_s);
    paused += out.pauses > 3 ? 1 : 0;
    overloaded += out.alive > 20 ? 1 : 0;
  }
  CHECK(paused > 30);     // else nothing was tested
  CHECK(overloaded > 20); // more than the device can serve
}

TEST_CASE("several requests larger than the device share turns, and none starves") {
  Random random(78);
  std::int64_t paused = 0;
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    const Crowd crowd = random_crowd(random);
    const LargeServed out = serve(crowd, random, 2 + static_cast<int>(random.below(2)));
    REQUIRE(out.ended); // no bound is derived for several: one that is not late yet may run for long
    paused += out.pauses > 3 ? 1 : 0;
  }
  CHECK(paused > 20);
}
