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
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
    while (words >> word && !word.ends_with(':')) {
      const std::size_t flag = word.find_first_not_of("\"'"); // a list of arguments may quote each
      if (flag <= 1 && word.size() > flag + 2 && word.compare(flag, 2, "--") == 0 && word[flag + 2] >= 'a' &&
          word[flag + 2] <= 'z')
        return true;
    }
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

/// A text without the backslashes before its characters.
inline std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    plain += text[i];
  }
  return plain;
}

/// Files and flags spell alike.
inline std::string with_underscores(std::string key) {
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

/// Lists and nested values of a file, which have an empty list in the settings: where each key is.
using Nested = std::map<std::string, std::string>;

inline bool is_connector(std::string_view key) { return key == "kv-transfer-config" || key == "kv_transfer_config"; }

/// Lines `key: value`, and vLLM's connector as JSON. LMCache's file has no others, save settings that no system here
/// has, so this needs no library for YAML: of a list or a nested value it keeps the key.
inline Expected<nlohmann::json> read_lines(const std::string& text, const std::string& where, Nested& nested) {
  nlohmann::json read = nlohmann::json::object();
  std::istringstream lines(text);
  std::set<std::string> known; // keys, with underscores
  std::string line, connector; // the key of JSON that later lines continue
  bool inside = false;         // a list or a nested value
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string_view rest = uncommented(line);
    if (rest.empty()) continue;
    const bool deeper = rest.front() == ' ' || rest.front() == '\t';
    if (!connector.empty() && (deeper || rest.front() == '}')) {
      (read[connector].get_ref<std::string&>() += ' ') += trimmed(rest);
      continue;
    }
    connector.clear();
    if (inside && (deeper || rest.starts_with("- ") || rest == "-" || rest.front() == ']' || rest.front() == '}'))
      continue;
    const std::string at = where + ":" + std::to_string(number);
    const std::size_t colon = rest.find(": ");
    const bool ends = colon == std::string_view::npos && trimmed(rest).ends_with(':');
    if (colon == std::string_view::npos && !ends)
      return Error{ErrorCode::bad_input, at, "it is '" + excerpt(std::string{trimmed(rest)}) + "'", "key: value"};
    const std::string key{trimmed(rest.substr(0, ends ? rest.rfind(':') : colon))};
    const std::string_view value = ends ? std::string_view{} : trimmed(rest.substr(colon + 1));
    if (deeper) return Error{ErrorCode::unsupported, at, "'" + excerpt(key) + "' is nested", "key: value, a line each"};
    if (!known.insert(with_underscores(key)).second)
      return Error{ErrorCode::bad_input, at, "'" + excerpt(key) + "' is there twice", "one value"};
    inside = value.empty() || std::string_view{"[{|>&*!"}.find(value.front()) < 7;
    if (is_connector(key) && value.starts_with('{')) {
      read[key] = std::string{value};
      connector = key;
    } else if (inside) {
      read[key] = nlohmann::json::array();
      nested[key] = at;
    } else {
      read[key] = scalar(value);
    }
  }
  return read;
}

inline std::string without_comments(const std::string& text) {
  std::istringstream lines(text);
  std::string line, rest;
  while (std::getline(lines, line)) (rest += uncommented(line)) += '\n';
  return rest;
}

/// The word for what ends a command, or sends its output elsewhere.
constexpr std::string_view command_end = ";";

/// Appends a text's words, as a shell reads them: without quotes, and without the backslash at a line's end. A JSON
/// object whose quotes an outer shell has removed is one word. A quoted text with flags is a command line of its own.
inline void add_words(std::string_view text, std::vector<std::string>& words) {
  constexpr int most_open = 64; // objects that do not end: each is searched to the text's end
  std::string word, plain;
  bool any = false, quotes = false; // of the word; its own command line is shorter by its quotes
  int open = 0;
  const auto end_word = [&] {
    if (quotes && !word.starts_with('{') && word.find(" --") != std::string::npos)
      add_words(word, words);
    else if (any)
      words.push_back(word);
    word.clear();
    any = quotes = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool ends = i + 1 == text.size() || std::string_view{" \t\r\n"}.find(text[i + 1]) < 4;
    if (std::string_view{" \t\r\n;&|<>"}.find(c) < 9 || (c == '\\' && ends)) {
      end_word();
      if (std::string_view{";&|<>"}.find(c) < 5) words.emplace_back(command_end);
      continue;
    }
    if (c == '{' && open < most_open && (!any || word.ends_with('='))) {
      std::size_t next = text.find_first_not_of(" \t\r\n", i + 1);
      if (text.substr(std::min(next, text.size())).starts_with("\\\"")) {
        std::string rest = unescaped(text.substr(i));
        plain = std::move(rest);
        text = plain;
        i = 0;
        next = text.find_first_not_of(" \t\r\n", 1);
      }
      const std::string_view object = first_object(text.substr(i));
      if (object.ends_with('}') && next < text.size()) {
        word += object;
        any = true;
        i += object.size() - 1;
        continue;
      }
      ++open;
    }
    any = true;
    if (c == '\\') {
      word += text[++i];
      continue;
    }
    std::size_t close = std::string_view::npos;
    if (c == '"' || c == '\'')
      for (close = i + 1; close < text.size() && text[close] != c; ++close)
        if (c == '"' && text[close] == '\\') ++close;
    if (close >= text.size()) { // no quote, or one that does not end
      word += c;
      continue;
    }
    const std::string_view quoted = text.substr(i + 1, close - i - 1);
    word += c == '"' ? unescaped(quoted) : std::string{quoted};
    quotes = true;
    i = close;
  }
  end_word();
}

inline std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  add_words(without_comments(text), words);
  return words;
}

/// Flags of a command line or of a list of arguments, with underscores. A flag has the word behind it as its value; of
/// a flag that is there twice, the last value counts.
inline nlohmann::json read_flags(const std::string& text) {
  nlohmann::json read = nlohmann::json::object();
  std::string key;
  for (const std::string& word : words_of(text)) {
    if (word == "-" || word.starts_with("--env=LMCACHE_")) continue; // an item of a list; docker's flag
    if (word == command_end) {
      key.clear();
    } else if (word.size() > 1 && word[0] == '-' && word[1] >= 'A' && word[1] <= 'z') {
      key.clear(); // -O3, -tp
    } else if (word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      key = with_underscores(word.substr(2, equals == std::string::npos ? equals : equals - 2));
      read[key] =
          equals == std::string::npos ? nlohmann::json(true) : scalar(std::string_view{word}.substr(equals + 1));
    } else if (!key.empty()) {
      read[key] = scalar(word);
      key.clear();
    }
  }
  return read;
}

/// LMCache's settings of a command line's environment: LMCACHE_MAX_LOCAL_CPU_SIZE=8, also behind docker's --env, or as
/// Kubernetes's `name:` and `value:`.
inline Expected<nlohmann::json> read_environment(const std::string& text, const std::string& where) {
  nlohmann::json read = nlohmann::json::object();
  constexpr std::string_view prefix = "LMCACHE_";
  const std::vector<std::string> words = words_of(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    const std::string_view before = i > 0 ? std::string_view{words[i - 1]} : std::string_view{};
    bool passed = before == "-e" || before == "--env" || before == "export" || before == "name:";
    for (const std::string_view flag : {"--env=", "-e"}) {
      if (!word.starts_with(flag)) continue;
      word.remove_prefix(flag.size());
      passed = true;
    }
    if (!word.starts_with(prefix)) continue;
    const std::size_t equals = std::min(word.find('='), word.size());
    std::string key{word.substr(prefix.size(), equals - prefix.size())};
    std::transform(key.begin(), key.end(), key.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (key == "config_file")
      return Error{ErrorCode::unsupported, where, "LMCACHE_CONFIG_FILE names a file", "the file itself"};
    if (key == "use_experimental" || key == "log_level") continue;
    if (equals < word.size()) {
      read[key] = scalar(word.substr(equals + 1));
    } else if (i + 2 < words.size() && words[i + 1] == "value:") {
      read[key] = scalar(words[i + 2]);
    } else if (passed) { // not `unset`
      return Error{ErrorCode::bad_input, where, excerpt(std::string{word}) + " has no value",
                   excerpt(std::string{word}) + "=VALUE"};
    }
  }
  return read;
}

} // namespace offload_detail
