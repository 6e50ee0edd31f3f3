// SPDX-License-Identifier: Apache-2.0
// JsonFields: the fields of a JSON object, each read with a type and a range, or an error that names it.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// The fields of one JSON object. `where` opens every error: "device.json", "trace.jsonl:17".
///
/// nlohmann's own accessors throw and say neither file nor line; here a wrong field is one line and no exception.
class JsonFields {
 public:
  /// Refers to `object`, which must be an object and outlive this.
  JsonFields(const nlohmann::json& object, std::string where);

  /// Whether the field is there, and not null.
  [[nodiscard]] bool has(const char* name) const { return find(name) != nullptr; }

  /// A whole number from `least` to `most`. 17.0 is refused: a file that writes it means something else by the field.
  [[nodiscard]] Expected<std::int64_t> whole(const char* name, std::int64_t least, std::int64_t most) const;

  /// A finite number from `least` to `most`.
  [[nodiscard]] Expected<double> number(const char* name, double least, double most, const std::string& expected) const;

  [[nodiscard]] Expected<std::string> text(const char* name, const std::string& expected) const;

  [[nodiscard]] Expected<bool> flag(const char* name) const;

  /// Refuses every field that is not among `known`: a misspelt optional field must not pass for its default.
  [[nodiscard]] Status only(std::initializer_list<std::string_view> known) const;

  [[nodiscard]] Error missing(const char* name, const std::string& expected) const;
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  [[nodiscard]] const nlohmann::json* find(const char* name) const;
  [[nodiscard]] Error wrong(const char* name, const nlohmann::json& value, const std::string& expected) const;

  const nlohmann::json* object_;
  std::string where_;
};

/// Texts up to this size are searched for fields that are there twice: that is a second pass, which a trace of long
/// lines should not pay.
inline constexpr std::size_t longest_checked_for_twins = std::size_t{1} << 16;

/// Parses `text` as one JSON object. `where` opens the error's line; `first_line`, where given, is the line number of
/// the text's first line, which the error then continues.
Expected<nlohmann::json> parse_json_object(std::string_view text, const std::string& where,
                                           std::optional<std::int64_t> first_line = std::nullopt);

/// Reads a file of at most `longest` bytes, and at least one.
Expected<std::string> read_json_text(const std::string& path, std::size_t longest);

/// Reads and parses a file that is one JSON object, of at most `longest` bytes (a configuration or a profile, not a
/// trace).
Expected<nlohmann::json> read_json_object(const std::string& path, std::size_t longest = std::size_t{16} << 20);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/core/nlohmann/json_fields.inl.hpp"
#endif
