// SPDX-License-Identifier: Apache-2.0
// Trace: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/workload/generator.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"
#include "sluice/workload/session_generator.hpp"

#include <filesystem>
#include <type_traits>

namespace sluice {

SLUICE_READERS_INLINE Expected<std::optional<RequestSpec>> Trace::next() {
  Expected<std::optional<RequestSpec>> request = workload_.options.open_sessions ? open_.next(reader_) : reader_.next();
  const bool ended = request && !*request;
  if (const std::int64_t failed = ended ? reader_.failed() : 0; failed > 0)
    workload_.remark = detail::failed_text(failed);
  return request;
}

SLUICE_READERS_INLINE std::int64_t Trace::Source::failed() const {
  return std::visit(
      [](const auto& shaped) -> std::int64_t {
        if constexpr (requires { shaped.reader().failed(); }) return shaped.reader().failed();
        return 0;
      },
      any);
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

/// ", timestamps in milliseconds" of a kind whose timestamps are numbers: other tools have the same fields, and another
/// unit.
inline std::string unit_text(const TraceKind& kind) {
  constexpr std::string_view field = "imestamp`: ";
  const std::size_t at = kind.arrivals.find(field);
  if (at > 2) return {};
  const std::string_view rest = kind.arrivals.substr(at + field.size());
  return ", timestamps in " + std::string{rest.substr(0, rest.find(';'))};
}
} // namespace detail

SLUICE_READERS_INLINE Expected<Trace> open_trace(const std::string& path, TraceFormat format,
                                                 const ReadOptions& options, std::optional<Seconds> step_time,
                                                 const CsvColumns& columns) {
  return open_trace(TraceFile{.path = path, .format = format, .columns = columns}, options, step_time);
}

SLUICE_READERS_INLINE Expected<Trace> open_trace(const TraceFile& file, const ReadOptions& options,
                                                 std::optional<Seconds> step_time) {
  if (Status status = check(options); !status) return status.error();
  const std::string& path = file.path;
  if (Status text = check_is_text(path); !text) return text.error();
  if (options.arrivals_in_steps && file.format != TraceFormat::orbitflow) return detail::in_seconds(path);
  Workload workload{.name = std::filesystem::path(path).filename().string(),
                    .format = std::string{name(file.format)},
                    .source = path,
                    .options = options};
  if (file.guessed != nullptr)
    workload.taken_for =
        std::string{file.guessed->name} + " (" + signs_text(*file.guessed) + ")" + detail::unit_text(*file.guessed);
  const auto shaped = [&](auto reader) -> Expected<Trace> {
    if (!reader) return reader.error();
    using Reader = std::remove_reference_t<decltype(*reader)>;
    if constexpr (std::is_same_v<Reader, WholeTrace>) workload.remark = reader->remark;
    return Trace{Shaped<Reader>{std::move(*reader), options}, std::move(workload)};
  };
  const auto whole = [&](auto read) -> Expected<Trace> {
    Expected<LineReader> lines = LineReader::open(path);
    if (!lines) return lines.error();
    return shaped(read(*std::move(lines)));
  };
  const Tokens block{file.block.value_or(kind_of(file.format).hash_block)};
  switch (file.format) {
  case TraceFormat::azure:
    return shaped(CsvReader::open(path, azure_columns()));
  case TraceFormat::burstgpt:
    return whole([&](LineReader lines) { return read_burstgpt(std::move(lines), options.limit); });
  case TraceFormat::mooncake: {
    MooncakeFormat format{block};
    format.names.whole = file.guessed != nullptr;
    if (file.columns.decimals) format.set_unit(*file.columns.decimals);
    return shaped(MooncakeReader::open(path, format));
  }
  case TraceFormat::bailian:
    return whole([&](LineReader lines) { return read_bailian(std::move(lines), block); });
  case TraceFormat::aiperf:
    return whole([&](LineReader lines) { return read_aiperf_sessions(std::move(lines), block); });
  case TraceFormat::vllm:
    return shaped(VllmRunReader::open(path));
  case TraceFormat::tokens:
    return whole([](LineReader lines) { return read_token_ids(std::move(lines)); });
  case TraceFormat::agents:
    return shaped(AgentSessionsReader::open(path));
  case TraceFormat::load: {
    const Expected<LoadResult> result = read_load_result(path, file.benchmark);
    if (!result) return result.error();
    return shaped(whole_trace(*result, path));
  }
  case TraceFormat::csv:
    return shaped(CsvReader::open(path, file.columns));
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

namespace detail {

/// Refuses flags that mean nothing for the format.
inline Status check_trace_flags(const TraceFile& file, const TraceFlags& flags) {
  if (flags.block && kind_of(file.format).hash_block == 0) {
    std::string with;
    for (const TraceKind& kind : trace_kinds())
      if (kind.hash_block > 0) with += (with.empty() ? "" : ", ") + std::string{name(kind.format)};
    return Error{ErrorCode::bad_input, "--trace-block",
                 "the format " + std::string{name(file.format)} + " has no hashes of blocks, or fixes their size",
                 "no such flag, or a trace of " + with};
  }
  if (flags.benchmark && file.format != TraceFormat::load)
    return Error{ErrorCode::bad_input, "--benchmark", "the format is " + std::string{name(file.format)},
                 "no such flag, or a load generator's report of several benchmarks"};
  return {};
}

} // namespace detail

SLUICE_READERS_INLINE Expected<TraceFile> find_trace(const std::string& path, const TraceFlags& flags) {
  TraceFile file{.path = path};
  file.block = flags.block;
  file.benchmark = flags.benchmark.value_or(0);
  if (!flags.columns.empty()) {
    Expected<CsvColumns> read = parse_csv_columns(flags.columns);
    if (!read) return read.error();
    const bool unit_alone = read->decimals && *read == CsvColumns{.decimals = read->decimals};
    if (flags.format == name(TraceFormat::mooncake) && unit_alone)
      file.format = TraceFormat::mooncake;
    else if (!flags.format.empty() && flags.format != name(TraceFormat::csv))
      return Error{ErrorCode::bad_input, "--trace-columns", "the format is '" + excerpt(flags.format) + "'",
                   "--format csv, or none, or unit= alone with --format mooncake"};
    file.columns = *std::move(read);
  } else if (!flags.format.empty()) {
    const Expected<TraceFormat> found = find_format(flags.format);
    if (!found) return found.error();
    file.format = *found;
  } else {
    const Expected<const TraceKind*> kind = recognise(path);
    if (!kind) return kind.error();
    if (*kind == nullptr) {
      const Unrecognised seen = unrecognised(path);
      return Error{ErrorCode::bad_input, "--trace",
                   "'" + excerpt(path, 200) + "' is a trace in no known format" + seen.what,
                   !seen.right.empty()
                       ? seen.right
                       : "--trace-columns arrival=NAME,prompt=NAME,output=NAME for a CSV with a header, or --format " +
                             trace_format_names() + ", which says what is wrong with it"};
    }
    file.format = (*kind)->format;
    file.guessed = *kind;
  }
  if (Status fits = detail::check_trace_flags(file, flags); !fits) return fits.error();
  return file;
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
