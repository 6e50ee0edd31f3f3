// SPDX-License-Identifier: Apache-2.0
// OutFolder: the files of --out, which appear together once all of them are complete.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/report/unfinished_file.hpp"

#include "engines/registry.hpp"
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

/// A file's name and its contents.
using NamedText = std::pair<std::string_view, std::string>;

/// Returns whether an earlier run left tables in the folder, according to its datapackage.json; `visit` receives their
/// names.
template <class Visit>
bool earlier_tables(const std::filesystem::path& folder, Visit&& visit) {
  std::ifstream file(folder / "datapackage.json");
  const nlohmann::json package = nlohmann::json::parse(file, nullptr, false);
  if (!package.is_object() || package.value("name", nlohmann::json{}) != "sluice") return false;
  for (const nlohmann::json& resource : package.value("resources", nlohmann::json::array()))
    if (resource.is_object() && resource.contains("path") && resource["path"].is_string())
      visit(resource["path"].get<std::string>());
  return true;
}

/// All files that a run of a Sluice program may leave in a folder of `--out`, except its traces. A table belongs to an
/// earlier run if that run's datapackage.json names it. A page or a report does if the folder has such a
/// datapackage.json.
inline constexpr std::string_view left_tables[] = {
    "systems.csv", "requests.csv",     "series.csv",  "iterations.csv", "capacities.csv",
    "probes.csv",  "compositions.csv", "choices.csv", "classes.csv",    "tokens.csv.gz"};
inline constexpr std::string_view left_pages[] = {"report.html",  "report.json", "explore.html",
                                                  "explore.json", "fleet.html",  "fleet.json"};

/// Returns whether a file in `traces` has a trace's name for one of these systems.
template <class Names>
bool is_trace_of(std::string_view file, const Names& systems) {
  if (!file.ends_with(".json")) return false;
  for (const std::string_view system : systems)
    for (const std::string_view behind : {"-x", "-deposit-x"})
      if (file.starts_with(system) && file.substr(system.size()).starts_with(behind)) return true;
  return false;
}

/// Removes files that an earlier run of any Sluice program left in the folder and that this run does not write: next to
/// the new datapackage.json they would seem to be this run's. Other files stay, even if the earlier datapackage.json
/// names them. `written`: names in the folder, such as traces/OrbitFlow-x1.json; `own`: systems other than the
/// published ones.
inline void remove_earlier(const std::filesystem::path& folder, std::span<const std::string_view> written,
                           std::span<const std::string_view> own) {
  const auto has = [](const auto& names, std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  std::error_code ignored;
  const auto forget = [&](std::string_view name) {
    if (!has(written, name)) std::filesystem::remove(folder / name, ignored);
  };
  const bool another = earlier_tables(folder, [&](const std::string& name) {
    if (has(left_tables, name)) forget(name);
  });
  if (!another) return;
  for (const std::string_view page : left_pages) forget(page);
  std::vector<std::string_view> systems{own.begin(), own.end()};
  for (const engines::System& system : engines::published()) systems.push_back(system.name);
  std::vector<std::string> traces;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "traces", ignored))
    if (const std::string name = entry.path().filename().string(); is_trace_of(name, systems))
      traces.push_back("traces/" + name);
  for (const std::string& trace : traces) forget(trace);
  if (std::none_of(written.begin(), written.end(), [](std::string_view name) { return name.starts_with("traces/"); }))
    std::filesystem::remove(folder / "traces", ignored); // removes the folder only if it is empty
}

/// The files of one folder. They are unnamed until all are written (UnfinishedFile), so that a full disk or a killed
/// program leaves an earlier run's files unchanged.
class OutFolder {
 public:
  /// Opens files with these names. Error: one of them cannot be created.
  static sluice::Expected<OutFolder> open(const std::string& folder, std::span<const std::string_view> names) {
    OutFolder opened;
    opened.folder_ = folder;
    for (const std::string_view name : names) {
      auto file = sluice::UnfinishedFile::create((opened.folder_ / name).string());
      if (!file) return file.error();
      opened.files_.emplace_back(name, *std::move(file));
    }
    return opened;
  }

  /// Writes all files, removes the files that an earlier run left, and only then gives each file its name. `texts`: one
  /// for each name, in any order; texts with other names are written afterwards. Call it last.
  sluice::Status finish(std::span<const NamedText> texts, std::span<const std::string_view> own_systems = {}) {
    std::vector<std::string_view> names;
    for (const NamedText& text : texts) names.push_back(text.first);
    for (auto& opened : files_) {
      const auto is_its = [&](const NamedText& of) { return of.first == opened.first; };
      const auto text = std::find_if(texts.begin(), texts.end(), is_its);
      SLUICE_ASSERT(text != texts.end(), "the texts of the files that were opened");
      const std::span<const char> bytes{text->second};
      if (sluice::Status status = opened.second.write(0, std::as_bytes(bytes)); !status) return status;
    }
    remove_earlier(folder_, names, own_systems);
    for (auto& [name, file] : files_)
      if (sluice::Status status = file.finish(); !status) return status;
    for (const NamedText& text : texts)
      if (std::none_of(files_.begin(), files_.end(), [&](const auto& file) { return file.first == text.first; }))
        if (sluice::Status status = sluice::write_whole((folder_ / text.first).string(), text.second); !status)
          return status;
    return {};
  }

 private:
  OutFolder() = default;

  std::filesystem::path folder_;
  std::vector<std::pair<std::string, sluice::UnfinishedFile>> files_;
};

/// Opens and finishes such files at once. The system limits open files to about a thousand, so only the first
/// `together` files are opened together. The others are written one by one afterwards, and no other file should refer
/// to them.
[[nodiscard]] inline sluice::Status write_all(const std::string& folder, std::span<const NamedText> texts,
                                              std::span<const std::string_view> own_systems = {}) {
  constexpr std::size_t together = 500;
  std::vector<std::string_view> names;
  for (const NamedText& text : texts.first(std::min(together, texts.size()))) names.push_back(text.first);
  sluice::Expected<OutFolder> files = OutFolder::open(folder, names);
  if (!files) return files.error();
  return files->finish(texts, own_systems);
}
