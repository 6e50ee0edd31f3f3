// SPDX-License-Identifier: Apache-2.0
// Comparison: what the command line asked for, validated and read: machine, workload, systems.
#pragma once

#include "sluice/report/observer/timeline.hpp"
#include "sluice/report/report.hpp"

#include "compare/run.hpp"
#include "shared/default_machine.hpp"
#include "shared/interrupt.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {
class Crew;
}

namespace compared {

/// What --why asks about: one request, or all.
struct WhyAsked {
  std::int64_t id = -1; ///< below 0: all
};

struct Options {
  std::optional<std::string> generate, model;
  std::string preset, trace, format, trace_columns, lengths, profile, record, systems = "all", transfer = "own",
                                                                              deposit = "both", out;
  std::string device{default_device}, slo_base = "budget", table = "full", columns, data;
  std::string all_reduce; ///< a file of measured all-reduces
  int tp = 1, gpus_per_link = 1;
  std::optional<std::int64_t> kv_blocks, batch, batch_tokens, limit, rotation_blocks, interval, remapped, plan_nodes,
      threads;
  std::optional<double> slo_tbt, max_pause, lag_alpha, lag_first, lag_next;
  std::optional<std::int64_t> host_memory; ///< bytes
  double link = 0;                         ///< bytes per second, each way; 0: the device's own rate
  std::vector<std::string> tenants, tenant_loads;
  std::optional<std::string> sharing, remap_order;
  std::optional<double> quantum, bus; ///< seconds, and bytes per second
  double slo_ttft = 5;                // as in SuperInfer
  double rate_scale = 1;
  double memory_share = 0.9; // vLLM's gpu_memory_utilization
  double alpha = 1;
  std::vector<double> slo_scales;
  std::optional<double> capacity; ///< share of the requests that must meet both SLOs
  std::uint64_t seed = 1;
  std::vector<std::uint64_t> seeds;    ///< instead of `seed`: one workload each
  std::optional<std::string> resample; ///< how a trace is resampled
  std::string baseline;
  std::optional<WhyAsked> why;
  sluice::TraceAt trace_at{};
  std::optional<std::int64_t> iteration_rows; ///< most rows of each run in iterations.csv
  bool list = false, dry_run = false, wall_times = false, quiet = false, cells = false, mpi = false;

  std::string preset_note, case_label; ///< not flags: text that a preset made of its flags, for the report
  double part = 1;                     ///< not a flag: a tenant's share of one device's compute and bandwidth
};

/// Bad input, named by its flag.
sluice::Error flag_error(std::string flag, std::string what, std::string expected);

/// Systems by their comma-separated names, or all.
sluice::Expected<std::vector<const System*>> chosen_systems(const std::string& list);

/// Everything that a comparison needs, from the command line; a trace's own values override the defaults.
struct Comparison {
  Setup setup;
  std::vector<Setup> redrawn{}; ///< with several seeds: the setup with each seed's workload; `setup` has the first
  sluice::WorkloadReport workload;
  std::vector<const System*> systems;
  std::string_view rule; ///< transfer rule for every system; empty: its own
  sluice::Seconds base_slo{0};
  bool without_deposit = true, with_deposit = true;
};

/// Reads model, device, profile and workload. `command` repeats the comparison; its report shows it.
sluice::Expected<Comparison> prepare(const Options& options, const std::string& command);

/// The same for all of `--seeds`: seeds differ in the workload, not in the SLO. Each seed is prepared exactly as
/// `--seed` prepares it, so that it can be run again on its own.
sluice::Expected<Comparison> prepare_seeds(const Options& options, const std::string& command);

/// A comparison to make, and the flags that it was made from.
struct Asked {
  const Options& options;
  const Comparison& comparison;
};

/// A report for each comparison; empty if another process leads the crew. After an interrupt the reports have the rows
/// that have run on every seed, if any.
struct Compared {
  std::vector<sluice::ComparisonReport> reports;
  sluice::RunCount runs{};
};

/// Runs all rows of all comparisons, in parallel on the crew, and writes files for those that have a folder; after an
/// interrupt it writes none.
sluice::Expected<Compared> compare_all(std::span<const Asked> all, sluice::Crew& crew, sluice::Status& files);

/// The folder of `--out`.
sluice::Status make_folder(const std::string& path);

} // namespace compared
