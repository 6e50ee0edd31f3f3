// SPDX-License-Identifier: Apache-2.0
// Comparison: the command line's request, validated and read: machine, workload, systems.
#pragma once

#include "sluice/report/report.hpp"

#include "compare/options.hpp"
#include "compare/run.hpp"
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

/// Reports invalid input, with the flag's name.
sluice::Error flag_error(std::string flag, std::string what, std::string expected);

/// The numbers that --tune chose for a system, with or without a deposit (compare/tune.hpp).
struct TunedSystem {
  const System* system;
  bool deposit;
  std::string setting;         ///< "max-batch-tokens=128", or "as given"
  std::vector<Setup> setups{}; ///< one per seed, then the one as recorded if there is one; empty: the comparison's
};

/// A trace as recorded, beside workloads that seeds draw from it or that are windows of it.
struct AsRecorded {
  Setup setup;
  std::string what; ///< what it serves: "the trace's first 300 requests"
};

/// Everything that a comparison needs, from the command line; a trace's own values override the defaults.
struct Comparison {
  Setup setup;
  std::vector<Setup> redrawn{}; ///< with several seeds: the setup with each seed's workload; `setup` has the first
  std::optional<AsRecorded> as_recorded{};
  sluice::WorkloadReport workload;
  std::vector<const System*> systems;
  std::vector<TunedSystem> tuned{};
  std::string_view rule;        ///< transfer rule for every system; empty: each system's own
  sluice::Seconds base_slo{0};  ///< between tokens; if requests have several, the shortest
  sluice::Seconds slo_ttft{0};  ///< the same for the first token
  bool several_slos = false;    ///< requests have several SLOs, so no single label applies to all
  std::vector<double> scales{}; ///< factors of the base SLO, one row each
  bool without_deposit = true, with_deposit = true;
};

/// Returns the SLO of those requests of a row that have no SLO of their own.
inline sluice::Slo slo_at(const Comparison& c, double scale) { return {c.slo_ttft, c.base_slo * scale}; }

/// Reads model, device, profile and workload. `command` repeats the comparison and appears in its report.
sluice::Expected<Comparison> prepare(const Options& options, const std::string& command);

/// Does the same for all seeds in `--seeds`. Seeds differ in the workload, not in the SLO. Each seed is prepared
/// exactly as `--seed` prepares it, so that it can be run again alone.
sluice::Expected<Comparison> prepare_seeds(const Options& options, const std::string& command);

/// A comparison to make, and the flags from which it was made.
struct Asked {
  const Options& options;
  const Comparison& comparison;
};

/// A report for each comparison; empty if another process leads the crew. After an interrupt, the reports contain only
/// the rows that have run on every seed, if any.
struct Compared {
  std::vector<sluice::ComparisonReport> reports;
  sluice::RunCount runs{};
};

/// Runs all rows of all comparisons in parallel on the crew, and writes the files of those that have a folder. After an
/// interrupt it writes none.
sluice::Expected<Compared> compare_all(std::span<const Asked> all, sluice::Crew& crew, sluice::Status& files);

/// Makes the folder of `--out`.
sluice::Status make_folder(const std::string& path);

/// The main function: parses the command line, executes it and prints. Returns the exit status.
int program(int argc, char** argv);

} // namespace compared
