// SPDX-License-Identifier: Apache-2.0
// Options: the flags of sluice-run.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/decoder/sampler.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/report/observer/timeline.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/workload/slo_classes.hpp"

#include "engines/host_caching.hpp"
#include "shared/trace_options.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

class Flags;

namespace running {

/// A folder for KV of ended requests, and the most bytes in it.
struct DiskCache {
  std::string folder;
  std::int64_t bytes = 0;
};

struct Options : TraceOptions {
  std::string model = "tiny", system = "AllResident", backend = "cpu";
  std::vector<std::string> set;                ///< numbers of the system's policies
  std::optional<std::uint64_t> random_weights; ///< seed
  std::vector<std::string> prompts, prompt_ids;
  std::optional<std::int64_t> limit;
  std::optional<double> rate_scale;                                  ///< for a trace; empty: 1
  std::optional<std::int64_t> device_memory, kv_memory, host_memory; ///< bytes
  std::int64_t host_cache = 0;                  ///< bytes for KV of ended requests; 0: none is kept
  std::optional<DiskCache> disk_cache;          ///< below it
  std::string kv_transfer;                      ///< other servers' settings of these; empty: not given
  std::optional<engines::HostReuse> host_reuse; ///< of what `host_cache` has
  std::optional<engines::HostWrite> host_write;
  std::optional<sluice::Replacement> host_evict;
  std::optional<double> host_pin;    ///< seconds
  std::optional<int> host_pin_share; ///< percent
  double link = 0;                   ///< bytes per second; 0: no limit
  std::string lanes = "shared";
  std::string products = "invariant";
  bool no_graphs = false;
  std::optional<std::int64_t> gather_below; ///< bytes; empty: measured, on a GPU
  std::optional<std::int64_t> max_tokens;
  int threads = 1, batch = 16;
  std::int64_t batch_tokens = 256;
  sluice::Sampling sampling; ///< of the three options below, those that are given
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<std::uint64_t> seed;
  double slo_tbt = std::numeric_limits<double>::infinity(), slo_ttft = std::numeric_limits<double>::infinity();
  std::vector<sluice::SloClass> slo_classes; ///< of a trace's requests
  std::string profile;                       ///< a folder of kernel times; empty: planners use a roofline
  std::string calibrate;                     ///< on, off, or empty: see `calibrates`
  std::string logits, timeline, decisions, record_clock, replay_clock;
  std::string out;                               ///< a folder
  std::string command;                           ///< the command line as a shell reads it
  sluice::TraceAt trace_at{};                    ///< the part of the run that `timeline` shows in detail
  std::optional<sluice::ChatFormat> chat_format; ///< instead of the one of the model's template
  bool chat = false, ignore_end = false, no_wait = false, list = false, json = false, verbose = false, runs = false;

  [[nodiscard]] bool from_trace() const { return !trace.empty(); }
  /// Whether planners learn from the run's layer times. By default they do not with a profile, which the user chose.
  [[nodiscard]] bool calibrates() const { return calibrate.empty() ? profile.empty() : calibrate == "on"; }
};

/// The flags of the machine and its engine, which a server has, too.
void add_machine(Flags& flags, Options& options);
/// The value of `--products`; check it first.
[[nodiscard]] sluice::Products products_of(const Options& options);
/// Sets the defaults that depend on other flags, once all are read.
void conclude_machine(Flags& flags, Options& options);
/// Checks these flags against each other, and sets those that --kv-transfer-config says.
sluice::Status check_machine(Options& options);
/// Checks that everything an engine receives, except its clock, is the same in every run, as recording or replaying
/// with `flag` requires.
sluice::Status check_repeatable(const Options& options, const std::string& flag);

/// Empty: go on; otherwise the program's exit status.
std::optional<int> parse_options(int argc, char** argv, Options& options);

/// Checks all flags against each other, before anything but settings is read.
sluice::Status check_options(Options& options);

/// Bad input, named by its flag.
sluice::Error flag_error(std::string flag, std::string what, std::string expected);

/// The program: parses the command line, does what it asks and prints. Returns the exit status.
int program(int argc, char** argv);

} // namespace running
