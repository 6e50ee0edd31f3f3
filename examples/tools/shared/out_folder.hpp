// SPDX-License-Identifier: Apache-2.0
// OutFolder: the files of --out, which appear together once all of them are whole.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/report/unfinished_file.hpp"

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

/// A file's name and what is to be in it.
using NamedText = std::pair<std::string_view, std::string>;

/// Whether an earlier run left tables there, by its datapackage.json; `visit` gets their names.
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

/// Removes of what an earlier run left in the folder, by its datapackage.json, the tables that this run does not write:
/// beside a new datapackage.json they would pass for its own. Other files stay, whatever that file says.
inline void remove_earlier(const std::filesystem::path& folder, std::span<const std::string_view> written) {
  constexpr std::string_view tables[] = {"systems.csv",    "requests.csv", "series.csv",       "iterations.csv",
                                         "capacities.csv", "probes.csv",   "compositions.csv", "choices.csv"};
  const auto has = [](const auto& names, std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  earlier_tables(folder, [&](const std::string& name) {
    if (std::error_code ignored; has(tables, name) && !has(written, name))
      std::filesystem::remove(folder / name, ignored);
  });
}

/// Removes from a folder of traces those of these systems, and the folder if nothing is left in it.
template <class Names>
void remove_traces(const std::filesystem::path& folder, const Names& systems) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    for (const std::string_view system : systems)
      for (const std::string_view behind : {"-x", "-deposit-x"})
        if (name.ends_with(".json") && name.starts_with(std::string{system}.append(behind)))
          std::filesystem::remove(entry.path(), ignored);
  }
  std::filesystem::remove(folder, ignored);
}

/// The files of one folder: nameless until all of them are written (UnfinishedFile), so that a full disk, or a program
/// that is killed, leaves an earlier run's as they were.
class OutFolder {
 public:
  /// Opens files of these names. Errors: one of them cannot be made.
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

  /// Writes all of them, removes an earlier run's tables, and only then gives each its name. `texts`: one for each
  /// name, in any order. No call may follow.
  sluice::Status finish(std::span<const NamedText> texts) {
    SLUICE_ASSERT(texts.size() == files_.size(), "a text for each file");
    std::vector<std::string_view> names;
    for (auto& [name, file] : files_) {
      const auto text = std::find_if(texts.begin(), texts.end(), [&](const NamedText& of) { return of.first == name; });
      SLUICE_ASSERT(text != texts.end(), "the texts of the files that were opened");
      const std::span<const char> bytes{text->second};
      if (sluice::Status status = file.write(0, std::as_bytes(bytes)); !status) return status;
      names.push_back(name);
    }
    remove_earlier(folder_, names);
    for (auto& [name, file] : files_)
      if (sluice::Status status = file.finish(); !status) return status;
    return {};
  }

 private:
  OutFolder() = default;

  std::filesystem::path folder_;
  std::vector<std::pair<std::string, sluice::UnfinishedFile>> files_;
};

/// Opens and finishes such files at once.
[[nodiscard]] inline sluice::Status write_all(const std::string& folder, std::span<const NamedText> texts) {
  std::vector<std::string_view> names;
  for (const NamedText& text : texts) names.push_back(text.first);
  sluice::Expected<OutFolder> files = OutFolder::open(folder, names);
  if (!files) return files.error();
  return files->finish(texts);
}
