// SPDX-License-Identifier: Apache-2.0
// TraceKind: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/trace_kinds.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

namespace sluice::detail {

inline constexpr std::array<TraceKind, 16> all_trace_kinds{{
    {TraceFormat::azure,
     LoadGenerator::none,
     "Azure's LLM inference trace",
     false,
     {"TIMESTAMP", "ContextTokens", "GeneratedTokens"},
     "a line: `ContextTokens`, `GeneratedTokens`",
     "`TIMESTAMP`: dates with fractions of a second",
     "-",
     0,
     "Azure Public Dataset, AzureLLMInferenceTrace 2023 (CC-BY; Patel et al., Splitwise, ISCA 2024)"},
    {TraceFormat::burstgpt,
     LoadGenerator::none,
     "BurstGPT",
     false,
     {"Timestamp", "Request tokens", "Response tokens"},
     "a line: `Request tokens`, `Response tokens`; lines with 0 tokens are failures, left out and counted",
     "`Timestamp`: seconds",
     "`Session ID`, if there is one: a turn follows the one before after the recorded gap (`Elapsed time`: the "
     "answer's "
     "duration)",
     0,
     "BurstGPT (Wang et al., KDD 2025; CC-BY)"},
    {TraceFormat::load,
     LoadGenerator::blis,
     "BLIS TraceV2 (`blis observe`), `sluice-load --out`",
     false,
     {"arrival_time_us", "server_input_tokens", "send_time_us"},
     "a line of `trace.csv`: `server_input_tokens`, `output_tokens`, `status`",
     "`arrival_time_us`; `send_time_us`, `first_chunk_time_us`, `last_chunk_time_us`",
     "-",
     0,
     "inference-sim; Sluice"},
    {TraceFormat::bailian,
     LoadGenerator::none,
     "Bailian's usage trace",
     true,
     {"chat_id"},
     "a line: `input_length`, `output_length`, `hash_ids`",
     "`timestamp`: seconds",
     "`parent_chat_id`: a turn follows the one before after the gap of their timestamps",
     16,
     "Alibaba's Bailian (qwen-bailian-usagetraces-anon; Wang et al., ATC 2025)"},
    {TraceFormat::aiperf,
     LoadGenerator::none,
     "AIPerf's sessions",
     true,
     {"session_id", "input_length"},
     "a line: `input_length`, `output_length`, `hash_ids`",
     "`timestamp`: milliseconds; `delay`: milliseconds after the answer",
     "`session_id`",
     512,
     "AIPerf's `--custom-dataset-type mooncake_trace` (ai-dynamo; Apache-2.0)"},
    {TraceFormat::tokens,
     LoadGenerator::none,
     "LLMServingSim's data sets",
     true,
     {"arrival_time_ns"},
     "a line: `input_toks`, `output_toks`, `input_tok_ids`, `output_tok_ids`: the token ids themselves",
     "`arrival_time_ns`: nanoseconds",
     "-",
     0,
     "LLMServingSim, branch `ispass26-artifact` (MIT)"},
    {TraceFormat::vllm,
     LoadGenerator::none,
     "a recorded vLLM run, `sluice-serve --record`",
     true,
     {"queued_ts"},
     "a line: `input_toks`, `output_toks`; `slo_ttft_s`, `slo_tbt_s`, `priority`, `kv_hints` if a request has its own",
     "`queued_ts`: seconds on the server's monotonic clock",
     "`session` and `turn` are kept; turns arrive as recorded",
     0,
     "LLMServingSim 2.0's bench runs (MIT)"},
    {TraceFormat::agents,
     LoadGenerator::none,
     "kv-cache-tester's sessions of coding agents",
     true,
     {"block_size", "requests"},
     "a member of `requests`: `in`, `out`, `hash_ids` of `block_size` tokens each; a folder has a session per file",
     "`t`: seconds from the session's start; a session starts every 10 s",
     "a file is a session",
     0,
     "kv-cache-tester (callanjfox; Apache-2.0)"},
    {TraceFormat::orbitflow,
     LoadGenerator::none,
     "OrbitFlow's trace",
     true,
     {"requests"},
     "a member of `requests`: `input_length`, `output_length`",
     "`arrival_time`: engine steps, turned into seconds once, by the profile's step of a full budget; or left as "
     "steps, "
     "see below",
     "-",
     0,
     "OrbitFlow's artifact"},
    {TraceFormat::load,
     LoadGenerator::sglang,
     "SGLang's `bench_serving`",
     true,
     {"sharegpt_output_len"},
     "an entry of `input_lens`, `output_lens` (`--output-details`)",
     "`start_times`, if the file has them; without them it is refused",
     "-",
     0,
     "SGLang (Apache-2.0)"},
    {TraceFormat::load,
     LoadGenerator::vllm_bench,
     "`vllm bench serve --save-result --save-detailed`, and a run of `vllm bench sweep serve`",
     true,
     {"input_lens"},
     "an entry of `input_lens`, `output_lens`, `errors`; of several runs (`--append-result`), `--benchmark N`",
     "`start_times` (since vLLM 0.11), `ttfts`, `itls`: seconds",
     "-",
     0,
     "vLLM (Apache-2.0)"},
    {TraceFormat::load,
     LoadGenerator::vllm_bench,
     "`vllm bench serve --save-result` alone",
     true,
     {"num_prompts", "burstiness"},
     "none: it is refused",
     "-",
     "-",
     0,
     "vLLM (Apache-2.0)"},
    {TraceFormat::load,
     LoadGenerator::guidellm,
     "GuideLLM 0.3 and later (`benchmarks.json`)",
     true,
     {"benchmarks"},
     "a member of `requests.successful`: `prompt_tokens`, `output_tokens`; of several rates, `--benchmark N`",
     "`targeted_start` (when it was due), `request_start`; `time_to_first_token_ms`, `request_latency`",
     "-",
     0,
     "GuideLLM (Apache-2.0)"},
    {TraceFormat::load,
     LoadGenerator::aiperf,
     "AIPerf (`profile_export.jsonl`)",
     true,
     {"metadata", "metrics"},
     "a line: `input_sequence_length`, `output_sequence_length` of `metrics`",
     "`metadata.request_start_ns`; of `metrics`, `time_to_first_token` (absent without streaming) and "
     "`request_latency`. The first versions: `timestamp_ns` and `ttft`",
     "-",
     0,
     "AIPerf (Apache-2.0)"},
    {TraceFormat::mooncake,
     LoadGenerator::none,
     "Mooncake's trace",
     true,
     {"input_length"},
     "a line: `input_length`, `output_length`, `hash_ids`",
     "`timestamp`: milliseconds",
     "-",
     512,
     "Mooncake's trace release (Qin et al., FAST 2025; Apache-2.0)"},
    {TraceFormat::csv,
     LoadGenerator::none,
     "a table of your own",
     false,
     {"arrival", "prompt", "output"},
     "a line; `--trace-columns` names other columns, see below",
     "numbers, or dates with times",
     "-",
     0,
     "your own logs"},
}};

/// Collects the keys of the first object, and stops at its end or at the end of the text.
struct TopFields : nlohmann::json_sax<nlohmann::json> {
  bool null() override { return deeper(); }
  bool boolean(bool) override { return deeper(); }
  bool number_integer(number_integer_t) override { return deeper(); }
  bool number_unsigned(number_unsigned_t) override { return deeper(); }
  bool number_float(number_float_t, const string_t&) override { return deeper(); }
  bool string(string_t&) override { return deeper(); }
  bool binary(binary_t&) override { return deeper(); }
  bool start_object(std::size_t) override { return ++depth > 0; }
  bool end_object() override { return --depth > 0; }
  bool start_array(std::size_t) override { return ++depth > 1; }
  bool end_array() override { return --depth > 0; }
  bool key(string_t& name) override {
    if (depth == 1) names.push_back(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  int depth = 0;
  std::vector<std::string> names;

 private:
  [[nodiscard]] bool deeper() const { return depth > 0; }
};

/// The fields of the object with which a text begins.
inline std::vector<std::string> top_fields(std::string_view text) {
  TopFields top;
  nlohmann::json::sax_parse(text.begin(), text.end(), &top, nlohmann::json::input_format_t::json, false);
  return std::move(top.names);
}

/// What a file that begins so is, if it is no trace: "compressed (gzip)".
inline std::string other_file(std::string_view text) {
  using namespace std::string_view_literals;
  constexpr std::array<std::pair<std::string_view, const char*>, 7> known{
      {{"\x1F\x8B"sv, "compressed (gzip)"},
       {"\x28\xB5\x2F\xFD"sv, "compressed (zstd)"},
       {"PK\x03\x04"sv, "compressed (zip)"},
       {"PAR1"sv, "a Parquet table"},
       {"\xFF\xFE"sv, "in UTF-16, not in UTF-8"},
       {"\xFE\xFF"sv, "in UTF-16, not in UTF-8"},
       {"SQLite format 3"sv, "an SQLite database"}}};
  for (const auto& [begin, what] : known)
    if (text.starts_with(begin)) return what;
  if (!text.starts_with('[')) return {};
  const std::size_t first = text.find_first_not_of(" \t\r\n", 1);
  std::string fields;
  if (first != std::string_view::npos && text[first] == '{')
    for (const std::string& one : top_fields(text.substr(first))) fields += (fields.empty() ? "" : ", ") + excerpt(one);
  return "one JSON list" + (fields.empty() ? "" : " of objects with the fields " + fields);
}

inline bool has_signs(const FirstFields& fields, const TraceKind& kind) {
  if (fields.json != kind.json) return false;
  return std::all_of(kind.signs.begin(), kind.signs.end(), [&](std::string_view sign) {
    return sign.empty() || std::any_of(fields.names.begin(), fields.names.end(), [&](const std::string& field) {
             // One's own table may be written with any letters; other formats' names differ from it by case alone.
             return kind.format == TraceFormat::csv ? name_distance(field, sign) == 0 : field == sign;
           });
  });
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE std::span<const TraceKind> trace_kinds() { return detail::all_trace_kinds; }

SLUICE_READERS_INLINE const TraceKind& kind_of(TraceFormat format) {
  for (const TraceKind& kind : trace_kinds())
    if (kind.format == format) return kind;
  SLUICE_ASSERT(false, "every format has a kind");
  return detail::all_trace_kinds.back();
}

SLUICE_READERS_INLINE std::string signs_text(const TraceKind& kind, std::string_view quote) {
  std::string text;
  for (const std::string_view sign : kind.signs)
    if (!sign.empty()) text += (text.empty() ? "" : ", ") + std::string{quote} + std::string{sign} + std::string{quote};
  return text;
}

SLUICE_READERS_INLINE std::string_view name(TraceFormat format) {
  constexpr std::array<std::string_view, 11> names{"azure", "burstgpt", "mooncake", "bailian", "aiperf", "orbitflow",
                                                   "vllm",  "load",     "tokens",   "agents",  "csv"};
  return names.at(static_cast<std::size_t>(format));
}

namespace detail {
/// Every format once, in the order of the enumeration.
inline std::vector<std::string_view> format_names() {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(TraceFormat::csv); ++i)
    names.push_back(name(static_cast<TraceFormat>(i)));
  return names;
}
} // namespace detail

SLUICE_READERS_INLINE std::string trace_format_names() {
  std::string text;
  const std::vector<std::string_view> names = detail::format_names();
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + std::string{names[i]};
  return text;
}

SLUICE_READERS_INLINE Expected<TraceFormat> find_format(std::string_view text) {
  const std::vector<std::string_view> names = detail::format_names();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (text == names[i]) return static_cast<TraceFormat>(i);
  return Error{ErrorCode::not_found, "--format",
               "there is no format '" + excerpt(text) + "'" + did_you_mean(text, names), trace_format_names()};
}

SLUICE_READERS_INLINE std::string trace_kinds_table() {
  std::string text = "| `--format` | file | told by | a request | arrivals | sessions | tokens per hash | source |\n"
                     "|---|---|---|---|---|---|---|---|\n";
  for (const TraceKind& kind : trace_kinds()) {
    text += "| `" + std::string{name(kind.format)} + "` | " + std::string{kind.name} + " | " + signs_text(kind, "`") +
            " | " + std::string{kind.request} + " | " + std::string{kind.arrivals} + " | " +
            std::string{kind.sessions} + " | " +
            (kind.hash_block > 0 ? std::to_string(kind.hash_block) : std::string{"-"}) + " | " +
            std::string{kind.source} + " |\n";
  }
  return text;
}

SLUICE_READERS_INLINE Expected<FirstFields> first_fields(const std::string& path) {
  Expected<std::unique_ptr<std::istream>> file = open_trace_file(path);
  if (!file) return file.error();
  std::string text(std::size_t{4} << 20, '\0');
  (*file)->read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>((*file)->gcount()));
  FirstFields fields;
  const std::size_t mark = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  const std::size_t begin = text.find_first_not_of(" \t\r\n", mark);
  if (begin == std::string::npos) {
    fields.other = "empty";
    return fields;
  }
  const std::string_view shown = std::string_view(text).substr(begin);
  fields.other = detail::other_file(shown);
  if (!fields.other.empty()) return fields;
  fields.json = shown.starts_with('{');
  if (fields.json) {
    fields.names = detail::top_fields(shown);
    return fields;
  }
  CsvRecords records{LineReader{std::make_unique<std::istringstream>(std::move(text)), path}};
  std::vector<std::string> columns;
  const Expected<bool> read = records.next(columns);
  if (read && *read && columns.size() >= 3) fields.names = std::move(columns);
  return fields;
}

SLUICE_READERS_INLINE Expected<const TraceKind*> recognise(const std::string& path) {
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    // `increment`, because the iterator's ++ throws if the folder cannot be read to its end.
    for (std::filesystem::directory_iterator file(path, ignored), end; !ignored && file != end; file.increment(ignored))
      if (file->path().extension() == ".json") return &kind_of(TraceFormat::agents);
  }
  const Expected<FirstFields> fields = first_fields(path);
  if (!fields) return fields.error();
  for (const TraceKind& kind : trace_kinds())
    if (detail::has_signs(*fields, kind)) return &kind;
  return static_cast<const TraceKind*>(nullptr);
}

SLUICE_READERS_INLINE std::string seen_fields(const std::string& path) {
  const Expected<FirstFields> fields = first_fields(path);
  if (fields && !fields->other.empty()) return ", and it is " + excerpt(fields->other, 200);
  if (!fields || fields->names.empty()) return {};
  std::string seen;
  for (const std::string& one : fields->names) seen += (seen.empty() ? "" : ", ") + excerpt(one);
  return excerpt((fields->json ? ", and its fields are " : ", and its columns are ") + seen, 200);
}

} // namespace sluice
