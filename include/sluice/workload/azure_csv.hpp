// SPDX-License-Identifier: Apache-2.0
// AzureCsvReader: the request logs of the Azure Public Dataset.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/workload/csv_records.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/timestamp.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// AzureLLMInferenceTrace (Azure Public Dataset, 2023 and 2024; Patel et al., Splitwise, ISCA 2024): a header line with
/// the columns TIMESTAMP, ContextTokens and GeneratedTokens in any order, then one request a line. Quotes around
/// fields, as a table that was read and written again may have them, are taken off.
class AzureCsvReader {
 public:
  explicit AzureCsvReader(LineReader lines) : records_(std::move(lines)) {}

  static Expected<AzureCsvReader> open(const std::string& path) {
    Expected<LineReader> lines = LineReader::open(path);
    if (!lines) return lines.error();
    return AzureCsvReader{std::move(*lines)};
  }

  Expected<std::optional<RequestSpec>> next() {
    if (columns_ == 0) {
      if (Status status = read_header(); !status) return status.error();
    }
    const Expected<bool> more = records_.next(cells_);
    if (!more) return more.error();
    if (!*more) {
      if (!any_) return Error{ErrorCode::bad_input, records_.name(), "the trace holds no request", "at least one line"};
      return std::optional<RequestSpec>{};
    }
    any_ = true;
    return parse();
  }

  static constexpr std::array<std::string_view, 3> names{"TIMESTAMP", "ContextTokens", "GeneratedTokens"};

 private:
  Status read_header() {
    const Expected<bool> more = records_.next(cells_);
    if (!more) return more.error();
    if (!*more) return Error{ErrorCode::bad_input, records_.name(), "the file is empty", expected_header()};
    std::array<bool, 3> found{};
    for (; columns_ < cells_.size(); ++columns_) {
      const std::string_view cell = cells_[columns_];
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (cell != names[i]) continue;
        if (found[i]) {
          return Error{ErrorCode::bad_input, records_.where(), "the column " + std::string{cell} + " appears twice",
                       expected_header()};
        }
        found[i] = true;
        column_[i] = columns_;
      }
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (found[i]) continue;
      return Error{ErrorCode::bad_input, records_.where(), "the column " + std::string{names[i]} + " is missing",
                   expected_header()};
    }
    return {};
  }

  Expected<std::optional<RequestSpec>> parse() {
    if (cells_.size() != columns_) {
      return Error{ErrorCode::bad_input, records_.where(), "the line has " + std::to_string(cells_.size()) + " columns",
                   std::to_string(columns_) + ", as in the header"};
    }
    const std::array<std::string_view, 3> cells{cells_[column_[0]], cells_[column_[1]], cells_[column_[2]]};
    const std::optional<std::int64_t> time = detail::parse_timestamp(cells[0]);
    if (!time) {
      return Error{ErrorCode::bad_input, records_.where(), "TIMESTAMP is '" + excerpt(cells[0]) + "'",
                   "a time such as 2023-11-16 18:15:46.6805900"};
    }
    const Expected<std::int64_t> prompt = parse_tokens(1, cells[1]);
    if (!prompt) return prompt.error();
    const Expected<std::int64_t> output = parse_tokens(2, cells[2]);
    if (!output) return output.error();
    if (!first_) first_ = *time;
    // Relative to the first arrival in whole nanoseconds: exact where seconds since 1970 in a double are not.
    const Expected<Seconds> arrival = clock_.arrival(static_cast<double>(*time - *first_) / 1e9, records_.where());
    if (!arrival) return arrival.error();
    return std::optional{RequestSpec{*arrival, Tokens{*prompt}, Tokens{*output}, {}}};
  }

  [[nodiscard]] Expected<std::int64_t> parse_tokens(std::size_t name, std::string_view cell) const {
    std::int64_t tokens = 0;
    const auto [stopped, failure] = std::from_chars(cell.data(), cell.data() + cell.size(), tokens);
    if (failure != std::errc{} || stopped != cell.data() + cell.size() || tokens < 1 || tokens > max_request_tokens) {
      return Error{ErrorCode::bad_input, records_.where(), std::string{names[name]} + " is '" + excerpt(cell) + "'",
                   "a whole number from 1 to " + std::to_string(max_request_tokens)};
    }
    return tokens;
  }

  static std::string expected_header() { return "the header TIMESTAMP,ContextTokens,GeneratedTokens"; }

  CsvRecords records_;
  std::vector<std::string> cells_;
  detail::ArrivalClock clock_;
  std::optional<std::int64_t> first_;
  std::array<std::size_t, 3> column_{};
  std::size_t columns_ = 0;
  bool any_ = false;
};

static_assert(TraceReader<AzureCsvReader>);

} // namespace sluice
