// SPDX-License-Identifier: Apache-2.0
// report.json: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/json.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/seed_tables.hpp"
#include "sluice/report/seeds.hpp"

#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

namespace sluice::detail {

SLUICE_REPORT_INLINE void write_made_by(JsonWriter& json, const MadeBy& made_by) {
  json.key("made_by");
  if (!made_by.known()) {
    json.null();
    return;
  }
  json.begin_object().field("version", made_by.version).field("commit", made_by.commit);
  json.field("build", made_by.build).end_object();
}

SLUICE_REPORT_INLINE void write_workload(JsonWriter& json, const WorkloadReport& workload) {
  json.begin_object().field("trace", workload.trace).field("format", workload.format).field("seed", workload.seed);
  json.key("seeds").begin_array();
  for (const std::uint64_t seed : seeds_served(workload)) json.value(seed);
  json.end_array().field("redrawn", workload.redrawn);
  if (!workload.as_recorded.empty()) json.field("as_recorded", workload.as_recorded);
  if (!workload.counted.empty()) json.field("counted", workload.counted);
  json.field("requests", workload.requests).field("model", workload.model).field("device", workload.device);
  json.field("profile", workload.profile).field("budget_blocks", workload.budget_blocks);
  if (workload.kv_in_groups) json.field("kv_in_groups", true);
  json.field("block_tokens", workload.block_tokens).field("budget_bytes", workload.budget_bytes);
  json.key("host_budget_bytes");
  if (workload.host_budget_bytes > 0)
    json.value(workload.host_budget_bytes);
  else
    json.null();
  json.field("batch_limit", workload.batch_limit).field("max_batch_tokens", workload.max_batch_tokens);
  json.field("rate_scale", workload.rate_scale).field("base_slo_tbt_s", workload.base_slo_tbt_s);
  json.field("slo_ttft_s", workload.slo_ttft_s);
  if (!workload.slo_classes.empty()) {
    json.key("slo_classes").begin_array();
    for (const SloClass& one : workload.slo_classes) {
      json.begin_object().field("name", one.name).field("share", one.share);
      json.field("slo_ttft_s", one.slo.ttft.count()).field("slo_tbt_s", one.slo.tbt.count());
      json.field("priority", std::int64_t{one.priority}).end_object();
    }
    json.end_array();
  }
  json.field("command", workload.command);
  json.key("notes").begin_object();
  for (const auto& [label, text] : workload.notes) json.field(label, text);
  json.end_object().field("times", workload.times).key("cautions").begin_array();
  for (const std::string& caution : workload.cautions) json.value(caution);
  json.end_array().end_object();
}

/// Writes a row's comparison with its reference row: "pairs", by figure. `judgements`: of the row's block.
inline void write_pairs(JsonWriter& json, const SystemReport& row, const SystemReport& reference,
                        const std::vector<Judgement>& judgements) {
  json.key("pairs").begin_object().field("against", reference.name);
  for (const Judgement& one : judgements) {
    if (one.row != &row) continue;
    const Paired& of = one.of;
    json.key(one.by().key).begin_object().field("difference", of.difference.mean).key("interval").begin_array();
    json.value(of.difference.least).value(of.difference.most).end_array().field("tie", of.tie());
    json.field("holds_together", one.held);
    json.field("more", of.wins).field("less", of.losses).field("pairs", of.pairs()).end_object();
  }
  json.end_object();
}

/// Percentiles by their names ("p50"), and a histogram in numpy's layout: each bin's count is between two edges.
inline void write_distributions(JsonWriter& json, const std::vector<DistributionReport>& distributions) {
  json.key("distributions").begin_object();
  for (const DistributionReport& of : distributions) {
    json.key(of.name).begin_object().field("count", of.count).field("mean", of.mean).field("least", of.least);
    for (std::size_t i = 0; i < of.asked.size(); ++i) {
      char name[16];
      std::snprintf(name, sizeof name, "p%g", 100 * of.asked[i]);
      json.field(name, of.percentiles[i]);
    }
    json.key("histogram").begin_object().key("edges_s").begin_array();
    for (const double edge : of.edges) json.value(edge);
    json.end_array().key("counts").begin_array();
    for (const std::int64_t count : of.counts) json.value(count);
    json.end_array().end_object().end_object();
  }
  json.end_object();
}

/// Writes the requests' time and their missed deadlines, both by cause (docs/metrics.md).
inline void write_time_spent(JsonWriter& json, const TimeReport& time) {
  const auto each = [&](std::string_view name, auto&& number) {
    json.key(name).begin_object();
    for (std::size_t i = 0; i < time_causes; ++i) json.field(text_of(static_cast<TimeCause>(i)).key, number(i));
  };
  json.key("time").begin_object().field("requests", time.seen);
  each("spent_s", [&](std::size_t i) { return seconds_of(time.spent[i]); });
  json.end_object();
  each("in_deposit_s", [&](std::size_t i) { return seconds_of(time.covered[i]); });
  json.end_object();
  each("deadlines_missed", [&](std::size_t i) { return time.missed[i]; });
  json.field("refused", time.turned_away).end_object().end_object();
}

SLUICE_REPORT_INLINE void write_row(JsonWriter& json, const SystemReport& system, const JsonOptions& options) {
  json.field("name", system.name).field("deposit", system.deposit).field("slo_scale", system.slo_scale);
  json.field("slo_tbt_s", system.slo_tbt_s).field("slo_ttft_s", system.slo_ttft_s);
  json.field("transfer", system.transfer).field("control", system.control);
  json.field("oracle", system.oracle);
  if (system.short_horizon) json.field("short_horizon", true);
  const auto wanted = [&](std::string_view name) {
    return options.wall_times || name.find("_wall_") == std::string_view::npos;
  };
  const auto write_run = [&](const Metrics& metrics) {
    for_each_metric(metrics, [&](std::string_view name, auto number) {
      if (wanted(name) && in_json(name, static_cast<double>(number))) json.field(name, number);
    });
  };
  if (system.per_seed.empty())
    write_run(system.metrics);
  else
    write_seeds(json, system.per_seed, system.windows, wanted);
  if (system.as_recorded) {
    json.key("as_recorded").begin_object();
    write_run(*system.as_recorded);
    json.end_object();
  }
  if (system.slo_possible)
    json.field("slo_possible", system.slo_possible->most).field("slo_possible_found", system.slo_possible->found);
  if (system.beyond_grid) {
    const BeyondReport& beyond = *system.beyond_grid;
    json.key("beyond_grid").begin_object().field("share_of_iterations", beyond.share());
    json.field("largest", beyond.axis.empty() ? "" : beyond.largest()).end_object();
  }
  if (options.wall_times)
    json.field("unpaid_decisions", system.unpaid.decisions).field("unpaid_s", system.unpaid.processor_s);
  write_distributions(json, system.distributions);
  if (!system.tuned.empty()) json.field("tuned", system.tuned);
  json.field("engine", system.engine_type).field("note", system.note).field("livelock", system.livelock);
  json.key("refusals").begin_object();
  for (const auto& [reason, count] : system.refusals) json.field(reason, count);
  json.end_object();
  if (system.time.seen > 0) write_time_spent(json, system.time);
}

/// A block, and the judgements of its rows.
struct JudgedBlock {
  ReportBlock block;
  std::vector<Judgement> judgements;
};
[[nodiscard]] inline std::vector<JudgedBlock> judged_blocks(const ComparisonReport& report) {
  std::vector<JudgedBlock> judged;
  for (ReportBlock& block : blocks_of(report)) {
    std::vector<Judgement> judgements = judgements_of(block, report.baseline);
    judged.push_back({std::move(block), std::move(judgements)});
  }
  return judged;
}

/// Writes the row's comparison with its reference row in the blocks, if it has several seeds.
inline void write_judgement(JsonWriter& json, const SystemReport& row, const std::vector<JudgedBlock>& blocks,
                            const std::string& baseline) {
  for (const auto& [block, judgements] : blocks)
    if (!row.per_seed.empty() && block.deposit == row.deposit && block.slo_scale == row.slo_scale)
      if (const SystemReport* rival = rival_of(block, row, baseline)) write_pairs(json, row, *rival, judgements);
}

SLUICE_REPORT_INLINE void write_report_members(JsonWriter& json, const ComparisonReport& report,
                                               const JsonOptions& options, int indent) {
  json.line(indent).key("workload");
  write_workload(json, report.workload);
  json.line(indent).key("systems").begin_array();
  const std::vector<JudgedBlock> blocks = judged_blocks(report);
  std::vector<ComparisonReport> parts; // by class
  for (std::size_t i = 0; i < report.workload.slo_classes.size(); ++i) parts.push_back(class_report(report, i));
  std::vector<std::vector<JudgedBlock>> of_parts;
  for (const ComparisonReport& part : parts) of_parts.push_back(judged_blocks(part));
  for (std::size_t i = 0; i < report.systems.size(); ++i) {
    const SystemReport& system = report.systems[i];
    json.line(indent + 2).begin_object();
    write_row(json, system, options);
    write_judgement(json, system, blocks, report.baseline);
    if (!parts.empty()) {
      json.key("classes").begin_array();
      for (std::size_t of = 0; of < parts.size(); ++of) {
        const SystemReport& own = parts[of].systems[i];
        json.begin_object().field("class", report.workload.slo_classes[of].name);
        write_row(json, own, options);
        write_judgement(json, own, of_parts[of], report.baseline);
        json.end_object();
      }
      json.end_array();
    }
    json.end_object();
  }
  json.line(indent).end_array();
}

} // namespace sluice::detail

namespace sluice {

SLUICE_REPORT_INLINE std::string report_json(const ComparisonReport& report, JsonOptions options) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().line(2);
  detail::write_made_by(json, report.made_by);
  detail::write_report_members(json, report, options, 2);
  json.line().end_object();
  text += '\n';
  return text;
}

} // namespace sluice
