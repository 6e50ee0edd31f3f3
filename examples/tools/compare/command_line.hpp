// SPDX-License-Identifier: Apache-2.0
// CommandLine: sluice-compare's flags, read from words.
#pragma once

#include "compare/comparison.hpp"
#include "shared/flags.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace compared {

/// One reading of a command line. A preset's values are read as if they had been typed: same flags, same ranges, same
/// errors.
class CommandLine {
 public:
  CommandLine();

  /// Nothing: go on with `options`; otherwise the program's exit status.
  [[nodiscard]] std::optional<int> parse(const std::vector<std::string>& words);

  /// Whether there is such a flag, and whether it was among the words.
  [[nodiscard]] bool knows(const std::string& flag) const { return flags_.app().get_option_no_throw(flag) != nullptr; }
  [[nodiscard]] bool given(const std::string& flag) const { return knows(flag) && flags_.app().count(flag) > 0; }

  Options options;
  std::vector<Flags::Listed> listed{}; ///< numbers that were given as lists; `options` have the first of each

 private:
  Flags flags_;
};

/// --seed, --seeds and --resample: the same in every program that compares.
void add_seed_flags(Flags& flags, Options& options);

/// The processes that --mpi names, if it is among the words, else this one alone. Before anything is said: of several
/// processes one speaks. An error where mpirun (or srun) started several and the words do not say what for: each would
/// run all of it, and write the same files. `--mpi=false` is leave to.
sluice::Expected<std::unique_ptr<sluice::Crew>> crew_of(const std::vector<std::string>& words);
inline constexpr const char* mpi_help = "runs are spread over the ranks that mpirun started (docs/sweeps.md)";

/// What a comparison serves, in a text that differs where something else would be served: its figures, a hash of every
/// request of every seed, and one of every file that the flags name.
std::string told(const Options& options, const Comparison& comparison);

/// The words as a shell takes them back, behind the program's name; without --mpi and --threads, which change nothing
/// that is told.
std::string shell_line(const std::vector<std::string>& words);

} // namespace compared
