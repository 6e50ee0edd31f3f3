// SPDX-License-Identifier: Apache-2.0
// LoadResultReader: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/load_result.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace sluice::detail {

/// Collects requests of one file. The first malformed one is stored; later ones are ignored.
class LoadRequests {
 public:
  explicit LoadRequests(std::string_view kind) { result_.kind = kind; }

  void failed() { ++result_.failed; }
  /// Times are in seconds. `where` identifies the request.
  void add(std::string where, double due, double sent, double first, double last, double prompt, double output) {
    if (wrong_) return;
    const auto refuse = [&](std::string what, const char* expected) {
      wrong_ = Error{ErrorCode::bad_input, std::move(where), std::move(what), expected};
    };
    const std::array<double, 4> times{due, sent, first, last};
    if (!std::all_of(times.begin(), times.end(), [](double t) { return std::isfinite(t) && t >= 0 && t < 1e12; }))
      return refuse("a time is missing or no time", "seconds, 0 or more");
    if (!(sent <= first && first <= last)) return refuse("the times are not in order", "sent <= first <= last token");
    const auto whole = [](double tokens) {
      return tokens >= 1 && tokens <= static_cast<double>(max_request_tokens) && tokens == std::floor(tokens);
    };
    if (!whole(prompt)) return refuse("the prompt has no whole number of tokens", "1 or more");
    if (!whole(output)) return refuse("the output has no whole number of tokens", "1 or more");
    ClientRecord& one = result_.requests.emplace_back();
    one.due_s = due;
    one.record.prompt = Tokens{static_cast<std::int64_t>(prompt)};
    one.record.output = Tokens{static_cast<std::int64_t>(output)};
    one.record.queued = one.record.scheduled = Seconds{sent};
    one.record.first_token = Seconds{first};
    one.record.last_token = Seconds{last};
  }
  Expected<LoadResult> take(const std::string& path) {
    if (wrong_) return *wrong_;
    if (result_.requests.empty())
      return Error{ErrorCode::bad_input, path, "no request was served", "requests that got their tokens"};
    std::stable_sort(result_.requests.begin(), result_.requests.end(),
                     [](const ClientRecord& a, const ClientRecord& b) {
                       return std::pair{a.due_s, a.record.queued} < std::pair{b.due_s, b.record.queued};
                     });
    return std::move(result_);
  }

 private:
  LoadResult result_;
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

/// `vllm bench serve --save-result --save-detailed` (vllm/benchmarks/serve.py) writes lists with an entry per request.
inline Expected<LoadResult> read_vllm_bench(const nlohmann::json& result, const std::string& path) {
  LoadRequests requests("vllm bench serve");
  std::array<const nlohmann::json*, 5> lists{};
  constexpr std::array<const char*, 5> names{"input_lens", "output_lens", "ttfts", "itls", "start_times"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto list = result.find(names[i]);
    if (list == result.end() || !list->is_array())
      return Error{ErrorCode::bad_input, path, std::string{names[i]} + " is missing",
                   "a result of --save-detailed (start_times since vLLM 0.11)"};
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
    requests.add(path + ": request " + std::to_string(i), sent, sent, first, last, real((*lists[0])[i]),
                 real((*lists[1])[i]));
  }
  return requests.take(path);
}

/// GuideLLM's benchmarks.json (0.3 and later): the successful requests of the file's only benchmark.
inline Expected<LoadResult> read_guidellm(const nlohmann::json& result, const std::string& path) {
  LoadRequests requests("GuideLLM");
  const nlohmann::json& benchmarks = result.at("benchmarks");
  if (!benchmarks.is_array() || benchmarks.size() != 1)
    return Error{ErrorCode::bad_input, path, "it has no or several benchmarks", "one benchmark: one rate"};
  const auto all = benchmarks[0].is_object() ? benchmarks[0].find("requests") : benchmarks[0].end();
  if (!benchmarks[0].is_object() || all == benchmarks[0].end() || !all->is_object() || !all->contains("successful") ||
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
    requests.add(path + ": request " + std::to_string(number++), due, sent,
                 sent + number_at(one, {"time_to_first_token_ms"}) * 1e-3, sent + number_at(one, {"request_latency"}),
                 number_at(one, {"prompt_tokens"}), number_at(one, {"output_tokens"}));
  }
  return requests.take(path);
}

/// AIPerf's profile_export.jsonl: an object per line with `metadata` and `metrics`. Its first versions (October 2025)
/// had `timestamp_ns` and `ttft`.
inline Expected<LoadResult> read_aiperf(LineReader lines) {
  LoadRequests requests("AIPerf");
  for (;;) {
    const Expected<std::optional<std::string_view>> line = lines.next();
    if (!line) return line.error();
    if (!*line) return requests.take(lines.name());
    const Expected<nlohmann::json> one = parse_json_object(**line, lines.name(), lines.number());
    if (!one) return one.error();
    const auto error = one->find("error");
    if (error != one->end() && !error->is_null()) {
      requests.failed();
      continue;
    }
    // A time's unit is part of the value.
    const auto seconds = [&](const char* metric) {
      const double value = number_at(*one, {"metrics", metric, "value"});
      if (std::isnan(value)) return value;
      const nlohmann::json& of = (*one)["metrics"][metric];
      const std::string unit = of.contains("unit") && of["unit"].is_string() ? of["unit"].get<std::string>() : "ms";
      constexpr std::array<std::pair<std::string_view, double>, 4> units{
          {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"sec", 1.0}}};
      for (const auto& [name, factor] : units)
        if (unit == name) return value * factor;
      return std::numeric_limits<double>::quiet_NaN();
    };
    const double sent =
        first_of({number_at(*one, {"metadata", "request_start_ns"}), number_at(*one, {"metadata", "timestamp_ns"})}) *
        1e-9;
    const double ttft = first_of({seconds("time_to_first_token"), seconds("ttft")});
    requests.add(lines.where(), sent, sent, sent + ttft, sent + seconds("request_latency"),
                 number_at(*one, {"metrics", "input_sequence_length", "value"}),
                 number_at(*one, {"metrics", "output_sequence_length", "value"}));
  }
}

/// inference-sim's TraceV2 (`blis observe`): a CSV with the client's times in microseconds. `arrival_time_us` counts
/// from the start; the other times are on the client's clock.
inline Expected<LoadResult> read_blis(LineReader lines) {
  LoadRequests requests("BLIS TraceV2");
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
    requests.add(records.where(), number(3) * 1e-6, number(4) * 1e-6, number(5) * 1e-6, number(6) * 1e-6, number(1),
                 number(2));
  }
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE Expected<LoadResult> read_load_result(const std::string& path) {
  Expected<LineReader> lines = LineReader::open(path);
  if (!lines) return lines.error();
  const auto unknown = [&] {
    return Error{ErrorCode::bad_input, path, "it is no load generator's result that is known",
                 "a file of vllm bench serve --save-detailed, GuideLLM, AIPerf or blis observe"};
  };
  const Expected<std::optional<std::string_view>> line = lines->next();
  // A result on one line exceeds the limit of a line; the whole file then identifies the program.
  if (line && *line && (*line)->front() != '{') {
    Expected<LineReader> again = LineReader::open(path);
    if (!again) return again.error();
    return detail::read_blis(std::move(*again));
  }
  if (line && *line) {
    const nlohmann::json first = nlohmann::json::parse(**line, nullptr, false);
    if (first.is_object() && first.contains("metadata") && first.contains("metrics")) {
      Expected<LineReader> again = LineReader::open(path);
      if (!again) return again.error();
      return detail::read_aiperf(std::move(*again));
    }
  }
  constexpr std::size_t longest = std::size_t{1} << 30;
  const Expected<nlohmann::json> whole = read_json_object(path, longest);
  if (!whole) return whole.error();
  if (whole->contains("input_lens") || whole->contains("ttfts")) return detail::read_vllm_bench(*whole, path);
  if (whole->contains("benchmarks")) return detail::read_guidellm(*whole, path);
  return unknown();
}

SLUICE_READERS_INLINE Expected<LoadResultReader> LoadResultReader::open(const std::string& path) {
  Expected<LoadResult> result = read_load_result(path);
  if (!result) return result.error();
  return LoadResultReader{std::move(*result)};
}

SLUICE_READERS_INLINE Expected<std::optional<RequestSpec>> LoadResultReader::next() {
  if (next_ == requests_.size()) return std::optional<RequestSpec>{};
  const ClientRecord& one = requests_[next_++];
  return std::optional{
      RequestSpec{Seconds{one.due_s - requests_.front().due_s}, one.record.prompt, one.record.output, one.record.slo}};
}

} // namespace sluice
