// SPDX-License-Identifier: Apache-2.0
// JsonlReader: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/workload/nlohmann/jsonl_reader.hpp"

#include <cstdint>

namespace sluice {

SLUICE_READERS_INLINE std::string without_python_numbers(std::string_view text, bool aligned) {
  std::string out;
  out.reserve(text.size() + 16);
  bool quoted = false;
  char before = ':'; // the last character that is no white space
  const auto ends = [text](std::size_t at) {
    return at >= text.size() || std::string_view{",]} \t\r\n"}.find(text[at]) != std::string_view::npos;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!quoted && std::string_view{":,["}.find(before) != std::string_view::npos) {
      const std::size_t sign = text.substr(i, 9) == "-Infinity" ? 1 : 0;
      const std::string_view rest = text.substr(i + sign);
      const std::size_t size = rest.starts_with("NaN") ? 3 : rest.starts_with("Infinity") ? 8 : 0;
      if (size > 0 && ends(i + sign + size)) {
        out += aligned ? (sign == 1 ? "-0." : "0.") + std::string(size - 2, '0') : "null";
        i += sign + size - 1;
        before = '0';
        continue;
      }
    }
    out += text[i];
    if (std::string_view{" \t\r\n"}.find(text[i]) == std::string_view::npos) before = text[i];
    if (quoted && text[i] == '\\' && i + 1 < text.size())
      out += text[++i];
    else if (text[i] == '"')
      quoted = !quoted;
  }
  return out;
}

SLUICE_READERS_INLINE Expected<SessionHints> read_hints(const nlohmann::json& object, const std::string& where,
                                                        bool in_session) {
  const auto field = object.find("kv_hints");
  if (field == object.end() || field->is_null()) return SessionHints{};
  const auto wrong = [&](const std::string& what, const char* expected) {
    return Error{ErrorCode::bad_input, where, "kv_hints" + what, expected};
  };
  if (!field->is_object())
    return wrong(std::string{" is a JSON "} + field->type_name(), "an object with ttl, keep, release or prefetch");
  SessionHints hints;
  const JsonFields fields(*field, where + ": kv_hints");
  for (const auto& [name, value] : field->items()) {
    if (name == "ttl" || name == "prefetch") {
      const Expected<double> seconds =
          fields.number(name.c_str(), 1e-3, longest_hint.count(), "seconds, 0.001 to 3600");
      if (!seconds) return seconds.error();
      (name == "ttl" ? hints.ttl : hints.prefetch) = Seconds{*seconds};
    } else if (name == "keep") {
      const Expected<std::int64_t> tokens = fields.whole("keep", 1, max_request_tokens);
      if (!tokens) return tokens.error();
      hints.keep = static_cast<std::int32_t>(*tokens);
    } else if (name == "release") {
      if (!value.is_boolean()) return wrong(".release is " + excerpt(value.dump()), "true or false");
      hints.release = value.get<bool>();
    } else {
      return wrong(" has '" + excerpt(name) + "'", "ttl, keep, release or prefetch");
    }
  }
  if (hints.release && (hints.ttl.count() > 0 || hints.prefetch.count() > 0))
    return wrong(" has release and a time at which the session comes back", "release, or ttl and prefetch");
  if (hints.prefetch.count() > 0 && !in_session)
    return wrong(".prefetch is of a request without a session", "a format with sessions, or ttl");
  return hints;
}

SLUICE_READERS_INLINE void add_answer(std::vector<ContentPiece>& content, Tokens context,
                                      std::span<const ContentPiece> next) {
  std::size_t same = 0;
  while (same < content.size() && same < next.size() && content[same] == next[same]) ++same;
  // The last piece of the prompt may be only a part of the next prompt's.
  if (content.empty() || same + 1 < content.size()) return;
  content.resize(same);
  Tokens left = context;
  for (const ContentPiece& piece : content) left -= piece.tokens;
  for (; same < next.size() && left.count() > 0; ++same) {
    content.push_back({next[same].id, std::min(left, next[same].tokens)});
    left -= content.back().tokens;
  }
}

SLUICE_READERS_INLINE Status MooncakeFormat::read_content(const nlohmann::json& object, Tokens prompt, Tokens,
                                                          const std::string& where,
                                                          std::vector<ContentPiece>& content) const {
  for (const auto& [field, format] : {std::pair{"chat_id", "bailian"}, {"session_id", "aiperf"}, {"delay", "aiperf"}})
    if (object.contains(field))
      return Error{ErrorCode::bad_input, where,
                   std::string{"it has "} + field + ", which is no field of Mooncake's traces",
                   std::string{"--format "} + format + ", or a line without it"};
  return read_hash_ids(object, {.block = block, .prompt = prompt, .salt = 0}, where, content);
}

SLUICE_READERS_INLINE void MooncakeFormat::set_unit(int decimals) {
  names.unit = decimals == 0   ? "seconds"
               : decimals == 3 ? "milliseconds"
               : decimals == 6 ? "microseconds"
                               : "nanoseconds";
  names.units_in_second = decimals == 0 ? 1 : decimals == 3 ? 1e3 : decimals == 6 ? 1e6 : 1e9;
  names.latest = 1e12 * names.units_in_second;
}

namespace detail {

/// Reads tokens of JSON that have no escape, sign, fraction or exponent.
class PlainText {
 public:
  explicit PlainText(std::string_view text) : text_(text) {}

  /// Takes spaces, and then this text if it follows.
  bool take(std::string_view expected) {
    while (text_.starts_with(' ')) text_.remove_prefix(1);
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }
  /// Takes a whole number with at most 15 digits, which a double has exactly.
  template <class Number>
  bool take_number(Number& number) {
    while (text_.starts_with(' ')) text_.remove_prefix(1);
    std::size_t digits = 0;
    number = 0;
    for (; digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9'; ++digits) {
      if (digits == 15) return false;
      number = 10 * number + static_cast<Number>(text_[digits] - '0');
    }
    if (digits == 0 || (digits > 1 && text_.front() == '0')) return false;
    text_.remove_prefix(digits);
    return true;
  }
  /// Whether only spaces are left.
  [[nodiscard]] bool ended() { return take("") && text_.empty(); }

 private:
  std::string_view text_;
};

} // namespace detail

SLUICE_READERS_INLINE bool MooncakeFormat::read_plain(std::string_view line, PlainLine& numbers,
                                                      std::vector<ContentPiece>& content) const {
  detail::PlainText text(line);
  bool has_arrival = false, has_prompt = false, has_output = false, has_ids = false;
  if (!text.take("{")) return false;
  do {
    const auto number = [&text](bool& has, std::int64_t& value) {
      return !std::exchange(has, true) && text.take(":") && text.take_number(value);
    };
    bool read = false;
    if (text.take("\"timestamp\"")) {
      read = number(has_arrival, numbers.arrival);
    } else if (text.take("\"input_length\"")) {
      read = number(has_prompt, numbers.prompt);
    } else if (text.take("\"output_length\"")) {
      read = number(has_output, numbers.output);
    } else if (text.take("\"hash_ids\"") && !std::exchange(has_ids, true) && text.take(":") && text.take("[")) {
      read = text.take("]");
      for (bool more = !read; more; more = text.take(",")) {
        ContentPiece& piece = content.emplace_back();
        if (!text.take_number(piece.id)) return false;
      }
      read = read || text.take("]");
    }
    if (!read) return false;
  } while (text.take(","));
  if (!text.take("}") || !text.ended() || !has_arrival || !has_prompt || !has_output) return false;
  if (numbers.prompt < 1 || numbers.prompt > max_request_tokens || numbers.output < 1 ||
      numbers.output > max_request_tokens)
    return false;
  Tokens left{numbers.prompt};
  for (ContentPiece& piece : content) {
    if (left.count() == 0) return false; // more numbers than blocks
    piece.tokens = std::min(left, block);
    left -= piece.tokens;
  }
  return true;
}

SLUICE_READERS_INLINE Status read_token_ids(const nlohmann::json& object, const char* name, Tokens tokens,
                                            const std::string& where, std::vector<ContentPiece>& content) {
  const std::string expected = "a list of " + std::to_string(tokens.count()) + " token ids";
  const auto member = object.find(name);
  if (member == object.end() || !member->is_array())
    return Error{ErrorCode::bad_input, where, std::string{name} + " is missing or no list", expected};
  if (static_cast<std::int64_t>(member->size()) != tokens.count())
    return Error{ErrorCode::bad_input, where, std::string{name} + " has " + std::to_string(member->size()) + " ids",
                 expected};
  for (const nlohmann::json& id : *member) {
    if (!id.is_number_integer() || id < 0)
      return Error{ErrorCode::bad_input, where, std::string{name} + " holds something else than whole numbers from 0",
                   expected};
    content.push_back({id.get<std::uint64_t>(), Tokens{1}});
  }
  return {};
}

} // namespace sluice
