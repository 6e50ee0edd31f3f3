// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/serve/tee.hpp"

#include "serve/metrics_text.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace sluice;

namespace {

using Kind = GenerationEvent::Kind;

/// Records requests; the test makes the events.
class FakeEngine final : public GenerationEngine {
 public:
  void submit(GenerationId id, Generation generation) override { submitted[id] = std::move(generation); }
  void cancel(GenerationId id) override { cancelled.insert(id); }
  bool ready() const override { return is_ready; }
  void metrics(PrometheusWriter& to) override { to.counter("sluice:steps_total", "Steps.", own_steps); }
  std::string live() override { return own_live; }

  std::map<GenerationId, Generation> submitted;
  std::set<GenerationId> cancelled;
  double own_steps = 0;
  std::string own_live;
  bool is_ready = true;
};

struct TeeClient final : GenerationListener {
  void happened(std::vector<GenerationEvent> events) override {
    for (GenerationEvent& event : events) all.push_back(std::move(event));
  }
  std::vector<GenerationEvent> all;
};

GenerationEvent event(std::uint64_t id, Kind kind, std::vector<std::int32_t> tokens = {}) {
  GenerationEvent one;
  one.id = GenerationId{id};
  one.kind = kind;
  one.tokens = std::move(tokens);
  return one;
}

struct TeeWorld {
  explicit TeeWorld(TeeLimits limits = {})
      : tee(
            client, [this](const TeeDifference& one) { found.push_back(one); }, limits) {
    auto first = std::make_unique<FakeEngine>(), second = std::make_unique<FakeEngine>();
    engine = first.get();
    follower = second.get();
    tee.attach(std::move(first), std::move(second));
  }
  void submit(std::uint64_t id) { tee.submit(GenerationId{id}, {}); }
  void first(GenerationEvent one) { tee.first().happened({std::move(one)}); }
  void second(GenerationEvent one) { tee.second().happened({std::move(one)}); }

  TeeClient client;
  std::vector<TeeDifference> found;
  FakeEngine *engine = nullptr, *follower = nullptr;
  Tee tee;
};

using Answer = std::vector<std::int32_t>;

/// An answer in events of one to five tokens, then its end.
std::vector<GenerationEvent> told(std::uint64_t id, const Answer& answer, Random& random) {
  std::vector<GenerationEvent> events{event(id, Kind::accepted)};
  for (std::size_t at = 0; at < answer.size();) {
    const std::size_t count = std::min<std::size_t>(1 + random.below(5), answer.size() - at);
    const auto from = answer.begin() + static_cast<std::ptrdiff_t>(at);
    events.push_back(event(id, Kind::tokens, Answer(from, from + static_cast<std::ptrdiff_t>(count))));
    at += count;
  }
  events.push_back(event(id, Kind::ended));
  return events;
}

bool says(const std::string& metrics, const std::string& line) {
  return metrics.find(line + "\n") != std::string::npos;
}

} // namespace

TEST_CASE("Tee counts and reports differences, in whatever order the two engines' events come") {
  Random random{7};
  for (int trial = 0; trial < 50; ++trial) {
    TeeWorld world;
    TeeFigures expected;
    std::map<std::uint64_t, TeeDifference> firsts;
    std::vector<std::vector<GenerationEvent>> of_first, of_second;
    std::size_t events = 0;
    for (std::uint64_t id = 1; id <= 12; ++id) {
      Answer one, two;
      for (std::size_t i = random.below(30); i > 0; --i) one.push_back(static_cast<std::int32_t>(random.below(1000)));
      two = one;
      if (random.below(3) == 0 && !two.empty()) two[random.below(two.size())] += 1;
      if (random.below(4) == 0) two.resize(random.below(30), -1);
      expected.generations += 1;
      bool differs = false;
      for (std::size_t i = 0; i < std::max(one.size(), two.size()); ++i) {
        expected.tokens += 1;
        const auto of = [i](const Answer& all) { return i < all.size() ? std::optional{all[i]} : std::nullopt; };
        if (of(one) == of(two)) continue;
        expected.differing_tokens += 1;
        if (!differs) firsts[id] = {GenerationId{id}, static_cast<std::int64_t>(i), of(one), of(two)};
        differs = true;
      }
      expected.differing_generations += differs ? 1 : 0;
      of_first.push_back(told(id, one, random));
      of_second.push_back(told(id, two, random));
      events += of_first.back().size() + of_second.back().size();
      world.submit(id);
    }
    std::vector<std::size_t> at_first(12, 0), at_second(12, 0);
    for (std::size_t left = events; left > 0;) {
      const std::size_t which = random.below(12);
      const bool first = random.below(2) == 0;
      std::size_t& at = (first ? at_first : at_second)[which];
      const auto& all = (first ? of_first : of_second)[which];
      if (at == all.size()) continue;
      first ? world.first(all[at]) : world.second(all[at]);
      ++at;
      --left;
    }
    const TeeFigures figures = world.tee.figures();
    CHECK(figures.tokens == expected.tokens);
    CHECK(figures.differing_tokens == expected.differing_tokens);
    CHECK(figures.generations == expected.generations);
    CHECK(figures.differing_generations == expected.differing_generations);
    REQUIRE(world.found.size() == firsts.size());
    for (const TeeDifference& one : world.found) {
      const TeeDifference& other = firsts.at(static_cast<std::uint64_t>(one.id));
      CHECK(one.position == other.position);
      CHECK(one.token == other.token);
      CHECK(one.tee_token == other.tee_token);
    }
    CHECK(says(sluice::testing::metrics_text(world.tee), "sluice:tee_tokens_ahead 0"));
    std::size_t heard = 0;
    for (const auto& all : of_first) heard += all.size();
    CHECK(world.client.all.size() == heard); // only the first engine's events
  }
}

TEST_CASE("Tee: engines on threads of their own") {
  TeeWorld world;
  constexpr std::uint64_t count = 200;
  for (std::uint64_t id = 0; id < count; ++id) world.submit(id);
  const auto tell = [](GenerationListener& to, std::uint64_t seed) {
    Random random{seed};
    for (std::uint64_t id = 0; id < count; ++id)
      for (GenerationEvent& one : told(id, Answer(id, 5), random)) to.happened({std::move(one)});
  };
  std::thread one([&] { tell(world.tee.first(), 1); });
  std::thread two([&] { tell(world.tee.second(), 2); });
  while (world.tee.figures().generations < static_cast<std::int64_t>(count))
    (void)sluice::testing::metrics_text(world.tee);
  one.join();
  two.join();
  CHECK(world.tee.figures().tokens == count * (count - 1) / 2);
  CHECK(world.tee.figures().differing_tokens == 0);
  CHECK(world.found.empty());
}

TEST_CASE("Tee compares a cancelled generation up to the last token that both engines made") {
  TeeWorld world;
  world.submit(1);
  world.first(event(1, Kind::tokens, {1, 2, 3, 4}));
  world.second(event(1, Kind::tokens, {1, 2}));
  world.tee.cancel(GenerationId{1});
  CHECK(world.engine->cancelled.count(GenerationId{1}) == 1);
  CHECK(world.follower->cancelled.count(GenerationId{1}) == 1);
  world.second(event(1, Kind::tokens, {9, 9})); // on its way
  world.first(event(1, Kind::tokens, {5}));
  CHECK(world.tee.figures().tokens == 2);
  CHECK(world.tee.figures().differing_tokens == 0);
  CHECK(world.tee.figures().generations == 0);
  CHECK(says(sluice::testing::metrics_text(world.tee), "sluice:tee_tokens_ahead 0"));
  world.follower->cancelled.clear();
  world.tee.cancel(GenerationId{1}); // again: it is unknown by now
  CHECK(world.follower->cancelled.empty());
}

TEST_CASE("Tee: a refusal by either engine ends the comparison; only the first engine's reaches the client") {
  TeeWorld world;
  for (std::uint64_t id = 1; id <= 4; ++id) world.submit(id);
  world.second(event(4, Kind::refused)); // refused by both: not counted as left out
  world.first(event(4, Kind::refused));
  world.client.all.clear();
  world.first(event(1, Kind::refused));
  CHECK(world.follower->cancelled.count(GenerationId{1}) == 1);
  world.second(event(2, Kind::refused));
  world.second(event(3, Kind::tokens, {7}));
  world.second(event(3, Kind::failed));
  REQUIRE(world.client.all.size() == 1);
  CHECK(world.client.all[0].kind == Kind::refused);
  for (std::uint64_t id = 2; id <= 3; ++id) {
    world.first(event(id, Kind::tokens, {7, 8}));
    world.first(event(id, Kind::ended));
  }
  CHECK(world.client.all.size() == 5);
  CHECK(world.engine->cancelled.empty());
  const TeeFigures figures = world.tee.figures();
  CHECK(figures.refused == 1);
  CHECK(figures.failed == 1);
  CHECK(figures.tokens == 0);
  CHECK(figures.generations == 0);
  const std::string metrics = sluice::testing::metrics_text(world.tee);
  CHECK(says(metrics, "sluice:tee_left_out_total{reason=\"refused\"} 1"));
  CHECK(says(metrics, "sluice:tee_left_out_total{reason=\"failed\"} 1"));
  CHECK(says(metrics, "sluice:tee_tokens_ahead 0"));
}

TEST_CASE("Tee leaves out generations for which the second engine is too far behind or ahead") {
  for (const bool second_is_late : {true, false}) {
    TeeWorld world({.generations = 2, .tokens = 10});
    const auto late = [&](GenerationEvent one) { second_is_late ? world.second(one) : world.first(one); };
    const auto early = [&](GenerationEvent one) { second_is_late ? world.first(one) : world.second(one); };
    world.submit(1);
    world.submit(2);
    world.submit(3); // beyond two: the second engine does not get it
    CHECK(world.engine->submitted.size() == 3);
    CHECK(world.follower->submitted.size() == 2);
    CHECK(world.tee.figures().lagged == 1);
    early(event(1, Kind::tokens, Answer(6, 1)));
    early(event(2, Kind::tokens, Answer(4, 1)));
    CHECK(world.follower->cancelled.empty());
    early(event(1, Kind::tokens, {1})); // eleven
    CHECK(world.follower->cancelled.count(GenerationId{1}) == 1);
    CHECK(world.engine->cancelled.empty());
    CHECK(world.tee.figures().lagged == 2);
    CHECK(says(sluice::testing::metrics_text(world.tee), "sluice:tee_tokens_ahead 4"));
    late(event(1, Kind::tokens, {3, 3})); // on its way
    late(event(2, Kind::tokens, Answer(4, 1)));
    early(event(2, Kind::ended));
    late(event(2, Kind::ended));
    CHECK(world.tee.figures().tokens == 4);
    CHECK(world.tee.figures().generations == 1);
    CHECK(world.tee.figures().differing_tokens == 0);
    world.submit(4); // there is room again
    CHECK(world.follower->submitted.count(GenerationId{4}) == 1);
  }
}

TEST_CASE("Tee is ready when both engines are; later failures of the second do not affect clients") {
  TeeWorld world;
  world.follower->is_ready = false;
  CHECK(!world.tee.ready());
  world.follower->is_ready = true;
  world.engine->is_ready = false;
  CHECK(!world.tee.ready());
  world.engine->is_ready = true;
  CHECK(world.tee.ready());
  world.follower->is_ready = false; // its run failed
  CHECK(world.tee.ready());
  world.engine->is_ready = false;
  CHECK(!world.tee.ready());
}

TEST_CASE("Tee gives both engines the same generation, and shows the first one's figures") {
  TeeWorld world;
  Generation generation;
  generation.prompt = {1, 2, 3};
  generation.max_tokens = 9;
  generation.sampling.seed = 17;
  generation.sampling.temperature = 0.5F;
  generation.sequence = 2;
  generation.logprobs = 3;
  world.tee.submit(GenerationId{1}, generation);
  const Generation &one = world.engine->submitted.at(GenerationId{1}),
                   &two = world.follower->submitted.at(GenerationId{1});
  CHECK(one.logprobs == 3);
  CHECK(two.logprobs == -1);
  for (const Generation* got : {&one, &two}) {
    CHECK(got->prompt == generation.prompt);
    CHECK(got->max_tokens == 9);
    CHECK(got->sampling.seed == 17);
    CHECK(got->sampling.temperature == generation.sampling.temperature);
    CHECK(got->sequence == 2);
  }
  world.engine->own_steps = 7;
  world.engine->own_live = R"({"steps":7})";
  world.follower->own_steps = 9;
  world.follower->own_live = "{}";
  CHECK(says(sluice::testing::metrics_text(world.tee), "sluice:steps_total 7"));
  CHECK(!says(sluice::testing::metrics_text(world.tee), "sluice:steps_total 9"));
  CHECK(world.tee.live() == R"({"steps":7})");
}

TEST_CASE("log_line writes a TeeDifference as one line of JSON") {
  CHECK(
      log_line({GenerationId{3}, 5, 12, 13}, "2026-11-23T23:04:58.123Z") ==
      R"({"event":"tee_difference","time":"2026-11-23T23:04:58.123Z","generation":3,"position":5,"token":12,"tee_token":13})");
  CHECK(
      log_line({GenerationId{3}, 5, 12, std::nullopt}, "2026-11-23T23:04:58.123Z") ==
      R"({"event":"tee_difference","time":"2026-11-23T23:04:58.123Z","generation":3,"position":5,"token":12,"tee_token":null})");
}
