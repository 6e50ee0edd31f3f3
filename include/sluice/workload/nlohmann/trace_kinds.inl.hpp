// SPDX-License-Identifier: Apache-2.0
// TraceKind: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"
#include "sluice/workload/nlohmann/trace_kinds.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

namespace sluice::detail {

inline constexpr std::array<TraceKind, 17> all_trace_kinds{{
    {TraceFormat::azure,
     LoadGenerator::none,
     "Azure's LLM inference trace",
     false,
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
     false,
     {"Timestamp", "Request tokens", "Response tokens"},
     "a line: `Request tokens`, `Response tokens`",
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
     false,
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
     false,
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
     false,
     {"arrival_time_ns"},
     "a line, or each of its `sub_requests`: `input_toks`, `output_toks`; `input_tok_ids`, `output_tok_ids`, the token "
     "ids "
     "themselves, if there are any",
     "`arrival_time_ns`: nanoseconds",
     "`sub_requests`: each follows the one before after its `tool_duration_ns`",
     0,
     "LLMServingSim (MIT)"},
    {TraceFormat::vllm,
     LoadGenerator::none,
     "a recorded vLLM run, `sluice-serve --record`",
     true,
     false,
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
     false,
     {"block_size", "requests"},
     "a member of `requests`, also of an entry of a subagent: `in`, `out`, `hash_ids` of `block_size` tokens each; a "
     "folder has a session per file, a file one, or one a line",
     "`t`: seconds from the session's start, or a subagent's from its own; a session starts every 10 s",
     "a file, or a line, is a session",
     0,
     "kv-cache-tester (callanjfox; Apache-2.0)"},
    {TraceFormat::orbitflow,
     LoadGenerator::none,
     "OrbitFlow's trace",
     true,
     false,
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
     false,
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
     false,
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
     false,
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
     false,
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
     false,
     {"metadata", "metrics"},
     "a line: `input_sequence_length`, `output_sequence_length` of `metrics`",
     "`metadata.request_start_ns`; of `metrics`, `time_to_first_token` (absent without streaming) and "
     "`request_latency`. The first versions: `timestamp_ns` and `ttft`",
     "-",
     0,
     "AIPerf (Apache-2.0)"},
    {TraceFormat::load,
     LoadGenerator::inference_perf,
     "inference-perf (`per_request_lifecycle_metrics.json`)",
     true,
     true,
     {"start_time", "end_time", "info"},
     "a member of the list: `input_tokens`, `output_tokens` of `info`, or of its `request_metrics.text` and "
     "`response_metrics`; `error`",
     "`start_time`, `end_time`, `output_token_times`: seconds on the client's monotonic clock",
     "-",
     0,
     "inference-perf (kubernetes-sigs; Apache-2.0)"},
    {TraceFormat::mooncake,
     LoadGenerator::none,
     "Mooncake's trace",
     true,
     false,
     {"input_length"},
     "a line: `input_length`, `output_length`, `hash_ids`",
     "`timestamp`: milliseconds; `--trace-columns unit=s` with `--format mooncake` for seconds (GuideLLM's traces)",
     "-",
     512,
     "Mooncake's trace release (Qin et al., FAST 2025; Apache-2.0)"},
    {TraceFormat::csv,
     LoadGenerator::none,
     "a table of your own",
     false,
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

/// What people take for traces, and what has none of the requests. A text's signs are bytes with which it begins.
inline constexpr const char* packed = "the file itself, unpacked";
inline constexpr const char* per_line = "JSON, one object per line, or a CSV with a header";
inline constexpr std::array<OtherKind, 38> all_other_kinds{{
    {"compressed (gzip)", OtherKind::Form::text, {"\x1F\x8B"}, packed},
    {"compressed (zstd)", OtherKind::Form::text, {"\x28\xB5\x2F\xFD"}, packed},
    {"compressed (bzip2)", OtherKind::Form::text, {"BZh"}, packed},
    {"compressed (xz)", OtherKind::Form::text, {"\xFD\x37zXZ"}, packed},
    {"compressed (zip)", OtherKind::Form::text, {"PK\x03\x04"}, packed},
    {"a Parquet table", OtherKind::Form::text, {"PAR1"}, per_line},
    {"an Arrow table", OtherKind::Form::text, {"ARROW1"}, per_line},
    {"a NumPy array", OtherKind::Form::text, {"\x93NUMPY"}, per_line},
    {"in UTF-16, not in UTF-8", OtherKind::Form::text, {"\xFF\xFE", "\xFE\xFF"}, "the same in UTF-8"},
    {"an SQLite database", OtherKind::Form::text, {"SQLite format 3"}, per_line},
    {"a page of HTML", OtherKind::Form::text, {"<!DOCTYPE", "<!doctype", "<html"}, per_line},
    {"GuideLLM's report in YAML", OtherKind::Form::text, {"metadata:", "benchmarks:"}, "its benchmarks.json"},
    {"llm-d's benchmark report, a summary",
     OtherKind::Form::text,
     {"version: \"0.", "version: '0.", "version: 0."},
     "what its load generator wrote"},
    {"GuideLLM's report as a table, a summary", OtherKind::Form::table, {"Run Info"}, "its benchmarks.json"},
    {"AIPerf's or GenAI-Perf's summary",
     OtherKind::Form::table,
     {"Metric", "avg", "min"},
     "AIPerf's profile_export.jsonl"},
    {"AIPerf's or GenAI-Perf's summary",
     OtherKind::Form::object,
     {"request_throughput", "request_latency", "input_config"},
     "AIPerf's profile_export.jsonl"},
    {"AIPerf's raw export", OtherKind::Form::object, {"metadata", "responses"}, "its profile_export.jsonl"},
    {"GenAI-Perf's profile, which has no numbers of tokens",
     OtherKind::Form::object,
     {"service_kind", "experiments"},
     "AIPerf's profile_export.jsonl"},
    {"a data set of texts, without numbers of tokens",
     OtherKind::Form::object,
     {"text_input"},
     "input_length in tokens"},
    {"a data set of conversations, without numbers of tokens",
     OtherKind::Form::object,
     {"turns"},
     "lines with session_id, input_length and output_length in tokens"},
    {"a batch of OpenAI's API",
     OtherKind::Form::object,
     {"custom_id", "method", "body"},
     "a trace with arrivals and tokens"},
    {"inference-perf's summary",
     OtherKind::Form::object,
     {"load_summary", "successes", "failures"},
     "its per_request_lifecycle_metrics.json (report: request_lifecycle: per_request: true)"},
    {"LLMPerf's summary",
     OtherKind::Form::object,
     {"results_inter_token_latency_s_mean"},
     "a result with times of sending"},
    {"LLMPerf's responses, which do not say when they were sent",
     OtherKind::Form::list,
     {"ttft_s", "number_input_tokens"},
     "a result with times of sending, such as that of vllm bench serve --save-detailed"},
    {"ShareGPT's conversations, without arrivals",
     OtherKind::Form::list,
     {"conversations"},
     "a trace; --generate sharegpt has their lengths"},
    {"ShareGPT's conversations, without arrivals",
     OtherKind::Form::object,
     {"conversations"},
     "a trace; --generate sharegpt has their lengths"},
    {"a data set of conversations, without numbers of tokens",
     OtherKind::Form::object,
     {"messages"},
     "lines with session_id, input_length and output_length in tokens"},
    {"a data set of prompts, without numbers of tokens",
     OtherKind::Form::object,
     {"prompt"},
     "lines with timestamp, input_length and output_length in tokens"},
    {"the result of vllm bench latency",
     OtherKind::Form::object,
     {"avg_latency", "latencies"},
     "that of vllm bench serve"},
    {"the result of vllm bench throughput",
     OtherKind::Form::object,
     {"elapsed_time", "num_requests", "total_num_tokens"},
     "that of vllm bench serve"},
    {"a summary of vllm bench serve",
     OtherKind::Form::object,
     {"num_prompts", "request_throughput"},
     "a result of --save-detailed (start_times since vLLM 0.11)"},
    {"OpenTelemetry's spans", OtherKind::Form::object, {"resourceSpans"}, "a table of requests"},
    {"OpenTelemetry's spans", OtherKind::Form::object, {"spans"}, "a table of requests"},
    {"Vidur's trace",
     OtherKind::Form::table,
     {"arrived_at", "num_prefill_tokens", "num_decode_tokens"},
     "--trace-columns arrival=arrived_at,prompt=num_prefill_tokens,output=num_decode_tokens"},
    {"Vidur's trace without arrivals",
     OtherKind::Form::table,
     {"num_prefill_tokens", "num_decode_tokens"},
     "one with arrived_at"},
    {"Splitwise's simulator's trace",
     OtherKind::Form::table,
     {"arrival_timestamp", "prompt_size", "token_size"},
     "--trace-columns arrival=arrival_timestamp,prompt=prompt_size,output=token_size"},
    {"Mooncake's fields as a table, which does not say the unit of its timestamps",
     OtherKind::Form::table,
     {"timestamp", "input_length", "output_length"},
     "--trace-columns arrival=timestamp,prompt=input_length,output=output_length,unit=ms, or unit=s"},
    {"separated by |", OtherKind::Form::text, {"TIMESTAMP|", "timestamp|", "arrival|"}, "commas, semicolons or tabs"},
}};

template <class Kind>
bool has_names(const std::vector<std::string>& names, const Kind& kind, bool any_case = false) {
  return std::all_of(kind.signs.begin(), kind.signs.end(), [&](std::string_view sign) {
    return sign.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& field) {
             return any_case ? name_distance(field, sign) == 0 : field == sign;
           });
  });
}

inline const OtherKind* other_text(std::string_view text) {
  for (const OtherKind& kind : all_other_kinds)
    if (kind.form == OtherKind::Form::text)
      for (const std::string_view sign : kind.signs)
        if (!sign.empty() && text.starts_with(sign)) return &kind;
  return nullptr;
}

inline const OtherKind* other_fields(const FirstFields& fields) {
  const OtherKind::Form form = fields.list   ? OtherKind::Form::list
                               : fields.json ? OtherKind::Form::object
                                             : OtherKind::Form::table;
  for (const OtherKind& kind : all_other_kinds)
    if (kind.form == form && has_names(fields.names, kind)) return &kind;
  return nullptr;
}

inline bool has_signs(const FirstFields& fields, const TraceKind& kind) {
  // One's own table may be written with any letters; other formats' names differ from it by case alone.
  return fields.json == kind.json && fields.list == kind.list &&
         has_names(fields.names, kind, kind.format == TraceFormat::csv);
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE std::span<const TraceKind> trace_kinds() { return detail::all_trace_kinds; }

SLUICE_READERS_INLINE std::span<const OtherKind> other_kinds() { return detail::all_other_kinds; }

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
  if (begin == std::string::npos) return fields;
  const std::string_view shown = std::string_view(text).substr(begin);
  fields.other = detail::other_text(shown);
  if (fields.other != nullptr) return fields;
  fields.list = shown.starts_with('[');
  fields.json = fields.list || shown.starts_with('{');
  if (fields.json) {
    const std::size_t object = shown.find_first_not_of("[ \t\r\n");
    if (object != std::string_view::npos && shown[object] == '{') {
      const std::string_view from = shown.substr(object); // up to a MiB, which is not copied without need
      fields.names =
          may_have_python_numbers(from) ? detail::top_fields(without_python_numbers(from)) : detail::top_fields(from);
    }
    fields.other = detail::other_fields(fields);
    return fields;
  }
  fields.line = shown.substr(0, shown.find_first_of("\r\n"));
  CsvRecords records{LineReader{std::make_unique<std::istringstream>(std::move(text)), path}};
  std::vector<std::string> columns;
  const Expected<bool> read = records.next(columns);
  if (read && *read && columns.size() >= 3) fields.names = std::move(columns);
  fields.other = detail::other_fields(fields);
  return fields;
}

SLUICE_READERS_INLINE Status check_is_text(const std::string& path) {
  std::error_code ignored; // reading a pipe's first bytes would take them from the reader
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  const Expected<std::unique_ptr<std::istream>> file = open_trace_file(path);
  if (!file) return file.error();
  std::string text(64, '\0');
  (*file)->read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>((*file)->gcount()));
  const OtherKind* const other = detail::other_text(text);
  if (other == nullptr) return {};
  return Error{ErrorCode::bad_input, path, "it is " + std::string{other->name}, std::string{other->right}};
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

SLUICE_READERS_INLINE Unrecognised unrecognised(const std::string& path) {
  const Expected<FirstFields> fields = first_fields(path);
  if (!fields) return {};
  if (fields->other != nullptr)
    return {", and it is " + std::string{fields->other->name}, std::string{fields->other->right}};
  std::string seen;
  for (const std::string& one : fields->names) seen += (seen.empty() ? "" : ", ") + excerpt(one);
  if (fields->list) {
    for (const TraceKind& kind : trace_kinds())
      if (kind.json && !kind.list && detail::has_names(fields->names, kind))
        return {", and it is one JSON list of objects of " + std::string{kind.name} + " (" + signs_text(kind) + ")",
                "one object per line (jq -c '.[]')"};
    return {excerpt(", and it is one JSON list" + (seen.empty() ? "" : " of objects with the fields " + seen), 200),
            {}};
  }
  if (!seen.empty())
    return {excerpt((fields->json ? ", and its fields are " : ", and its columns are ") + seen, 200), {}};
  if (fields->json) return {", and its first object has no fields", {}};
  if (fields->line.empty()) return {", and it is empty", {}};
  return {", and its first line is '" + excerpt(fields->line) + "'", {}};
}

} // namespace sluice
