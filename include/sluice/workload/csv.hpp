// SPDX-License-Identifier: Apache-2.0
// CsvReader: reads any table of requests with a header line, using a mapping of its columns.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/reader.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Maps columns of a CSV, by their names in its header, to the fields of a request.
struct CsvColumns {
  std::string arrival = "arrival"; ///< a number, or a date with its time
  std::string prompt = "prompt";   ///< tokens
  std::string output = "output";   ///< tokens
  std::string slo_ttft{};          ///< a request's own SLO in seconds; empty: `slo_ttft_s` if the header contains it
  std::string slo_tbt{};           ///< the same for the SLO between tokens: `slo_tbt_s`
  std::string priority{};          ///< the lowest is served first; empty: `priority` if the header contains it
  /// The unit of arrivals that are numbers: 0 for seconds, 3 for milliseconds, 6, 9. Without a value they are seconds,
  /// and numbers too large to be seconds are refused.
  std::optional<int> decimals{};
  bool dates = false;    ///< arrivals must be dates
  std::string session{}; ///< the key of a request's session; empty: there is none. The file may lack the column
  std::string took{};    ///< the duration of an answer in seconds; the same

  static constexpr std::string_view expected =
      "arrival=NAME,prompt=NAME,output=NAME, slo-ttft=NAME and slo-tbt=NAME of requests' own SLOs in seconds, "
      "priority=NAME, and unit=s, ms, us or ns of arrivals that are numbers";

  friend bool operator==(const CsvColumns&, const CsvColumns&) = default;
};

/// AzureLLMInferenceTrace (Azure Public Dataset, 2023 and 2024; Patel et al., Splitwise, ISCA 2024).
CsvColumns azure_columns();

/// BurstGPT (Wang et al., KDD 2025), with and without sessions.
CsvColumns burstgpt_columns();

/// "arrival=ts,prompt=in,output=out,unit=ms": a field that the text does not name keeps its default column. A comma
/// ends a name.
Expected<CsvColumns> parse_csv_columns(std::string_view text);

/// A CSV (RFC 4180, as spreadsheets and pandas write it): a header line, then one request per record. Fields are
/// separated by commas, semicolons or tabs, whichever is most frequent in the header; a quoted field may contain
/// separators and line ends. Columns that the mapping does not name are ignored, so a log can be read unchanged. Whole
/// numbers may end in ".0", which pandas writes in a column with missing values.
///
/// Arrivals are numbers, or dates with times (`parse_timestamp`); all are of the first one's kind. A column's name must
/// match exactly, or, if no name does, regardless of case.
class CsvReader {
 public:
  explicit CsvReader(LineReader lines, CsvColumns columns = {});

  static Expected<CsvReader> open(const std::string& path, CsvColumns columns = {});

  Expected<std::optional<RequestSpec>> next();

  /// Whether the header has the column of sessions; valid after the first `next`.
  [[nodiscard]] bool has_sessions() const { return session_place_ != absent; }
  /// The session of the last request; empty if it belongs to none.
  [[nodiscard]] std::string session() const { return has_sessions() ? cells_[session_place_] : std::string{}; }
  /// The duration of the last request's answer, if the file says it.
  [[nodiscard]] std::optional<Seconds> took() const;
  /// The number of failed requests, which have 0 tokens; they are skipped.
  [[nodiscard]] std::int64_t failed() const { return failed_; }

 private:
  static constexpr std::size_t absent = SIZE_MAX; ///< the index of a column that the file does not have

  /// A time in the file. Whole numbers stay whole, since a double cannot hold the nanoseconds of current dates.
  struct Time {
    std::optional<std::int64_t> whole;
    double value = 0;
  };

  Status read_header();

  /// Finds the index of a column in the header; `absent` if an optional column is missing.
  Status find_column(const std::string& name, std::size_t& place, bool needed) const;

  /// Parses a request's own SLO, in seconds.
  [[nodiscard]] Expected<Seconds> own_slo(std::string_view cell, bool per_token) const;

  /// Parses a request's own priority.
  [[nodiscard]] Expected<std::int32_t> own_priority(std::string_view cell) const;

  Expected<double> seconds_since_first(std::string_view cell);

  /// Refuses a failed request, of 0 tokens, whose other cells are wrong.
  Status check_failed();

  /// Replaces a decimal comma, which spreadsheets use in half of Europe, unless commas separate the fields.
  [[nodiscard]] std::string with_point(std::string_view cell) const;

  /// Returns NaN if the cell is not a number.
  static Time number(const std::string& cell);

  [[nodiscard]] Expected<std::int64_t> tokens(const std::string& column, std::string_view cell) const;

  static std::string names_of(const std::vector<std::string>& cells);

  CsvRecords records_;
  CsvColumns columns_;
  detail::ArrivalClock clock_;
  std::vector<std::string> cells_;
  std::array<std::size_t, 3> place_{};
  std::array<std::size_t, 2> slo_place_{absent, absent};
  std::size_t session_place_ = absent, took_place_ = absent, priority_place_ = absent;
  std::int64_t failed_ = 0;
  std::optional<Time> first_;
  std::size_t width_ = 0; ///< number of the header's columns; 0 until the header is read
  bool dates_ = false;
  bool zoned_ = false; ///< the first date names its time zone
  bool any_ = false;
};

static_assert(TraceReader<CsvReader>);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/csv.inl.hpp"
#endif
