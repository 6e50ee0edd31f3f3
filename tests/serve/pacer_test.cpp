// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/serve/pacer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

/// The test decides when time passes, and when due work runs, maybe late.
class ManualTransport final : public HttpTransport {
 public:
  void post(std::function<void()> work) override { posted.push_back(std::move(work)); }
  void after(double seconds, std::function<void()> work) override { timers.emplace(now + seconds, std::move(work)); }
  /// Runs expired timers and posted work until nothing is left.
  void catch_up() {
    for (;;) {
      while (!timers.empty() && timers.begin()->first <= now) {
        posted.push_back(std::move(timers.begin()->second));
        timers.erase(timers.begin());
      }
      if (posted.empty()) return;
      const auto work = std::move(posted.front());
      posted.pop_front();
      work();
    }
  }
  void run_until(double when) {
    catch_up();
    while (!timers.empty() && timers.begin()->first <= when) {
      now = std::max(now, timers.begin()->first);
      catch_up();
    }
    now = when;
    catch_up();
  }
  double now = 0;
  std::deque<std::function<void()>> posted;
  std::multimap<double, std::function<void()>> timers;
};

class Heard final : public GenerationListener {
 public:
  explicit Heard(const ManualTransport& transport) : transport_(&transport) {}
  void happened(std::vector<GenerationEvent> events) override {
    for (GenerationEvent& event : events) all.emplace_back(transport_->now, std::move(event));
  }
  std::vector<std::pair<double, GenerationEvent>> all;

 private:
  const ManualTransport* transport_;
};

GenerationEvent token(std::uint64_t id, std::int32_t token, double hold_s) {
  GenerationEvent event;
  event.id = GenerationId{id};
  event.tokens = {token};
  event.hold_s = hold_s;
  return event;
}
GenerationEvent end(std::uint64_t id) {
  GenerationEvent event;
  event.id = GenerationId{id};
  event.kind = GenerationEvent::Kind::ended;
  return event;
}

} // namespace

TEST_CASE("Pacer passes on events without hold at once, and the others when they are due") {
  ManualTransport transport;
  Heard heard(transport);
  Pacer pacer(transport, [&] { return transport.now; });
  pacer.tell(heard);
  pacer.happened({token(1, 10, 0), token(2, 20, 0.5), token(1, 11, 0.2)});
  transport.catch_up();
  CHECK(heard.all.size() == 1);
  transport.run_until(1);
  REQUIRE(heard.all.size() == 3);
  CHECK(heard.all[1].first == doctest::Approx(0.2));
  CHECK(heard.all[1].second.tokens.front() == 11);
  CHECK(heard.all[2].first == doctest::Approx(0.5));
}

TEST_CASE("Pacer notes when each event was due, also of those that were late already, and holds none of these") {
  ManualTransport transport;
  transport.now = 100;
  Heard heard(transport);
  Pacer pacer(transport, [&] { return transport.now; });
  pacer.tell(heard);
  pacer.happened({token(1, 10, -0.25), token(2, 20, 0)});
  REQUIRE(heard.all.size() == 2);
  CHECK(heard.all[0].second.due_s == doctest::Approx(99.75));
  CHECK(heard.all[1].second.due_s == doctest::Approx(100));
  pacer.happened({token(2, 21, 0.5), token(1, 11, -0.1), token(2, 22, 0.2)});
  transport.run_until(102);
  REQUIRE(heard.all.size() == 5);
  CHECK(heard.all[2].second.tokens.front() == 11);
  CHECK(heard.all[2].second.due_s == doctest::Approx(99.9));
  CHECK(heard.all[3].second.due_s == doctest::Approx(100.5));
  CHECK(heard.all[4].second.due_s == doctest::Approx(100.2)); // it waits for the one before it
  CHECK(heard.all[4].first == doctest::Approx(100.5));
}

TEST_CASE(
    "Pacer keeps each generation's order on a late thread: no event overtakes, no end comes before a held token") {
  Random random(3);
  for (int trial = 0; trial < 200; ++trial) {
    ManualTransport transport;
    Heard heard(transport);
    Pacer pacer(transport, [&] { return transport.now; });
    pacer.tell(heard);
    const std::uint64_t late = random.below(5); // how rarely the transport's thread runs
    std::map<std::uint64_t, std::int32_t> made;
    for (int call = 0; call < 40; ++call) {
      std::vector<GenerationEvent> events;
      for (std::uint64_t id = 0; id < 4; ++id)
        for (std::uint64_t n = random.below(3); n > 0; --n)
          events.push_back(
              token(id, made[id]++, random.below(2) == 0 ? 0 : 0.01 * static_cast<double>(random.below(30))));
      if (call == 39)
        for (std::uint64_t id = 0; id < 4; ++id) events.push_back(end(id));
      pacer.happened(std::move(events));
      transport.now += 0.01 * static_cast<double>(random.below(10));
      if (random.below(late + 1) == 0) transport.catch_up();
    }
    transport.run_until(transport.now + 10);
    std::map<std::uint64_t, std::int32_t> told;
    int ended = 0;
    for (const auto& [when, event] : heard.all) {
      const auto id = static_cast<std::uint64_t>(event.id);
      if (event.kind == GenerationEvent::Kind::ended) {
        CHECK(told[id] == made[id]);
        ++ended;
      } else {
        CHECK(event.tokens.front() == told[id]);
        ++told[id];
      }
    }
    CHECK(ended == 4);
    CHECK(transport.timers.empty());
  }
}
