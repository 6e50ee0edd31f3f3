// SPDX-License-Identifier: Apache-2.0
// OrbitFlowReader: reads the traces of OrbitFlow's artifact.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/workload.hpp"

#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <utility>

namespace sluice {

// JsonMembers: reads the members of a JSON object from a stream, one at a time, in constant memory.

/// Iterates over the members of an object and of its nested objects, with at most one value in memory.
///
/// nlohmann's parsers read their input to its end: a DOM holds the whole trace, and the SAX interface pushes events and
/// cannot pause, so neither returns one request at a time. This class finds where values begin and end; nlohmann parses
/// each value.
class JsonMembers {
 public:
  /// Longer values are errors, so that memory is bounded for every file.
  static constexpr std::size_t longest_value = std::size_t{1} << 20;

  static constexpr std::size_t deepest = 64;

  JsonMembers(std::istream& stream, std::string name) : stream_(&stream), name_(std::move(name)) {}

  /// Steps into the object that begins here. `otherwise`: the error if none does.
  Status enter(const char* otherwise = "this is not an object");

  /// Moves to the next member of the object and reads its key; false at the object's end, which is consumed. The
  /// member's value must be taken (`value`, `skip` or `enter`) before the next call.
  Expected<bool> next(std::string& key);

  /// Returns the current member's value, parsed.
  Expected<nlohmann::json> value();

  /// Skips the current member's value, which may exceed `longest_value`.
  Status skip() { return copy_value(nullptr); }

  /// Returns an error unless the rest of the stream is blank.
  Status end();

  /// "trace.json:17": the position of the current member's value.
  [[nodiscard]] std::string where() const { return name_ + ":" + std::to_string(value_line_); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  static constexpr int eof = std::char_traits<char>::eof();

  int take();
  int skip_blanks();

  [[nodiscard]] Error broken(const char* what, const char* expected);

  Status append(std::string* text, int character);

  /// Copies a string from its first quote to its last, or skips it if `text` is null.
  Status copy_string(std::string* text);

  Status copy_value(std::string* text);

  /// Copies a number or a literal, up to the next blank, comma or bracket.
  Status copy_plain(std::string* text);

  /// Copies an object or an array up to its matching bracket. The depth is bounded, so that a file of opening brackets
  /// does not exhaust memory.
  Status copy_brackets(std::string* text);

  std::istream* stream_; // read through its own functions, which never throw, not through its buffer
  std::string name_;
  std::int64_t line_ = 1;
  std::int64_t value_line_ = 1;
  bool first_ = true;
};

/// A trace of OrbitFlow's artifact: one JSON object with the server's limits and `requests`, an object of requests in
/// the order of arrival, each with `input_length`, `output_length` and `arrival_time`.
///
/// Arrivals in the trace count engine steps. This reader converts them to wall-clock seconds with a given step time, so
/// that all systems of a comparison see the same arrivals. It reads the file twice, first for the header (which may
/// follow the requests) and then for the requests, so that memory is constant.
class OrbitFlowReader {
 public:
  /// Reads the header and stops before the first request. `step` is the time of one engine step.
  static Expected<OrbitFlowReader> from_stream(std::unique_ptr<std::istream> stream, std::string name, Seconds step);

  static Expected<OrbitFlowReader> open(const std::string& path, Seconds step);

  [[nodiscard]] const OrbitFlowHeader& header() const { return header_; }

  Expected<std::optional<RequestSpec>> next();

  /// The number of failed requests, which have 0 tokens; they are skipped.
  [[nodiscard]] std::int64_t failed() const { return failed_; }

 private:
  /// Reads the request with this key; nothing if it failed.
  Expected<std::optional<RequestSpec>> read(const std::string& key);

  OrbitFlowReader(std::unique_ptr<std::istream> stream, std::string name, Seconds step);

  Status read_header();

  Status count_requests(JsonMembers& members);

  /// Rewinds, and skips to the first request. The members have already been read once, so they exist.
  Status find_requests();

  std::unique_ptr<std::istream> stream_;
  JsonMembers members_;
  Seconds step_;
  OrbitFlowHeader header_;
  detail::ArrivalClock clock_;
  std::int64_t failed_ = 0;
};

static_assert(TraceReader<OrbitFlowReader>);

/// Reads a trace's limits before the step time is known, because the budget determines the base SLO and the step time.
Expected<OrbitFlowHeader> read_orbitflow_header(const std::string& path);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/orbitflow_json.inl.hpp"
#endif
