// SPDX-License-Identifier: Apache-2.0
// VllmRunReader: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"

#include <algorithm>
#include <limits>

namespace sluice {

SLUICE_READERS_INLINE Expected<VllmRunReader> VllmRunReader::open(const std::string& path) {
  Expected<LineReader> lines = LineReader::open(path);
  if (!lines) return lines.error();
  return VllmRunReader{std::move(*lines)};
}

SLUICE_READERS_INLINE Expected<std::optional<VllmRunRecord>> VllmRunReader::next_record() {
  while (!ended_ && waiting_.size() < window) {
    if (Status status = read_line(); !status) return status.error();
  }
  if (waiting_.empty()) {
    if (lines_read_ == failed_) return detail::no_request(lines_.name(), failed_);
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

SLUICE_READERS_INLINE Expected<std::optional<RequestSpec>> VllmRunReader::next() {
  const Expected<std::optional<VllmRunRecord>> record = next_record();
  if (!record) return record.error();
  if (!*record) return std::optional<RequestSpec>{};
  RequestSpec spec{arrival_, (*record)->prompt, (*record)->output, (*record)->slo};
  spec.session = (*record)->session;
  spec.turn = (*record)->turn;
  spec.priority = (*record)->priority;
  spec.hints = (*record)->hints;
  return std::optional{spec};
}

SLUICE_READERS_INLINE bool VllmRunReader::later(const Waiting& a, const Waiting& b) {
  if (a.record.queued != b.record.queued) return a.record.queued > b.record.queued;
  return a.line > b.line;
}

SLUICE_READERS_INLINE Status VllmRunReader::read_line() {
  const Expected<std::optional<std::string_view>> line = lines_.next();
  if (!line) return line.error();
  if (!*line) {
    ended_ = true;
    return {};
  }
  ++lines_read_;
  const Expected<nlohmann::json> object = parse_json_line(**line, lines_.name(), lines_.number());
  if (!object) return object.error();
  const JsonFields fields(*object, lines_.where());
  VllmRunRecord record;
  if (fields.has("request_id")) {
    Expected<std::string> id = fields.text("request_id", "a string");
    if (!id) return id.error();
    record.id = std::move(*id);
  }
  const Expected<std::int64_t> prompt = read_tokens(fields, "input_toks");
  if (!prompt) return prompt.error();
  const Expected<std::int64_t> output = read_tokens(fields, "output_toks");
  if (!output) return output.error();
  if (*prompt == 0 || *output == 0) {
    ++failed_;
    return {};
  }
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
  record.submitted = record.queued;
  if (fields.has("submitted_ts")) {
    const Expected<double> submitted =
        fields.number("submitted_ts", record.queued.count(), 1e12, "seconds, queued_ts or more");
    if (!submitted) return submitted.error();
    record.submitted = Seconds{*submitted};
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
  const Expected<std::int32_t> priority = read_priority(fields);
  if (!priority) return priority.error();
  record.priority = *priority;
  const Expected<SessionHints> hints = read_hints(*object, lines_.where(), record.session != 0);
  if (!hints) return hints.error();
  record.hints = *hints;
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

SLUICE_READERS_INLINE Expected<std::vector<VllmRunRecord>> read_vllm_run(const std::string& path) {
  Expected<VllmRunReader> reader = VllmRunReader::open(path);
  if (!reader) return reader.error();
  std::vector<VllmRunRecord> records;
  for (;;) {
    Expected<std::optional<VllmRunRecord>> record = reader->next_record();
    if (!record) return record.error();
    if (!*record) break;
    records.push_back(std::move(**record));
  }
  if (reader->failed() > 0)
    return Error{ErrorCode::bad_input, path,
                 "input_toks or output_toks is 0 in " + std::to_string(reader->failed()) +
                     (reader->failed() > 1 ? " lines" : " line"),
                 "1 token or more"};
  return records;
}

} // namespace sluice
