// SPDX-License-Identifier: Apache-2.0
// Each router by itself, before hand-made reports.
#include "sluice/engine/node/lock_step.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/fleet/by_forecast.hpp"
#include "sluice/fleet/by_session.hpp"
#include "sluice/fleet/group_front.hpp"
#include "sluice/fleet/least_loaded.hpp"
#include "sluice/fleet/random_router.hpp"
#include "sluice/fleet/round_robin.hpp"
#include "sluice/fleet/scorers.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

/// Reports that a test writes.
struct Desk {
  explicit Desk(std::size_t engines) : reports(engines), sent(engines), found(engines) {
    for (std::uint32_t i = 0; i < engines; ++i) open.push_back(i);
  }
  std::vector<EngineReport> reports;
  std::vector<SentSince> sent;
  std::vector<std::uint32_t> open;
  std::vector<std::int32_t> found;
  std::int64_t edition = 0;
  std::uint64_t number = 0;
  std::vector<BlockKey> keys;

  template <class R>
  std::size_t choose(const R& router, typename R::State& state, std::uint32_t session = 0) {
    RequestSpec spec;
    spec.prompt = Tokens{100};
    spec.session = session;
    const FleetView view{Seconds{0}, edition, reports, sent, open, found};
    const std::size_t to = router.choose(view, {spec, keys, number++}, state);
    CHECK(std::find(open.begin(), open.end(), to) != open.end());
    ++sent[to].requests;
    sent[to].prompts += spec.prompt;
    return to;
  }
  template <class R>
  std::vector<std::size_t> choose(const R& router, int count) {
    typename R::State state{};
    std::vector<std::size_t> all;
    for (int i = 0; i < count; ++i) all.push_back(choose(router, state));
    return all;
  }
};
using Choices = std::vector<std::size_t>;

std::vector<BlockKey> some_keys(std::uint64_t content, std::size_t count) {
  std::vector<BlockKey> keys;
  const ContentPiece pieces[] = {{content, Tokens{static_cast<std::int64_t>(16 * count)}}};
  block_keys(pieces, Tokens{16}, keys);
  return keys;
}

} // namespace

TEST_CASE("a round robin passes over engines that take no requests") {
  Desk desk(4);
  CHECK(desk.choose(RoundRobin{}, 5) == Choices{0, 1, 2, 3, 0});
  desk.open = {1, 3};
  CHECK(desk.choose(RoundRobin{}, 4) == Choices{1, 3, 1, 3});
  RoundRobin::State state;
  desk.open = {0, 1, 2, 3};
  CHECK(desk.choose(RoundRobin{}, state) == 0);
  CHECK(desk.choose(RoundRobin{}, state) == 1);
  desk.open = {0, 1, 3};
  CHECK(desk.choose(RoundRobin{}, state) == 3);
}

TEST_CASE("the least loaded engine has the lowest of 4 x waiting + running, by the report and what was sent since") {
  Desk desk(3);
  desk.reports[0].running = 5;
  desk.reports[1].waiting = 1; // 4
  desk.reports[2].preempted = 1;
  desk.reports[2].running = 3;                                 // 7
  CHECK(desk.choose(LeastLoaded{}, 4) == Choices{1, 0, 2, 1}); // then 8, 9, 11, 12
  desk.sent = {{9, {}}, {}, {}};
  desk.open = {0, 2};
  CHECK(desk.choose(LeastLoaded{}, 1) == Choices{2});
}

TEST_CASE("a new report replaces what the router counted") {
  Desk desk(2);
  LeastLoaded::State state;
  CHECK(desk.choose(LeastLoaded{}, state) == 0);
  CHECK(desk.choose(LeastLoaded{}, state) == 1);
  desk.reports[0].running = 3;
  desk.sent = {{}, {}};
  CHECK(desk.choose(LeastLoaded{}, state) == 0); // the same edition: by what it knew
  desk.sent = {{}, {}};
  ++desk.edition;
  CHECK(desk.choose(LeastLoaded{}, state) == 1);
}

TEST_CASE("random choices depend on the seed and spread evenly") {
  Desk desk(5);
  const Choices a = desk.choose(RandomRouter{Seconds{1}, 1}, 2000);
  desk.number = 0;
  CHECK(desk.choose(RandomRouter{Seconds{1}, 1}, 2000) == a);
  desk.number = 0;
  CHECK(desk.choose(RandomRouter{Seconds{1}, 2}, 2000) != a);
  for (std::size_t i = 0; i < 5; ++i) {
    const auto count = std::count(a.begin(), a.end(), i);
    CHECK(count > 330); // 400 are expected, and 330 are 4 standard deviations fewer
    CHECK(count < 470);
  }
}

TEST_CASE("a session stays, and if an engine closes only its sessions move") {
  Desk desk(5);
  BySession::State state;
  std::map<std::uint32_t, std::size_t> home;
  std::set<std::size_t> used;
  for (std::uint32_t session = 1; session <= 200; ++session) {
    home[session] = desk.choose(BySession{}, state, session);
    used.insert(home[session]);
  }
  CHECK(used.size() == 5);
  for (const auto& [session, engine] : home) CHECK(desk.choose(BySession{}, state, session) == engine);
  desk.open = {0, 1, 2, 4};
  for (const auto& [session, engine] : home)
    if (engine != 3) CHECK(desk.choose(BySession{}, state, session) == engine);
}

TEST_CASE("scores are weighted and added, and equal ones drawn") {
  Desk desk(3);
  desk.keys = some_keys(1, 10);
  desk.reports[0].waiting = 4; // scores 0, 1, .5
  desk.reports[2].waiting = 2;
  desk.reports[0].kv_used = 0.1; // .9, .5, .9
  desk.reports[1].kv_used = 0.5;
  desk.reports[2].kv_used = 0.1;
  desk.found = {10, 0, 10}; // 1, 0, 1
  const auto chosen = [&](double queue, double kv, double found) {
    const WeightedScorers<QueueScorer, KvScorer, FoundScorer> router{
        .scorers = {QueueScorer{queue}, KvScorer{kv}, FoundScorer{found}}};
    return desk.choose(router, 1).front();
  };
  CHECK(chosen(1, 0, 0) == 1);
  CHECK(chosen(0.1, 0, 1) == 2);
  CHECK(chosen(1, 1, 1) == 2);   // 1.9, 1.5, 2.4
  CHECK(chosen(3, 1, 1) == 1);   // 1.9, 3.5, 3.4
  CHECK(chosen(3, 1, 1.2) == 2); // 2.1, 3.5, 3.6
  std::set<std::size_t> equal;
  for (int i = 0; i < 50; ++i) equal.insert(chosen(0, 1, 1));
  CHECK(equal == std::set<std::size_t>{0, 2});
}

TEST_CASE("found prefixes are scored among the engines that have any, as llm-d's precise scorer does") {
  const auto scores_of = [](std::vector<std::int32_t> found) {
    Desk desk(found.size());
    desk.keys = some_keys(1, 20);
    const FleetView view{Seconds{0}, 0, desk.reports, desk.sent, desk.open, found};
    FoundScorer::State state;
    std::vector<double> scores(found.size());
    FoundScorer{2}.score(view, {RequestSpec{}, desk.keys, 0}, state, scores);
    return scores;
  };
  CHECK(scores_of({10, 0, 5, 7}) == std::vector<double>{2, 0, 0, 2 * 0.4});
  CHECK(scores_of({3, 0, 3}) == std::vector<double>{2, 0, 2});
  CHECK(scores_of({0, 1}) == std::vector<double>{0, 2});
  CHECK(scores_of({0, 0}) == std::vector<double>{0, 0});
}

TEST_CASE("holders of a prompt's beginning are found as by asking every engine") {
  // Engines are sets of blocks that are sent prompts and lose blocks. Prompts are paths of a tree: all begin alike,
  // groups go on alike, some end early.
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    Random random(seed);
    constexpr std::size_t engines = 40;
    std::vector<std::set<std::uint64_t>> has(engines);
    std::vector<std::vector<std::vector<BlockKey>>> sent(engines);
    std::vector<std::uint64_t> versions(engines);
    KeyHolders holders;
    std::size_t found_some = 0;
    const auto prompt = [&random] {
      const ContentPiece pieces[] = {{random.below(10) == 0 ? 2U : 1U, Tokens{16 * 8}},
                                     {10 + random.below(5), Tokens{static_cast<std::int64_t>(16 * random.below(9))}},
                                     {20 + random.below(200), Tokens{static_cast<std::int64_t>(16 * random.below(9))}}};
      std::vector<BlockKey> keys;
      block_keys(pieces, Tokens{16}, keys);
      if (random.below(8) == 0) keys.resize(1 + random.below(keys.size()));
      return keys;
    };
    const auto ask = [&](std::uint32_t engine, std::span<const BlockKey> keys) {
      std::size_t count = 0;
      while (count < keys.size() && has[engine].contains(static_cast<std::uint64_t>(keys[count]))) ++count;
      return count;
    };
    for (std::uint64_t stamp = 1; stamp <= 6000; ++stamp) {
      const std::vector<BlockKey> keys = prompt();
      std::vector<KeyHolders::Question> planned;
      holders.plan(
          keys, [&](std::uint32_t engine) { return versions[engine]; }, planned);
      for (const KeyHolders::Question& one : planned) one.put(ask);
      std::vector<std::size_t> found(engines);
      holders.find(keys, ask, [&](std::uint32_t engine, std::size_t count) { found[engine] = count; });
      for (std::uint32_t engine = 0; engine < engines; ++engine) {
        const std::size_t expected = ask(engine, keys);
        REQUIRE(found[engine] == expected);
        found_some += expected > 0 ? 1 : 0;
      }
      const std::size_t to = random.below(engines);
      for (const BlockKey key : keys) has[to].insert(static_cast<std::uint64_t>(key));
      sent[to].push_back(keys);
      ++versions[to];
      holders.add(keys, static_cast<std::uint32_t>(to), stamp);
      if (random.below(4) == 0) { // one loses blocks, and those behind them
        const std::size_t from = random.below(engines);
        has[from].clear();
        for (std::vector<BlockKey>& one : sent[from]) {
          if (random.below(3) == 0) one.resize(random.below(one.size() + 1));
          for (const BlockKey key : one) has[from].insert(static_cast<std::uint64_t>(key));
        }
        ++versions[from];
      }
      if (stamp % 1000 == 0) {
        const std::size_t before = holders.size();
        holders.sweep([&](KeyHolders::Keys beginning, std::uint32_t engine, std::uint64_t /*stamp*/) {
          const bool there = has[engine].contains(static_cast<std::uint64_t>(beginning.back()));
          const auto begins = [&](const std::vector<BlockKey>& one) {
            return one.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), one.begin());
          };
          REQUIRE(std::any_of(sent[engine].begin(), sent[engine].end(), begins) == there); // all keys of the beginning
          return there;
        });
        CHECK(holders.size() < before);
      }
    }
    CHECK(found_some > 100'000);
  }
}

TEST_CASE("questions about prompts that all begin alike do not grow with the engines") {
  const auto questions_with = [](std::size_t engines) {
    Random random(1);
    std::vector<std::uint64_t> versions(engines);
    KeyHolders holders;
    std::int64_t questions = 0;
    const auto ask = [&](std::uint32_t, std::span<const BlockKey>) { return ++questions; };
    for (std::uint64_t stamp = 1; stamp <= 4000; ++stamp) {
      const ContentPiece pieces[] = {{1, Tokens{16 * 8}}, {1 + stamp, Tokens{16 * 8}}};
      std::vector<BlockKey> keys;
      block_keys(pieces, Tokens{16}, keys);
      if (stamp == 3000) questions = 0;
      std::vector<KeyHolders::Question> planned;
      holders.plan(
          keys, [&](std::uint32_t engine) { return versions[engine]; }, planned);
      for (const KeyHolders::Question& one : planned) one.put(ask);
      holders.find(keys, ask, [](std::uint32_t, std::size_t) {});
      const std::size_t to = random.below(engines);
      ++versions[to];
      holders.add(keys, static_cast<std::uint32_t>(to), stamp);
    }
    return static_cast<double>(questions) / 1001;
  };
  CHECK(questions_with(10) < 6);
  CHECK(questions_with(200) < 6);
}

TEST_CASE("a router's own table finds what it sent, and forgets the least recently used") {
  Desk desk(2);
  using Estimated = WeightedScorers<SentScorer>;
  const Estimated router{.scorers = {SentScorer{1, 256, 20}}};
  Estimated::State state;
  std::map<std::uint64_t, std::size_t> home;
  for (const std::uint64_t content : {1U, 2U}) { // until the two contents are on different engines
    desk.keys = some_keys(content, 10);
    home[content] = desk.choose(router, state);
  }
  for (int i = 0; i < 3; ++i)
    for (const std::uint64_t content : {1U, 2U}) {
      desk.keys = some_keys(content, 10);
      CHECK(desk.choose(router, state) == home[content]);
    }
}

TEST_CASE("the table of sent blocks is a set that forgets the least recently used") {
  Random random(7);
  SentBlocks blocks;
  std::list<std::uint64_t> plain; // the most recently used first
  constexpr std::size_t room = 300;
  for (int i = 0; i < 3000; ++i) {
    const std::vector<BlockKey> keys = some_keys(random.below(60), 1 + random.below(40));
    std::size_t expected = 0;
    while (expected < keys.size() &&
           std::find(plain.begin(), plain.end(), static_cast<std::uint64_t>(keys[expected])) != plain.end())
      ++expected;
    REQUIRE(blocks.find(keys) == expected);
    if (random.below(2) == 0) continue;
    blocks.use(keys, room);
    for (const BlockKey key : keys) { // the oldest goes first: of a prompt, its beginning
      plain.remove(static_cast<std::uint64_t>(key));
      plain.push_front(static_cast<std::uint64_t>(key));
      if (plain.size() > room) plain.pop_back();
    }
    REQUIRE(blocks.size() == plain.size());
  }
  CHECK(blocks.size() == room);
}

TEST_CASE("a forecast counts the prompts ahead, what is found, and the pace of each engine") {
  Desk desk(3);
  desk.keys = some_keys(1, 6);
  for (EngineReport& report : desk.reports) {
    report.batch = 10;
    report.chunk_prompts = Tokens{1000};
    report.chunk_time = Seconds{0.1};
  }
  desk.reports[0].to_prefill = Tokens{5000};
  desk.reports[1].to_prefill = Tokens{3000};
  desk.reports[2].to_prefill = Tokens{1000};
  desk.reports[2].chunk_time = Seconds{0.5}; // slower: .55 s for 1.1 chunks, others .51 and .31
  CHECK(desk.choose(ByForecast{}, 1) == Choices{1});
  desk.sent = {{}, {1, Tokens{4000}}, {}};
  CHECK(desk.choose(ByForecast{}, 1) == Choices{0});
  desk.reports[0].running = 10; // full
  desk.sent = {{}, {1, Tokens{4000}}, {}};
  CHECK(desk.choose(ByForecast{}, 1) == Choices{2});
  const FleetView view{{}, 0, desk.reports, desk.sent, desk.open, desk.found};
  RequestSpec spec;
  spec.prompt = Tokens{600};
  CHECK(ByForecast::forecast(view, {spec, desk.keys, 0}, 0).count() == doctest::Approx(0.56));
  desk.found[0] = 3; // half of it
  CHECK(ByForecast::forecast(view, {spec, desk.keys, 0}, 0).count() == doctest::Approx(0.53));
  CHECK(ByForecast::forecast(view, {spec, desk.keys, 0, Tokens{500}}, 0).count() == doctest::Approx(0.51)); // arrives
  desk.reports[0].computes_until = Seconds{0.02}; // the running iteration ends first
  CHECK(ByForecast::forecast(view, {spec, desk.keys, 0}, 0).count() == doctest::Approx(0.55));
}

namespace {

/// The last engine that runs so many at once and so many tokens.
struct LastWithLimits {
  using role = roles::Router;
  static constexpr RouterReads reads{.load = true};
  struct State {};
  Seconds every{0.1};
  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest&, State&) const {
    std::size_t last = 0;
    for (std::size_t i = 0; i < view.engines(); ++i)
      if (view.reports[i].batch == Limits{}.batch && view.reports[i].chunk == Limits{}.batch_tokens) last = i;
    return last;
  }
};
struct JointTime {
  [[nodiscard]] Seconds joint(std::span<const RankWork> /*ranks*/) const { return Seconds{1}; }
};

} // namespace

TEST_CASE("before a group in lock step, engines report at intervals and the front end counts in between") {
  const Server server{.model = llama3_8b(), .device = a100_80(), .kv_blocks = TokenBlocks{1000}};
  const auto group_of_two = [&] {
    std::vector<VllmRecompute> engines;
    for (int i = 0; i < 2; ++i) engines.push_back(*VllmRecompute::make(configure<VllmRecompute>(server)));
    return LockStep<VllmRecompute, JointTime>(std::move(engines), {});
  };
  const RequestSpec spec{Seconds{0}, Tokens{4}, Tokens{9}, {}};
  auto group = group_of_two();
  GroupFront<LeastLoaded> seldom(LeastLoaded{Seconds{100}});
  CHECK(seldom.choose(group, spec) == 0); // equal: the first, which then has one more waiting
  CHECK(seldom.choose(group, spec) == 1);
  CHECK(seldom.choose(group, spec) == 0);
  // A report after an iteration: two requests run in engine 0 and none in engine 1, which gets the next.
  for (int i = 0; i < 2; ++i) REQUIRE(group.submit(0, spec));
  GroupFront<LastWithLimits> limits;
  CHECK(limits.choose(group, spec) == 1); // it sees the batch of both engines, and chooses the last
  REQUIRE(group.step() == Stepped::ran);
  GroupFront<LeastLoaded> fresh(LeastLoaded{Seconds{1}});
  CHECK(fresh.choose(group, spec) == 1);  // 2 to 0
  CHECK(fresh.choose(group, spec) == 0);  // 2 to 4: its own request counts as waiting
  CHECK(seldom.choose(group, spec) == 1); // 8 to 4, by its old report
}
