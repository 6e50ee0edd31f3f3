// SPDX-License-Identifier: Apache-2.0
// Trace: any workload behind one type, for programs; opened by format or by a generator's text.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/workload/azure_csv.hpp"
#include "sluice/workload/generator_spec.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/mooncake_jsonl.hpp"
#include "sluice/workload/nlohmann/orbitflow_json.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"
#include "sluice/workload/workload.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace sluice {

/// The formats of `--format`.
enum class TraceFormat : std::uint8_t { azure, mooncake, orbitflow, vllm };

constexpr std::string_view name(TraceFormat format) {
  switch (format) {
  case TraceFormat::azure:
    return "azure";
  case TraceFormat::mooncake:
    return "mooncake";
  case TraceFormat::orbitflow:
    return "orbitflow";
  case TraceFormat::vllm:
    break;
  }
  return "vllm";
}

inline Expected<TraceFormat> find_format(std::string_view text) {
  for (const TraceFormat format :
       {TraceFormat::azure, TraceFormat::mooncake, TraceFormat::orbitflow, TraceFormat::vllm}) {
    if (text == name(format)) return format;
  }
  return Error{ErrorCode::not_found, "--format", "there is no format '" + excerpt(text) + "'",
               "azure, mooncake, orbitflow or vllm"};
}

/// The format that a file's first line names, by a column or a field that no other format has, whatever is wrong with
/// the values: a program that is told no format can then give that format's error. Nothing where the line names no
/// format (an OrbitFlow trace of several lines), or cannot be read.
inline std::optional<TraceFormat> told_format(const std::string& path) {
  Expected<LineReader> lines = LineReader::open(path);
  if (!lines) return std::nullopt;
  const Expected<std::optional<std::string_view>> line = lines->next();
  if (!line || !*line) return std::nullopt;
  if ((*line)->front() != '{') {
    for (const char* column : {"TIMESTAMP", "ContextTokens", "GeneratedTokens"})
      if ((*line)->find(column) != std::string_view::npos) return TraceFormat::azure;
    return std::nullopt;
  }
  const nlohmann::json object = nlohmann::json::parse(**line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  if (object.contains("requests")) return TraceFormat::orbitflow;
  if (object.contains("input_toks") || object.contains("queued_ts")) return TraceFormat::vllm;
  if (object.contains("timestamp") || object.contains("input_length")) return TraceFormat::mooncake;
  return std::nullopt;
}

/// A workload of any kind: itself a TraceReader.
///
/// Type-erased (a variant, one branch per request) only here, at the outer edge, where the format is known at run time;
/// a program that knows the format earlier takes the reader itself.
class Trace {
 public:
  using Reader = std::variant<Shaped<AzureCsvReader>, Shaped<MooncakeReader>, Shaped<OrbitFlowReader>,
                              Shaped<VllmRunReader>, Shaped<Generator>>;

  Trace(Reader reader, Workload workload) : reader_(std::move(reader)), workload_(std::move(workload)) {}

  Expected<std::optional<RequestSpec>> next() {
    return std::visit([](auto& reader) { return reader.next(); }, reader_);
  }
  [[nodiscard]] const Workload& workload() const { return workload_; }

 private:
  Reader reader_;
  Workload workload_;
};

static_assert(TraceReader<Trace>);

/// Opens a trace file. `step_time` is needed by `orbitflow`, whose arrivals count engine steps (see
/// `read_orbitflow_header`), and by no other. Nothing is read yet but a header.
inline Expected<Trace> open_trace(const std::string& path, TraceFormat format, const ReadOptions& options,
                                  std::optional<Seconds> step_time = std::nullopt) {
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
    return shaped(AzureCsvReader::open(path));
  case TraceFormat::mooncake:
    return shaped(MooncakeReader::open(path));
  case TraceFormat::vllm:
    return shaped(VllmRunReader::open(path));
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

/// Opens a generator by its text (see `parse_generator`).
inline Expected<Trace> open_generator(const std::string& text, std::uint64_t seed, const ReadOptions& options) {
  if (Status status = check(options); !status) return status.error();
  Expected<GeneratorSpec> spec = parse_generator(text);
  if (!spec) return spec.error();
  Workload workload{.name = spec->name, .format = "generated", .source = text, .seed = seed, .options = options};
  return Trace{Shaped<Generator>{Generator{std::move(*spec), seed}, options}, std::move(workload)};
}

} // namespace sluice
