// SPDX-License-Identifier: Apache-2.0
// Trace: one type for all workloads, opened by format or by a generator's text.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/csv.hpp"
#include "sluice/workload/generator.hpp"
#include "sluice/workload/nlohmann/agent_sessions.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"
#include "sluice/workload/nlohmann/load_result.hpp"
#include "sluice/workload/nlohmann/orbitflow_json.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"
#include "sluice/workload/session_generator.hpp"
#include "sluice/workload/session_queue.hpp"
#include "sluice/workload/workload.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

Expected<TraceFormat> find_format(std::string_view text);

/// Splits a file's first line into columns, as if it were a CSV's header.
std::optional<std::vector<std::string>> csv_header(const std::string& path);

/// Returns the format that a file's first line reveals by a column or a field that only this format has. The values may
/// be wrong: a program without `--format` can then report that format's error. No value if the line reveals no format
/// (an OrbitFlow trace of several lines) or cannot be read.
std::optional<TraceFormat> told_format(const std::string& path);

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

  Expected<std::optional<RequestSpec>> next();
  [[nodiscard]] std::span<const ContentPiece> content() const;
  [[nodiscard]] bool arrivals_in_steps() const { return workload_.options.arrivals_in_steps; }
  [[nodiscard]] const Workload& workload() const { return workload_; }

 private:
  struct Source {
    Reader any;
    Expected<std::optional<RequestSpec>> next();
    [[nodiscard]] std::span<const ContentPiece> content() const;
  };

  Source reader_;
  Workload workload_;
  OpenSessions open_; ///< used if sessions are open
};

static_assert(TraceReader<Trace> && KnowsContent<Trace> && KnowsArrivalUnit<Trace>);

/// Opens a trace file and reads at most its header. Only `orbitflow` needs `step_time`, since its arrivals count engine
/// steps (see `read_orbitflow_header`), unless they stay steps (`ReadOptions`); only `csv` needs `columns`.
Expected<Trace> open_trace(const std::string& path, TraceFormat format, const ReadOptions& options,
                           std::optional<Seconds> step_time = std::nullopt, const CsvColumns& columns = {});

/// A trace file as a command line names it: --trace, and optionally --format and --trace-columns.
struct TraceFile {
  std::string path;
  TraceFormat format = TraceFormat::csv;
  CsvColumns columns{};
};

Expected<Trace> open_trace(const TraceFile& file, const ReadOptions& options,
                           std::optional<Seconds> step_time = std::nullopt);

/// Opens the trace that a command line names. Without a format: the format that the file reveals, or otherwise the
/// first one whose reader can read the first request.
Expected<TraceFile> find_trace(const std::string& path, std::string_view format = {}, std::string_view columns = {});

/// Opens a generator described by a text (see `parse_generator`).
Expected<Trace> open_generator(const std::string& text, std::uint64_t seed, const ReadOptions& options);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/open_trace.inl.hpp"
#endif
