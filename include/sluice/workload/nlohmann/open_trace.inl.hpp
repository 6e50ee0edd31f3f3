// SPDX-License-Identifier: Apache-2.0
// Trace: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nearest.hpp"
#include "sluice/core/text.hpp"
#include "sluice/workload/generator.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"
#include "sluice/workload/session_generator.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>
#include <type_traits>

namespace sluice {

SLUICE_READERS_INLINE Expected<TraceFormat> find_format(std::string_view text) {
  std::vector<std::string_view> names;
  for (const TraceFormat format : trace_formats) {
    if (text == name(format)) return format;
    names.push_back(name(format));
  }
  return Error{ErrorCode::not_found, "--format",
               "there is no format '" + excerpt(text) + "'" + did_you_mean(text, names),
               std::string{trace_format_names}};
}

SLUICE_READERS_INLINE std::optional<std::vector<std::string>> csv_header(const std::string& path) {
  Expected<LineReader> lines = LineReader::open(path);
  if (!lines) return std::nullopt;
  CsvRecords records{std::move(*lines)};
  std::vector<std::string> columns;
  const Expected<bool> read = records.next(columns);
  if (!read || !*read || columns.size() < 3) return std::nullopt;
  return columns;
}

SLUICE_READERS_INLINE std::optional<TraceFormat> told_format(const std::string& path) {
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    // `increment`, because the iterator's ++ throws if the folder cannot be read to its end.
    for (std::filesystem::directory_iterator file(path, ignored), end; !ignored && file != end; file.increment(ignored))
      if (file->path().extension() == ".json") return TraceFormat::agents;
    return std::nullopt;
  }
  Expected<LineReader> lines = LineReader::open(path);
  if (!lines) return std::nullopt;
  const Expected<std::optional<std::string_view>> line = lines->next();
  if (!line || !*line) return std::nullopt;
  if ((*line)->front() != '{') {
    const std::optional<std::vector<std::string>> header = csv_header(path);
    if (!header) return std::nullopt;
    // Requires all three of a format's columns, because another log may have a column TIMESTAMP.
    const auto has = [&](const CsvColumns& columns, const auto& same) {
      const std::array names{columns.arrival, columns.prompt, columns.output};
      return std::all_of(names.begin(), names.end(), [&](const auto& column) {
        return std::any_of(header->begin(), header->end(), [&](const auto& cell) { return same(cell, column); });
      });
    };
    const auto same = [](std::string_view a, std::string_view b) { return name_distance(a, b) == 0; };
    if (has(azure_columns(), std::equal_to<>{})) return TraceFormat::azure;
    const CsvColumns blis{.arrival = "arrival_time_us", .prompt = "server_input_tokens", .output = "send_time_us"};
    if (has(blis, std::equal_to<>{})) return TraceFormat::load;
    if (has(CsvColumns{}, same)) return TraceFormat::csv;
    return std::nullopt;
  }
  // A session of kv-cache-tester is one object of several megabytes, which need not be parsed to be recognised.
  const std::string_view begin = (*line)->substr(0, 4096);
  if (begin.find("\"hash_id_scope\"") != std::string_view::npos) return TraceFormat::agents;
  const nlohmann::json object = nlohmann::json::parse(**line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  if (object.contains("requests")) return TraceFormat::orbitflow;
  if (object.contains("arrival_time_ns")) return TraceFormat::tokens;
  if (object.contains("input_lens") || object.contains("benchmarks") ||
      (object.contains("metadata") && object.contains("metrics")))
    return TraceFormat::load;
  if (object.contains("input_toks") || object.contains("queued_ts")) return TraceFormat::vllm;
  if (object.contains("timestamp") || object.contains("input_length")) return TraceFormat::mooncake;
  return std::nullopt;
}

SLUICE_READERS_INLINE Expected<std::optional<RequestSpec>> Trace::next() {
  if (workload_.options.open_sessions) return open_.next(reader_);
  return reader_.next();
}

SLUICE_READERS_INLINE std::span<const ContentPiece> Trace::content() const {
  return workload_.options.open_sessions ? open_.content() : reader_.content();
}

SLUICE_READERS_INLINE Expected<std::optional<RequestSpec>> Trace::Source::next() {
  return std::visit([](auto& reader) { return reader.next(); }, any);
}

SLUICE_READERS_INLINE std::span<const ContentPiece> Trace::Source::content() const {
  return std::visit([](const auto& reader) { return content_of(reader); }, any);
}

namespace detail {
inline Error in_seconds(const std::string& source) {
  return {ErrorCode::bad_input, source, "its arrivals are seconds, and should count engine steps",
          "a trace in the format orbitflow, or arrivals in seconds"};
}
} // namespace detail

SLUICE_READERS_INLINE Expected<Trace> open_trace(const std::string& path, TraceFormat format,
                                                 const ReadOptions& options, std::optional<Seconds> step_time,
                                                 const CsvColumns& columns) {
  if (Status status = check(options); !status) return status.error();
  if (options.arrivals_in_steps && format != TraceFormat::orbitflow) return detail::in_seconds(path);
  Workload workload{.name = std::filesystem::path(path).filename().string(),
                    .format = std::string{name(format)},
                    .source = path,
                    .options = options};
  const auto shaped = [&](auto reader) -> Expected<Trace> {
    if (!reader) return reader.error();
    using Reader = std::remove_reference_t<decltype(*reader)>;
    return Trace{Shaped<Reader>{std::move(*reader), options}, std::move(workload)};
  };
  switch (format) {
  case TraceFormat::azure:
    return shaped(CsvReader::open(path, azure_columns()));
  case TraceFormat::mooncake:
    return shaped(MooncakeReader::open(path));
  case TraceFormat::vllm:
    return shaped(VllmRunReader::open(path));
  case TraceFormat::tokens:
    return shaped(TokenIdsReader::open(path));
  case TraceFormat::agents:
    return shaped(AgentSessionsReader::open(path));
  case TraceFormat::load:
    return shaped(LoadResultReader::open(path));
  case TraceFormat::csv:
    return shaped(CsvReader::open(path, columns));
  case TraceFormat::orbitflow:
    break;
  }
  if (options.arrivals_in_steps) step_time = Seconds{1};
  if (!step_time) {
    return Error{ErrorCode::bad_input, path, "arrivals here count engine steps", "the time of a step, from a profile"};
  }
  Expected<OrbitFlowReader> reader = OrbitFlowReader::open(path, *step_time);
  if (!reader) return reader.error();
  if (!options.arrivals_in_steps) workload.step_time = *step_time;
  workload.limits = reader->header();
  return shaped(std::move(reader));
}

SLUICE_READERS_INLINE Expected<Trace> open_trace(const TraceFile& file, const ReadOptions& options,
                                                 std::optional<Seconds> step_time) {
  return open_trace(file.path, file.format, options, step_time, file.columns);
}

SLUICE_READERS_INLINE Expected<TraceFile> find_trace(const std::string& path, std::string_view format,
                                                     std::string_view columns) {
  TraceFile file{.path = path};
  if (!columns.empty()) {
    Expected<CsvColumns> read = parse_csv_columns(columns);
    if (!read) return read.error();
    if (!format.empty() && format != name(TraceFormat::csv))
      return Error{ErrorCode::bad_input, "--trace-columns", "the format is '" + excerpt(format) + "'",
                   "--format csv, or none"};
    file.columns = *std::move(read);
    return file;
  }
  if (!format.empty()) {
    const Expected<TraceFormat> found = find_format(format);
    if (!found) return found.error();
    file.format = *found;
    return file;
  }
  if (const std::optional<TraceFormat> told = told_format(path)) {
    file.format = *told;
    return file;
  }
  if (Expected<LineReader> lines = LineReader::open(path); !lines) return lines.error();
  for (const TraceFormat one : trace_formats) {
    Expected<Trace> trace = open_trace(path, one, {.limit = 1}, Seconds{1});
    if (!trace || !read_all(*trace)) continue;
    file.format = one;
    return file;
  }
  std::string seen;
  if (const std::optional<std::vector<std::string>> header = csv_header(path))
    for (const std::string& column : *header)
      seen += (seen.empty() ? ", and its columns are " : ", ") + excerpt(column);
  return Error{ErrorCode::bad_input, "--trace",
               "'" + excerpt(path, 200) + "' is a trace in no known format" + excerpt(seen, 200),
               "--trace-columns arrival=NAME,prompt=NAME,output=NAME for a CSV with a header, or --format " +
                   std::string{trace_format_names} + ", which says what is wrong with it"};
}

SLUICE_READERS_INLINE Expected<Trace> open_generator(const std::string& text, std::uint64_t seed,
                                                     const ReadOptions& options) {
  if (Status status = check(options); !status) return status.error();
  if (options.arrivals_in_steps) return detail::in_seconds(text);
  if (describes_sessions(text)) {
    Expected<SessionSpec> sessions = parse_sessions(text);
    if (!sessions) return sessions.error();
    Workload workload{.name = sessions->name, .format = "generated", .source = text, .seed = seed, .options = options};
    return Trace{Shaped<SessionGenerator>{SessionGenerator{std::move(*sessions), seed}, options}, std::move(workload)};
  }
  Expected<GeneratorSpec> spec = parse_generator(text);
  if (!spec) return spec.error();
  Workload workload{.name = spec->name, .format = "generated", .source = text, .seed = seed, .options = options};
  return Trace{Shaped<Generator>{Generator{std::move(*spec), seed}, options}, std::move(workload)};
}

} // namespace sluice
