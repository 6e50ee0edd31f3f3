// SPDX-License-Identifier: Apache-2.0
#include "fleet/table_rows.hpp"

#include "sluice/core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

namespace fleets {

using namespace sluice;

namespace {

/// Reads all of `text`.
template <class Number>
bool is_number(std::string_view text, Number& value) {
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  return wrong == std::errc{} && end == text.data() + text.size();
}

} // namespace

TableRows::TableRows(const std::filesystem::path& path, std::vector<std::string_view> columns, std::size_t needed)
    : columns_(std::move(columns)), at_(columns_.size(), absent) {
  Expected<LineReader> lines = LineReader::open(path.string());
  if (!lines) {
    status_ = lines.error();
    return;
  }
  records_.emplace(*std::move(lines));
  std::string names;
  std::vector<std::string_view> others(columns_.size()); // the second names
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (const std::size_t bar = columns_[i].find('|'); bar != std::string_view::npos) {
      others[i] = columns_[i].substr(bar + 1);
      columns_[i] = columns_[i].substr(0, bar);
    }
  for (std::size_t i = 0; i < needed; ++i) names += (i > 0 ? "," : "") + std::string{columns_[i]};
  const Expected<bool> head = records_->next(fields_);
  if (!head) {
    status_ = head.error();
    return;
  }
  if (!*head) {
    status_ = Error{ErrorCode::bad_input, path.string(), "the file is empty", "the columns " + names};
    return;
  }
  width_ = fields_.size();
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    auto found = std::find(fields_.begin(), fields_.end(), columns_[i]);
    if (found == fields_.end() && !others[i].empty()) found = std::find(fields_.begin(), fields_.end(), others[i]);
    if (found != fields_.end())
      at_[i] = static_cast<std::size_t>(found - fields_.begin());
    else if (i < needed && status_.ok())
      refuse("there is no column " + std::string{columns_[i]}, names + " among the columns");
  }
}

bool TableRows::next() {
  if (!status_.ok()) return false;
  const Expected<bool> read = records_->next(fields_);
  if (!read)
    status_ = read.error();
  else if (*read && fields_.size() != width_)
    refuse(fmt::format("the row has {} field{}", fields_.size(), fields_.size() == 1 ? "" : "s"),
           fmt::format("{}, one for each column", width_));
  return status_.ok() && *read;
}

double TableRows::number(std::size_t column, double least, double most) {
  double value = 0;
  if (is_number(text(column), value) && value >= least && value <= most) return value;
  refuse(fmt::format("{} is '{}'", columns_[column], excerpt(text(column))),
         fmt::format("a number from {:g} to {:g}", least, most));
  return 0;
}

std::int64_t TableRows::whole(std::size_t column, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  if (is_number(text(column), value) && value >= least && value <= most) return value;
  refuse(fmt::format("{} is '{}'", columns_[column], excerpt(text(column))),
         fmt::format("a whole number from {} to {}", least, most));
  return 0;
}

void TableRows::refuse(std::string what, std::string expected) {
  if (status_.ok()) status_ = Error{ErrorCode::bad_input, records_->where(), std::move(what), std::move(expected)};
}

} // namespace fleets
