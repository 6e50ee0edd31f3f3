// SPDX-License-Identifier: Apache-2.0
// read_table_profile: reads a folder of measured kernel times (LLMServingSim 2.0's bundles) from CSV.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/policy/cost/table_profile.hpp"
#include "sluice/workload/line_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {

/// The rows of a CSV file whose first line is exactly `header`; all but the first `names` fields are numbers.
class ProfileCsv {
 public:
  static Expected<ProfileCsv> open(Expected<LineReader> lines, std::string_view header, std::size_t names) {
    if (!lines) return lines.error();
    ProfileCsv csv(std::move(*lines), names,
                   static_cast<std::size_t>(std::count(header.begin(), header.end(), ',')) + 1);
    const Expected<std::optional<std::string_view>> first = csv.lines_.next();
    if (!first) return first.error();
    if (!*first)
      return Error{ErrorCode::bad_input, csv.file_name(), "the file is empty",
                   "the header '" + std::string{header} + "'"};
    if (**first != header) {
      return Error{ErrorCode::bad_input, csv.where(), "the header is '" + excerpt(**first) + "'",
                   "'" + std::string{header} + "'"};
    }
    return csv;
  }

  /// Reads the next row into `name()` and `numbers()`; false at the end. A file without rows is an error.
  Expected<bool> next() {
    const Expected<std::optional<std::string_view>> line = lines_.next();
    if (!line) return line.error();
    if (!*line) {
      if (rows_ == 0) return Error{ErrorCode::bad_input, where(), "there is no row after the header", "measured times"};
      return false;
    }
    ++rows_;
    numbers_.clear();
    std::string_view rest = **line;
    for (std::size_t field = 0; field < fields_; ++field) {
      const std::size_t comma = rest.find(',');
      if ((comma == std::string_view::npos) != (field + 1 == fields_)) {
        return Error{ErrorCode::bad_input, where(), "the row has a wrong number of fields", std::to_string(fields_)};
      }
      const std::string_view text = rest.substr(0, comma);
      if (field < names_) {
        name_ = text;
      } else if (Status status = read_number(text, field + 1 == fields_); !status) {
        return status.error();
      }
      if (comma != std::string_view::npos) rest.remove_prefix(comma + 1);
    }
    return true;
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int64_t whole(std::size_t column) const { return static_cast<std::int64_t>(numbers_[column]); }
  /// The last column, converted from microseconds.
  [[nodiscard]] double seconds() const { return numbers_.back() * 1e-6; }
  [[nodiscard]] std::string where() const { return lines_.where(); }
  [[nodiscard]] const std::string& file_name() const { return lines_.name(); }

 private:
  ProfileCsv(LineReader lines, std::size_t names, std::size_t fields)
      : lines_(std::move(lines)), names_(names), fields_(fields) {}

  Status read_number(std::string_view text, bool time) {
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool number = error == std::errc{} && end == text.data() + text.size() && std::isfinite(value);
    if (time) {
      if (!number || value <= 0.0 || value > 1e9) {
        return Error{ErrorCode::bad_input, where(), "the time is '" + excerpt(text) + "'",
                     "microseconds above 0 and at most 1e9"};
      }
    } else if (!number || value < 0.0 || value > 1e7 || value != std::floor(value)) {
      return Error{ErrorCode::bad_input, where(), "a coordinate is '" + excerpt(text) + "'",
                   "a whole number from 0 to 10000000"};
    }
    numbers_.push_back(value);
    return {};
  }

  LineReader lines_;
  std::size_t names_;
  std::size_t fields_;
  std::string name_;
  std::vector<double> numbers_;
  std::int64_t rows_ = 0;
};

using MeasuredLines = std::map<std::string, std::vector<MeasuredLine::Point>, std::less<>>;

/// Reads named lines, ascending; `per_sequence` selects the known kernels that the file may hold. With `experts` the
/// MLP's kernels are missing.
inline Expected<MeasuredLines> read_measured_lines(Expected<LineReader> file, std::string_view header,
                                                   bool per_sequence, bool experts = false) {
  Expected<ProfileCsv> csv = ProfileCsv::open(std::move(file), header, 1);
  if (!csv) return csv.error();
  const auto belongs = [&](const KernelName& kernel) {
    return (kernel.place == KernelPlace::per_sequence) == per_sequence;
  };
  MeasuredLines lines;
  for (;;) {
    const Expected<bool> row = csv->next();
    if (!row) return row.error();
    if (!*row) break;
    const auto known = std::find_if(profiled_kernels.begin(), profiled_kernels.end(), [&](const KernelName& kernel) {
      return belongs(kernel) && kernel.name == csv->name();
    });
    if (known == profiled_kernels.end()) {
      std::string names;
      for (const KernelName& kernel : profiled_kernels) {
        if (belongs(kernel)) names += (names.empty() ? "" : ", ") + std::string{kernel.name};
      }
      return Error{ErrorCode::unsupported, csv->where(), "there is no kernel '" + excerpt(csv->name()) + "'",
                   "one of " + names};
    }
    std::vector<MeasuredLine::Point>& points = lines[csv->name()];
    if (csv->whole(0) < 1 || (!points.empty() && csv->whole(0) <= points.back().at)) {
      return Error{ErrorCode::bad_input, csv->where(), csv->name() + " is not measured at ascending sizes from 1",
                   points.empty() ? "1 or more" : "more than " + std::to_string(points.back().at)};
    }
    points.push_back({csv->whole(0), csv->seconds()});
  }
  const bool whole = lines.find("whole_layer") != lines.end(); // one kernel for a whole layer, and for the last norm
  for (const KernelName& kernel : profiled_kernels) {
    const bool found = lines.find(kernel.name) != lines.end();
    const bool within = kernel.place == KernelPlace::layer && kernel.name != "whole_layer";
    if (whole && within && found) {
      return Error{ErrorCode::bad_input, csv->file_name(),
                   "the kernel " + std::string{kernel.name} + " is part of whole_layer", "one of the two"};
    }
    if (whole && (within || kernel.place == KernelPlace::after)) continue;
    if (experts && kernel.part_of_mlp) continue;
    if (belongs(kernel) && kernel.required && !found) {
      return Error{ErrorCode::bad_input, csv->file_name(), "the kernel " + std::string{kernel.name} + " is missing",
                   "its measured times"};
    }
  }
  return lines;
}

/// The sum of the kernels of one place, tabulated up to the largest measured size of any.
inline TabulatedLine tabulate(const MeasuredLines& lines, KernelPlace place) {
  std::vector<MeasuredLine> held;
  std::vector<double> times;
  std::int64_t last = 1;
  for (const KernelName& kernel : profiled_kernels) {
    const auto line = lines.find(kernel.name);
    if (kernel.place != place || line == lines.end()) continue;
    held.emplace_back(line->second);
    times.push_back(kernel.times);
    last = std::max(last, line->second.back().at);
  }
  return TabulatedLine(held, times, last);
}

/// How many kernels of one place a bundle has, each as often as it runs.
inline int launches(const MeasuredLines& lines, KernelPlace place) {
  int sum = 0;
  for (const KernelName& kernel : profiled_kernels)
    if (kernel.place == place && lines.find(kernel.name) != lines.end()) sum += kernel.times;
  return sum;
}

/// Reads the points of attention.csv in any order; they may form any grid.
inline Expected<AttentionGrid> read_attention_grid(Expected<LineReader> file) {
  Expected<ProfileCsv> csv =
      ProfileCsv::open(std::move(file), "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", 0);
  if (!csv) return csv.error();
  std::map<std::array<std::int64_t, 4>, double> points; // chunk, decodes, past, context
  for (;;) {
    const Expected<bool> row = csv->next();
    if (!row) return row.error();
    if (!*row) break;
    const std::array<std::int64_t, 4> key{csv->whole(0), csv->whole(2), csv->whole(1), csv->whole(3)};
    if (key[0] == 0 && key[1] == 0) {
      return Error{ErrorCode::bad_input, csv->where(), "the batch is empty", "a prefill_chunk or an n_decode above 0"};
    }
    if (!points.emplace(key, csv->seconds()).second) {
      return Error{ErrorCode::bad_input, csv->where(), "this batch was measured above", "one row a batch"};
    }
  }
  std::vector<AttentionGrid::Chunk> chunks; // the map sorts the points
  for (const auto& [key, seconds] : points) {
    if (chunks.empty() || chunks.back().tokens != key[0]) chunks.push_back({key[0], {}});
    auto& decodes = chunks.back().decodes;
    if (decodes.empty() || decodes.back().count != key[1]) decodes.push_back({key[1], {}});
    auto& pasts = decodes.back().pasts;
    if (pasts.empty() || pasts.back().tokens != key[2]) pasts.push_back({key[2], {}});
    pasts.back().contexts.push_back({key[3], seconds});
  }
  if (chunks.front().tokens != 0 || chunks.size() < 2) {
    return Error{ErrorCode::bad_input, csv->file_name(), "decodes alone or prompt chunks are missing",
                 "rows with prefill_chunk 0, and rows with more"};
  }
  for (const AttentionGrid::Chunk& chunk : chunks) {
    if (chunk.tokens > 0 && chunk.decodes.front().count != 0) {
      return Error{ErrorCode::bad_input, csv->file_name(),
                   "prefill_chunk " + std::to_string(chunk.tokens) + " was not measured alone", "rows with n_decode 0"};
    }
  }
  return AttentionGrid(std::move(chunks));
}

} // namespace detail

/// Reads a bundle from its three files: kernels by tokens, output head and sampler by sequences, and attention; all in
/// microseconds of one layer on one device. With `experts` the MLP's kernels may be missing.
inline Expected<TableProfile> read_table_profile(Expected<LineReader> by_tokens, Expected<LineReader> by_sequences,
                                                 Expected<LineReader> attention_file, LinkCost link,
                                                 bool experts = false) {
  const Expected<detail::MeasuredLines> dense =
      detail::read_measured_lines(std::move(by_tokens), "layer,tokens,time_us", false, experts);
  if (!dense) return dense.error();
  const Expected<detail::MeasuredLines> head =
      detail::read_measured_lines(std::move(by_sequences), "layer,sequences,time_us", true);
  if (!head) return head.error();
  Expected<AttentionGrid> attention = detail::read_attention_grid(std::move(attention_file));
  if (!attention) return attention.error();
  KernelTimes times;
  times.before = detail::tabulate(*dense, KernelPlace::before);
  times.layer = detail::tabulate(*dense, KernelPlace::layer);
  times.after = detail::tabulate(*dense, KernelPlace::after);
  times.per_sequence = detail::tabulate(*head, KernelPlace::per_sequence);
  times.attention = std::move(*attention);
  if (dense->find("kv_proj") != dense->end()) times.rebuilt = detail::tabulate(*dense, KernelPlace::rebuilt);
  times.layer_launches = detail::launches(*dense, KernelPlace::layer);
  return TableProfile(std::move(times), link);
}

/// The folder of a bundle's files for a device of a group of `devices`: its `tpN`, or the bundle's own folder if it has
/// the files itself.
inline std::filesystem::path bundle_folder(const std::string& bundle, int devices = 1) {
  std::error_code ignored;
  const std::filesystem::path whole(bundle), part = whole / ("tp" + std::to_string(devices));
  return !std::filesystem::exists(whole / "dense.csv", ignored) && std::filesystem::exists(part / "dense.csv", ignored)
             ? part
             : whole;
}

/// Reads the bundle in `folder` (or in its `tp1`): dense.csv (kernels by tokens), per_sequence.csv (output head and
/// sampler by sequences) and attention.csv, all in microseconds of one layer on one device. The bundle has no link
/// measurements: `link` is the device's. `devices`: read the share of a device of a tensor-parallel group, `tpN`. A
/// mixture of experts has its experts in another table: it is refused unless `experts` says that the caller adds it.
inline Expected<TableProfile> read_table_profile(const std::string& folder, LinkCost link, int devices = 1,
                                                 bool experts = false) {
  std::error_code ignored;
  const std::filesystem::path place = bundle_folder(folder, devices);
  if (!experts && std::filesystem::exists(place / "moe.csv", ignored)) {
    return Error{ErrorCode::unsupported, (place / "moe.csv").string(), "the profile is of a mixture of experts",
                 "a dense model's profile"};
  }
  return read_table_profile(LineReader::open((place / "dense.csv").string()),
                            LineReader::open((place / "per_sequence.csv").string()),
                            LineReader::open((place / "attention.csv").string()), link, experts);
}

} // namespace sluice
