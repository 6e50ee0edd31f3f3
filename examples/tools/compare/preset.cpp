// SPDX-License-Identifier: Apache-2.0
// Turns a preset's data and the user's flags into the comparisons to make.
#include "compare/preset.hpp"

#include "sluice/core/text.hpp"

#include "compare/presets/papers.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

std::span<const Preset> presets() {
  static const std::vector<Preset> all = [] {
    std::vector<Preset> table;
    for (const auto of_paper :
         {orbitflow_presets, select_n_presets, ellm_presets, superinfer_presets, mirage_presets, tiers_presets})
      for (Preset& preset : of_paper()) table.push_back(std::move(preset));
    return table;
  }();
  return all;
}

Expected<const Preset*> find_preset(std::string_view name) {
  std::string names;
  std::vector<std::string_view> known;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return &preset;
    known.push_back(preset.name);
    names += (names.empty() ? "" : ", ") + std::string{preset.name};
  }
  return flag_error("--preset", fmt::format("there is no preset '{}'{}", excerpt(name), did_you_mean(name, known)),
                    "one of " + names);
}

namespace {

/// If the user gives the first flag, the preset's other flags lose their meaning, for example because the workload, the
/// machine or the SLO is another one, or because there is one model instead of several.
struct Replaces {
  std::string_view given;
  std::array<std::string_view, 8> others;
};
constexpr std::array<Replaces, 11> replaces{{
    {"--seeds", {"--seed"}},
    {"--trace",
     {"--format", "--trace-columns", "--generate", "--lengths", "--limit", "--rate-scale", "--tenant-load",
      "--arrivals"}},
    {"--generate", {"--trace", "--format", "--lengths", "--limit", "--rate-scale", "--tenant-load", "--arrivals"}},
    {"--tenant-load", {"--trace", "--format", "--lengths", "--limit", "--rate-scale", "--generate", "--arrivals"}},
    {"--tenants",
     {"--model", "--memory-share", "--kv-blocks", "--kv-memory", "--tenant-load", "--profile", "--record"}},
    {"--model", {"--profile", "--tenants", "--tenant-load", "--sharing", "--quantum", "--bus", "--remap-order"}},
    {"--device", {"--profile", "--link", "--host-memory", "--device-memory", "--bandwidth-fraction"}},
    {"--kv-blocks", {"--kv-memory"}},
    {"--kv-memory", {"--kv-blocks"}},
    {"--slo-tbt", {"--slo-base"}},
    {"--slo-base", {"--slo-tbt"}},
}};

/// Returns the user's flag that overrides a preset's `flag`; empty: none.
std::string_view given_before(const CommandLine& asked, std::string_view flag) {
  if (asked.given(std::string{flag})) return flag;
  for (const Replaces& rule : replaces)
    if (std::find(rule.others.begin(), rule.others.end(), flag) != rule.others.end() &&
        asked.given(std::string{rule.given}))
      return rule.given;
  return {};
}

std::filesystem::path data_folder(const Options& options) {
  namespace fs = std::filesystem;
  if (!options.data.empty()) return options.data;
  if (const char* shared = std::getenv("SLUICE_SHARED"); shared != nullptr && *shared != '\0')
    return fs::path{shared} / "data";
  std::error_code ignored;
  for (const char* beside : {"shared/data", "../shared/data"})
    if (fs::is_directory(beside, ignored)) return beside;
  return "shared/data";
}

/// Returns a preset's value as a word of the command line.
Expected<std::string> word_of(const Preset& preset, std::string_view value, std::string_view flag,
                              const Options& options) {
  constexpr std::string_view mark = "data:";
  if (!value.starts_with(mark)) return std::string{value};
  const std::filesystem::path path = data_folder(options) / value.substr(mark.size());
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return flag_error("--preset", fmt::format("{} reads {}, which does not exist", preset.name, path.string()),
                      "the public traces in $SLUICE_SHARED/data or in --data FOLDER, or " + std::string{flag} +
                          " with a file of yours");
  return path.string();
}

/// Lists for readers of the table which preset flags the user's flags overrode.
void add_once(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

} // namespace

Expected<std::vector<Run>> runs_of(const CommandLine& asked, const std::vector<std::string>& words) {
  if (!asked.given("--preset")) return std::vector<Run>{{"", asked.options}};
  const Expected<const Preset*> found = find_preset(asked.options.preset);
  if (!found) return found.error();
  const Preset& preset = **found;

  std::vector<Run> runs;
  std::vector<std::vector<std::string>> made;
  std::vector<std::string> instead;
  const PresetCase whole{};
  const std::size_t cases = std::max<std::size_t>(preset.cases.size(), 1);
  for (std::size_t i = 0; i < cases; ++i) {
    const PresetCase& one = preset.cases.empty() ? whole : preset.cases[i];
    std::vector<std::string> line;
    const auto add = [&](const PresetFlag& flag) -> Status {
      if (const std::string_view winner = given_before(asked, flag.flag); !winner.empty()) {
        add_once(instead, std::string{winner});
        return {};
      }
      line.emplace_back(flag.flag);
      for (std::size_t begin = 0; begin < flag.value.size();) { // a switch has no value; spaces separate several values
        const std::size_t end = std::min(flag.value.find(' ', begin), flag.value.size());
        Expected<std::string> word = word_of(preset, flag.value.substr(begin, end - begin), flag.flag, asked.options);
        if (!word) return word.error();
        line.push_back(*std::move(word));
        begin = end + 1;
      }
      return {};
    };
    for (const PresetFlag& flag : one.flags)
      if (Status added = add(flag); !added) return added.error();
    for (const PresetFlag& flag : preset.flags) {
      const auto same = [&](const PresetFlag& other) { return other.flag == flag.flag && &other != &flag; };
      const auto later =
          preset.flags.begin() + (&flag - preset.flags.data()); // a later value for the same flag overrides this one
      if (std::any_of(one.flags.begin(), one.flags.end(), same) || std::any_of(later, preset.flags.end(), same))
        continue;
      if (Status added = add(flag); !added) return added.error();
    }
    line.insert(line.end(), words.begin(), words.end());
    if (std::find(made.begin(), made.end(), line) != made.end()) continue;
    CommandLine read;
    // A test checks every preset's own flags, so an error here comes from the user's flags.
    if (read.parse(line)) return flag_error("--preset", "its flags conflict with those given", "fewer of them");
    runs.push_back({std::string{one.label}, std::move(read.options)});
    made.push_back(std::move(line));
  }
  if (runs.size() == 1) runs.front().label.clear();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Options& options = runs[i].options;
    options.preset_note = fmt::format("{}: {}", preset.name, preset.what);
    for (std::size_t j = 0; j < instead.size(); ++j)
      options.preset_note += (j == 0 ? "; given instead of its own: " : ", ") + instead[j];
    options.case_label = runs[i].label;
    if (!options.out.empty() && !runs[i].label.empty()) {
      std::string folder = runs[i].label;
      for (char& character : folder)
        if (character == ' ' || character == '/' || character == ',') character = '-';
      options.out = (std::filesystem::path{options.out} / folder).string();
    }
  }
  return runs;
}

} // namespace compared
