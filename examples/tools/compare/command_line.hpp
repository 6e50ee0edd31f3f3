// SPDX-License-Identifier: Apache-2.0
// CommandLine: sluice-compare's flags, parsed from words.
#pragma once

#include "compare/comparison.hpp"
#include "shared/flags.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace compared {

/// The result of parsing a command line. A preset's values are parsed as if the user had typed them: with the same
/// flags, ranges and errors.
class CommandLine {
 public:
  CommandLine();

  /// Parses the words. Returns nothing to continue with `options`; otherwise the program's exit status.
  [[nodiscard]] std::optional<int> parse(const std::vector<std::string>& words);
  /// The same without output. Returns what --help or --version asks to print; empty: continue with `options`.
  [[nodiscard]] sluice::Expected<std::string> read(const std::vector<std::string>& words) {
    return flags_.read_words(words);
  }

  /// Returns whether such a flag exists, and whether the words contain it.
  [[nodiscard]] bool knows(const std::string& flag) const { return flags_.app().get_option_no_throw(flag) != nullptr; }
  [[nodiscard]] bool given(const std::string& flag) const { return knows(flag) && flags_.app().count(flag) > 0; }

  Options options;
  std::vector<Flags::Listed> listed{}; ///< numbers that were given as lists; `options` has the first value of each list

 private:
  Flags flags_;
};

/// Adds --seed, --seeds and --resample, which are the same in every program that compares systems.
void add_seed_flags(Flags& flags, Options& options);

/// Returns the processes of --mpi if the words contain it, otherwise only this one. Called before any output, because
/// only one of several processes prints. Returns an error if mpirun (or srun) started several processes and the words
/// do not contain --mpi: each process would run everything and write the same files. `--mpi=false` allows that.
sluice::Expected<std::unique_ptr<sluice::Crew>> crew_of(const std::vector<std::string>& words);
inline constexpr const char* mpi_help = "runs are spread over the ranks that mpirun started (docs/sweeps.md)";

/// Returns a text that identifies what a comparison serves: its figures, a hash of every request of every seed, and a
/// hash of every file that the flags name. Comparisons that serve something different have different texts.
std::string told(const Options& options, const Comparison& comparison);

/// Returns the words after the program's name, as a shell reads them; excludes --mpi and --threads, which change no
/// result.
std::string shell_line(const std::vector<std::string>& words);

} // namespace compared
