// SPDX-License-Identifier: Apache-2.0
// Preset: a paper's experiment as data: the flags that it sets, the cases that it sweeps, and the paper's figures.
#pragma once

#include "sluice/core/expected.hpp"

#include "compare/command_line.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace compared {

/// A flag as on the command line. A value that begins with `data:` is a file of the public traces; spaces separate
/// several values.
struct PresetFlag {
  std::string_view flag, value;
};

/// One of several comparisons, described by the flags in which it differs: another rate, another batch.
struct PresetCase {
  std::string_view label;
  std::vector<PresetFlag> flags;
};

/// How a paper's figure is computed from two rows' numbers.
enum class Form : std::uint8_t {
  value,  ///< the system's number
  ratio,  ///< system / base
  gain,   ///< system / base - 1
  fall,   ///< 1 - system / base
  points, ///< system - base; both are shares
};

/// How several cases are combined into one number.
enum class Over : std::uint8_t { mean, most, least };

/// A number that a paper reports, and how to compute it from a run of its preset.
struct PaperFigure {
  std::string_view what;
  double paper = 0;
  Form form = Form::value;
  std::string_view column; ///< a name from columns.hpp
  std::string_view system, base{};
  std::string_view where{};      ///< label of a case, or what the labels of several end with after a comma; empty: all
  std::string_view base_where{}; ///< case of the base, if it differs
  double scale = std::numeric_limits<double>::quiet_NaN(); ///< SLO scale; NaN: all
  Over over = Over::mean;
  bool deposit = false, base_deposit = false;
};

struct Preset {
  std::string_view name;
  std::string_view what; ///< one line for --list: paper, section or figure, the swept quantity
  std::vector<PresetFlag> flags;
  std::vector<PresetCase> cases{}; ///< empty: one comparison
  std::vector<PaperFigure> figures{};
};

/// Returns all presets, by paper.
std::span<const Preset> presets();

/// Finds a preset by its name; the error lists the names.
sluice::Expected<const Preset*> find_preset(std::string_view name);

/// One comparison to make, with its name in a table of several.
struct Run {
  std::string label;
  Options options;
};

/// Makes the comparisons of a command line: the command line itself, or its preset's cases. A user's flag overrides the
/// preset's flag, and also the flags that it makes meaningless (with another trace: the format, the limit). Cases that
/// become equal run once.
sluice::Expected<std::vector<Run>> runs_of(const CommandLine& asked, const std::vector<std::string>& words);

} // namespace compared
