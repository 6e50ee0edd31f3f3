// SPDX-License-Identifier: Apache-2.0
// JsonFields: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice {

SLUICE_READERS_INLINE JsonFields::JsonFields(const nlohmann::json& object, std::string where)
    : object_(&object), where_(std::move(where)) {
  SLUICE_ASSERT(object.is_object(), "a JSON object");
}

SLUICE_READERS_INLINE Expected<std::int64_t> JsonFields::whole(const char* name, std::int64_t least,
                                                               std::int64_t most) const {
  const std::string expected = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  const nlohmann::json* value = find(name);
  if (value == nullptr) return missing(name, expected);
  if (!value->is_number_integer()) return wrong(name, *value, expected);
  if (value->is_number_unsigned()) {
    const auto count = value->get<std::uint64_t>();
    if (count > static_cast<std::uint64_t>(INT64_MAX)) return wrong(name, *value, expected);
  }
  const auto count = value->get<std::int64_t>();
  if (count < least || count > most) return wrong(name, *value, expected);
  return count;
}

SLUICE_READERS_INLINE Expected<double> JsonFields::number(const char* name, double least, double most,
                                                          const std::string& expected) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return missing(name, expected);
  if (!value->is_number()) return wrong(name, *value, expected);
  const auto count = value->get<double>();
  if (!(std::isfinite(count) && count >= least && count <= most)) return wrong(name, *value, expected);
  return count;
}

SLUICE_READERS_INLINE Expected<std::string> JsonFields::text(const char* name, const std::string& expected) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return missing(name, expected);
  if (!value->is_string()) return wrong(name, *value, expected);
  return value->get<std::string>();
}

SLUICE_READERS_INLINE Expected<bool> JsonFields::flag(const char* name) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return missing(name, "true or false");
  if (!value->is_boolean()) return wrong(name, *value, "true or false");
  return value->get<bool>();
}

SLUICE_READERS_INLINE Status JsonFields::only(std::initializer_list<std::string_view> known) const {
  for (auto field = object_->begin(); field != object_->end(); ++field) {
    bool found = false;
    for (const std::string_view name : known) found = found || field.key() == name;
    if (found) continue;
    std::string names;
    for (const std::string_view name : known) names += (names.empty() ? "" : ", ") + std::string{name};
    const std::string named = excerpt(field.key()); // a name may be as long as the file
    return Error{ErrorCode::bad_input, where_, "there is no field '" + named + "'" + did_you_mean(named, known),
                 "one of " + names};
  }
  return {};
}

SLUICE_READERS_INLINE Error JsonFields::missing(const char* name, const std::string& expected) const {
  return {ErrorCode::bad_input, where_, std::string{name} + " is missing", expected};
}

SLUICE_READERS_INLINE const nlohmann::json* JsonFields::find(const char* name) const {
  const auto field = object_->find(name);
  return field == object_->end() || field->is_null() ? nullptr : &*field;
}

SLUICE_READERS_INLINE Error JsonFields::wrong(const char* name, const nlohmann::json& value,
                                              const std::string& expected) const {
  const std::string shown = value.is_structured()
                                ? std::string{value.type_name()}
                                : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return {ErrorCode::bad_input, where_, std::string{name} + " is " + excerpt(shown), expected};
}

} // namespace sluice

namespace sluice::detail {

/// Parses nothing; keeps where parsing failed, and the first key that an object has twice (nlohmann's parser would take
/// the last one without an error).
struct JsonErrorPosition : nlohmann::json_sax<nlohmann::json> {
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    open.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    if (!open.back().insert(name).second && twice.empty()) twice = name;
    return true;
  }
  bool end_object() override {
    open.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    at = position;
    return false;
  }

  std::size_t at = 0;
  std::string twice;
  std::vector<std::set<std::string, std::less<>>> open; ///< keys of the objects that have not ended
};

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE Expected<nlohmann::json> parse_json_object(std::string_view text, const std::string& where,
                                                                 std::optional<std::int64_t> first_line) {
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  const std::string start = first_line ? where + ":" + std::to_string(*first_line) : where;
  if (value.is_discarded()) {
    detail::JsonErrorPosition failed;
    nlohmann::json::sax_parse(text, &failed);
    const std::string_view read = text.substr(0, failed.at);
    std::int64_t line = first_line.value_or(1);
    for (const char character : read) line += character == '\n';
    // A comma behind a whole object is the last character, too.
    if (failed.at >= text.size() && !(failed.open.empty() && text.ends_with(',')))
      return Error{ErrorCode::bad_input, where + ":" + std::to_string(line), "the JSON ends too early",
                   first_line && line == *first_line ? "a JSON object on one line" : "a JSON object"};
    // What was read last, from the beginning of the word in which it failed: "nan", "1e999", "}".
    std::size_t begin = failed.at > 0 ? failed.at - 1 : 0;
    const auto in_word = [&](std::size_t i) {
      return std::string_view{",:[]{}\"\n\t "}.find(text[i]) == std::string_view::npos;
    };
    while (in_word(begin) && begin > 0 && in_word(begin - 1)) --begin;
    std::size_t end = begin + 1;
    while (in_word(begin) && end < text.size() && in_word(end)) ++end;
    const std::size_t line_begin = read.rfind('\n') == std::string_view::npos ? 0 : read.rfind('\n') + 1;
    return Error{ErrorCode::bad_input, where + ":" + std::to_string(line),
                 "this is not JSON: '" + excerpt(text.substr(begin, end - begin)) + "' in column " +
                     std::to_string(begin < line_begin ? 1 : begin - line_begin + 1),
                 "a JSON object, its numbers finite"};
  }
  if (!value.is_object()) {
    return Error{ErrorCode::bad_input, start, std::string{"this is a JSON "} + value.type_name(), "a JSON object"};
  }
  if (text.size() < longest_checked_for_twins) {
    detail::JsonErrorPosition keys;
    nlohmann::json::sax_parse(text, &keys);
    if (!keys.twice.empty())
      return Error{ErrorCode::bad_input, start, "the field '" + excerpt(keys.twice) + "' is there twice", "once"};
  }
  return value;
}

SLUICE_READERS_INLINE Expected<std::string> read_json_text(const std::string& path, std::size_t longest) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return Error{ErrorCode::bad_input, path, "this is a folder", "a JSON file"};
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::not_found, path, "the file cannot be opened", "a readable JSON file"};
  std::string text;
  char buffer[1 << 14];
  while (file.read(buffer, sizeof buffer), file.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(file.gcount()));
    if (text.size() > longest) {
      return Error{ErrorCode::bad_input, path, "the file is larger than " + std::to_string(longest >> 20U) + " MiB",
                   "a small JSON file"};
    }
  }
  if (text.empty()) return Error{ErrorCode::bad_input, path, "the file is empty or unreadable", "a JSON object"};
  return text;
}

SLUICE_READERS_INLINE Expected<nlohmann::json> read_json_object(const std::string& path, std::size_t longest) {
  const Expected<std::string> text = read_json_text(path, longest);
  if (!text) return text.error();
  return parse_json_object(*text, path);
}

} // namespace sluice
