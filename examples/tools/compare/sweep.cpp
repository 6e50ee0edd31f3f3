// SPDX-License-Identifier: Apache-2.0
// Turns lists of numbers and names into a grid of command lines. Each has one value of each list.
//
// A cell is a command line and is parsed as one, so every flag works in a grid as it does alone, with or without a
// preset.
#include "compare/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

constexpr std::size_t most_cells = 10'000;

/// Returns the index of the word that contains a flag's value: "--flag value" or "--flag=value".
std::size_t word_of(const std::vector<std::string>& words, const std::string& flag) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag) return i + 1;
    if (words[i].starts_with(flag + "=")) return i;
  }
  SLUICE_ASSERT(false, "a flag that was read from these words");
  return 0;
}

/// Returns the words, with each list replaced by its value at `at`.
std::vector<std::string> words_at(std::vector<std::string> words, const std::vector<Flags::Listed>& lists,
                                  const std::vector<std::size_t>& at) {
  for (std::size_t axis = 0; axis < lists.size(); ++axis) {
    const std::string& flag = lists[axis].flag;
    std::string& word = words[word_of(words, flag)];
    word = (word.starts_with("--") ? flag + "=" : std::string{}) + lists[axis].values[at[axis]];
  }
  return words;
}

} // namespace

Expected<Sweep> sweep_of(const CommandLine& asked, const std::vector<std::string>& words) {
  std::vector<Flags::Listed> lists = asked.listed;
  std::sort(lists.begin(), lists.end(), [&words](const Flags::Listed& a, const Flags::Listed& b) {
    return word_of(words, a.flag) < word_of(words, b.flag);
  });
  std::size_t cells = 1;
  for (const Flags::Listed& list : lists) {
    cells *= list.values.size();
    if (cells > most_cells)
      return flag_error(list.flag, fmt::format("the lists make {} comparisons and more", cells),
                        fmt::format("at most {}", most_cells));
  }
  Sweep sweep;
  for (const Flags::Listed& list : lists) sweep.axes.push_back({list.flag.substr(2), list.values, list.numbers});
  Axis cases{"case", {}, false};
  std::vector<std::size_t> at(lists.size(), 0);
  for (std::size_t number = 0; number < cells; ++number) {
    std::size_t rest = number;
    for (std::size_t axis = lists.size(); axis-- > 0; rest /= lists[axis].values.size())
      at[axis] = rest % lists[axis].values.size();
    const std::vector<std::string> line = words_at(words, lists, at);
    CommandLine read;
    // Each value was checked when its list was read, so this cannot fail.
    if (read.parse(line)) return flag_error(line.front(), "the command line cannot be read", "flags that --help lists");
    Expected<std::vector<Run>> runs = runs_of(read, line);
    if (!runs) return runs.error();
    for (Run& run : *runs) {
      Cell cell{{}, std::move(run), shell_line(line)};
      std::string label, folder;
      for (std::size_t axis = 0; axis < lists.size(); ++axis) {
        const std::string& value = lists[axis].values[at[axis]];
        cell.at.emplace_back(sweep.axes[axis].name, value);
        label += (label.empty() ? "" : ", ") + sweep.axes[axis].name + " " + value;
        folder += (folder.empty() ? "" : "_") + sweep.axes[axis].name + "-" + value;
      }
      std::replace_if(
          folder.begin(), folder.end(), [](char c) { return c == '/' || c == ' '; }, '-'); // for "2 GB/s"
      if (!cell.run.label.empty()) {
        label = cell.run.label + ", " + label;
        if (std::find(cases.values.begin(), cases.values.end(), cell.run.label) == cases.values.end())
          cases.values.push_back(cell.run.label);
      }
      Options& options = cell.run.options;
      options.case_label = label;
      // A preset's cases already have folders.
      if (!options.cells) options.tokens = options.no_traces = false; // these are files of single comparisons
      options.out = options.cells && !options.out.empty() ? options.out + "/" + folder : std::string{};
      sweep.cells.push_back(std::move(cell));
    }
  }
  if (!cases.values.empty()) sweep.axes.push_back(std::move(cases));
  return sweep;
}

} // namespace compared
