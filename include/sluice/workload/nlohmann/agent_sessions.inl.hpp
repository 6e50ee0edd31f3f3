// SPDX-License-Identifier: Apache-2.0
// AgentSessionsReader: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/nlohmann/agent_sessions.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

namespace sluice {

SLUICE_READERS_INLINE Expected<AgentSessionsReader> AgentSessionsReader::open(const std::string& path) {
  AgentSessionsReader reader;
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) {
    reader.files_.push_back(path);
    // Only a session per line has an object on its first line.
    Expected<LineReader> lines = LineReader::open(path);
    if (!lines) return lines.error();
    if (const auto first = lines->next(); first && *first && nlohmann::json::accept(**first))
      reader.lines_ = *LineReader::open(path);
  } else {
    for (std::filesystem::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed))
      if (at->path().extension() == ".json") reader.files_.push_back(at->path().string());
    if (failed) return Error{ErrorCode::not_found, path, "the folder cannot be read", "a readable folder"};
    if (reader.files_.empty())
      return Error{ErrorCode::bad_input, path, "the folder has no .json file", "one file per session"};
    std::sort(reader.files_.begin(), reader.files_.end());
  }
  if (Status status = reader.read_session(); !status) return status.error();
  return reader;
}

SLUICE_READERS_INLINE Expected<AgentSessionsReader> AgentSessionsReader::from_text(const std::string& text,
                                                                                   const std::string& name) {
  const Expected<nlohmann::json> file = parse_json_object(text, name);
  if (!file) return file.error();
  AgentSessionsReader reader;
  reader.files_.push_back(name);
  if (Status status = reader.read_session(*file, name); !status) return status.error();
  return reader;
}

SLUICE_READERS_INLINE Expected<std::optional<RequestSpec>> AgentSessionsReader::next() {
  if (turn_ == turns_.size()) {
    if (Status status = read_session(); !status) return status.error();
    if (ended_) return std::optional<RequestSpec>{};
  }
  return std::optional{turns_[turn_++].spec};
}

SLUICE_READERS_INLINE Status AgentSessionsReader::read_session() {
  if (lines_) {
    const Expected<std::optional<std::string_view>> line = lines_->next();
    if (!line) return line.error();
    ended_ = !*line;
    if (ended_) return {};
    const Expected<nlohmann::json> session = parse_json_line(**line, lines_->name(), lines_->number());
    return session ? read_session(*session, lines_->where()) : session.error();
  }
  ended_ = session_ == files_.size();
  if (ended_) return {};
  const std::string& path = files_[session_];
  const Expected<nlohmann::json> file = read_json_object(path, longest_file);
  return file ? read_session(*file, path) : file.error();
}

SLUICE_READERS_INLINE Status AgentSessionsReader::read_session(const nlohmann::json& file, const std::string& path) {
  const JsonFields fields(file, path);
  const Expected<std::int64_t> block = fields.whole("block_size", 1, max_request_tokens);
  if (!block) return block.error();
  const auto requests = file.find("requests");
  if (requests == file.end() || !requests->is_array() || requests->empty())
    return Error{ErrorCode::bad_input, path, "there are no requests", "a list `requests` with at least one"};
  struct Entry {
    const nlohmann::json* request;
    std::string where;
    double t;
    double from; ///< when its subagent starts; 0 for the session's own
  };
  std::vector<Entry> entries;
  bool nested = false;
  const auto add = [&](const nlohmann::json& request, std::string where, double from) -> Status {
    if (!request.is_object()) return Error{ErrorCode::bad_input, where, "this is no object", "{\"t\":…}"};
    const Expected<double> t = JsonFields(request, where).number("t", 0.0, 1e9, "seconds, 0 or more");
    if (!t) return t.error();
    entries.push_back({&request, std::move(where), *t, from});
    return {};
  };
  for (std::size_t i = 0; i < requests->size(); ++i) {
    if (Status added = add((*requests)[i], path + ": request " + std::to_string(i + 1), 0); !added) return added;
    const auto inner = (*requests)[i].find("requests");
    if (inner == (*requests)[i].end() || !inner->is_array()) continue;
    const Entry subagent = std::move(entries.back());
    entries.pop_back();
    nested = true;
    for (std::size_t j = 0; j < inner->size(); ++j)
      if (Status added = add((*inner)[j], subagent.where + "." + std::to_string(j + 1), subagent.t); !added)
        return added;
  }
  if (entries.empty())
    return Error{ErrorCode::bad_input, path, "there are no requests", "a list `requests` with at least one"};
  if (nested) {
    // A session's times are of one kind. A request before its subagent's start shows that they count from there.
    if (std::any_of(entries.begin(), entries.end(), [](const Entry& one) { return one.t < one.from; }))
      for (Entry& one : entries) one.t += one.from;
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.t < b.t; });
  }
  const Seconds start = between * static_cast<double>(session_);
  ++session_;
  turns_.clear();
  turn_ = 0;
  double first = 0, before = 0, answered = 0;
  for (const auto& [request, where, t, from] : entries) {
    const JsonFields of(*request, where);
    const Expected<std::int64_t> prompt = of.whole("in", 1, max_request_tokens);
    if (!prompt) return prompt.error();
    const Expected<std::int64_t> output = of.whole("out", 0, max_request_tokens);
    if (!output) return output.error();
    double took = 0;
    if (of.has("api_time")) {
      const Expected<double> time = of.number("api_time", 0.0, 1e9, "seconds, 0 or more");
      if (!time) return time.error();
      took = *time;
    }
    if (turns_.empty()) first = before = t;
    if (t < before)
      return Error{ErrorCode::bad_input, where, "it starts before the one above it", "requests in order of `t`"};
    before = t;
    Turn turn;
    turn.spec.arrival = start + Seconds{t - first};
    turn.spec.prompt = Tokens{*prompt};
    turn.spec.output = Tokens{std::max<std::int64_t>(1, *output)}; // an aborted answer without tokens counts as one
                                                                   // token
    turn.spec.session = static_cast<std::uint32_t>(session_);
    turn.spec.turn = static_cast<std::int32_t>(turns_.size());
    turn.spec.follows = !turns_.empty();
    if (turn.spec.follows) turn.spec.delay = std::clamp(Seconds{t - answered}, Seconds{0}, longest_delay);
    answered = t + took;
    const HashedPrompt hashed{Tokens{*block}, turn.spec.prompt, static_cast<std::uint64_t>(session_)};
    if (Status status = read_hash_ids(*request, hashed, where, turn.content); !status) return status.error();
    turns_.push_back(std::move(turn));
  }
  for (std::size_t i = 0; i + 1 < turns_.size(); ++i) {
    Turn& turn = turns_[i];
    add_answer(turn.content, turn.spec.prompt + turn.spec.output, turns_[i + 1].content);
  }
  return {};
}

} // namespace sluice
