// SPDX-License-Identifier: Apache-2.0
// Options: the flags of sluice-run.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/decoder/sampler.hpp"
#include "sluice/report/observer/timeline.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

class Flags;

namespace running {

struct Options {
  std::string model = "tiny", system = "AllResident", backend = "cpu";
  std::optional<std::uint64_t> random_weights; ///< the seed
  std::vector<std::string> prompts, prompt_ids;
  std::string trace, format, trace_columns;
  std::optional<std::int64_t> limit;
  std::optional<double> rate_scale;                                  ///< of a trace; none: 1
  std::optional<std::int64_t> device_memory, kv_memory, host_memory; ///< bytes
  double link = 0;                                                   ///< bytes a second; 0: as fast as memory is
  std::string lanes = "shared";
  std::string products = "invariant";
  bool no_graphs = false;
  std::optional<std::int64_t> gather_below; ///< bytes; none: measured, on a GPU
  std::optional<std::int64_t> max_tokens;
  int threads = 1, batch = 16;
  std::int64_t batch_tokens = 256;
  sluice::Sampling sampling; ///< with the three below where they are given
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<std::uint64_t> seed;
  double slo_tbt = std::numeric_limits<double>::infinity(), slo_ttft = std::numeric_limits<double>::infinity();
  std::string profile;   ///< a folder of kernel times; none: planners believe a roofline
  std::string calibrate; ///< on, off, or empty: as `calibrates` says
  std::string logits, timeline, decisions, record_clock, replay_clock;
  std::string out;            ///< a folder
  std::string command;        ///< the words as a shell takes them back
  sluice::TraceAt trace_at{}; ///< what `timeline` is drawn around
  bool chat = false, ignore_end = false, no_wait = false, list = false, json = false, verbose = false;

  [[nodiscard]] bool from_trace() const { return !trace.empty(); }
  /// Planners learn from what the run's layers take. A profile is what somebody has chosen to believe.
  [[nodiscard]] bool calibrates() const { return calibrate.empty() ? profile.empty() : calibrate == "on"; }
};

/// The flags of the machine and its engine: a server has them too.
void add_machine(Flags& flags, Options& options);
/// `--products`, once it is checked.
[[nodiscard]] sluice::Products products_of(const Options& options);
/// What they leave to each other, once they are read.
void conclude_machine(Flags& flags, Options& options);
/// Their own rules.
sluice::Status check_machine(const Options& options);
/// Whether what engines are told besides their clock is the same in every run, as who records or replays one by `flag`
/// needs it.
sluice::Status check_repeatable(const Options& options, const std::string& flag);

/// Nothing: go on; otherwise the program's exit status.
std::optional<int> parse_options(int argc, char** argv, Options& options);

/// The flags' own rules, before anything is read.
sluice::Status check_options(const Options& options);

/// Bad input, by its flag.
sluice::Error flag_error(std::string flag, std::string what, std::string expected);

} // namespace running
