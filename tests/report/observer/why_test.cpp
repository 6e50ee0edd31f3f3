// SPDX-License-Identifier: Apache-2.0
// Why, compared with scenes of known times; tests/engine/time_audit.hpp checks it against the clock in every system.
#include "sluice/report/observer/why.hpp"
#include "sluice/report/report.hpp"
#include "sluice/report/why_text.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// An iteration made by hand: its layers and transfers are those that a replay reports.
struct Told {
  struct Layer {
    int layer;
    double stall_s;
  };
  struct Moved {
    int stream, layer;
    double end_s;
  };
  std::vector<Layer> layers;
  std::vector<Moved> transfers;

  void operator()(TimelineSink& sink) const {
    double at = 0;
    for (const Layer& one : layers) {
      sink.layer(one.layer, at + one.stall_s, at + one.stall_s + 0.001, one.stall_s,
                 one.stall_s > 0 ? StallCause::link : StallCause::none);
      at += one.stall_s + 0.001;
    }
    for (const Moved& one : transfers) sink.transfer(one.stream, one.layer, 0, one.end_s);
  }
};

struct Scene {
  HandMade made;
  Why why;
  Why::State state;
  std::vector<Claim> batch;
  std::vector<Slot> streams;

  Slot submit(double arrival, double tbt = 0.1) {
    const Slot slot = made.decoding(Tokens{32}, Tokens{0}, Tokens{50});
    RequestRow& row = made.rows[index(slot)];
    row.computed = Tokens{0};
    row.spec.arrival = Seconds{arrival};
    row.spec.slo.tbt = Seconds{tbt};
    why.on(state, events::Submitted{row});
    return slot;
  }
  RequestRow& row(Slot slot) { return made.rows[index(slot)]; }
  RequestTime& of(Slot slot) { return state.requests[index(row(slot).id)]; }
  double spent(Slot slot, TimeCause cause) { return seconds_of(of(slot).spent[static_cast<std::size_t>(cause)]); }
  /// Runs an iteration in which each request of the batch generates a token, which is released at once.
  void run(double start, double duration, double stall = 0, const Told& told = {}) {
    IterationRecord record;
    record.step = ++step;
    record.start = Seconds{start};
    record.duration = Seconds{duration};
    record.stall = Seconds{stall};
    record.batch = batch;
    record.rows = made.rows;
    record.stream_slots = streams;
    for (const Claim& claim : batch) {
      record.tokens += claim.tokens;
      record.decodes += claim.tokens == Tokens{1} ? 1 : 0;
    }
    why.on(state, events::Iterated{record, TimelineReplay{told}});
    for (const Claim& claim : batch) {
      if (claim.tokens.count() == 0) continue;
      RequestRow& of = row(claim.slot);
      of.computed += claim.tokens;
      of.generated += Tokens{1};
      of.delivered += Tokens{1};
      why.on(state, events::Delivered{of, Tokens{1}, Seconds{start + duration}});
    }
  }
  std::int64_t step = 0;
};

} // namespace

TEST_CASE("Why: an iteration is divided into its computation and its stalls, each charged to the request whose KV it "
          "waited for") {
  Scene scene;
  const Slot a = scene.submit(1), b = scene.submit(1.25);
  scene.batch = {{a, Tokens{32}}};
  scene.run(2, 0.5); // a's prompt, while b waits
  scene.batch = {{a, Tokens{0}}, {b, Tokens{32}}};
  scene.run(2.5, 0.5); // b's prompt delays a
  scene.batch = {{a, Tokens{1}}, {b, Tokens{1}}};
  scene.streams = {a, b};
  scene.run(3, 0.1, 0.04,
            {{{0, 0.01}, {2, 0.02}, {5, 0.01}}, {{0, 2, 0.03}, {1, 2, 0.01}, {1, 5, 0.05}, {2, 6, 0.06}}});
  CHECK(scene.spent(a, TimeCause::queue) == doctest::Approx(1));
  CHECK(scene.spent(a, TimeCause::prompt) == doctest::Approx(0.5));
  CHECK(scene.spent(a, TimeCause::held) == doctest::Approx(0.5));
  CHECK(scene.spent(b, TimeCause::queue) == doctest::Approx(1.25));
  for (const Slot one : {a, b}) {
    CHECK(scene.spent(one, TimeCause::decode) == doctest::Approx(0.06));
    CHECK(scene.spent(one, TimeCause::moves) ==
          doctest::Approx(0.01)); // the first layer, for which nothing was fetched
  }
  CHECK(scene.spent(a, TimeCause::own_kv) == doctest::Approx(0.02));
  CHECK(scene.spent(a, TimeCause::others_kv) == doctest::Approx(0.01));
  CHECK(scene.spent(b, TimeCause::own_kv) == doctest::Approx(0.01));
  CHECK(scene.spent(b, TimeCause::others_kv) == doctest::Approx(0.02));
  CHECK(scene.of(b).stalled_by[0].id == scene.row(a).id);
  CHECK(seconds_of(scene.of(b).stalled_by[0].ticks) == doctest::Approx(0.02));
  CHECK(scene.of(b).stalled_by[0].least == scene.of(b).stalled_by[0].ticks);
  CHECK(seconds_of(scene.of(a).caused) == doctest::Approx(0.02));
  // Streamed blocks beyond the named ones are weights.
  scene.run(3.1, 0.1, 0.02, {{{0, 0.02}}, {{2, 0, 0.02}}});
  CHECK(scene.spent(a, TimeCause::weights) == doctest::Approx(0.02));
  const RequestTime& of = scene.of(a);
  CHECK(std::accumulate(of.spent.begin(), of.spent.end(), std::int64_t{0}) ==
        ticks_of(Seconds{3.2}) - ticks_of(Seconds{1}));
  CHECK(of.spells.front().cause == TimeCause::queue);
  REQUIRE(of.spells.size() == 4); // waits, its prompt, delayed, decodes
  CHECK(of.spells[2].by[0] == scene.row(b).id);
}

TEST_CASE("Why: a pause names the requests that ran instead, and the deadlines that passed in it") {
  Scene scene;
  const Slot a = scene.submit(0), b = scene.submit(0), c = scene.submit(0);
  scene.batch = {{a, Tokens{32}}, {b, Tokens{32}}};
  scene.run(0, 0.1);
  scene.batch = {{a, Tokens{1}}, {b, Tokens{1}}};
  scene.run(0.1, 0.1);
  scene.why.on(scene.state, events::Preempted{scene.row(a), Kept::device, Seconds{0.2}});
  scene.batch = {{b, Tokens{0}}, {c, Tokens{32}}};
  scene.run(0.2, 0.5); // c is new: a was paused for c
  scene.batch = {{b, Tokens{1}}, {c, Tokens{1}}};
  scene.run(0.7, 0.1);
  scene.why.on(scene.state, events::Resumed{scene.row(a), Seconds{0.8}});
  scene.batch = {{a, Tokens{1}}, {b, Tokens{1}}};
  scene.run(0.8, 0.2);
  const RequestTime& of = scene.of(a);
  CHECK(scene.spent(a, TimeCause::paused) == doctest::Approx(0.6));
  // A token at 0.2 and the next at 1.0: those due at 0.3 to 0.9 were late, six of eight parts while paused.
  CHECK(of.all_missed() == doctest::Approx(7));
  CHECK(of.missed[static_cast<std::size_t>(TimeCause::paused)] == doctest::Approx(7 * 0.6 / 0.8));
  CHECK(of.missed[static_cast<std::size_t>(TimeCause::decode)] == doctest::Approx(7 * 0.2 / 0.8));
  scene.why.on(scene.state, events::Ended{scene.row(a), Seconds{1}});
  const std::string line = why_line(of, 10);
  CHECK(line == "P#~~~~~~##");
  const std::string sentence = why_sentence(of);
  CAPTURE(sentence);
  CHECK(sentence.find("paused (60.0 %)") != std::string::npos);
  CHECK(sentence.find("made room for request 2.") != std::string::npos);
  CHECK(sentence.find("7 deadlines passed without a token, 5 of them while it was paused") != std::string::npos);
}

TEST_CASE(
    "Why: a deadline that the deposit could not meet is charged to the time after the last token that it released") {
  Scene scene;
  const Slot a = scene.submit(0), b = scene.submit(0);
  scene.batch = {{a, Tokens{32}}};
  scene.run(0, 0.1);
  scene.row(a).generated = Tokens{3}; // two tokens wait
  scene.row(a).computed = Tokens{34};
  scene.batch = {{a, Tokens{0}}, {b, Tokens{32}}};
  scene.run(0.1, 0.9); // b's prompt delays a
  scene.why.on(scene.state, events::Delivered{scene.row(a), Tokens{1}, Seconds{0.2}});
  scene.why.on(scene.state, events::Delivered{scene.row(a), Tokens{1}, Seconds{0.3}});
  scene.batch = {{a, Tokens{1}}};
  scene.run(1, 0.1);
  const auto& missed = scene.of(a).missed;
  // The gap is 0.3 to 1.1: seven deadlines, 0.7 s delayed and 0.1 s of decoding.
  CHECK(scene.of(a).all_missed() == doctest::Approx(7));
  CHECK(missed[static_cast<std::size_t>(TimeCause::held)] == doctest::Approx(7 * 0.7 / 0.8));
  CHECK(missed[static_cast<std::size_t>(TimeCause::decode)] == doctest::Approx(7 * 0.1 / 0.8));
  // Released while the request is paused, before the pause is reported.
  scene.why.on(scene.state, events::Preempted{scene.row(a), Kept::host, Seconds{1.1}});
  scene.why.on(scene.state, events::Delivered{scene.row(a), Tokens{1}, Seconds{1.2}});
  scene.why.on(scene.state, events::Delivered{scene.row(a), Tokens{1}, Seconds{1.55}});
  CHECK(missed[static_cast<std::size_t>(TimeCause::paused)] == doctest::Approx(3));
  scene.why.on(scene.state, events::Resumed{scene.row(a), Seconds{1.6}});
  scene.run(1.6, 0.2);
  CHECK(scene.of(a).all_missed() == doctest::Approx(12));
  CHECK(missed[static_cast<std::size_t>(TimeCause::paused)] == doctest::Approx(3 + 2 * 0.05 / 0.25));
}

TEST_CASE("Why: a request that computes a prompt delays others, one after another; decodes crowd out") {
  Scene scene;
  const Slot a = scene.submit(0), b = scene.submit(0), c = scene.submit(0), d = scene.submit(0);
  scene.batch = {{a, Tokens{32}}};
  scene.run(0, 0.1);
  scene.batch = {{d, Tokens{32}}};
  scene.run(0.1, 0.1);
  scene.batch = {{a, Tokens{0}}, {b, Tokens{32}}, {d, Tokens{1}}};
  scene.run(0.2, 0.1);
  scene.batch = {{a, Tokens{0}}, {c, Tokens{32}}, {d, Tokens{1}}};
  scene.run(0.3, 0.1);
  const TimeSpell held = scene.of(a).longest_held; // d only decoded
  REQUIRE(held.blamed == 2);
  CHECK(held.by[0] == scene.row(b).id);
  CHECK(held.by[1] == scene.row(c).id);
  CHECK(seconds_of(held.length()) == doctest::Approx(0.2));
  scene.batch = {{a, Tokens{0}}, {d, Tokens{1}}};
  scene.run(0.4, 0.1);
  CHECK(scene.spent(a, TimeCause::crowded) == doctest::Approx(0.1));
  CHECK(scene.spent(a, TimeCause::held) == doctest::Approx(0.2));
}

TEST_CASE("Why: a prompt that was dropped half done is recomputed up to that point, and new from there on") {
  Scene scene;
  const Slot a = scene.submit(0);
  RequestRow& row = scene.row(a);
  const auto chunk = [&](double start, std::int64_t tokens) {
    scene.batch = {{a, Tokens{tokens}}};
    scene.run(start, 0.1);
    row.generated = row.delivered = Tokens{0};
  };
  chunk(0, 20);
  row.computed = Tokens{0};
  scene.why.on(scene.state, events::Preempted{row, Kept::nothing, Seconds{0.1}});
  scene.why.on(scene.state, events::Resumed{row, Seconds{0.1}});
  chunk(0.1, 16);
  chunk(0.2, 16);
  CHECK(scene.spent(a, TimeCause::prompt) == doctest::Approx(0.2));
  CHECK(scene.spent(a, TimeCause::again) == doctest::Approx(0.1));
}

TEST_CASE("Why: of many requests, those with the most missed deadlines keep their timelines") {
  Scene scene;
  scene.why.max_timelines = 5;
  scene.why.wanted = 0;
  for (int i = 0; i < 20; ++i) {
    const double start = i;
    const Slot a = scene.submit(start);
    scene.batch = {{a, Tokens{32}}};
    scene.run(start, 0.1);
    scene.batch = {{a, Tokens{1}}};
    scene.run(start + 0.1, 0.01 + 0.1 * ((i * 7) % 9)); // 5 and 14 miss 8 deadlines, then 1, 10, 19 seven
    scene.why.on(scene.state, events::Ended{scene.row(a), Seconds{start + 0.11 + 0.1 * ((i * 7) % 9)}});
  }
  for (const RequestTime& of : scene.state.requests) {
    const auto id = index(of.id);
    CAPTURE(id);
    CHECK(of.spells.empty() != (id == 0 || id == 5 || id == 10 || id == 14 || id == 1 || id == 19));
  }
}

TEST_CASE("Why: a user loses nothing in a pause that the deposit covers") {
  Scene scene;
  const Slot a = scene.submit(0);
  scene.batch = {{a, Tokens{32}}};
  scene.run(0, 0.1);
  RequestRow& row = scene.row(a);
  row.generated = Tokens{4}; // three tokens are deposited, the next is due at 0.2, the last of them at 0.4
  row.due = Seconds{0.2};
  scene.why.on(scene.state, events::Preempted{row, Kept::host, Seconds{0.1}});
  scene.why.on(scene.state, events::Ended{row, Seconds{1.1}});
  CHECK(scene.spent(a, TimeCause::paused) == doctest::Approx(1));
  CHECK(seconds_of(scene.of(a).covered[static_cast<std::size_t>(TimeCause::paused)]) == doctest::Approx(0.3));
}

TEST_CASE("Why: the number of spells is bounded, without gaps in the timeline") {
  Scene scene;
  scene.why.max_spells = 9;
  const Slot a = scene.submit(0), b = scene.submit(0);
  Random random(3);
  double now = 0;
  for (int i = 0; i < 300; ++i) {
    const double took = 0.01 + random.uniform();
    scene.batch = i % 2 == 0 ? std::vector<Claim>{{a, Tokens{1}}, {b, Tokens{1}}}
                             : std::vector<Claim>{{a, Tokens{0}}, {b, Tokens{40}}};
    scene.run(now, took);
    now += took;
  }
  const RequestTime& of = scene.of(a);
  CHECK(of.spells.size() <= 9);
  CHECK(of.spells.size() >= 5);
  std::int64_t at = of.arrival;
  for (const TimeSpell& spell : of.spells) {
    CHECK(spell.begin == at);
    at = spell.end;
  }
  CHECK(at == of.since);
}

TEST_CASE("Why: without a request for it, it keeps nothing") {
  Scene scene;
  scene.why.enabled = false;
  const Slot a = scene.submit(0);
  scene.batch = {{a, Tokens{32}}};
  scene.run(0, 0.1);
  CHECK(scene.state.requests.empty());
}

TEST_CASE("a report keeps the requested request, and those with the most missed deadlines") {
  std::vector<RequestTime> all;
  for (std::uint32_t id = 0; id < 50; ++id) {
    RequestTime of;
    of.known = true;
    of.id = RequestId{id};
    of.add(TimeCause::decode, 1000 + id);
    of.miss(static_cast<double>(id % 10));
    all.push_back(of);
  }
  const TimeReport report = time_report(all, 6, 30);
  CHECK(report.seen == 50);
  CHECK(report.whole() == 50 * 1000 + 49 * 50 / 2);
  CHECK(report.all_missed() == doctest::Approx(5 * 45));
  std::vector<std::uint32_t> kept;
  for (const RequestTime& of : report.requests) kept.push_back(static_cast<std::uint32_t>(index(of.id)));
  CHECK(kept == std::vector<std::uint32_t>{9, 19, 29, 30, 39, 49});
}
