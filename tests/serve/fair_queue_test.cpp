// SPDX-License-Identifier: Apache-2.0
// FairQueue: shares, places for quiet keys, limits of one key, and nothing lost, in random loads.
#include "sluice/core/random.hpp"
#include "sluice/serve/fair_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

/// Notes what reaches it.
struct Noted final : GenerationEngine {
  std::vector<GenerationId> sent, cancelled;
  std::vector<double> waits, ttfts;
  void submit(GenerationId id, Generation generation) override {
    sent.push_back(id);
    waits.push_back(generation.waited.count());
    ttfts.push_back(ahead_of(slo_left(generation), generation.lead).ttft.count());
  }
  void cancel(GenerationId id) override { cancelled.push_back(id); }
  [[nodiscard]] bool ready() const override { return true; }
  void metrics(PrometheusWriter& /*to*/) override {}
  [[nodiscard]] std::string live() override { return {}; }
};

struct World {
  Noted engine;
  double now = 0;
  FairQueue queue;
  std::uint64_t last = 0;

  explicit World(int places)
      : queue(
            engine, [this] { return now; }, places) {}
  GenerationId submit(const std::shared_ptr<KeyAccount>& key, std::size_t prompt = 10, std::size_t among = 2) {
    Generation generation;
    generation.prompt.resize(prompt);
    queue.submit(GenerationId{++last}, std::move(generation), key, among);
    return GenerationId{last};
  }
  [[nodiscard]] bool has(GenerationId id) const {
    return std::find(engine.sent.begin(), engine.sent.end(), id) != engine.sent.end();
  }
};

std::shared_ptr<KeyAccount> key_of(const char* name, std::int64_t weight = 1, std::int64_t concurrent = 0) {
  ApiKey key;
  key.name = key.secret = name;
  key.weight = weight;
  key.concurrent = concurrent;
  return std::make_shared<KeyAccount>(key, 0);
}

} // namespace

TEST_CASE("a quiet key's request reaches the engine at once beside hundreds of another key's") {
  World world(16);
  const auto busy = key_of("busy"), quiet = key_of("quiet");
  world.queue.cancel(world.submit(quiet));
  world.engine.sent.clear();
  for (int i = 0; i < 300; ++i) (void)world.submit(busy);
  CHECK(world.engine.sent.size() == 14); // an eighth of the places is left
  CHECK(world.queue.held() == 286);
  CHECK(world.has(world.submit(quiet)));
  world.queue.left(GenerationId{2});
  CHECK(world.engine.sent.size() == 15); // 14 places of 16 are taken again, so the busy key waits
  world.queue.left(GenerationId{3});
  CHECK(world.engine.sent.size() == 16);
}

TEST_CASE("a key has all places while no other has asked for anything for a minute") {
  World world(16);
  const auto busy = key_of("busy"), quiet = key_of("quiet");
  world.queue.cancel(world.submit(quiet));
  for (int i = 0; i < 300; ++i) (void)world.submit(busy);
  CHECK(world.engine.sent.size() == 1 + 14);
  world.now = 61;
  world.queue.left(GenerationId{2});
  CHECK(world.engine.sent.size() == 1 + 17);
  const GenerationId early = world.submit(quiet);
  CHECK(world.has(early)); // beyond the places
  for (std::uint64_t id = 1; id <= 14; ++id) world.queue.charge(GenerationId{id}, 100);
  world.queue.charge(early, 20);
  world.queue.left(early);
  CHECK(world.has(world.submit(quiet))); // again, since it has still had less
}

TEST_CASE("a key that holds less than its part is not full, and its own limit is counted by itself") {
  World world(4);
  const auto busy = key_of("busy"), other = key_of("other"), narrow = key_of("narrow", 1, 1);
  for (int i = 0; i < 104; ++i) (void)world.submit(busy, 10, 3);
  REQUIRE(world.queue.held() == 100);
  CHECK(!world.queue.full(busy, 3, 101));
  REQUIRE(world.queue.full(busy, 3, 100));
  CHECK(!world.queue.full(busy, 3, 100)->own_limit);
  CHECK(world.queue.full(busy, 3, 100)->held == 100);
  for (int i = 0; i < 34; ++i, (void)world.submit(other, 10, 3)) CHECK(!world.queue.full(other, 3, 100));
  CHECK(world.queue.full(other, 3, 100)); // its first is in the engine, and 33 are its part
  CHECK(!world.queue.full(nullptr, 3, 0));
  for (int i = 0; i < 101; ++i, (void)world.submit(narrow, 10, 3)) CHECK(!world.queue.full(narrow, 3, 100));
  REQUIRE(world.queue.full(narrow, 3, 100));
  CHECK(world.queue.full(narrow, 3, 100)->own_limit);
  CHECK(world.queue.full(narrow, 3, 100)->held == 100);
  CHECK(world.queue.full(busy, 3, 100)->held == 100 + 33); // without those of the narrow key
}

TEST_CASE("the time to retry is what a key holds, at the pace at which its answers leave the engine") {
  World world(4);
  const auto busy = key_of("busy");
  for (int i = 0; i < 50; ++i) (void)world.submit(busy);
  CHECK(world.queue.full(busy, 2, 46)->retry_s == 1); // no answer has left the engine
  for (std::uint64_t id = 1; id <= 6; ++id) {
    world.now += 3;
    world.queue.left(GenerationId{id});
  }
  CHECK(world.queue.full(busy, 2, 40)->retry_s == doctest::Approx(40 * 3));
}

TEST_CASE("without keys, and with one key, nothing is held back; a key's own limit always counts") {
  World world(4);
  const auto only = key_of("only"), narrow = key_of("narrow", 1, 3);
  for (int i = 0; i < 50; ++i) (void)world.submit(nullptr);
  for (int i = 0; i < 50; ++i) (void)world.submit(only, 10, 1);
  CHECK(world.engine.sent.size() == 100);
  for (int i = 0; i < 50; ++i) (void)world.submit(narrow, 10, 1);
  CHECK(world.engine.sent.size() == 103);
}

TEST_CASE("competing keys get tokens by their weights, whatever the length of their requests") {
  World world(8);
  const std::array keys{key_of("a"), key_of("b", 3), key_of("c")};
  const std::array<std::size_t, 3> prompts{10, 100, 400};
  std::array<double, 3> tokens{};
  std::vector<std::size_t> owner(1); // by id
  std::array<int, 3> waiting{};
  std::vector<GenerationId> running;
  std::size_t seen = 0;
  const auto refill = [&] {
    for (std::size_t k = 0; k < keys.size(); ++k)
      for (; waiting[k] < 20; ++waiting[k]) {
        owner.push_back(k);
        (void)world.submit(keys[k], prompts[k]);
      }
  };
  Random random(5);
  for (int event = 0; event < 20'000; ++event) {
    refill();
    for (; seen < world.engine.sent.size(); ++seen) {
      const GenerationId id = world.engine.sent[seen];
      const std::size_t k = owner[static_cast<std::size_t>(id)];
      --waiting[k];
      tokens[k] += static_cast<double>(prompts[k]);
      running.push_back(id);
    }
    const auto gone = running.begin() + static_cast<std::ptrdiff_t>(random.below(running.size()));
    world.queue.charge(*gone, 20);
    tokens[owner[static_cast<std::size_t>(*gone)]] += 20;
    world.queue.left(*gone);
    running.erase(gone);
    CHECK(running.size() <= 8 + 1);
  }
  CHECK(tokens[1] / tokens[0] == doctest::Approx(3).epsilon(0.05));
  CHECK(tokens[2] / tokens[0] == doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("nothing is lost: each generation reaches the engine once, unless it is cancelled before") {
  Random random(9);
  World world(6);
  const std::array keys{key_of("a"), key_of("b", 2), key_of("c", 1, 2)};
  std::vector<GenerationId> open, dropped;
  for (int event = 0; event < 5'000; ++event) {
    world.now += random.uniform();
    if (open.empty() || random.below(2) == 0) {
      open.push_back(world.submit(keys[random.below(3)], 1 + random.below(50), 3));
    } else {
      const auto at = open.begin() + static_cast<std::ptrdiff_t>(random.below(open.size()));
      const bool sent = world.has(*at);
      if (random.below(4) == 0) {
        if (!sent) dropped.push_back(*at);
        world.queue.cancel(*at);
        open.erase(at);
      } else if (sent) {
        world.queue.left(*at);
        world.queue.left(*at); // has no effect
        open.erase(at);
      }
    }
  }
  while (!open.empty()) {
    const auto at = std::find_if(open.begin(), open.end(), [&](GenerationId id) { return world.has(id); });
    REQUIRE(at != open.end()); // somebody always runs
    world.queue.left(*at);
    open.erase(at);
  }
  CHECK(world.queue.held() == 0);
  CHECK(world.engine.sent.size() + dropped.size() == world.last);
  for (const GenerationId id : dropped) CHECK(!world.has(id));
  std::vector<GenerationId> once = world.engine.sent;
  std::sort(once.begin(), once.end());
  CHECK(std::adjacent_find(once.begin(), once.end()) == once.end());
}

TEST_CASE("what a request has waited here is time that its first token no longer has") {
  World world(1);
  const auto one = key_of("one", 1, 1);
  const GenerationId first = world.submit(one);
  Generation next;
  next.prompt.resize(10);
  next.slo.ttft = Seconds{3};
  next.lead.ttft = Seconds{0.1};
  const GenerationId second{++world.last};
  world.queue.submit(second, std::move(next), one, 2);
  world.now = 2.5;
  CHECK(!world.has(second));
  world.queue.left(first);
  REQUIRE(world.has(second));
  CHECK(world.engine.waits == std::vector<double>{0, 2.5});
  CHECK(world.engine.ttfts.back() == doctest::Approx(0.4)); // not the half of the SLO that a lead leaves
}
