// SPDX-License-Identifier: Apache-2.0
// WholeTrace: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/workload/csv.hpp"
#include "sluice/workload/nlohmann/jsonl_reader.hpp"
#include "sluice/workload/nlohmann/whole_trace.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace sluice {

SLUICE_READERS_INLINE void WholeTrace::add(const std::string& session, Turn turn) {
  std::size_t number = sessions_.size();
  if (!session.empty()) number = numbers_.try_emplace(session, number).first->second;
  if (number == sessions_.size()) sessions_.emplace_back();
  turn.spec.session = session.empty() ? 0 : 1;
  sessions_[number].push_back(std::move(turn));
}

SLUICE_READERS_INLINE void WholeTrace::leave_out_failed() {
  std::int64_t failed = 0;
  for (std::vector<Turn>& session : sessions_) {
    std::optional<Seconds> waited{0}; // the delay of failed turns, which is part of the next turn's
    std::size_t kept = 0;
    for (Turn& turn : session) {
      const bool left_out = turn.spec.prompt.count() == 0 || turn.spec.output.count() == 0;
      if (turn.delay) turn.delay = waited ? std::optional{*waited + *turn.delay} : std::nullopt;
      waited = left_out ? turn.delay : Seconds{0};
      failed += left_out ? 1 : 0;
      if (left_out) continue;
      if (&session[kept] != &turn) session[kept] = std::move(turn);
      ++kept;
    }
    session.resize(kept);
  }
  std::erase_if(sessions_, [](const std::vector<Turn>& session) { return session.empty(); });
  if (failed > 0) remark = detail::failed_text(failed);
}

SLUICE_READERS_INLINE Status WholeTrace::complete(const std::string& path) {
  leave_out_failed();
  if (sessions_.empty())
    return Error{ErrorCode::bad_input, path, "the trace holds no request" + (remark.empty() ? "" : ", " + remark),
                 "at least one request"};
  std::stable_sort(sessions_.begin(), sessions_.end(),
                   [](const auto& a, const auto& b) { return a.front().spec.arrival < b.front().spec.arrival; });
  const Seconds start = sessions_.front().front().spec.arrival;
  std::uint32_t number = 0;
  for (std::vector<Turn>& session : sessions_) {
    if (session.front().spec.session != 0) ++number;
    for (std::size_t i = 0; i < session.size(); ++i) {
      RequestSpec& spec = session[i].spec;
      spec.arrival = spec.arrival - start;
      if (spec.session == 0) continue;
      spec.session = number;
      spec.turn = static_cast<std::int32_t>(i);
      if (i == 0) continue;
      const Turn& before = session[i - 1];
      spec.follows = true;
      const Seconds since = before.answered ? *before.answered - start : before.spec.arrival;
      spec.delay = session[i].delay.value_or(std::max(Seconds{0}, spec.arrival - since));
      Tokens known{0};
      for (const ContentPiece& piece : before.content) known += piece.tokens;
      if (known <= before.spec.prompt) // the file does not say what the answer was
        add_answer(session[i - 1].content, before.spec.prompt + before.spec.output, session[i].content);
    }
    std::move(session.begin(), session.end(), std::back_inserter(turns_));
  }
  sessions_.clear();
  return {};
}

SLUICE_READERS_INLINE Expected<std::optional<RequestSpec>> WholeTrace::next() {
  if (next_ == turns_.size()) return std::optional<RequestSpec>{};
  return std::optional{turns_[next_++].spec};
}

} // namespace sluice

namespace sluice::detail {

/// Reads what a request of every format has.
inline Expected<WholeTrace::Turn> read_turn(const nlohmann::json& object, const JsonFields& fields,
                                            const char* prompt_name, const char* output_name, bool in_session) {
  const Expected<std::int64_t> prompt = read_tokens(fields, prompt_name);
  if (!prompt) return prompt.error();
  const Expected<std::int64_t> output = read_tokens(fields, output_name);
  if (!output) return output.error();
  const Expected<Slo> slo = read_slo(fields);
  if (!slo) return slo.error();
  const Expected<std::int32_t> priority = read_priority(fields);
  if (!priority) return priority.error();
  const Expected<SessionHints> hints = read_hints(object, fields.where(), in_session);
  if (!hints) return hints.error();
  WholeTrace::Turn turn; // of 0 tokens, if the request failed
  turn.spec = RequestSpec{Seconds{0}, Tokens{*prompt}, Tokens{*output}, *slo};
  turn.spec.priority = *priority;
  turn.spec.hints = *hints;
  return turn;
}

/// Reads what a line of Bailian's and of AIPerf's traces have in common.
inline Expected<WholeTrace::Turn> read_hashed_turn(const nlohmann::json& object, const JsonFields& fields,
                                                   Tokens block) {
  Expected<WholeTrace::Turn> turn = read_turn(object, fields, "input_length", "output_length", true);
  if (!turn || turn->spec.prompt.count() == 0) return turn;
  const HashedPrompt hashed{.block = block, .prompt = turn->spec.prompt, .salt = 0};
  if (Status read = read_hash_ids(object, hashed, fields.where(), turn->content); !read) return read.error();
  return turn;
}

/// Reads a request of LLMServingSim's data sets. An answer's ids are content only behind those of its prompt.
inline Expected<WholeTrace::Turn> read_token_turn(const nlohmann::json& object, const JsonFields& fields,
                                                  bool in_session) {
  Expected<WholeTrace::Turn> turn = read_turn(object, fields, "input_toks", "output_toks", in_session);
  if (!turn || !fields.has("input_tok_ids") || turn->spec.prompt.count() == 0) return turn;
  for (const auto& [name, tokens] :
       {std::pair{"input_tok_ids", turn->spec.prompt}, {"output_tok_ids", turn->spec.output}})
    if (fields.has(name))
      if (Status read = sluice::read_token_ids(object, name, tokens, fields.where(), turn->content); !read)
        return read.error();
  return turn;
}

/// A text or a whole number, as text; empty if the field is missing or -1.
inline Expected<std::string> read_key(const nlohmann::json& object, const char* name, const std::string& where) {
  const auto field = object.find(name);
  if (field == object.end() || field->is_null() || *field == -1) return std::string{};
  if (field->is_string()) return field->get<std::string>();
  if (field->is_number_integer()) return field->dump();
  return Error{ErrorCode::bad_input, where, std::string{name} + " is a JSON " + field->type_name(),
               "a number or a text"};
}

/// Calls `line(object, fields)` for each line of JSON.
template <class Line>
Status for_each_object(LineReader& lines, Line line) {
  for (;;) {
    const Expected<std::optional<std::string_view>> text = lines.next();
    if (!text) return text.error();
    if (!*text) return {};
    const Expected<nlohmann::json> object = parse_json_line(**text, lines.name(), lines.number());
    if (!object) return object.error();
    if (Status read = line(*object, JsonFields(*object, lines.where())); !read) return read;
  }
}

inline Error out_of_order(const std::string& where, const char* what) {
  return {ErrorCode::bad_input, where, std::string{"it arrives before the "} + what,
          "requests in the order of arrival"};
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE Expected<WholeTrace> read_bailian(LineReader lines, Tokens block) {
  struct Chat {
    WholeTrace::Turn turn;
    std::string id, parent;
    std::int64_t line;
    std::size_t root = SIZE_MAX; ///< index of the chat that begins the session
    std::size_t depth = 0;       ///< chats between them
  };
  std::vector<Chat> all;
  std::map<std::string, std::size_t> numbers; // of the chats that are in the file
  const Status read =
      detail::for_each_object(lines, [&](const nlohmann::json& object, const JsonFields& fields) -> Status {
        const Expected<double> seconds = fields.number("timestamp", 0, 1e12, "seconds, 0 or more");
        if (!seconds) return seconds.error();
        Expected<WholeTrace::Turn> turn = detail::read_hashed_turn(object, fields, block);
        if (!turn) return turn.error();
        turn->spec.arrival = Seconds{*seconds};
        const Expected<std::string> chat = detail::read_key(object, "chat_id", fields.where());
        if (!chat) return chat.error();
        if (chat->empty()) return fields.missing("chat_id", "a number or a text");
        const Expected<std::string> parent = detail::read_key(object, "parent_chat_id", fields.where());
        if (!parent) return parent.error();
        if (!numbers.try_emplace(*chat, all.size()).second)
          return Error{ErrorCode::bad_input, fields.where(), "chat_id " + excerpt(*chat) + " is there twice", "once"};
        all.push_back({*std::move(turn), *chat, *parent, lines.number()});
        return {};
      });
  if (!read) return read.error();
  const auto wrong = [&](const Chat& chat, const std::string& what, const std::string& expected) {
    return Error{ErrorCode::bad_input, lines.name() + ":" + std::to_string(chat.line), what, expected};
  };
  std::vector<std::size_t> path; // from a chat towards its session's first
  for (std::size_t begin = 0; begin < all.size(); ++begin) {
    std::size_t at = begin;
    for (path.clear(); all[at].root == SIZE_MAX; path.push_back(at), at = numbers.find(all[at].parent)->second) {
      Chat& chat = all[at];
      const auto parent = chat.parent.empty() ? numbers.end() : numbers.find(chat.parent);
      if (parent == numbers.end()) {
        chat.root = at;
        break;
      }
      const std::string name = "chat_id " + excerpt(chat.id);
      if (parent->second == at) return wrong(chat, name + " is its own parent", "an earlier chat, or -1");
      if (path.size() == all.size()) return wrong(chat, name + " descends from itself", "an earlier chat, or -1");
      if (all[parent->second].turn.spec.arrival > chat.turn.spec.arrival)
        return wrong(chat, "it arrives before its parent, chat_id " + excerpt(chat.parent),
                     "a timestamp of at least the parent's, in line " + std::to_string(all[parent->second].line));
    }
    for (; !path.empty(); at = path.back(), path.pop_back()) {
      all[path.back()].root = all[at].root;
      all[path.back()].depth = all[at].depth + 1;
    }
  }
  std::vector<std::string> roots;
  for (const Chat& chat : all) roots.push_back(all[chat.root].id);
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair{all[a].turn.spec.arrival, all[a].depth} < std::pair{all[b].turn.spec.arrival, all[b].depth};
  });
  WholeTrace trace;
  for (const std::size_t chat : order) trace.add(roots[chat], std::move(all[chat].turn));
  if (Status complete = trace.complete(lines.name()); !complete) return complete.error();
  return trace;
}

SLUICE_READERS_INLINE Expected<WholeTrace> read_token_ids(LineReader lines) {
  WholeTrace trace;
  std::set<std::string> sessions;
  const Status read =
      detail::for_each_object(lines, [&](const nlohmann::json& object, const JsonFields& fields) -> Status {
        const Expected<double> arrival = fields.number("arrival_time_ns", 0, 1e21, "nanoseconds, 0 or more");
        if (!arrival) return arrival.error();
        const auto add = [&](const nlohmann::json& request, const std::string& where, const std::string& session,
                             std::optional<Seconds> delay) -> Status {
          const JsonFields of(request, where);
          Expected<WholeTrace::Turn> turn = detail::read_token_turn(request, of, !session.empty());
          if (!turn) return turn.error();
          turn->spec.arrival = Seconds{*arrival * 1e-9} + delay.value_or(Seconds{0}); // a later turn's at the earliest
          turn->delay = delay;
          trace.add(session, *std::move(turn));
          return {};
        };
        const auto parts = object.find("sub_requests");
        if (parts == object.end()) return add(object, fields.where(), {}, std::nullopt);
        if (!parts->is_array())
          return Error{ErrorCode::bad_input, fields.where(), "sub_requests is no list", "a list of requests"};
        const Expected<std::string> id = detail::read_key(object, "session_id", fields.where());
        if (!id) return id.error();
        const std::string session = id->empty() ? "line " + std::to_string(lines.number()) : *id;
        if (!sessions.insert(session).second)
          return Error{ErrorCode::bad_input, fields.where(), "session_id " + excerpt(session) + " is there twice",
                       "once, with all its sub_requests"};
        std::optional<Seconds> delay;
        for (std::size_t i = 0; i < parts->size(); ++i) {
          const std::string where = fields.where() + ": sub_request " + std::to_string(i + 1);
          const nlohmann::json& part = (*parts)[i];
          if (!part.is_object())
            return Error{ErrorCode::bad_input, where, "this is no object", "input_toks and output_toks"};
          if (Status added = add(part, where, session, delay); !added) return added;
          const JsonFields of(part, where);
          delay = Seconds{0};
          if (!of.has("tool_duration_ns")) continue;
          const Expected<double> tool = of.number("tool_duration_ns", 0, 1e18, "nanoseconds, 0 or more");
          if (!tool) return tool.error();
          delay = Seconds{*tool * 1e-9};
        }
        return {};
      });
  if (!read) return read.error();
  if (Status complete = trace.complete(lines.name()); !complete) return complete.error();
  return trace;
}

SLUICE_READERS_INLINE Expected<WholeTrace> read_aiperf_sessions(LineReader lines, Tokens block) {
  WholeTrace trace;
  std::map<std::string, Seconds> last; // arrival of a session's last request
  const Status read =
      detail::for_each_object(lines, [&](const nlohmann::json& object, const JsonFields& fields) -> Status {
        Expected<WholeTrace::Turn> turn = detail::read_hashed_turn(object, fields, block);
        if (!turn) return turn.error();
        const Expected<std::string> session = detail::read_key(object, "session_id", fields.where());
        if (!session) return session.error();
        const auto before = session->empty() ? last.end() : last.find(*session);
        if (fields.has("delay")) {
          const Expected<double> delay = fields.number("delay", 0, 1e15, "milliseconds, 0 or more");
          if (!delay) return delay.error();
          if (before == last.end())
            return Error{ErrorCode::bad_input, fields.where(), "delay belongs to a session's first request",
                         "timestamp, in milliseconds"};
          if (fields.has("timestamp"))
            return Error{ErrorCode::bad_input, fields.where(), "it has both a delay and a timestamp", "one of the two"};
          turn->delay = Seconds{*delay * 1e-3};
          turn->spec.arrival = before->second + *turn->delay; // at the earliest
        } else {
          const Expected<double> time = fields.number("timestamp", 0, 1e15, "milliseconds, 0 or more");
          if (!time) return time.error();
          turn->spec.arrival = Seconds{*time * 1e-3};
          if (before != last.end() && turn->spec.arrival < before->second)
            return detail::out_of_order(fields.where(), "last turn of its session");
        }
        if (!session->empty()) last[*session] = turn->spec.arrival;
        trace.add(*session, *std::move(turn));
        return {};
      });
  if (!read) return read.error();
  if (Status complete = trace.complete(lines.name()); !complete) return complete.error();
  return trace;
}

SLUICE_READERS_INLINE Expected<WholeTrace> read_burstgpt(LineReader lines, std::optional<std::int64_t> limit) {
  const std::string path = lines.name();
  CsvReader reader(std::move(lines), burstgpt_columns());
  WholeTrace trace;
  for (std::int64_t count = 0; !limit || count < *limit; ++count) {
    const Expected<std::optional<RequestSpec>> spec = reader.next();
    if (!spec) return spec.error();
    if (!*spec) break;
    if (reader.has_sessions()) limit.reset(); // a session's next turn may be anywhere below
    WholeTrace::Turn turn{.spec = **spec};
    if (const std::optional<Seconds> took = reader.took()) turn.answered = turn.spec.arrival + *took;
    trace.add(reader.session(), std::move(turn));
  }
  trace.remark = detail::failed_text(reader.failed());
  if (Status complete = trace.complete(path); !complete) return complete.error();
  return trace;
}

SLUICE_READERS_INLINE Expected<WholeTrace> whole_trace(const LoadResult& result, const std::string& path) {
  WholeTrace trace;
  for (const ClientRecord& one : result.requests)
    trace.add({}, {.spec = RequestSpec{Seconds{one.due_s}, one.record.prompt, one.record.output, one.record.slo}});
  const auto remark = [&](const std::string& what) { trace.remark += (trace.remark.empty() ? "" : ", ") + what; };
  const auto left_out = [&](std::int64_t count, const char* what) {
    if (count > 0) remark(std::to_string(count) + " " + what + (count > 1 ? "s" : "") + " left out");
  };
  left_out(result.failed, "failed request");
  left_out(result.warm_up, "warm-up request");
  if (result.without_first == static_cast<std::int64_t>(result.requests.size()))
    remark("no time of a first token (no streaming)");
  else if (result.without_first > 0)
    remark(std::to_string(result.without_first) + " without a time of a first token");
  if (Status complete = trace.complete(path); !complete) return complete.error();
  return trace;
}

} // namespace sluice
