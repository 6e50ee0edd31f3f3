// SPDX-License-Identifier: Apache-2.0
// Blocks of a report: rows that may be compared with each other, in the order of display.
#pragma once

#include "sluice/report/number_text.hpp"
#include "sluice/report/report.hpp"
#include "sluice/workload/seeds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Rows with one SLO scale, either all with a deposit or all without; the two kinds are never compared.
struct ReportBlock {
  bool deposit = false;
  double slo_scale = 1;
  std::vector<const SystemReport*> rows; ///< the best first (`ranks_before`); the control row is last, and duplicates
                                         ///< follow their original
};

/// Returns whether two rows agree in every figure except wall times, which no run repeats. Usually they are one engine
/// with two names.
[[nodiscard]] inline bool same_figures(const SystemReport& a, const SystemReport& b) {
  const auto figures = [](const SystemReport& row) {
    std::vector<double> all;
    for_each_metric(row.metrics, [&](std::string_view name, auto number) {
      if (name.find("_wall_") == std::string_view::npos) all.push_back(static_cast<double>(number));
    });
    return all;
  };
  const std::vector<double> of_a = figures(a), of_b = figures(b);
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }) &&
         a.refusals == b.refusals && a.livelock == b.livelock;
}

/// Returns the row of the block that `row` duplicates in every figure; null if there is none, or if `row` is itself the
/// original. The original is the row with the shortest name, because variants' names extend their system's name. The
/// control row is neither a duplicate nor an original, and no oracle stands for a system that is none.
[[nodiscard]] inline const SystemReport* original_of(const ReportBlock& block, const SystemReport& row) {
  if (row.control) return nullptr;
  const SystemReport* best = nullptr;
  for (const SystemReport* other : block.rows)
    if (!other->control && other->oracle == row.oracle && (other == &row || same_figures(*other, row)) &&
        (best == nullptr || other->name.size() < best->name.size()))
      best = other;
  return best == &row ? nullptr : best;
}

/// Returns a block's rows without those that duplicate another.
[[nodiscard]] inline std::vector<const SystemReport*> distinct_rows(const ReportBlock& block) {
  std::vector<const SystemReport*> rows;
  for (const SystemReport* row : block.rows)
    if (original_of(block, *row) == nullptr) rows.push_back(row);
  return rows;
}

/// "same as VllmSwap: SwappedFirst, VllmSwapSized": a line for each row that others duplicate.
[[nodiscard]] inline std::string same_text(const ReportBlock& block) {
  std::string out;
  for (const SystemReport* row : distinct_rows(block)) {
    std::string names;
    for (const SystemReport* other : block.rows)
      if (original_of(block, *other) == row) names += (names.empty() ? "" : ", ") + other->name;
    if (!names.empty()) out += "same as " + row->name + ": " + names + "\n";
  }
  return out;
}

/// Returns whether a row ranks before another of its block: by the share of requests that met their whole SLO, then by
/// goodput, TBT attainment and mean E2E of all. Without an SLO for whole requests, by TBT attainment first. Rejected:
/// TBT attainment for all, which does not count the wait for the first token, and so puts systems first that let
/// requests queue. A livelocked engine's partial results are no attainment of the workload; such rows come last, before
/// the control.
[[nodiscard]] inline bool ranks_before(const SystemReport& a, const SystemReport& b) {
  const auto key = [](const SystemReport& row) {
    const Metrics& m = row.metrics;
    const double attained = std::isnan(m.slo_attainment) ? m.tbt_attainment : m.slo_attainment;
    const auto number = [](double value) { return std::isnan(value) ? -1.0 : value; };
    const double place = row.control ? -3.0 : !row.livelock.empty() ? -2.0 : number(attained);
    const double wait = std::isnan(m.mean_e2e_all_s) ? 0 : -m.mean_e2e_all_s;
    return std::array{place, number(m.goodput_requests_per_s), number(m.tbt_attainment), wait};
  };
  return key(a) > key(b);
}

/// Returns the blocks of a report: those without deposit first, then by SLO scale. Pointers into `report`.
[[nodiscard]] inline std::vector<ReportBlock> blocks_of(const ComparisonReport& report) {
  std::vector<ReportBlock> blocks;
  for (const SystemReport& system : report.systems) {
    auto block = std::find_if(blocks.begin(), blocks.end(), [&](const ReportBlock& b) {
      return b.deposit == system.deposit && b.slo_scale == system.slo_scale;
    });
    if (block == blocks.end()) block = blocks.insert(blocks.end(), {system.deposit, system.slo_scale, {}});
    block->rows.push_back(&system);
  }
  std::stable_sort(blocks.begin(), blocks.end(), [](const ReportBlock& a, const ReportBlock& b) {
    return a.deposit != b.deposit ? b.deposit : a.slo_scale < b.slo_scale;
  });
  for (ReportBlock& block : blocks) {
    std::stable_sort(block.rows.begin(), block.rows.end(),
                     [](const SystemReport* a, const SystemReport* b) { return ranks_before(*a, *b); });
    std::vector<const SystemReport*> ordered;
    for (const SystemReport* row : block.rows) {
      if (original_of(block, *row) != nullptr) continue;
      ordered.push_back(row);
      for (const SystemReport* other : block.rows)
        if (original_of(block, *other) == row) ordered.push_back(other);
    }
    block.rows = std::move(ordered);
  }
  return blocks;
}

/// Returns the seeds of a report, one or many.
[[nodiscard]] inline std::vector<std::uint64_t> seeds_served(const WorkloadReport& workload) {
  return workload.seeds.empty() ? std::vector{workload.seed} : workload.seeds;
}

/// Returns whether the workload is a trace that is not resampled by seed.
[[nodiscard]] inline bool recorded(const WorkloadReport& workload) {
  return workload.seeds.empty() && (workload.redrawn.empty() || workload.windows) && !workload.format.empty() &&
         workload.format != "generated";
}

/// What figures are means over.
[[nodiscard]] inline std::string seeds_or_windows(bool windows) { return windows ? "windows" : "seeds"; }

/// "seed 1", "seeds 1..8" or "windows 1..8"; "as recorded" for a trace that is not resampled by seed.
[[nodiscard]] inline std::string seeds_of(const WorkloadReport& workload) {
  if (recorded(workload)) return "as recorded";
  if (workload.seeds.empty()) return "seed " + std::to_string(workload.seed);
  return seeds_or_windows(workload.windows) + " " + seeds_text(workload.seeds);
}

/// Returns the note for a table of one seed: a difference may be due to the seed. Empty for several seeds.
[[nodiscard]] inline std::string one_seed_note(const WorkloadReport& workload) {
  if (workload.seeds.size() > 1) return {};
  return recorded(workload)
             ? "one window of a trace: at other times a difference may vanish or reverse; try --limit N --windows 8"
             : "one seed: with other seeds a difference may vanish or reverse; try --seeds 1..8";
}

/// The KV budget. It is negative where the weights alone exceed the memory.
[[nodiscard]] inline std::string kv_budget_text(const WorkloadReport& workload) {
  if (workload.kv_in_groups) return bytes_text(static_cast<double>(workload.budget_bytes)) + " of KV";
  if (workload.budget_blocks >= 0) return std::to_string(workload.budget_blocks) + " token blocks of KV";
  return "weights larger than the memory by " + std::to_string(-workload.budget_blocks) + " token blocks";
}

/// Whether classes differ by their SLOs, and not by their priorities alone.
[[nodiscard]] inline bool slos_by_class(const WorkloadReport& workload) {
  return std::any_of(workload.slo_classes.begin(), workload.slo_classes.end(),
                     [](const SloClass& one) { return one.slo != Slo{}; });
}

/// "SLO by class: chat 2s/50ms (50.0 %), ...", or "classes: priority 0 (90.0 %), ..."; empty without classes.
[[nodiscard]] inline std::string classes_line(const WorkloadReport& workload) {
  std::string text;
  for (const SloClass& one : workload.slo_classes) {
    text += (text.empty() ? slos_by_class(workload) ? "SLO by class: " : "classes: " : ", ") + one.name;
    if (const std::string label = label_of(one); one.name != label && slos_by_class(workload)) text += " " + label;
    text += " (" + percent_text(one.share) + " %)";
  }
  return text;
}

/// "SLO 50 ms per token (scale 1), first token 2 s", or the classes with their shares.
[[nodiscard]] inline std::string slo_text(const WorkloadReport& workload, const ReportBlock& block) {
  const SystemReport& row = *block.rows.front();
  if (slos_by_class(workload)) return classes_line(workload);
  if (std::isnan(row.slo_tbt_s) || std::isnan(row.slo_ttft_s)) return "SLO: each request's own";
  return "SLO " + (std::isinf(row.slo_tbt_s) ? std::string{"none"} : time_text(row.slo_tbt_s)) + " per token (scale " +
         tidy_text(block.slo_scale) + "), first token " + time_text(row.slo_ttft_s) +
         (workload.slo_classes.empty() ? "" : "; " + classes_line(workload));
}

/// Returns trace, seed, model, device, link, budget, SLO and cautions of a block, which every table must name.
[[nodiscard]] inline std::string caption_of(const WorkloadReport& workload, const ReportBlock& block) {
  std::string text = workload.trace + (workload.redrawn.empty() ? "" : " " + workload.redrawn) + ", " +
                     std::to_string(workload.requests) + " requests, " + seeds_of(workload) + "; " + workload.model +
                     " on " + workload.device + (workload.link.empty() ? "" : ", link " + workload.link) + ", " +
                     kv_budget_text(workload);
  if (workload.budget_bytes > 0) text += " (" + bytes_text(static_cast<double>(workload.budget_bytes)) + ")";
  if (!workload.as_recorded.empty()) text += "; as recorded: " + workload.as_recorded + ", in one run";
  if (!workload.counted.empty()) text += "; counted: " + workload.counted;
  text += "; " + slo_text(workload, block);
  if (!workload.times.empty()) text += "; " + workload.times;
  for (const std::string& caution : workload.cautions) text += "; " + caution;
  return text;
}

/// Returns whether the queue grows to the end in most of a row's seeds, so that its latencies depend on the number of
/// requests (`queue_grows` of report/observer/measure.hpp).
template <class Row>
[[nodiscard]] bool grows(const Row& row) {
  return row.metrics.queue_grows > 0.5;
}

/// Marks all of some rows, if in each that ends its requests take longer, in the mean, than the time until `--horizon`.
/// Goodput is then the rate of their arrivals, whatever the system does. `rows`: pointers to rows that may be compared;
/// `Row`: as for `marks_of`.
template <class Rows>
void mark_short_horizon(const Rows& rows) {
  const auto ends = [](const auto* row) { return row->livelock.empty() && !std::isnan(row->metrics.mean_e2e_s); };
  const bool brief =
      std::any_of(rows.begin(), rows.end(), ends) && std::all_of(rows.begin(), rows.end(), [&](const auto* row) {
        return !ends(row) || row->metrics.horizon_s < row->metrics.mean_e2e_s;
      });
  for (auto* row : rows) row->short_horizon = brief;
}
/// The same for each block of a report.
inline void mark_short_horizon(ComparisonReport& report) {
  for (const ReportBlock& block : blocks_of(report)) {
    std::vector<SystemReport*> rows;
    for (SystemReport& row : report.systems)
      if (row.deposit == block.deposit && row.slo_scale == block.slo_scale) rows.push_back(&row);
    mark_short_horizon(rows);
  }
}

/// Returns the marks of rows that are no systems for use.
[[nodiscard]] inline std::vector<std::string_view> marks_of(bool control, bool oracle) {
  std::vector<std::string_view> marks;
  if (control) marks.emplace_back("control");
  if (oracle) marks.emplace_back("oracle");
  return marks;
}
/// Returns what a reader must know before comparing a row with others. A table that stands alone marks every row;
/// tables with remarks below them leave out `queue grows` and `short horizon`, which are often true of all. `Row`:
/// SystemReport, or a row of a tool's own with these members.
template <class Row>
[[nodiscard]] std::vector<std::string_view> marks_of(const Row& row, bool stands_alone = false) {
  std::vector<std::string_view> marks = marks_of(row.control, row.oracle);
  if (!row.livelock.empty()) marks.emplace_back("livelocked");
  if (stands_alone && grows(row)) marks.emplace_back("queue grows");
  if (stands_alone && row.short_horizon) marks.emplace_back("short horizon");
  return marks;
}

/// Returns a name with marks: "SjfOracle (oracle)".
[[nodiscard]] inline std::string marked(std::string name, const std::vector<std::string_view>& marks) {
  for (const std::string_view mark : marks) name += " (" + std::string{mark} + ")";
  return name;
}
[[nodiscard]] inline std::string label_of(const SystemReport& row, bool stands_alone = false) {
  return marked(row.name, marks_of(row, stands_alone));
}

[[nodiscard]] inline std::string title_of(const ReportBlock& block) {
  return block.deposit ? "with token deposit" : "without deposit";
}

/// Returns the number of requests that E2E leaves out: refused ones and those left when the run ended.
[[nodiscard]] inline double left_out(const Metrics& m) { return static_cast<double>(m.refused + m.unfinished); }

/// " (33 out)": the mark beside a figure that leaves requests out; empty if it leaves none out. A mean over seeds may
/// be a fraction.
[[nodiscard]] inline std::string left_out_text(double requests) {
  return requests > 0 ? " (" + tidy_text(requests) + " out)" : std::string{};
}
/// Explains the mark in a text.
inline constexpr std::string_view left_out_note =
    "(n out): n requests were refused or left, and this figure leaves them out; --columns e2e-all counts them to the "
    "run's end";

/// Remarks on a block's rows, one line each; rows with the same remark share a line.
[[nodiscard]] inline std::vector<std::string> remarks_of(const ReportBlock& block) {
  std::vector<std::pair<std::string, std::vector<std::string>>> remarks; // each remark and its rows
  const auto add = [&](const std::string& what, const std::string& name) {
    for (auto& [known, names] : remarks)
      if (known == what) {
        names.push_back(name);
        return;
      }
    remarks.push_back({what, {name}});
  };
  for (const SystemReport* row : block.rows)
    if (!row->tuned.empty()) add("tuned: " + row->tuned, row->name);
  for (const SystemReport* row : block.rows) {
    if (!row->note.empty()) add(row->note, row->name);
    if (row->oracle)
      add("oracle: it knows how long each answer will be, as no server does; no reference unless asked", row->name);
    if (row->short_horizon)
      add("goodput is the rate of arrivals: requests take longer than the time until --horizon", row->name);
    if (grows(*row)) add("queue grows to the end: with more requests latencies would be longer", row->name);
    const double step_s = row->metrics.busy_s / static_cast<double>(std::max<std::int64_t>(1, row->metrics.iterations));
    if (const double plan_s = 1e-6 * row->metrics.planning_p99_us; plan_s > step_s && row->metrics.iterations > 0)
      add("a plan takes longer than a step: " + time_text(plan_s) + " at P99, a step " + time_text(step_s) +
              " on average",
          row->name);
    if (const std::string unpaid = row->unpaid.remark(); !unpaid.empty()) add(unpaid, row->name);
    for (const auto& [reason, count] : row->refusals)
      add("refused " + std::to_string(count) + ": " + reason, row->name);
    if (row->metrics.unfinished > 0 && row->livelock.empty())
      add(std::to_string(row->metrics.unfinished) + " left: the engine ran nobody although they were there", row->name);
  }
  const auto never_short = [](const SystemReport* row) {
    const Metrics& m = row->metrics;
    return m.times_preempted == 0 && m.refused == 0 && m.bytes_moved == 0 && m.unfinished == 0 &&
           !row->waits_for_memory && row->livelock.empty();
  };
  if (std::all_of(block.rows.begin(), block.rows.end(), never_short))
    for (const SystemReport* row : block.rows)
      add("memory never fills: nothing is preempted, refused or moved, nor waits for it", row->name);
  std::vector<std::string> lines;
  for (const auto& [what, names] : remarks) {
    std::string whose;
    for (const std::string& name : names) whose += (whose.empty() ? "" : ", ") + name;
    if (names.size() == block.rows.size() && names.size() > 1) whose = "all " + std::to_string(names.size());
    lines.push_back(what + " (" + whose + ")");
  }
  if (std::string beyond = beyond_remark(block.rows); !beyond.empty()) lines.push_back(std::move(beyond));
  return lines;
}

/// Returns the transfer rule of a row; empty if the row transferred nothing, because the rule then had no effect.
[[nodiscard]] inline std::string transfer_text(const SystemReport& row) {
  return row.metrics.bytes_moved > 0 ? row.transfer : std::string{};
}

/// Returns the common rule of all rows that transfer anything; an empty string if no row does; no value if the rules
/// differ.
[[nodiscard]] inline std::optional<std::string> shared_transfer(const ReportBlock& block) {
  std::string shared;
  for (const SystemReport* row : block.rows) {
    const std::string rule = transfer_text(*row);
    if (!shared.empty() && !rule.empty() && rule != shared) return std::nullopt;
    if (!rule.empty()) shared = rule;
  }
  return shared;
}

// class_report: the part of a report about the requests of one SLO class.

/// Returns every system's row of the requests of class `number`, as a separate report, so that all code that orders,
/// judges and draws rows works on it. Its workload has that class's mean number of requests.
[[nodiscard]] inline ComparisonReport class_report(const ComparisonReport& report, std::size_t number) {
  ComparisonReport part{report.workload, {}, report.baseline, report.made_by};
  part.workload.slo_classes.clear();
  for (const SystemReport& row : report.systems) {
    if (number >= row.classes.size()) continue;
    SystemReport own = row.classes[number];
    own.name = row.name;
    own.control = row.control;
    own.oracle = row.oracle;
    own.slo_scale = row.slo_scale;
    own.short_horizon = row.short_horizon;
    own.livelock = row.livelock;
    own.livelocks = row.livelocks;
    if (part.systems.empty()) part.workload.requests = own.metrics.requests;
    part.systems.push_back(std::move(own));
  }
  return part;
}

/// "class chat: first token 2 s, then every 50 ms, 31 requests".
[[nodiscard]] inline std::string class_title(const WorkloadReport& whole, std::size_t number,
                                             const ComparisonReport& part) {
  const SystemReport& row = part.systems.front();
  return "class " + whole.slo_classes[number].name + ": first token " + time_text(row.slo_ttft_s) + ", then every " +
         time_text(row.slo_tbt_s) + ", " + (whole.seeds.size() > 1 ? "about " : "") +
         std::to_string(part.workload.requests) + (part.workload.requests == 1 ? " request" : " requests");
}

} // namespace sluice
