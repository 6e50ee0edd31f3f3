// SPDX-License-Identifier: Apache-2.0
// VllmRunReader: reads the requests of a recorded vLLM run, with their measured times.
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/slo_fields.hpp"
#include "sluice/workload/reader.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// One request of a recorded run. Times are in seconds on the server's own monotonic clock.
struct VllmRunRecord {
  std::string id;
  Tokens prompt{1};
  Tokens output{1};
  Seconds queued{0};         ///< `queued_ts`: the arrival
  Seconds scheduled{0};      ///< `scheduled_ts`: when it first joined a batch
  Seconds first_token{0};    ///< `first_token_ts`
  Seconds last_token{0};     ///< `last_token_ts`
  Tokens bound{0};           ///< `max_tokens` if the server wrote it, else 0
  Slo slo{};                 ///< `slo_ttft_s` and `slo_tbt_s` if the server wrote them (serve/request_record.hpp)
  Slo engine_slo{};          ///< `engine_slo_…`: the tighter SLO that the engine got; equal to `slo` if there is none
  std::uint32_t session = 0; ///< `session` and `turn` if the client named its session; 0: it did not
  std::int32_t turn = 0;

  friend bool operator==(const VllmRunRecord&, const VllmRunRecord&) = default;
};

/// `requests.jsonl` of a recorded vLLM run: one JSON object per line. The arrival is `queued_ts`; `arrival_time` is on
/// another clock and is not read.
///
/// Lines are in order of submission, or, if sluice-serve recorded the run, in order of completion; either may differ
/// from the order of arrival. The reader sorts by arrival within `window` lines, in constant memory. A line that is
/// farther out of order is an error.
class VllmRunReader {
 public:
  static constexpr std::size_t window = 65536;

  explicit VllmRunReader(LineReader lines) : lines_(std::move(lines)) {}

  static Expected<VllmRunReader> open(const std::string& path) {
    Expected<LineReader> lines = LineReader::open(path);
    if (!lines) return lines.error();
    return VllmRunReader{std::move(*lines)};
  }

  /// Returns the next record in order of arrival, with its measured times as in the file.
  Expected<std::optional<VllmRunRecord>> next_record() {
    while (!ended_ && waiting_.size() < window) {
      if (Status status = read_line(); !status) return status.error();
    }
    if (waiting_.empty()) {
      if (lines_read_ == 0) {
        return Error{ErrorCode::bad_input, lines_.name(), "the run holds no request", "at least one line"};
      }
      return std::optional<VllmRunRecord>{};
    }
    std::pop_heap(waiting_.begin(), waiting_.end(), later);
    Waiting earliest = std::move(waiting_.back());
    waiting_.pop_back();
    const std::string where = lines_.name() + ":" + std::to_string(earliest.line);
    if (const Expected<Seconds> arrival = clock_.arrival(earliest.record.queued.count(), where); !arrival) {
      return arrival.error();
    } else {
      arrival_ = *arrival;
    }
    return std::optional{std::move(earliest.record)};
  }

  Expected<std::optional<RequestSpec>> next() {
    const Expected<std::optional<VllmRunRecord>> record = next_record();
    if (!record) return record.error();
    if (!*record) return std::optional<RequestSpec>{};
    RequestSpec spec{arrival_, (*record)->prompt, (*record)->output, (*record)->slo};
    spec.session = (*record)->session;
    spec.turn = (*record)->turn;
    return std::optional{spec};
  }

 private:
  struct Waiting {
    VllmRunRecord record;
    std::int64_t line = 0;
  };
  /// Heap order: the earliest arrival is on top; equal arrivals keep the order of their lines.
  static bool later(const Waiting& a, const Waiting& b) {
    if (a.record.queued != b.record.queued) return a.record.queued > b.record.queued;
    return a.line > b.line;
  }

  Status read_line() {
    const Expected<std::optional<std::string_view>> line = lines_.next();
    if (!line) return line.error();
    if (!*line) {
      ended_ = true;
      return {};
    }
    ++lines_read_;
    const Expected<nlohmann::json> object = parse_json_object(**line, lines_.name(), lines_.number());
    if (!object) return object.error();
    const JsonFields fields(*object, lines_.where());
    VllmRunRecord record;
    if (fields.has("request_id")) {
      Expected<std::string> id = fields.text("request_id", "a string");
      if (!id) return id.error();
      record.id = std::move(*id);
    }
    const Expected<std::int64_t> prompt = fields.whole("input_toks", 1, max_request_tokens);
    if (!prompt) return prompt.error();
    const Expected<std::int64_t> output = fields.whole("output_toks", 1, max_request_tokens);
    if (!output) return output.error();
    record.prompt = Tokens{*prompt};
    record.output = Tokens{*output};
    const struct {
      const char* name;
      Seconds* time;
    } times[] = {{"queued_ts", &record.queued},
                 {"scheduled_ts", &record.scheduled},
                 {"first_token_ts", &record.first_token},
                 {"last_token_ts", &record.last_token}};
    Seconds before{0};
    const char* before_name = "zero";
    for (const auto& time : times) {
      const Expected<double> value = fields.number(time.name, 0.0, 1e12, "seconds, 0 or more");
      if (!value) return value.error();
      *time.time = Seconds{*value};
      if (*time.time < before) {
        return Error{ErrorCode::bad_input, lines_.where(), std::string{time.name} + " is before " + before_name,
                     "queued_ts <= scheduled_ts <= first_token_ts <= last_token_ts"};
      }
      before = *time.time;
      before_name = time.name;
    }
    if (fields.has("max_tokens")) {
      const Expected<std::int64_t> bound = fields.whole("max_tokens", 1, max_request_tokens);
      if (!bound) return bound.error();
      record.bound = Tokens{*bound};
    }
    if (fields.has("session")) {
      const Expected<std::int64_t> session = fields.whole("session", 1, std::numeric_limits<std::uint32_t>::max());
      if (!session) return session.error();
      const Expected<std::int64_t> turn = fields.whole("turn", 0, std::numeric_limits<std::int32_t>::max());
      if (!turn) return turn.error();
      record.session = static_cast<std::uint32_t>(*session);
      record.turn = static_cast<std::int32_t>(*turn);
    }
    const Expected<Slo> slo = read_slo(fields);
    if (!slo) return slo.error();
    record.slo = *slo;
    const Expected<Slo> given = read_slo(fields, "engine_slo_ttft_s", "engine_slo_tbt_s");
    if (!given) return given.error();
    record.engine_slo = {std::min(record.slo.ttft, given->ttft), std::min(record.slo.tbt, given->tbt)};
    waiting_.push_back({std::move(record), lines_.number()});
    std::push_heap(waiting_.begin(), waiting_.end(), later);
    return {};
  }

  LineReader lines_;
  std::vector<Waiting> waiting_;
  detail::ArrivalClock clock_;
  std::int64_t lines_read_ = 0;
  Seconds arrival_{0}; // arrival of the last record
  bool ended_ = false;
};

static_assert(TraceReader<VllmRunReader>);

/// Reads a whole recorded run, in order of arrival, to compare runs request by request. Recorded runs fit in memory.
inline Expected<std::vector<VllmRunRecord>> read_vllm_run(const std::string& path) {
  Expected<VllmRunReader> reader = VllmRunReader::open(path);
  if (!reader) return reader.error();
  std::vector<VllmRunRecord> records;
  for (;;) {
    Expected<std::optional<VllmRunRecord>> record = reader->next_record();
    if (!record) return record.error();
    if (!*record) return records;
    records.push_back(std::move(**record));
  }
}

} // namespace sluice
