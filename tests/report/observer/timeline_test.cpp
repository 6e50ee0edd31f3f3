// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/report/observer/decision_log.hpp"
#include "sluice/report/observer/series.hpp"
#include "sluice/report/observer/timeline.hpp"
#include "sluice/report/observer/trace_json.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

using namespace sluice;
using doctest::Approx;
using nlohmann::json;

namespace {

/// Nine layers under a rule on a link that is too slow for them; reports `steps` iterations to an observer as an engine
/// would.
template <class Rule, class Policy>
void iterate(const Policy& policy, typename Policy::State& state, int steps) {
  constexpr std::array<double, 9> compute{1, 1, 1, 1, 1, 1, 1, 1, 1};
  const std::array<LayerStream, 2> streams{LayerStream{LayerSet{}.insert(3).insert(7), 3},
                                           LayerStream{LayerSet{}.insert(2).insert(5).insert(8), 6}};
  Pipeline pipeline;
  pipeline.compute_s = compute;
  pipeline.link.blocks_per_s = 2; // less than the 24 blocks of 9 s
  pipeline.streams = streams;
  pipeline.room_blocks = 9;
  typename Rule::State rule;
  double now = 2;
  for (int step = 0; step < steps; ++step) {
    const typename Rule::State before = rule;
    const StepCost cost = Rule::evaluate(pipeline, rule);
    const auto replay = [&](auto&& sink) {
      typename Rule::State again = before;
      (void)Rule::evaluate(pipeline, again, sink);
    };
    IterationRecord record;
    record.step = step;
    record.start = Seconds{now};
    record.planning = Seconds{0.25};
    record.duration = Seconds{cost.step_s + 0.25};
    record.stall = Seconds{cost.stall_s};
    record.decodes = 2;
    record.tokens = Tokens{2};
    record.running = 2;
    record.device_used = LayerBlocks{40 + step};
    record.device_capacity = LayerBlocks{70};
    policy.on(state, events::Iterated{record, TimelineReplay{replay}});
    now += cost.step_s + 0.25;
  }
}

RequestRow row_of(std::uint32_t id, double arrival, double running_since) {
  RequestRow row;
  row.id = RequestId{id};
  row.spec.arrival = Seconds{arrival};
  row.running_since = Seconds{running_since};
  return row;
}

} // namespace

TEST_CASE_TEMPLATE("a trace is valid, and no two slices overlap on a track", Rule, FairShare, DeadlinePool) {
  const Timeline policy;
  Timeline::State state;
  RequestRow first = row_of(0, 0.5, 2);
  policy.on(state, events::Submitted{first});
  policy.on(state, events::Submitted{row_of(1, 1.0, 0)});
  policy.on(state, events::Submitted{row_of(2, 1.5, 0)});
  policy.on(state, events::Refused{RequestId{3}, first.spec.whole(not_a_policy), Seconds{1.75},
                                   "needs \"more\" than the device has"});
  for (const double now : {2.0, 2.0, 9.0}) { // an infeasible plan, and immediately another
    View view;
    view.now = Seconds{now};
    policy.on(state, events::Planned{view, Plan{}, Seconds{1e-4}, Seconds{0}});
  }
  iterate<Rule>(policy, state, 4);
  first.delivered = Tokens{1};
  policy.on(state, events::Delivered{first, Tokens{1}, Seconds{11}});
  policy.on(state, events::Preempted{first, Kept::host, Seconds{20}});
  policy.on(state, events::Resumed{first, Seconds{25}});
  policy.on(state, events::Ended{first, Seconds{30}});
  RequestRow third = row_of(2, 1.5, 11);
  policy.on(state, events::Ended{third, Seconds{12}});

  const std::string text = trace_json(state, "OrbitFlow");
  CHECK(text == trace_json(state, "OrbitFlow"));
  const json trace = json::parse(text);
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  std::map<std::string, int> names;
  double stalled = 0;
  for (const json& event : trace.at("traceEvents")) {
    const std::string type = event.at("ph");
    CHECK((type == "X" || type == "M" || type == "C" || type == "i"));
    CHECK(event.at("name").is_string());
    ++names[event.at("name").get<std::string>()];
    if (type != "M") CHECK(event.at("ts").get<double>() >= 0);
    if (type != "X") continue;
    const double from = event.at("ts"), duration = event.at("dur");
    CHECK(duration >= 0);
    tracks[{event.at("pid"), event.at("tid")}].push_back({from, from + duration});
    if (event.at("name").get<std::string>().starts_with("waits for")) stalled += duration / 1e6;
  }
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end());
    for (std::size_t i = 1; i < slices.size(); ++i) CHECK(slices[i].first >= slices[i - 1].second - 1e-6);
  }
  double expected = 0;
  for (const Timeline::Iteration& iteration : state.iterations) expected += iteration.stall.count();
  CHECK(expected > 0);
  CHECK(stalled == Approx(expected).epsilon(1e-6));
  CHECK(names["decode"] == 4);
  CHECK(names["layer 1"] >= 4);
  CHECK(names["layer 0"] == 0); // displayed numbers start at 1
  CHECK(names["refused"] == 1);
  CHECK(names["waiting"] == 3); // r1 never ran: its slice is open until the end
  CHECK(names["running"] == 3); // r0 twice
  CHECK(names["preempted"] == 1);
}

TEST_CASE("a timeline is bounded, and reports how many events it omitted") {
  Timeline policy;
  policy.max_iterations = 10;
  policy.max_detailed = 3;
  policy.max_requests = 5;
  Timeline::State state;
  for (std::uint32_t id = 0; id < 8; ++id) policy.on(state, events::Submitted{row_of(id, 0, 0)});
  iterate<DeadlinePool>(policy, state, 30);
  CHECK(state.iterations.size() == 10);
  CHECK(state.iterations.seen() == 30);
  CHECK(state.detailed.size() == 3);
  CHECK(state.open.size() == 5);
  CHECK(state.dropped == 3);
  const json left = json::parse(trace_json(state, "x", "who made it")).at("otherData");
  CHECK(left.at("dropped_events") == 3);
  CHECK(left.at("iterations").at("shown") == 10);
  CHECK(left.at("iterations").at("of") == 30);
  CHECK(left.at("iterations_with_layers").at("shown") == 3);
  CHECK(left.at("made_by") == "who made it");
}

TEST_CASE("a timeline surrounds the longest stall, or the requested time") {
  Timeline policy;
  policy.max_detailed = 6;
  policy.max_iterations = 40;
  Timeline::State state;
  iterate<FairShare>(policy, state, 200);
  ChosenIteration::State longest;
  iterate<FairShare>(ChosenIteration{}, longest, 200);
  CHECK(state.detailed.peak().stall_s >= longest.kept.stall_s);
  CHECK(state.detailed.peak().step == state.iterations.peak().step);
  CHECK(state.detailed.size() == 6);
  CHECK(state.iterations.size() == 40);

  for (const double time : {0.0, 2.0, 777.5, 1e9}) {
    CAPTURE(time);
    policy.at = {TraceAt::Point::time, Seconds{time}};
    Timeline::State at;
    iterate<DeadlinePool>(policy, at, 200);
    const Timeline::Iteration& chosen = at.iterations.peak();
    if (time > 2) CHECK(chosen.start.count() <= time); // the first starts at 2
    if (time < 1e9) CHECK((chosen.start + chosen.duration).count() >= time);
    if (time == 1e9) CHECK(chosen.step == 199);
    CHECK(at.detailed.peak().step == chosen.step);
  }

  Timeline::State all;
  iterate<DeadlinePool>(Timeline::of({TraceAt::Point::all}), all, 200);
  CHECK(all.detailed.size() == 200);
}

TEST_CASE("a trace of a part has that part's events, and is marked as partial") {
  Timeline policy;
  policy.max_detailed = 4;
  policy.max_iterations = 10;
  policy.at = {TraceAt::Point::time, Seconds{300}};
  Timeline::State state;
  RequestRow early = row_of(0, 0, 1), late = row_of(1, 0, 2);
  policy.on(state, events::Submitted{early});
  policy.on(state, events::Submitted{late});
  policy.on(state, events::Ended{early, Seconds{3}});
  iterate<FairShare>(policy, state, 100);
  const json trace = json::parse(trace_json(state, "x"));
  const double from = 1e6 * state.iterations.front().start.count();
  const auto& last = state.iterations.back();
  const double to = 1e6 * (last.start + last.duration).count();
  bool told = false, of_late = false;
  for (const json& event : trace.at("traceEvents")) {
    const std::string name = event.at("name");
    if (name == "layers and transfers left out") told = true;
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts"), end = begin + event.at("dur").get<double>();
    CHECK(end >= from - 1);
    CHECK(begin <= to + 1);
    if (event.at("pid") == 2 && event.at("tid") == 2) of_late = true;
    CHECK_FALSE((event.at("pid") == 2 && event.at("tid") == 1)); // which ended before
  }
  CHECK(told);
  CHECK(of_late);
}

TEST_CASE("the chosen iteration is the longest stall, or the requested step") {
  const ChosenIteration longest;
  ChosenIteration::State state;
  iterate<FairShare>(longest, state, 20);
  Timeline::State all;
  iterate<FairShare>(Timeline{}, all, 20);
  double most = 0;
  for (const Timeline::Iteration& iteration : all.iterations) most = std::max(most, iteration.stall.count());
  CHECK(state.kept.stall_s >= most / 1.02);
  CHECK(state.kept.layers == 9);
  CHECK(state.kept.layer_slices.size() == 9);
  CHECK(state.kept.transfers.size() >= 5);
  double stalls = 0;
  for (const LayerSlice& layer : state.kept.layer_slices) stalls += layer.stall_s;
  CHECK(stalls == Approx(state.kept.stall_s));
  CHECK(state.kept.layer_slices.front().start_s >= 0.25); // after the wait for the planner
  CHECK(state.kept.layer_slices.back().end_s == Approx(state.kept.duration_s));

  for (const std::int64_t step : {0, 7, 500}) {
    ChosenIteration given;
    given.step = step;
    ChosenIteration::State at;
    iterate<DeadlinePool>(given, at, 600);
    CHECK(at.kept.step == step);
  }
}

TEST_CASE("a series keeps minimum, maximum and mean however often it widens") {
  Random random(4);
  for (const int count : {1, 5, 64, 1000, 20'000}) {
    const Series policy{.buckets = 64};
    Series::State state;
    double now = 3, least = 1e9, most = -1, integral = 0, busy = 0, stall = 0, moved = 0;
    for (int i = 0; i < count; ++i) {
      IterationRecord record;
      if (random.below(20) == 0) now += 5 * random.uniform(); // idle
      record.start = Seconds{now};
      record.duration = Seconds{0.01 + random.uniform()};
      record.stall = Seconds{0.1 * random.uniform()};
      record.waiting = static_cast<std::int64_t>(random.below(random.below(50) == 0 ? 10'000 : 10));
      record.to_device = LayerBlocks{static_cast<std::int64_t>(random.below(100))};
      policy.on(state, events::Iterated{record});
      now += record.duration.count();
      const auto waiting = static_cast<double>(record.waiting);
      least = std::min(least, waiting);
      most = std::max(most, waiting);
      integral += waiting * record.duration.count();
      busy += record.duration.count();
      stall += record.stall.count();
      moved += static_cast<double>(record.to_device.count());
    }
    REQUIRE(state.buckets.size() == 64);
    SeriesBucket sum;
    for (const SeriesBucket& bucket : state.buckets) {
      CHECK(bucket.seconds <= state.width_s * (1 + 1e-9));
      sum.merge(bucket);
    }
    CHECK(sum.waiting.min == least);
    CHECK(sum.waiting.max == most);
    CHECK(sum.waiting.integral == Approx(integral));
    CHECK(sum.seconds == Approx(busy));
    CHECK(sum.stall_s == Approx(stall));
    CHECK(sum.moved_blocks == Approx(moved));
    CHECK(state.start_s + 64 * state.width_s >= now * (1 - 1e-12));
    if (count > 64) CHECK(state.start_s + 32 * state.width_s < now); // and no wider than needed
  }
}

TEST_CASE("a decision log is readable and bounded") {
  DecisionLog policy;
  policy.max_lines = 6;
  DecisionLog::State state;
  std::vector<RequestRow> rows{row_of(7, 0, 0), row_of(9, 0, 0)};
  View view;
  view.now = Seconds{1.5};
  view.step = 21;
  view.rows = rows;
  Plan plan;
  plan.requests = {{Slot{0}, {}}, {Slot{1}, {}}};
  plan.requests[1].holding.host = LayerSet{}.insert(4).insert(8);
  plan.binding = Binding::link;
  plan.effort = 33;
  policy.on(state, events::Planned{view, plan, Seconds{1e-4}, Seconds{2e-4}});
  policy.on(state, events::Preempted{rows[0], Kept::device, Seconds{2}});
  policy.on(state, events::Resumed{rows[0], Seconds{3}});
  policy.on(state, events::Refused{RequestId{4}, rows[0].spec.whole(not_a_policy), Seconds{3}, "too long"});
  policy.on(state, events::Ended{rows[1], Seconds{4}});
  for (int i = 0; i < 5; ++i) policy.on(state, events::Ended{rows[1], Seconds{4}});
  CHECK(state.lines.size() == 6);
  CHECK(state.dropped == 4);
  CHECK(state.lines[0] == "1.500000 s  step 21  plan: 2 requests, 1 offload (r9: 2 layers), 0 blocks in flight, "
                          "predicted 0.000000 s, bound by link, 33 nodes in 0.000100 s");
  CHECK(state.lines[1].find("preempt r7") != std::string::npos);
  CHECK(state.text().ends_with("... and 4 more\n"));
}
