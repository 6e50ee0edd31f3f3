// SPDX-License-Identifier: Apache-2.0
// A made-up comparison: not an engine, but plausible events sent through the real observers, to test the output.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/policy/delivery/token_deposit.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/report/observer/chosen_iteration.hpp"
#include "sluice/report/observer/series.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/report/observer/timeline.hpp"
#include "sluice/report/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace synthetic {

struct System {
  std::string name;
  int batch = 4;     ///< requests at once
  int offloaded = 8; ///< offloaded layers of every second request
  double pause = 0;  ///< chance per step that a request is preempted for a while
  bool fair = false; ///< FairShare instead of DeadlinePool
  bool control = false;
};

struct Run {
  sluice::Summary::State summary;
  sluice::Series::State series;
  sluice::ChosenIteration::State chosen;
  sluice::Timeline::State timeline;
};

template <class Rule>
Run run(const System& system, bool deposit, double slo_s, int requests, std::uint64_t seed) {
  using namespace sluice;
  constexpr int layers = 32;
  Run out;
  const Summary summary;
  const Series series;
  const ChosenIteration chosen;
  const Timeline timeline;
  const auto tell_all = [&](const auto& event) {
    tell(summary, out.summary, event);
    tell(series, out.series, event);
    tell(chosen, out.chosen, event);
    tell(timeline, out.timeline, event);
  };
  Random random(seed);
  std::vector<RequestRow> rows(static_cast<std::size_t>(requests));
  std::vector<std::size_t> waiting, running, preempted;
  std::vector<Slot> slots;
  double arrival = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    arrival += -2.2 * std::log(1 - random.uniform());
    rows[r].id = RequestId{static_cast<std::uint32_t>(r)};
    rows[r].spec = RequestSpec{Seconds{arrival},
                               Tokens{500 + static_cast<int>(random.below(6000))},
                               Tokens{20 + static_cast<int>(random.below(250))},
                               {Seconds{8}, Seconds{slo_s}}};
    slots.push_back(Slot{static_cast<std::uint32_t>(r)});
  }
  std::vector<double> compute(layers);
  View view;
  view.geometry = {layers, Bytes{65'536}, Bytes{436'207'616}};
  typename Rule::State rule;
  double now = 0;
  std::size_t next = 0, done = 0;
  std::int64_t step = 0;
  const auto sink = [&](const RequestRow& row, Tokens count, Seconds when) {
    tell_all(events::Delivered{row, count, when});
  };
  while (done < rows.size() && step < 200'000) {
    for (; next < rows.size() && rows[next].spec.arrival.count() <= now; ++next) {
      if (next % 17 == 16) {
        tell_all(events::Refused{rows[next].id, rows[next].spec.whole(not_a_policy), Seconds{now},
                                 "needs " + std::to_string(20'000 + next) + " blocks, more than the device has"});
        ++done;
        continue;
      }
      tell_all(events::Submitted{rows[next]});
      waiting.push_back(next);
    }
    bool changed = false;
    const auto start_one = [&](std::vector<std::size_t>& from, bool back) {
      RequestRow& row = rows[from.front()];
      row.running_since = Seconds{now};
      row.phase = Phase::running;
      if (back) tell_all(events::Resumed{row, Seconds{now}});
      running.push_back(from.front());
      from.erase(from.begin());
      changed = true;
    };
    const auto full = [&] { return static_cast<int>(running.size()) >= system.batch; };
    while (!full() && !preempted.empty() && now - rows[preempted.front()].preempted_since.count() > 3)
      start_one(preempted, true);
    while (!full() && !waiting.empty()) start_one(waiting, false);
    if (running.empty()) {
      const double later = next < rows.size() ? rows[next].spec.arrival.count() : now + 1;
      now = preempted.empty() ? std::max(now, later) : now + 0.5;
      continue;
    }
    std::vector<LayerStream> streams;
    std::vector<Slot> owners;
    std::vector<Claim> batch;
    Plan plan;
    double blocks = 0, away = 0;
    for (std::size_t i = 0; i < running.size(); ++i) {
      RequestRow& row = rows[running[i]];
      const double size = std::ceil(static_cast<double>(row.context().count()) / 16);
      LayerSet host;
      if (i % 2 == 1)
        for (int k = 1; k <= system.offloaded; ++k) host.insert(k * layers / system.offloaded - 1);
      blocks += size * (layers - host.count());
      away += size * host.count();
      if (!host.empty()) {
        streams.push_back({host, size});
        owners.push_back(Slot{static_cast<std::uint32_t>(running[i])});
      }
      RequestPlan part{Slot{static_cast<std::uint32_t>(running[i])}, {}};
      part.holding.host = host;
      row.holding.host = host;
      batch.push_back({part.slot, Tokens{1}, Tokens{0}, true});
      plan.requests.push_back(part);
    }
    plan.binding = streams.empty() ? Binding::none : Binding::link;
    view.now = Seconds{now};
    view.step = step;
    view.rows = rows;
    if (changed) {
      rule.clear();
      tell_all(
          events::Planned{view, plan, Seconds{(40 + static_cast<double>(random.below(400))) * 1e-6}, Seconds{1e-4}});
    }
    const bool prefill = rows[running.back()].generated.count() == 0;
    const double base = 0.028 + 1.1e-8 * blocks * 16 + (prefill ? 0.35 : 0);
    std::fill(compute.begin(), compute.end(), base / layers);
    Pipeline pipeline;
    pipeline.compute_s = compute;
    pipeline.link = {7.6e9 / 65'536, 1e-5};
    pipeline.streams = streams;
    pipeline.room_blocks = std::max(2000.0, 19'552 - blocks);
    const typename Rule::State before = rule;
    const StepCost cost = Rule::evaluate(pipeline, rule);
    const auto replay = [&](auto&& into) {
      typename Rule::State again = before;
      (void)Rule::evaluate(pipeline, again, into);
    };
    IterationRecord record;
    record.step = step++;
    record.start = Seconds{now};
    const double planning = changed ? 2e-3 : 0;
    record.planning = Seconds{planning};
    record.duration = Seconds{planning + cost.step_s};
    record.stall = Seconds{cost.stall_s};
    record.decodes = static_cast<std::int64_t>(running.size());
    record.tokens = Tokens{record.decodes};
    record.running = record.decodes;
    record.waiting = static_cast<std::int64_t>(waiting.size());
    record.preempted = static_cast<std::int64_t>(preempted.size());
    record.device_used = LayerBlocks{std::min<std::int64_t>(19'552, static_cast<std::int64_t>(blocks))};
    record.device_capacity = LayerBlocks{19'552};
    record.in_flight = LayerBlocks{500};
    record.host_used = LayerBlocks{static_cast<std::int64_t>(away)};
    record.to_device = LayerBlocks{static_cast<std::int64_t>(away)};
    record.plan = &plan;
    record.batch = batch;
    record.rows = rows;
    record.stream_slots = owners;
    now += planning + cost.step_s;
    tell_all(events::Iterated{record, TimelineReplay{replay}});
    for (std::size_t i = 0; i < running.size();) {
      RequestRow& row = rows[running[i]];
      if (deposit) TokenDeposit{}.advance(row, Seconds{now}, sink);
      row.generated += Tokens{1};
      row.last_token = Seconds{now};
      if (deposit) {
        TokenDeposit{}.generated(row, Seconds{now}, sink);
      } else {
        row.delivered += Tokens{1};
        sink(row, Tokens{1}, Seconds{now});
      }
      const bool over = row.generated == row.output(not_a_policy);
      const bool preempt = !over && random.uniform() < system.pause;
      if (over) {
        if (deposit) TokenDeposit{}.finish(row, Seconds{now}, sink);
        tell_all(events::Ended{row, Seconds{now}});
        ++done;
      }
      if (preempt) {
        row.preempted_since = Seconds{now};
        tell_all(events::Preempted{row, Kept::device, Seconds{now}});
        preempted.push_back(running[i]);
      }
      if (over || preempt) {
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
        rule.clear();
      } else {
        ++i;
      }
    }
  }
  return out;
}

inline std::vector<System> systems(int count) {
  std::vector<System> list{{"OrbitFlow", 4, 5, 0.002, true, false},
                           {"DeepSpeedInference", 4, 32, 0, true, false},
                           {"FlexGen", 4, 16, 0, true, false},
                           {"SloAware", 3, 8, 0, true, false},
                           {"VllmRecompute", 2, 0, 0.004, false, false}};
  for (int i = static_cast<int>(list.size()); i < count - 1; ++i)
    list.push_back({"Variant" + std::to_string(i) + (i % 3 == 0 ? "WithALongName" : ""), 2 + i % 4, (i * 5) % 30,
                    i % 4 == 0 ? 0.003 : 0.0, i % 2 == 0, false});
  list.resize(static_cast<std::size_t>(std::max(1, count - 1)));
  list.push_back({"OneAtATime", 1, 0, 0, false, true});
  return list;
}

/// `count` systems at each scale, without a deposit and, if requested, with one.
inline sluice::ComparisonReport report(int count, const std::vector<double>& scales, bool with_deposit, int requests) {
  using namespace sluice;
  ComparisonReport report;
  WorkloadReport& w = report.workload;
  w.trace = "synthetic <made up> & \"quoted\"";
  w.format = "generated";
  w.seed = 7;
  w.requests = requests;
  w.model = "llama3-8b";
  w.device = "a5000";
  w.profile = "made up for a test";
  w.budget_blocks = 611;
  w.budget_bytes = 611LL * 32 * 65'536;
  w.batch_limit = 4;
  w.max_batch_tokens = 32'768;
  w.base_slo_tbt_s = 0.0589;
  w.slo_ttft_s = 8;
  w.command = "sluice-compare --generate synthetic --systems all --out <dir>";
  for (const double scale : scales)
    for (const bool deposit : {false, true}) {
      if (deposit && !with_deposit) continue;
      for (const System& system : systems(count)) {
        const double slo = scale * w.base_slo_tbt_s;
        const Run run = system.fair ? synthetic::run<FairShare>(system, deposit, slo, requests, 11)
                                    : synthetic::run<DeadlinePool>(system, deposit, slo, requests, 11);
        SystemReport row;
        row.name = system.name;
        row.deposit = deposit;
        row.control = system.control;
        row.slo_scale = scale;
        row.slo_tbt_s = slo;
        row.slo_ttft_s = w.slo_ttft_s;
        row.transfer = system.fair ? "fair-share" : "deadline-pool";
        row.engine_type = "Engine<MadeUp<" + std::to_string(system.offloaded) + ">, " +
                          (deposit ? "TokenDeposit" : "Immediate") + ", PauseResume>";
        collect(row, run.summary, run.summary.last_event);
        collect(row, run.series);
        collect(row, run.chosen);
        report.systems.push_back(row);
      }
    }
  return report;
}

} // namespace synthetic
