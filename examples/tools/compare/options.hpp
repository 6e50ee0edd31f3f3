// SPDX-License-Identifier: Apache-2.0
// Options: the values of sluice-compare's flags. Each group holds the flags that one part of `prepare` reads.
#pragma once

#include "sluice/report/observer/timeline.hpp"
#include "sluice/workload/slo_classes.hpp"

#include "shared/default_machine.hpp"
#include "shared/trace_options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace compared {

/// The requests, and how each seed draws them.
struct WorkloadOptions : TraceOptions {
  std::optional<std::string> generate;
  std::string lengths; ///< a generated workload whose lengths replace those of `trace`
  std::optional<std::int64_t> limit;
  double rate_scale = 1;
  std::optional<std::string> sessions; ///< "closed", the default, or "open"
  std::string arrivals = "seconds";    ///< or "steps", for traces whose arrivals count engine steps
  std::uint64_t seed = 1;
  bool seed_stated = false;            ///< the user gave the seed, so it also resamples a trace
  std::vector<std::uint64_t> seeds;    ///< instead of `seed`: one workload per seed
  std::optional<std::string> resample; ///< how a seed resamples a trace
  std::int64_t windows = 0;            ///< of a trace, one per seed; 0: no windows
  std::int64_t offset = 0;             ///< requests, or sessions, of the trace before those that are served
  double warmup = 0;                   ///< seconds; requests that arrive earlier do not count
  std::optional<double> horizon;       ///< seconds; requests that arrive later do not count
};

/// A memory below the host's, for systems that cache.
struct LowerTier {
  std::int64_t bytes = 0;
  double rate = 0; ///< bytes per second, each way
  double latency_s = 0;
};

/// Model, device, link, memories and batch.
struct MachineOptions {
  std::optional<std::string> model;
  std::string kv_dtype = "auto"; ///< the type of KV (shared/kv_dtype.hpp)
  std::string device{default_device};
  std::string profile;    ///< file or folder of measured kernel times
  std::string all_reduce; ///< file of measured all-reduce times
  int tp = 1, gpus_per_link = 1;
  double link = 0;           ///< bytes per second in each direction; 0: the device's own rate
  double memory_share = 0.9; ///< vLLM's gpu_memory_utilization
  std::optional<std::int64_t> device_memory, host_memory; ///< bytes
  std::optional<double> bandwidth_fraction; ///< the share of the memory's bandwidth that a roofline reaches
  double host_attention = 0;                ///< bytes of KV per second; 0: the device's own rate
  std::vector<LowerTier> lower_tiers;       ///< below the host, the nearest first
  std::optional<std::int64_t> kv_blocks, batch, batch_tokens;
  std::optional<std::int64_t> kv_memory; ///< bytes, instead of `kv_blocks`
  double part = 1; ///< a tenant's share of the device's computation and bandwidth; no flag sets it
};

/// Parameters of single policies.
struct TuningOptions {
  double alpha = 1;
  std::optional<std::int64_t> plan_nodes, rotation_blocks, interval, remapped;
  std::optional<double> max_pause; ///< seconds
  std::optional<double> lag_alpha, lag_first, lag_next;
  std::vector<std::string> set; ///< each is `Policy.number=value`
};

/// Several tenants on one node.
struct NodeOptions {
  std::vector<std::string> tenants, tenant_loads;
  std::optional<std::string> sharing, remap_order;
  std::optional<double> quantum; ///< seconds
  std::optional<double> bus;     ///< bytes per second
};

/// The request that --why explains.
struct WhyAsked {
  std::int64_t id = -1; ///< below 0: all requests
};

struct Options {
  WorkloadOptions workload{};
  MachineOptions machine{};
  TuningOptions tuning{};
  NodeOptions node{};

  std::string systems = "all", transfer = "own", deposit = "both";
  std::string tune;   ///< what each system's own numbers are chosen from; empty: nothing
  std::string record; ///< Select-N's measured intervals

  std::string slo_base = "budget";
  std::optional<double> slo_ttft, slo_tbt; ///< seconds
  std::vector<double> slo_scales;          ///< empty: the default
  std::vector<sluice::SloClass> slo_classes;

  std::string preset, baseline, table = "full", columns, data, out;
  std::string kv_transfer;        ///< other servers' settings, or a file that has them; empty: not given
  std::string print_config;       ///< "vllm", or empty
  std::string plot;               ///< a file for a figure; empty: no figure
  std::optional<double> capacity; ///< share of requests that must meet both SLOs
  std::optional<WhyAsked> why;
  sluice::TraceAt trace_at{};
  std::optional<std::int64_t> iteration_rows; ///< rows per run in iterations.csv, at most
  std::optional<std::int64_t> threads;
  std::string list; ///< "names" or "numbers"; empty: not requested
  bool devices = false, dry_run = false, wall_times = false, quiet = false, cells = false, mpi = false;
  bool no_traces = false; ///< write no traces to `out`
  bool tokens = false;    ///< write a row for every token to `out`
  bool bound = false;     ///< compute what no system can exceed
  bool audit = false;     ///< print what a reviewer would ask

  std::string preset_note, case_label; ///< written by a preset for the report; no flags
  bool composes = false;               ///< other engines may use flags that `systems` do not; no flag
};

/// Returns whether the output is a table for another program; a sentence above the table would break it.
inline bool for_programs(const Options& options) { return options.table == "csv" || options.table == "latex"; }

} // namespace compared
