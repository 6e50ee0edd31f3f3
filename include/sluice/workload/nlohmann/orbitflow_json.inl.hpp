// SPDX-License-Identifier: Apache-2.0
// OrbitFlowReader: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/nlohmann/orbitflow_json.hpp"
#include "sluice/workload/trace_file.hpp"

#include <cmath>
#include <cstdint>
#include <utility>

namespace sluice {

SLUICE_READERS_INLINE Expected<OrbitFlowReader> OrbitFlowReader::from_stream(std::unique_ptr<std::istream> stream,
                                                                             std::string name, Seconds step) {
  if (!(step.count() > 0.0 && std::isfinite(step.count()))) {
    return Error{ErrorCode::bad_input, name, "the step time is " + std::to_string(step.count()) + " s",
                 "a positive number of seconds (arrivals here count engine steps)"};
  }
  OrbitFlowReader reader(std::move(stream), std::move(name), step);
  if (Status status = reader.read_header(); !status) return status.error();
  if (Status status = reader.find_requests(); !status) return status.error();
  return reader;
}

SLUICE_READERS_INLINE Expected<OrbitFlowReader> OrbitFlowReader::open(const std::string& path, Seconds step) {
  Expected<std::unique_ptr<std::istream>> file = open_trace_file(path);
  if (!file) return file.error();
  return from_stream(std::move(*file), path, step);
}

SLUICE_READERS_INLINE Expected<std::optional<RequestSpec>> OrbitFlowReader::next() {
  std::string key;
  const Expected<bool> more = members_.next(key);
  if (!more) return more.error();
  if (!*more) return std::optional<RequestSpec>{};
  const Expected<nlohmann::json> value = members_.value();
  if (!value) return value.error();
  const std::string where = members_.where();
  if (!value->is_object()) {
    return Error{ErrorCode::bad_input, where, excerpt(key) + " is a JSON " + value->type_name(), "an object"};
  }
  const JsonFields fields(*value, where);
  const Expected<std::int64_t> prompt = fields.whole("input_length", 1, max_request_tokens);
  if (!prompt) return prompt.error();
  const Expected<std::int64_t> output = fields.whole("output_length", 1, max_request_tokens);
  if (!output) return output.error();
  const Expected<double> steps = fields.number("arrival_time", 0.0, 1e12, "engine steps, 0 or more");
  if (!steps) return steps.error();
  const Expected<Seconds> arrival = clock_.arrival(*steps * step_.count(), where);
  if (!arrival) return arrival.error();
  return std::optional{RequestSpec{*arrival, Tokens{*prompt}, Tokens{*output}, {}}};
}

SLUICE_READERS_INLINE OrbitFlowReader::OrbitFlowReader(std::unique_ptr<std::istream> stream, std::string name,
                                                       Seconds step)
    : stream_(std::move(stream)), members_(*stream_, std::move(name)), step_(step) {}

SLUICE_READERS_INLINE Status OrbitFlowReader::read_header() {
  JsonMembers members = members_;
  if (Status status = members.enter(); !status) return status;
  nlohmann::json header = nlohmann::json::object();
  bool found = false;
  for (std::string key;;) {
    const Expected<bool> more = members.next(key);
    if (!more) return more.error();
    if (!*more) break;
    if (key == "requests") {
      if (found) return Error{ErrorCode::bad_input, members.where(), "requests appears twice", "one object of them"};
      found = true;
      if (Status status = count_requests(members); !status) return status;
    } else if (key == "batch_size" || key == "max_model_len" || key == "num_gpu_blocks_override" ||
               key == "peak_batch_blocks") {
      Expected<nlohmann::json> value = members.value();
      if (!value) return value.error();
      header[key] = std::move(*value);
    } else if (Status status = members.skip(); !status) {
      return status;
    }
  }
  if (Status status = members.end(); !status) return status;
  const std::string& name = members_.name();
  if (!found) return Error{ErrorCode::bad_input, name, "requests is missing", "an object of requests"};
  if (header_.requests == 0) {
    return Error{ErrorCode::bad_input, name, "the trace holds no request", "at least one request"};
  }
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const JsonFields fields(header, name);
  const Expected<std::int64_t> batch = fields.whole("batch_size", 1, 1 << 20);
  if (!batch) return batch.error();
  const Expected<std::int64_t> length = fields.whole("max_model_len", 1, most);
  if (!length) return length.error();
  const Expected<std::int64_t> budget = fields.whole("num_gpu_blocks_override", 1, most);
  if (!budget) return budget.error();
  const Expected<std::int64_t> peak = fields.whole("peak_batch_blocks", 1, most);
  if (!peak) return peak.error();
  header_.batch_size = *batch;
  header_.max_model_len = Tokens{*length};
  header_.budget = TokenBlocks{*budget};
  header_.peak_batch_blocks = TokenBlocks{*peak};
  return {};
}

SLUICE_READERS_INLINE Status OrbitFlowReader::count_requests(JsonMembers& members) {
  if (Status status = members.enter(); !status) return status;
  for (std::string key;;) {
    const Expected<bool> more = members.next(key);
    if (!more) return more.error();
    if (!*more) return {};
    if (Status status = members.skip(); !status) return status;
    ++header_.requests;
  }
}

SLUICE_READERS_INLINE Status OrbitFlowReader::find_requests() {
  stream_->clear();
  stream_->seekg(0);
  if (!*stream_) {
    return Error{ErrorCode::bad_input, members_.name(), "the file cannot be read twice", "a file, not a pipe"};
  }
  if (Status status = members_.enter(); !status) return status;
  for (std::string key;;) {
    const Expected<bool> more = members_.next(key);
    if (!more) return more.error();
    if (!*more) return Error{ErrorCode::bad_input, members_.name(), "requests is missing", "an unchanged file"};
    if (key == "requests") return members_.enter();
    if (Status status = members_.skip(); !status) return status;
  }
}

SLUICE_READERS_INLINE Expected<OrbitFlowHeader> read_orbitflow_header(const std::string& path) {
  const Expected<OrbitFlowReader> reader = OrbitFlowReader::open(path, Seconds{1.0});
  if (!reader) return reader.error();
  return reader->header();
}

} // namespace sluice
