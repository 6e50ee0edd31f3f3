// SPDX-License-Identifier: Apache-2.0
// Settings' texts: lines of YAML, a command line's flags and environment, and JSON within it, as JSON objects.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/core/utf8.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>

namespace offload_detail {

using sluice::Error;
using sluice::ErrorCode;
using sluice::excerpt;
using sluice::Expected;
using sluice::Status;

/// A scalar of YAML, as PyYAML reads it: true, 5, 2.5, null, or a text with or without quotes.
inline nlohmann::json scalar(std::string_view text) {
  const auto is = [text](std::initializer_list<std::string_view> all) {
    return std::find(all.begin(), all.end(), text) != all.end();
  };
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
    return std::string{text.substr(1, text.size() - 2)};
  if (is({"true", "True", "yes", "on"})) return true;
  if (is({"false", "False", "no", "off"})) return false;
  if (is({"null", "~", "None"})) return nullptr;
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto [at, code] = std::from_chars(text.data(), end, whole); code == std::errc{} && at == end) return whole;
  double number = 0;
  if (const auto [at, code] = std::from_chars(text.data(), end, number); code == std::errc{} && at == end)
    return number;
  return std::string{text};
}

inline std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

/// A line without its comment, and without blanks at its end; empty if nothing else is there, or only YAML's `---`.
inline std::string_view uncommented(std::string_view line) {
  if (const std::size_t comment = line.find(" #"); comment != std::string_view::npos) line = line.substr(0, comment);
  const std::string_view rest = trimmed(line);
  if (rest.empty() || rest.starts_with('#') || rest == "---") return {};
  return line.substr(0, static_cast<std::size_t>(rest.data() + rest.size() - line.data()));
}

/// Whether `text` is a command line or its flags: a line has `--` and a letter at its beginning, or in a later word
/// that no `key: ` precedes.
inline bool has_flags(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(std::string{uncommented(line)});
    std::string word;
    while (words >> word && !word.ends_with(':'))
      if (word.size() > 2 && word.starts_with("--") && word[2] >= 'a' && word[2] <= 'z') return true;
  }
  return false;
}

/// The error of bytes that are no UTF-8, which no JSON text may have; the parser of JSON finds them by itself.
inline Status check_utf8(std::string_view text, const std::string& where) {
  for (int line = 1; !text.empty();) {
    const sluice::Utf8Step step = sluice::next_utf8(text);
    if (step.kind != sluice::Utf8Kind::whole)
      return Error{ErrorCode::bad_input, where + ":" + std::to_string(line), "there are bytes that are no UTF-8",
                   "a text in UTF-8"};
    if (text.front() == '\n') ++line;
    text.remove_prefix(static_cast<std::size_t>(step.bytes));
  }
  return {};
}

/// Lines `key: value`. LMCache's file has no others, save settings that no system here has, so this needs no library
/// for YAML: a nested value is refused by its key.
inline Expected<nlohmann::json> read_lines(const std::string& text, const std::string& where) {
  nlohmann::json read = nlohmann::json::object();
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string_view rest = uncommented(line);
    if (rest.empty()) continue;
    const std::string at = where + ":" + std::to_string(number);
    const std::size_t colon = rest.find(": ");
    const bool ends = colon == std::string_view::npos && trimmed(rest).ends_with(':');
    if (colon == std::string_view::npos && !ends)
      return Error{ErrorCode::bad_input, at, "it is '" + excerpt(std::string{trimmed(rest)}) + "'", "key: value"};
    const std::string key{trimmed(rest.substr(0, ends ? rest.rfind(':') : colon))};
    const std::string_view value = ends ? std::string_view{} : trimmed(rest.substr(colon + 1));
    if (key == "kv-transfer-config" && value.starts_with('{')) {
      read[key] = std::string{value};
      continue;
    }
    if (ends || rest.front() == ' ' || value.empty() || std::string_view{"[{|>&*!"}.find(value.front()) < 7)
      return Error{ErrorCode::unsupported, at, "'" + excerpt(key) + "' is nested, or has no value",
                   "key: value, a line each"};
    if (!read.emplace(key, scalar(value)).second)
      return Error{ErrorCode::bad_input, at, "'" + excerpt(key) + "' is there twice", "one value"};
  }
  return read;
}

/// Flags of a command line, from the first one on. A flag has the word behind it as its value.
inline nlohmann::json read_flags(const std::string& text) {
  nlohmann::json read = nlohmann::json::object();
  std::istringstream lines(text);
  std::string line, uncommented_text;
  while (std::getline(lines, line)) (uncommented_text += uncommented(line)) += '\n';
  std::istringstream words(uncommented_text);
  std::string word, key;
  while (words >> word) {
    if (word == "\\") continue;
    if (word.size() > 1 && word[0] == '-' && word[1] >= 'A' && word[1] <= 'z') {
      key.clear(); // -O3, -tp
    } else if (word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      key = word.substr(2, equals == std::string::npos ? equals : equals - 2);
      read[key] =
          equals == std::string::npos ? nlohmann::json(true) : scalar(std::string_view{word}.substr(equals + 1));
    } else if (!key.empty()) {
      read[key] = scalar(word);
      key.clear();
    }
  }
  return read;
}

/// LMCache's settings of a command line's environment: LMCACHE_MAX_LOCAL_CPU_SIZE=8.
inline Expected<nlohmann::json> read_environment(const std::string& text, const std::string& where) {
  nlohmann::json read = nlohmann::json::object();
  std::istringstream lines(text);
  std::string line, word;
  constexpr std::string_view prefix = "LMCACHE_";
  while (std::getline(lines, line)) {
    std::istringstream words(std::string{uncommented(line)});
    while (words >> word) {
      const std::size_t equals = word.find('=');
      if (!word.starts_with(prefix) || equals == std::string::npos) continue;
      std::string key = word.substr(prefix.size(), equals - prefix.size());
      std::transform(key.begin(), key.end(), key.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
      if (key == "config_file")
        return Error{ErrorCode::unsupported, where, "LMCACHE_CONFIG_FILE names a file", "the file itself"};
      if (key != "use_experimental" && key != "log_level")
        read[key] = scalar(std::string_view{word}.substr(equals + 1));
    }
  }
  return read;
}

/// SGLang's file and flags spell alike.
inline nlohmann::json with_underscores(const nlohmann::json& settings) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [key, value] : settings.items()) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '-', '_');
    out[name] = value;
  }
  return out;
}

/// The JSON object with which a text begins: a command line may have other flags, with JSON of their own, behind it.
/// The whole text if the object does not end.
inline std::string_view first_object(std::string_view text) {
  bool quoted = false;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == '{') {
      ++depth;
    } else if (!quoted && text[i] == '}' && --depth == 0) {
      return text.substr(0, i + 1);
    }
  }
  return text;
}

} // namespace offload_detail
