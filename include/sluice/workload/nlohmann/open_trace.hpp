// SPDX-License-Identifier: Apache-2.0
// Trace: one type for all workloads, opened by format or by a generator's text.
#pragma once

#include "sluice/core/nearest.hpp"
#include "sluice/core/text.hpp"
#include "sluice/workload/csv.hpp"
#include "sluice/workload/generator_spec.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/agent_sessions.hpp"
#include "sluice/workload/nlohmann/load_result.hpp"
#include "sluice/workload/nlohmann/mooncake_jsonl.hpp"
#include "sluice/workload/nlohmann/orbitflow_json.hpp"
#include "sluice/workload/nlohmann/token_ids_jsonl.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"
#include "sluice/workload/open_sessions.hpp"
#include "sluice/workload/session_spec.hpp"
#include "sluice/workload/workload.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

/// The formats of `--format`.
enum class TraceFormat : std::uint8_t { azure, mooncake, orbitflow, vllm, load, tokens, agents, csv };

constexpr std::string_view name(TraceFormat format) {
  switch (format) {
  case TraceFormat::azure:
    return "azure";
  case TraceFormat::mooncake:
    return "mooncake";
  case TraceFormat::orbitflow:
    return "orbitflow";
  case TraceFormat::vllm:
    return "vllm";
  case TraceFormat::load:
    return "load";
  case TraceFormat::tokens:
    return "tokens";
  case TraceFormat::agents:
    return "agents";
  case TraceFormat::csv:
    break;
  }
  return "csv";
}

inline constexpr std::array trace_formats{TraceFormat::azure,  TraceFormat::mooncake, TraceFormat::orbitflow,
                                          TraceFormat::vllm,   TraceFormat::load,     TraceFormat::tokens,
                                          TraceFormat::agents, TraceFormat::csv};
/// The list of formats for help texts and errors.
inline constexpr std::string_view trace_format_names = "azure, mooncake, orbitflow, vllm, load, tokens, agents or csv";

inline Expected<TraceFormat> find_format(std::string_view text) {
  std::vector<std::string_view> names;
  for (const TraceFormat format : trace_formats) {
    if (text == name(format)) return format;
    names.push_back(name(format));
  }
  return Error{ErrorCode::not_found, "--format",
               "there is no format '" + excerpt(text) + "'" + did_you_mean(text, names),
               std::string{trace_format_names}};
}

/// Splits a file's first line into columns, as if it were a CSV's header.
inline std::optional<std::vector<std::string>> csv_header(const std::string& path) {
  Expected<LineReader> lines = LineReader::open(path);
  if (!lines) return std::nullopt;
  CsvRecords records{std::move(*lines)};
  std::vector<std::string> columns;
  const Expected<bool> read = records.next(columns);
  if (!read || !*read || columns.size() < 3) return std::nullopt;
  return columns;
}

/// Returns the format that a file's first line reveals by a column or a field that only this format has. The values may
/// be wrong: a program without `--format` can then report that format's error. No value if the line reveals no format
/// (an OrbitFlow trace of several lines) or cannot be read.
inline std::optional<TraceFormat> told_format(const std::string& path) {
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

/// A workload of any kind; it is itself a TraceReader.
///
/// The format is known only at run time, so this class is a variant with one branch per request. A program that knows
/// the format at compile time uses the reader directly.
class Trace {
 public:
  using Reader = std::variant<Shaped<MooncakeReader>, Shaped<OrbitFlowReader>, Shaped<VllmRunReader>,
                              Shaped<LoadResultReader>, Shaped<CsvReader>, Shaped<Generator>, Shaped<TokenIdsReader>,
                              Shaped<AgentSessionsReader>, Shaped<SessionGenerator>>;

  Trace(Reader reader, Workload workload) : reader_{std::move(reader)}, workload_(std::move(workload)) {}

  Expected<std::optional<RequestSpec>> next() {
    if (workload_.options.open_sessions) return open_.next(reader_);
    return reader_.next();
  }
  [[nodiscard]] std::span<const ContentPiece> content() const {
    return workload_.options.open_sessions ? open_.content() : reader_.content();
  }
  [[nodiscard]] const Workload& workload() const { return workload_; }

 private:
  struct Source {
    Reader any;
    Expected<std::optional<RequestSpec>> next() {
      return std::visit([](auto& reader) { return reader.next(); }, any);
    }
    [[nodiscard]] std::span<const ContentPiece> content() const {
      return std::visit([](const auto& reader) { return content_of(reader); }, any);
    }
  };

  Source reader_;
  Workload workload_;
  OpenSessions open_; ///< used if sessions are open
};

static_assert(TraceReader<Trace> && KnowsContent<Trace>);

/// Opens a trace file and reads at most its header. Only `orbitflow` needs `step_time`, since its arrivals count engine
/// steps (see `read_orbitflow_header`); only `csv` needs `columns`.
inline Expected<Trace> open_trace(const std::string& path, TraceFormat format, const ReadOptions& options,
                                  std::optional<Seconds> step_time = std::nullopt, const CsvColumns& columns = {}) {
  if (Status status = check(options); !status) return status.error();
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
  if (!step_time) {
    return Error{ErrorCode::bad_input, path, "arrivals here count engine steps", "the time of a step, from a profile"};
  }
  Expected<OrbitFlowReader> reader = OrbitFlowReader::open(path, *step_time);
  if (!reader) return reader.error();
  workload.step_time = *step_time;
  workload.limits = reader->header();
  return shaped(std::move(reader));
}

/// A trace file as a command line names it: --trace, and optionally --format and --trace-columns.
struct TraceFile {
  std::string path;
  TraceFormat format = TraceFormat::csv;
  CsvColumns columns{};
};

inline Expected<Trace> open_trace(const TraceFile& file, const ReadOptions& options,
                                  std::optional<Seconds> step_time = std::nullopt) {
  return open_trace(file.path, file.format, options, step_time, file.columns);
}

/// Opens the trace that a command line names. Without a format: the format that the file reveals, or otherwise the
/// first one whose reader can read the first request.
inline Expected<TraceFile> find_trace(const std::string& path, std::string_view format = {},
                                      std::string_view columns = {}) {
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

/// Opens a generator described by a text (see `parse_generator`).
inline Expected<Trace> open_generator(const std::string& text, std::uint64_t seed, const ReadOptions& options) {
  if (Status status = check(options); !status) return status.error();
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
