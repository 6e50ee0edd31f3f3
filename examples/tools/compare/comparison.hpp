// SPDX-License-Identifier: Apache-2.0
// Comparison: what the command line asked for, checked and read: world, workload, systems.
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

/// What --why asks: of one request, or of all.
struct WhyAsked {
  std::int64_t id = -1; ///< below 0: all
};

struct Options {
  std::optional<std::string> generate, model;
  std::string preset, trace, format, trace_columns, lengths, profile, record, systems = "all", transfer = "own",
                                                                              deposit = "both", out;
  std::string device{default_device}, slo_base = "budget", table = "full", columns, data;
  std::string all_reduce; ///< a file of measured ones
  int tp = 1, gpus_per_link = 1;
  std::optional<std::int64_t> kv_blocks, batch, batch_tokens, limit, rotation_blocks, interval, remapped, plan_nodes,
      threads;
  std::optional<double> slo_tbt, max_pause, lag_alpha, lag_first, lag_next;
  std::optional<std::int64_t> host_memory; ///< bytes
  double link = 0;                         ///< bytes a second, each way; 0: the device's
  std::vector<std::string> tenants, tenant_loads;
  std::optional<std::string> sharing, remap_order;
  std::optional<double> quantum, bus; ///< seconds, and bytes a second
  double slo_ttft = 5;                // SuperInfer's
  double rate_scale = 1;
  double memory_share = 0.9; // vLLM's gpu_memory_utilization
  double alpha = 1;
  std::vector<double> slo_scales;
  std::optional<double> capacity; ///< share of the requests that are to keep both SLOs
  std::uint64_t seed = 1;
  std::vector<std::uint64_t> seeds;    ///< instead of `seed`: a workload each
  std::optional<std::string> resample; ///< how a trace is drawn again
  std::string baseline;
  std::optional<WhyAsked> why;
  sluice::TraceAt trace_at{};
  std::optional<std::int64_t> iteration_rows; ///< of each run in iterations.csv, at most
  bool list = false, dry_run = false, wall_times = false, quiet = false, cells = false, mpi = false;

  std::string preset_note, case_label; ///< not flags: what a preset made of them, for the report
  double part = 1;                     ///< nor this: of one device's computation and bandwidth, a tenant's
};

/// Bad input, by its flag.
sluice::Error flag_error(std::string flag, std::string what, std::string expected);

/// Systems by their names with commas, or all.
sluice::Expected<std::vector<const System*>> chosen_systems(const std::string& list);

/// Everything a comparison needs, from the command line; what the trace itself says comes before the defaults.
struct Comparison {
  Setup setup;
  std::vector<Setup> redrawn{}; ///< of several seeds: the setup with each one's workload, `setup` with the first
  sluice::WorkloadReport workload;
  std::vector<const System*> systems;
  std::string_view rule; ///< for every system; empty: its own
  sluice::Seconds base_slo{0};
  bool without_deposit = true, with_deposit = true;
};

/// Reads model, device, profile and workload. `command` is how to repeat the comparison, for its report.
sluice::Expected<Comparison> prepare(const Options& options, const std::string& command);

/// The same for all of `--seeds`: what differs from seed to seed is the workload, not the promise. One seed is prepared
/// as `--seed` is, so that any of them can be looked at alone.
sluice::Expected<Comparison> prepare_seeds(const Options& options, const std::string& command);

/// A comparison to make, and the flags that it was made of.
struct Asked {
  const Options& options;
  const Comparison& comparison;
};

/// The report of each; none where the crew is led by another process. After an interrupt they have those rows that
/// have run on every seed, if any.
struct Compared {
  std::vector<sluice::ComparisonReport> reports;
  sluice::RunCount runs{};
};

/// Runs every row of all, side by side as the crew runs them, and writes the files of those with a folder; after an
/// interrupt none.
sluice::Expected<Compared> compare_all(std::span<const Asked> all, sluice::Crew& crew, sluice::Status& files);

/// The folder of `--out`.
sluice::Status make_folder(const std::string& path);

} // namespace compared
