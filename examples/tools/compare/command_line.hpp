// SPDX-License-Identifier: Apache-2.0
// CommandLine: sluice-compare's flags, read from words.
#pragma once

#include "compare/comparison.hpp"
#include "shared/flags.hpp"

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

 private:
  Flags flags_;
};

/// --seed, --seeds and --resample: the same in every program that compares.
void add_seed_flags(Flags& flags, Options& options);

/// The words as a shell takes them back, behind the program's name.
std::string shell_line(const std::vector<std::string>& words);

} // namespace compared
