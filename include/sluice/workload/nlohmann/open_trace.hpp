// SPDX-License-Identifier: Apache-2.0
// Trace: one type for all workloads, opened by format or by a generator's text.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/csv.hpp"
#include "sluice/workload/generator.hpp"
#include "sluice/workload/nlohmann/agent_sessions.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"
#include "sluice/workload/nlohmann/orbitflow_json.hpp"
#include "sluice/workload/nlohmann/trace_kinds.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"
#include "sluice/workload/nlohmann/whole_trace.hpp"
#include "sluice/workload/session_generator.hpp"
#include "sluice/workload/session_queue.hpp"
#include "sluice/workload/workload.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

/// A workload of any kind; it is itself a TraceReader.
///
/// The format is known only at run time, so this class is a variant with one branch per request. A program that knows
/// the format at compile time uses the reader directly.
class Trace {
 public:
  using Reader =
      std::variant<Shaped<MooncakeReader>, Shaped<OrbitFlowReader>, Shaped<VllmRunReader>, Shaped<WholeTrace>,
                   Shaped<CsvReader>, Shaped<Generator>, Shaped<AgentSessionsReader>, Shaped<SessionGenerator>>;

  Trace(Reader reader, Workload workload) : reader_{std::move(reader)}, workload_(std::move(workload)) {}

  Expected<std::optional<RequestSpec>> next();
  [[nodiscard]] std::span<const ContentPiece> content() const;
  [[nodiscard]] bool arrivals_in_steps() const { return workload_.options.arrivals_in_steps; }
  /// Once the last request is read, its remark counts those that were left out.
  [[nodiscard]] const Workload& workload() const { return workload_; }

 private:
  struct Source {
    Reader any;
    Expected<std::optional<RequestSpec>> next();
    [[nodiscard]] std::span<const ContentPiece> content() const;
    [[nodiscard]] std::int64_t failed() const;
  };

  Source reader_;
  Workload workload_;
  OpenSessions open_; ///< used if sessions are open
};

static_assert(TraceReader<Trace> && KnowsContent<Trace> && KnowsArrivalUnit<Trace>);

/// A trace file as a command line names it.
struct TraceFile {
  std::string path;
  TraceFormat format = TraceFormat::csv;
  CsvColumns columns{};                ///< --trace-columns
  std::optional<std::int64_t> block{}; ///< --trace-block: tokens that a number of `hash_ids` stands for
  std::int64_t benchmark = 0;          ///< --benchmark: of a result with several; 0: the only one
  const TraceKind* guessed = nullptr;  ///< the kind that the file's fields told; null: the command line names the
                                       ///< format
};

/// Opens a trace file. Only `orbitflow` needs `step_time`, since its arrivals count engine steps (see
/// `read_orbitflow_header`), unless they stay steps (`ReadOptions`). Sessions and load generators' results are read
/// whole; other files at most to their header.
Expected<Trace> open_trace(const TraceFile& file, const ReadOptions& options,
                           std::optional<Seconds> step_time = std::nullopt);
Expected<Trace> open_trace(const std::string& path, TraceFormat format, const ReadOptions& options,
                           std::optional<Seconds> step_time = std::nullopt, const CsvColumns& columns = {});

/// The flags of a command line that describe how to read a trace.
struct TraceFlags {
  std::string_view format{}, columns{};
  std::optional<std::int64_t> block{};
  std::optional<std::int64_t> benchmark{};
};

/// Finds the trace that a command line names. Without a format: the kind that the file's fields tell.
Expected<TraceFile> find_trace(const std::string& path, const TraceFlags& flags = {});

/// Opens a generator described by a text (see `parse_generator`).
Expected<Trace> open_generator(const std::string& text, std::uint64_t seed, const ReadOptions& options);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/open_trace.inl.hpp"
#endif
