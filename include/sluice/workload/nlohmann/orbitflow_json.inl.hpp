// SPDX-License-Identifier: Apache-2.0
// OrbitFlowReader: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/orbitflow_json.hpp"
#include "sluice/workload/nlohmann/trace_kinds.hpp"

#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

namespace sluice {

SLUICE_READERS_INLINE Status JsonMembers::enter(const char* otherwise) {
  if (skip_blanks() != '{') return broken(otherwise, "{");
  take();
  first_ = true;
  return {};
}

SLUICE_READERS_INLINE Expected<bool> JsonMembers::next(std::string& key) {
  int character = skip_blanks();
  if (character == '}') {
    take();
    first_ = false; // the object was a member of its parent
    return false;
  }
  if (!first_) {
    if (character != ',') return broken("this is not JSON", "a comma or }");
    take();
    character = skip_blanks();
  }
  first_ = false;
  if (character != '"') return broken("this is not JSON", "a key in quotes");
  std::string text;
  if (Status status = copy_string(&text); !status) return status.error();
  const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  if (!parsed.is_string()) return broken("this is no valid key", "a key in quotes");
  key = parsed.get<std::string>();
  if (skip_blanks() != ':') return broken("this is not JSON", "a colon");
  take();
  skip_blanks();
  value_line_ = line_;
  return true;
}

SLUICE_READERS_INLINE Expected<nlohmann::json> JsonMembers::value() {
  std::string text;
  if (Status status = copy_value(&text); !status) return status.error();
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  if (parsed.is_discarded()) {
    return Error{ErrorCode::bad_input, where(), "this is not JSON: " + excerpt(text), "a JSON value"};
  }
  return parsed;
}

SLUICE_READERS_INLINE Status JsonMembers::end() {
  if (skip_blanks() == eof) return {};
  return broken("there is text behind the object", "the end of the file");
}

SLUICE_READERS_INLINE int JsonMembers::take() {
  const int character = stream_->get();
  line_ += character == '\n';
  return character;
}

SLUICE_READERS_INLINE int JsonMembers::skip_blanks() {
  for (;;) {
    const int character = stream_->peek();
    if (character != ' ' && character != '\t' && character != '\n' && character != '\r') return character;
    take();
  }
}

SLUICE_READERS_INLINE Error JsonMembers::broken(const char* what, const char* expected) {
  const bool truncated = stream_->peek() == eof;
  return Error{ErrorCode::bad_input, name_ + ":" + std::to_string(line_), truncated ? "the JSON ends too early" : what,
               expected};
}

SLUICE_READERS_INLINE Status JsonMembers::append(std::string* text, int character) {
  if (text == nullptr) return {};
  if (text->size() >= longest_value) return broken("the value is longer than 1 MiB", "a value of one request");
  *text += static_cast<char>(character);
  return {};
}

SLUICE_READERS_INLINE Status JsonMembers::copy_string(std::string* text) {
  bool escaped = false;
  for (bool open = false;;) {
    const int character = stream_->peek();
    if (character == eof || character == '\n') return broken("the string does not end on its line", "a quote");
    take();
    if (Status status = append(text, character); !status) return status;
    if (escaped) {
      escaped = false;
    } else if (character == '\\') {
      escaped = true;
    } else if (character == '"') {
      if (open) return {};
      open = true;
    }
  }
}

SLUICE_READERS_INLINE Status JsonMembers::copy_value(std::string* text) {
  const int first = stream_->peek();
  if (first == '"') return copy_string(text);
  if (first == '{' || first == '[') return copy_brackets(text);
  return copy_plain(text);
}

SLUICE_READERS_INLINE Status JsonMembers::copy_plain(std::string* text) {
  for (bool any = false;; any = true) {
    const int character = stream_->peek();
    if (character == eof) return broken("the value does not end", "a complete JSON value");
    if (std::string_view{" \t\r\n,}]"}.find(static_cast<char>(character)) != std::string_view::npos) {
      if (any) return {};
      return broken("there is no value", "a JSON value");
    }
    take();
    if (Status status = append(text, character); !status) return status;
  }
}

SLUICE_READERS_INLINE Status JsonMembers::copy_brackets(std::string* text) {
  std::string open;
  do {
    const int character = stream_->peek();
    if (character == '"') {
      if (Status status = copy_string(text); !status) return status;
      continue;
    }
    if (character == eof) return broken("the value does not end", "a complete JSON value");
    if (character == '}' || character == ']') {
      if (open.back() != (character == '}' ? '{' : '[')) {
        return broken("the brackets do not match", open.back() == '{' ? "}" : "]");
      }
      open.pop_back();
    } else if (character == '{' || character == '[') {
      if (open.size() >= deepest) return broken("the value is nested too deep", "at most 64 levels");
      open += static_cast<char>(character);
    }
    take();
    if (Status status = append(text, character); !status) return status;
  } while (!open.empty());
  return {};
}

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
  if (Status text = check_is_text(path); !text) return text.error();
  Expected<std::unique_ptr<std::istream>> file = open_trace_file(path);
  if (!file) return file.error();
  return from_stream(std::move(*file), path, step);
}

SLUICE_READERS_INLINE Expected<std::optional<RequestSpec>> OrbitFlowReader::next() {
  for (std::string key;;) {
    const Expected<bool> more = members_.next(key);
    if (!more) return more.error();
    if (!*more) {
      if (failed_ == header_.requests) return detail::no_request(members_.name(), failed_);
      return std::optional<RequestSpec>{};
    }
    Expected<std::optional<RequestSpec>> request = read(key);
    if (!request || *request) return request;
    ++failed_;
  }
}

SLUICE_READERS_INLINE Expected<std::optional<RequestSpec>> OrbitFlowReader::read(const std::string& key) {
  const Expected<nlohmann::json> value = members_.value();
  if (!value) return value.error();
  const std::string where = members_.where();
  if (!value->is_object()) {
    return Error{ErrorCode::bad_input, where, excerpt(key) + " is a JSON " + value->type_name(), "an object"};
  }
  const JsonFields fields(*value, where);
  const Expected<std::int64_t> prompt = fields.whole("input_length", 0, max_request_tokens);
  if (!prompt) return prompt.error();
  const Expected<std::int64_t> output = fields.whole("output_length", 0, max_request_tokens);
  if (!output) return output.error();
  if (*prompt == 0 || *output == 0) return std::optional<RequestSpec>{};
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
  if (Status status = members.enter("requests is no object, as in OrbitFlow's traces"); !status) return status;
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
