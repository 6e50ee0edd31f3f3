// SPDX-License-Identifier: Apache-2.0
// Turns a recorded run into its row of the report and its trace.
#include "compare/collect.hpp"

#include "sluice/report/observer/summary.hpp"
#include "sluice/report/observer/trace_json.hpp"

#include "compare/outcome.hpp"
#include "compare/recorded.hpp"
#include "compare/tenants.hpp"
#include "compare/wanted.hpp"
#include "compare/zlib/gzip.hpp"
#include "shared/version.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace compared {

namespace {

/// Returns the composition in short form: the roles that differ from the defaults.
std::string engine_text(const engines::Composed& engine) {
  std::string text = "Engine<";
  for (const std::string& choice : engine.choices) {
    if (choice.empty()) continue;
    if (text.back() != '<') text += ", ";
    text += choice;
  }
  return text + ">";
}

/// Returns how many token blocks the system can keep, on the device and in its tiers.
sluice::TokenBlocks memory_of(const Setup& setup, const engines::Composed& engine) {
  std::int64_t blocks = setup.device_blocks.count() / setup.geometry.layers;
  if (!engine.caches) return sluice::TokenBlocks{blocks};
  blocks += setup.host_blocks.count() / setup.geometry.layers;
  for (const sluice::Tier& tier : setup.lower_tiers) blocks += tier.capacity.count();
  return sluice::TokenBlocks{blocks};
}

void collect_one(const Request& request, const Ended& ended, const Recorded& kept, std::string tenant,
                 Outcome& outcome) {
  const sluice::Seconds end = ended.now;
  sluice::SystemReport& report = outcome.report;
  report.deposit = request.deposit;
  report.slo_tbt_s = request.slo.tbt.count();
  report.slo_ttft_s = request.slo.ttft.count();
  report.transfer = ended.composed.transfer;
  report.livelock = ended.livelock;
  report.engine_type = engine_text(ended.composed);
  sluice::collect(report, kept.summary, end);
  sluice::collect(report, kept.series);
  sluice::collect(report, kept.chosen);
  for (std::size_t i = 0; i < kept.classes.size(); ++i) {
    sluice::SystemReport& part = report.classes.emplace_back();
    part.name = request.setup.slo_classes[i].name;
    part.deposit = request.deposit;
    part.slo_tbt_s = request.setup.slo_classes[i].slo.tbt.count();
    part.slo_ttft_s = request.setup.slo_classes[i].slo.ttft.count();
    sluice::collect(part, kept.classes[i], end);
  }
  if (kept.summary.counted_plans > 0 && kept.summary.planning_total_s > 0)
    report.note = "its placement says no effort: planning is charged what its judgements of plans take";
  report.unpaid = kept.unpaid.report;
  report.waits_for_memory = kept.waits_for_memory;
  if (request.setup.cost.has_grid()) report.beyond_grid = kept.range.report;
  if (request.findable && report.livelock.empty())
    report.metrics.findable_share =
        kept.findable.share(memory_of(request.setup, ended.composed), request.setup.limits.block_tokens);
  if (request.why) report.time = time_report(sluice::Why{}.at_end(kept.why, end), 200, request.why_id);
  if (request.details && !request.no_trace)
    outcome.trace = trace_json(kept.timeline, report.engine_type, made_by().line());
  if (request.wanted == nullptr) return;
  sluice::CsvRun run = request.wanted->run;
  run.tenant = std::move(tenant);
  run.deposit = request.deposit;
  append_requests(outcome.csv.requests, run, kept.summary, end);
  append_series(outcome.csv.series, run, kept.series);
  append_iterations(outcome.csv.iterations, run, kept.rows);
  if (!kept.tokens.empty()) {
    std::string rows;
    for (const DeliveredTokens& of : kept.tokens)
      for (std::int64_t i = 0; i < of.count; ++i) append_token(rows, run, {index(of.request), of.first + i, of.when});
    outcome.csv.tokens = gzipped(rows);
  }
  outcome.csv.iterations_left_out =
      kept.rows.iterations.seen() - static_cast<std::int64_t>(kept.rows.iterations.size());
}

} // namespace

void collect(const Request& request, const Ended& ended, const Recorded& recorded, Outcome& outcome) {
  collect_one(request, ended, recorded, {}, outcome);
}

void collect(const Request& request, const Ended& ended, std::span<const Recorded* const> recorded, Outcome& outcome) {
  const Tenants& tenants = *request.setup.tenants;
  std::vector<const sluice::Summary::State*> summaries;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    summaries.push_back(&recorded[i]->summary);
    Outcome& own = outcome.tenants.emplace_back();
    collect_one(request, ended, *recorded[i], tenants.each[i].name, own);
    own.report.name = tenants.each[i].name;
    own.report.slo_tbt_s = tenants.slo(request, i).tbt.count();
  }
  // The tenants share one clock, but have no common memory and no common iteration to draw: these are in each tenant's
  // report.
  outcome.report = outcome.tenants.front().report;
  outcome.report.series = {};
  outcome.report.iteration = {};
  outcome.report.time = {};
  for (const Outcome& tenant : outcome.tenants) {
    outcome.report.time.add(tenant.report.time);
    outcome.report.waits_for_memory |= tenant.report.waits_for_memory;
  }
  sluice::collect(outcome.report, sluice::merged(summaries), ended.now);
  outcome.report.slo_tbt_s = request.slo.tbt.count(); // the first tenant's SLO, although each has its own
}

} // namespace compared
