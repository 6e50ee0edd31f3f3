// SPDX-License-Identifier: Apache-2.0
// Preset: a paper's experiment as data: the flags it sets, the cases it sweeps, the figures it is read against.
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

/// A flag as on the command line. A value that begins with `data:` is a file of the public traces; spaces part several.
struct PresetFlag {
  std::string_view flag, value;
};

/// One comparison of several, by what differs: another rate, another batch.
struct PresetCase {
  std::string_view label;
  std::vector<PresetFlag> flags;
};

/// How a figure of a paper is made of two rows' numbers.
enum class Form : std::uint8_t {
  value,  ///< the system's own
  ratio,  ///< system / base
  gain,   ///< system / base - 1
  fall,   ///< 1 - system / base
  points, ///< system - base, of shares
};

/// What stands for several cases.
enum class Over : std::uint8_t { mean, most, least };

/// A number that a paper reports, and how it is read from a run of its preset.
struct PaperFigure {
  std::string_view what;
  double paper = 0;
  Form form = Form::value;
  std::string_view column; ///< of columns.hpp
  std::string_view system, base{};
  std::string_view where{};                                ///< one case by its label; empty: all
  std::string_view base_where{};                           ///< of the base, where it is another case
  double scale = std::numeric_limits<double>::quiet_NaN(); ///< SLO scale; NaN: all
  Over over = Over::mean;
  bool deposit = false, base_deposit = false;
};

struct Preset {
  std::string_view name;
  std::string_view what; ///< paper, section or figure, what is varied: one line for --list
  std::vector<PresetFlag> flags;
  std::vector<PresetCase> cases{}; ///< none: one comparison
  std::vector<PaperFigure> figures{};
};

/// All of them, by paper.
std::span<const Preset> presets();

/// By its name; the error lists the names.
sluice::Expected<const Preset*> find_preset(std::string_view name);

/// One comparison to make, and what it is called in a table of several.
struct Run {
  std::string label;
  Options options;
};

/// What a command line asks for: itself, or its preset's cases. A flag that was given wins over the preset's, and over
/// those that it makes meaningless (another trace: the format, the limit); cases that then are the same run once.
sluice::Expected<std::vector<Run>> runs_of(const CommandLine& asked, const std::vector<std::string>& words);

} // namespace compared
