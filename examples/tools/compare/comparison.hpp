// SPDX-License-Identifier: Apache-2.0
// Comparison: what the command line asked for, checked and read: world, workload, systems.
#pragma once

#include "sluice/report/report.hpp"

#include "compare/run.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace compared {

inline constexpr std::string_view default_model = "llama3-8b";

struct Options {
  std::optional<std::string> generate, model;
  std::string preset, trace, format, lengths, profile, record, systems = "all", transfer = "own", deposit = "both", out;
  std::string device = "a5000", slo_base = "budget", table = "full", columns, data;
  std::string all_reduce; ///< a file of measured ones
  int tp = 1, gpus_per_link = 1;
  std::optional<std::int64_t> kv_blocks, batch, batch_tokens, limit, rotation_blocks, interval, remapped, plan_nodes,
      threads;
  std::optional<double> slo_tbt, max_pause, link_rate, host_memory, lag_alpha, lag_first, lag_next;
  std::vector<std::string> tenants, tenant_loads;
  std::optional<std::string> sharing, remap_order;
  std::optional<double> quantum, bus;
  double slo_ttft = 5; // SuperInfer's
  double rate_scale = 1;
  double memory_share = 0.9; // vLLM's gpu_memory_utilization
  double alpha = 1;
  std::vector<double> slo_scales;
  std::uint64_t seed = 1;
  std::vector<std::uint64_t> seeds;    ///< instead of `seed`: a workload each
  std::optional<std::string> resample; ///< how a trace is drawn again
  std::string baseline;
  bool list = false, dry_run = false, wall_times = false, quiet = false;

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
/// as
/// `--seed` is, so that any of them can be looked at alone.
sluice::Expected<Comparison> prepare_seeds(const Options& options, const std::string& command);

/// Runs every row and writes its trace file; nothing else is written.
sluice::Expected<sluice::ComparisonReport> compare_all(const Options& options, const Comparison& comparison,
                                                       sluice::Status& files);

/// The files of `--out`, if it was given.
sluice::Status write_report(const Options& options, const sluice::ComparisonReport& report);

} // namespace compared
