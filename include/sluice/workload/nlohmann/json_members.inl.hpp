// SPDX-License-Identifier: Apache-2.0
// JsonMembers: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/workload/nlohmann/json_members.hpp"

#include <string_view>

namespace sluice {

SLUICE_READERS_INLINE Status JsonMembers::enter() {
  if (skip_blanks() != '{') return broken("this is not an object", "{");
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

} // namespace sluice
