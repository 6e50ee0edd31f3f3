// SPDX-License-Identifier: Apache-2.0
// LoadResult: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"
#include "sluice/workload/nlohmann/load_result.hpp"
#include "sluice/workload/nlohmann/trace_kinds.hpp"
#include "sluice/workload/nlohmann/trace_kinds.inl.hpp"
#include "sluice/workload/reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace sluice::detail {

/// A request's figures, each NaN if the file has none. Times are in seconds.
struct LoadFigures {
  double due, sent, first, last, prompt, output;
};

/// Collects requests of one file. The first malformed one is stored; later ones are ignored.
class LoadRequests {
 public:
  /// `fields`: the file's names of due, sent, first, last, prompt and output, for errors.
  LoadRequests(std::string_view kind, std::array<const char*, 6> fields) : fields_(fields) { result_.kind = kind; }

  void failed() { ++result_.failed; }
  void warm_up() { ++result_.warm_up; }
  /// `where` identifies the request. `needs_first`: a missing time of the first token is an error.
  void add(std::string where, LoadFigures of, bool needs_first = true) {
    if (wrong_) return;
    if (of.output == 0) return failed();
    const auto refuse = [&](const std::string& what, const char* expected) {
      wrong_ = Error{ErrorCode::bad_input, std::move(where), what, expected};
    };
    if (!needs_first && std::isnan(of.first)) {
      of.first = of.last;
      ++result_.without_first;
    }
    const std::array<double, 6> all{of.due, of.sent, of.first, of.last, of.prompt, of.output};
    const auto name = [&](std::size_t i) { return std::string{result_.kind} + "'s " + fields_.at(i); };
    for (std::size_t i = 0; i < 4; ++i)
      if (!(std::isfinite(all.at(i)) && all.at(i) >= 0 && all.at(i) < 1e12))
        return refuse(name(i) + (std::isnan(all.at(i)) ? " is missing or no number" : " is no time"),
                      "seconds, 0 or more");
    if (!(of.sent <= of.first && of.first <= of.last))
      return refuse(name(2) + " and " + fields_[3] + " are not in order", "sent <= first <= last token");
    for (std::size_t i = 4; i < 6; ++i)
      if (!(all.at(i) >= 1 && all.at(i) <= static_cast<double>(max_request_tokens) &&
            all.at(i) == std::floor(all.at(i))))
        return refuse(name(i) + (std::isnan(all.at(i)) ? " is missing or no number" : " is no whole number of tokens"),
                      "tokens, 1 or more");
    ClientRecord& one = result_.requests.emplace_back();
    one.due_s = of.due;
    one.record.prompt = Tokens{static_cast<std::int64_t>(of.prompt)};
    one.record.output = Tokens{static_cast<std::int64_t>(of.output)};
    one.record.queued = one.record.scheduled = Seconds{of.sent};
    one.record.first_token = Seconds{of.first};
    one.record.last_token = Seconds{of.last};
  }
  Expected<LoadResult> take(const std::string& path) {
    if (wrong_) return *wrong_;
    if (result_.requests.empty()) {
      const std::string counted = result_.warm_up + result_.failed == 0
                                      ? std::string{}
                                      : ": " + std::to_string(result_.warm_up) + " of the warm-up, " +
                                            std::to_string(result_.failed) + " failed";
      return Error{ErrorCode::bad_input, path,
                   "it is a result of " + std::string{result_.kind} + " without requests" + counted,
                   "requests that got their tokens"};
    }
    std::stable_sort(result_.requests.begin(), result_.requests.end(),
                     [](const ClientRecord& a, const ClientRecord& b) {
                       return std::pair{a.due_s, a.record.queued} < std::pair{b.due_s, b.record.queued};
                     });
    return std::move(result_);
  }

 private:
  LoadResult result_;
  std::array<const char*, 6> fields_;
  std::optional<Error> wrong_;
};

/// Returns the number at a path of members; NaN if there is none.
inline double number_at(const nlohmann::json& object, std::initializer_list<const char*> path) {
  const nlohmann::json* at = &object;
  for (const char* name : path) {
    const auto member = at->is_object() ? at->find(name) : at->end();
    if (!at->is_object() || member == at->end()) return std::numeric_limits<double>::quiet_NaN();
    at = &*member;
  }
  return at->is_number() ? at->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

SLUICE_READERS_INLINE double first_of(std::initializer_list<double> numbers) {
  for (const double number : numbers)
    if (!std::isnan(number)) return number;
  return std::numeric_limits<double>::quiet_NaN();
}

/// `vllm bench serve --save-result --save-detailed` (vllm/benchmarks/serve.py) writes lists with an entry per request;
/// so does SGLang's `bench_serving --output-details`, which says when a request was sent in no version known.
inline Expected<LoadResult> read_lists(const nlohmann::json& result, const std::string& path, const TraceKind& kind) {
  const bool sglang = kind.generator == LoadGenerator::sglang;
  const char* const who = sglang ? "SGLang bench_serving" : "vllm bench serve";
  LoadRequests requests(who, {"start_times", "start_times", "ttfts", "itls", "input_lens", "output_lens"});
  std::array<const nlohmann::json*, 5> lists{};
  constexpr std::array<const char*, 5> names{"input_lens", "output_lens", "ttfts", "itls", "start_times"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto list = result.find(names[i]);
    if (list == result.end() || !list->is_array())
      return Error{ErrorCode::bad_input, path,
                   "it is a result of " + std::string{who} + ", and " + names[i] + " is missing",
                   !sglang  ? "a result of --save-detailed (start_times since vLLM 0.11)"
                   : i == 4 ? "the times at which requests were sent, which vllm bench serve --save-detailed and "
                              "sluice-load --out write for the same server"
                            : "a result of --output-details"};
    lists[i] = &*list;
    if (list->size() != lists[0]->size())
      return Error{ErrorCode::bad_input, path,
                   std::string{names[i]} + " has " + std::to_string(list->size()) + " entries",
                   std::to_string(lists[0]->size()) + ", as input_lens"};
  }
  const auto real = [](const nlohmann::json& value) {
    return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  };
  const auto errors = result.find("errors");
  for (std::size_t i = 0; i < lists[0]->size(); ++i) {
    const auto failed = [&] {
      if (errors == result.end() || !errors->is_array() || i >= errors->size()) return false;
      const nlohmann::json& error = (*errors)[i];
      return error.is_string() && !error.get_ref<const std::string&>().empty();
    };
    if (failed() || real((*lists[1])[i]) == 0) {
      requests.failed();
      continue;
    }
    const double sent = real((*lists[4])[i]), first = sent + real((*lists[2])[i]);
    double last = first;
    if ((*lists[3])[i].is_array())
      for (const nlohmann::json& gap : (*lists[3])[i]) last += real(gap);
    requests.add(path + ": request " + std::to_string(i),
                 {sent, sent, first, last, real((*lists[0])[i]), real((*lists[1])[i])});
  }
  return requests.take(path);
}

/// Chooses benchmark `wanted` (from 1; 0: the only one) of `count`, and returns its index.
inline Expected<std::size_t> chosen_benchmark(const std::string& path, const char* who, std::size_t count,
                                              std::int64_t wanted) {
  if (wanted == 0 && count == 1) return std::size_t{0};
  if (wanted >= 1 && static_cast<std::size_t>(wanted) <= count) return static_cast<std::size_t>(wanted) - 1;
  std::string all;
  for (std::size_t i = 1; i <= std::min<std::size_t>(count, 16); ++i) all += (i > 1 ? "," : "") + std::to_string(i);
  return Error{ErrorCode::bad_input, path,
               std::string{who} + "'s report has " + std::to_string(count) + " benchmarks" +
                   (wanted > 0 ? ", and " + std::to_string(wanted) + " is chosen" : ""),
               count == 0 ? "at least one"
               : count == 1
                   ? "--benchmark 1, or no such flag"
                   : "--benchmark N for one of them, or in sluice-compare --benchmark " + all + " for all as a sweep"};
}

/// A result's text, as Python writes it.
inline Expected<std::string> read_python_json(const std::string& path) {
  Expected<std::string> text = read_json_text(path, std::size_t{1} << 30);
  if (text && may_have_python_numbers(*text)) return without_python_numbers(*text);
  return text;
}

/// GuideLLM's benchmarks.json (0.3 and later): the successful requests of a benchmark, which is one rate.
inline Expected<LoadResult> read_guidellm(const nlohmann::json& result, const std::string& path, std::int64_t wanted) {
  LoadRequests requests("GuideLLM", {"targeted_start", "request_start", "time_to_first_token_ms", "request_latency",
                                     "prompt_tokens", "output_tokens"});
  const nlohmann::json& benchmarks = result.at("benchmarks");
  if (!benchmarks.is_array()) return Error{ErrorCode::bad_input, path, "benchmarks is no list", "a list of objects"};
  const Expected<std::size_t> chosen = chosen_benchmark(path, "GuideLLM", benchmarks.size(), wanted);
  if (!chosen) return chosen.error();
  const nlohmann::json& benchmark = benchmarks[*chosen];
  const auto all = benchmark.is_object() ? benchmark.find("requests") : benchmark.end();
  if (!benchmark.is_object() || all == benchmark.end() || !all->is_object() || !all->contains("successful") ||
      !(*all)["successful"].is_array())
    return Error{ErrorCode::bad_input, path, "requests.successful is missing", "GuideLLM's output with its requests"};
  for (const char* other : {"errored", "incomplete"})
    if (const auto list = all->find(other); list != all->end() && list->is_array())
      for (std::size_t i = 0; i < list->size(); ++i) requests.failed();
  std::size_t number = 0;
  for (const nlohmann::json& one : (*all)["successful"]) {
    const double sent = first_of({number_at(one, {"info", "timings", "request_start"}),
                                  number_at(one, {"scheduler_info", "request_timings", "request_start"}),
                                  number_at(one, {"request_start_time"}), number_at(one, {"start_time"})});
    // When its scheduler wanted to send the request, on the same clock.
    const double due = first_of({number_at(one, {"info", "timings", "targeted_start"}), sent});
    requests.add(path + ": request " + std::to_string(number++),
                 {due, sent, sent + number_at(one, {"time_to_first_token_ms"}) * 1e-3,
                  sent + number_at(one, {"request_latency"}), number_at(one, {"prompt_tokens"}),
                  number_at(one, {"output_tokens"})},
                 false);
  }
  return requests.take(path);
}

/// inference-perf's report of each request: one JSON list. `info` had the numbers of tokens and the times itself before
/// it had `request_metrics` and `response_metrics`.
inline Expected<LoadResult> read_inference_perf(const std::string& path) {
  const Expected<std::string> text = read_python_json(path);
  if (!text) return text.error();
  const nlohmann::json all = nlohmann::json::parse(*text, nullptr, false);
  if (!all.is_array()) { // the other parser says where it ends
    const Expected<nlohmann::json> object = parse_json_object(*text, path);
    return object ? Error{ErrorCode::bad_input, path, "this is a JSON object", "a list of requests"} : object.error();
  }
  LoadRequests requests("inference-perf", {"start_time", "start_time", "output_token_times", "end_time", "input_tokens",
                                           "output_tokens"});
  std::size_t number = 0;
  for (const nlohmann::json& one : all) {
    const std::string where = path + ": request " + std::to_string(number++);
    const auto info = one.is_object() ? one.find("info") : one.end();
    if (!one.is_object() || info == one.end() || !info->is_object())
      return Error{ErrorCode::bad_input, where, "info is missing or no object", "a request of inference-perf"};
    if (const auto error = one.find("error"); error != one.end() && !error->is_null()) {
      requests.failed();
      continue;
    }
    const auto metrics = info->find("response_metrics");
    const nlohmann::json& answer = metrics != info->end() && metrics->is_object() ? *metrics : *info;
    const auto times = answer.find("output_token_times");
    double first = std::numeric_limits<double>::quiet_NaN();
    if (times != answer.end() && times->is_array() && !times->empty() && times->front().is_number())
      first = times->front().get<double>();
    const double sent = number_at(one, {"start_time"});
    requests.add(
        where,
        {sent, sent, first, number_at(one, {"end_time"}),
         first_of({number_at(answer, {"server_usage", "prompt_tokens"}),
                   number_at(*info, {"request_metrics", "text", "input_tokens"}), number_at(*info, {"input_tokens"})}),
         first_of({number_at(answer, {"server_usage", "completion_tokens"}), number_at(answer, {"output_tokens"})})},
        false);
  }
  return requests.take(path);
}

/// SGLang's bench_serving, and vLLM's with --append-result, add a line for each run. A line may be longer than
/// LineReader allows. Without --append-result vLLM's result may take several lines.
inline Expected<LoadResult> read_runs(const std::string& path, std::int64_t wanted, const TraceKind& kind) {
  const Expected<std::string> text = read_python_json(path);
  if (!text) return text.error();
  const bool sglang = kind.generator == LoadGenerator::sglang;
  struct Run {
    std::string_view text;
    std::int64_t line = 1;
  };
  std::vector<Run> runs;
  std::int64_t number = 0;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) runs.push_back({line, number});
  }
  if (!sglang && (runs.size() < 2 || !nlohmann::json::accept(runs.front().text))) runs = {{*text}};
  Expected<std::size_t> chosen =
      chosen_benchmark(path, sglang ? "SGLang bench_serving" : "vllm bench serve", runs.size(), wanted);
  if (!chosen) {
    // A choice would not help a file whose runs cannot be read.
    const Run tried = runs.empty() ? Run{*text} : runs.front();
    const Expected<nlohmann::json> first = parse_json_object(tried.text, path, tried.line);
    if (!first || first->contains("start_times")) return chosen.error();
    chosen = 0;
  }
  const Expected<nlohmann::json> run = parse_json_object(runs[*chosen].text, path, runs[*chosen].line);
  if (!run) return run.error();
  return read_lists(*run, path, kind);
}

/// AIPerf's profile_export.jsonl: an object per line with `metadata` and `metrics`. Its first versions (October 2025)
/// had `timestamp_ns` and `ttft`. Without streaming there is no TTFT.
inline Expected<LoadResult> read_aiperf(LineReader lines) {
  LoadRequests requests("AIPerf", {"request_start_ns", "request_start_ns", "time_to_first_token", "request_latency",
                                   "input_sequence_length", "output_sequence_length"});
  for (;;) {
    const Expected<std::optional<std::string_view>> line = lines.next();
    if (!line) return line.error();
    if (!*line) return requests.take(lines.name());
    const Expected<nlohmann::json> one = parse_json_line(**line, lines.name(), lines.number());
    if (!one) return one.error();
    const auto error = one->find("error");
    const auto metadata = one->find("metadata");
    const auto says = [&](const char* field, const nlohmann::json& value) {
      return metadata != one->end() && metadata->is_object() && metadata->value(field, nlohmann::json{}) == value;
    };
    if (says("benchmark_phase", "warmup")) {
      requests.warm_up();
      continue;
    }
    if ((error != one->end() && !error->is_null()) || says("was_cancelled", true)) {
      requests.failed();
      continue;
    }
    std::string unknown; // not every time without a value is one of a run without streaming
    // A time's unit is part of the value.
    const auto seconds = [&](const char* metric) {
      const double value = number_at(*one, {"metrics", metric, "value"});
      if (std::isnan(value)) return value;
      const nlohmann::json& of = (*one)["metrics"][metric];
      const std::string unit = of.contains("unit") && of["unit"].is_string() ? of["unit"].get<std::string>() : "ms";
      constexpr std::array<std::pair<std::string_view, double>, 5> units{
          {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"sec", 1.0}, {"s", 1.0}}};
      for (const auto& [name, factor] : units)
        if (unit == name) return value * factor;
      unknown = std::string{metric} + " is in " + excerpt(unit);
      return std::numeric_limits<double>::quiet_NaN();
    };
    const double sent =
        first_of({number_at(*one, {"metadata", "request_start_ns"}), number_at(*one, {"metadata", "timestamp_ns"})}) *
        1e-9;
    const double ttft = first_of({seconds("time_to_first_token"), seconds("ttft")});
    const double took = seconds("request_latency");
    if (!unknown.empty())
      return Error{ErrorCode::bad_input, lines.where(), "AIPerf's " + unknown, "ns, us, ms, sec or s"};
    requests.add(lines.where(),
                 {sent, sent, sent + ttft, sent + took, number_at(*one, {"metrics", "input_sequence_length", "value"}),
                  number_at(*one, {"metrics", "output_sequence_length", "value"})},
                 false);
  }
}

/// inference-sim's TraceV2 (`blis observe`): a CSV with the client's times in microseconds. `arrival_time_us` counts
/// from the start; the other times are on the client's clock.
inline Expected<LoadResult> read_blis(LineReader lines) {
  LoadRequests requests("BLIS TraceV2", {"arrival_time_us", "send_time_us", "first_chunk_time_us", "last_chunk_time_us",
                                         "server_input_tokens", "output_tokens"});
  CsvRecords records(std::move(lines));
  std::vector<std::string> cells;
  Expected<bool> more = records.next(cells);
  if (!more) return more.error();
  constexpr std::array<std::string_view, 7> names{
      "status",       "server_input_tokens", "output_tokens",     "arrival_time_us",
      "send_time_us", "first_chunk_time_us", "last_chunk_time_us"};
  std::array<std::size_t, names.size()> columns{};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto column = std::find(cells.begin(), cells.end(), names[i]);
    if (column == cells.end())
      return Error{ErrorCode::bad_input, records.where(), "the header has no column '" + std::string{names[i]} + "'",
                   "a trace.csv of blis observe"};
    columns[i] = static_cast<std::size_t>(column - cells.begin());
  }
  const std::size_t width = cells.size();
  for (;;) {
    more = records.next(cells);
    if (!more) return more.error();
    if (!*more) return requests.take(records.name());
    if (cells.size() != width)
      return Error{ErrorCode::bad_input, records.where(), "the line has " + std::to_string(cells.size()) + " columns",
                   std::to_string(width) + ", as in the header"};
    if (cells[columns[0]] != "ok") {
      requests.failed();
      continue;
    }
    const auto number = [&](std::size_t i) {
      const std::string& cell = cells[columns[i]];
      double value = 0;
      const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
      return error == std::errc{} && end == cell.data() + cell.size() ? value
                                                                      : std::numeric_limits<double>::quiet_NaN();
    };
    requests.add(records.where(),
                 {number(3) * 1e-6, number(4) * 1e-6, number(5) * 1e-6, number(6) * 1e-6, number(1), number(2)});
  }
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE Expected<LoadResult> read_load_result(const std::string& path, std::int64_t benchmark) {
  const Expected<const TraceKind*> kind = recognise(path);
  if (!kind) return kind.error();
  if (*kind == nullptr || (*kind)->format != TraceFormat::load) {
    const Unrecognised seen =
        *kind == nullptr ? unrecognised(path) : Unrecognised{", but " + std::string{(*kind)->name}, {}};
    return Error{ErrorCode::bad_input, path, "it is no load generator's result that is known" + seen.what,
                 !seen.right.empty() ? seen.right
                                     : "a file of vllm bench serve --save-detailed, GuideLLM, AIPerf, SGLang, "
                                       "inference-perf or blis observe"};
  }
  const LoadGenerator generator = (*kind)->generator;
  if (benchmark != 0 && (generator == LoadGenerator::blis || generator == LoadGenerator::aiperf ||
                         generator == LoadGenerator::inference_perf))
    return Error{ErrorCode::bad_input, "--benchmark", "a result of " + std::string{(*kind)->name} + " is one benchmark",
                 "no such flag, or a report of several (GuideLLM, vllm bench serve, SGLang bench_serving)"};
  if (generator == LoadGenerator::sglang || generator == LoadGenerator::vllm_bench)
    return detail::read_runs(path, benchmark, **kind);
  if (generator == LoadGenerator::blis || generator == LoadGenerator::aiperf) {
    Expected<LineReader> lines = LineReader::open(path);
    if (!lines) return lines.error();
    if (generator == LoadGenerator::blis) return detail::read_blis(*std::move(lines));
    return detail::read_aiperf(*std::move(lines));
  }
  if (generator == LoadGenerator::inference_perf) return detail::read_inference_perf(path);
  // A result on one line exceeds the limit of a line.
  const Expected<std::string> text = detail::read_python_json(path);
  if (!text) return text.error();
  const Expected<nlohmann::json> whole = parse_json_object(*text, path);
  if (!whole) return whole.error();
  return detail::read_guidellm(*whole, path, benchmark);
}

} // namespace sluice
