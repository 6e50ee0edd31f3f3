// SPDX-License-Identifier: Apache-2.0
// HfFields: reads a Hugging Face config field by field, and finds fields that nobody read.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/nlohmann/json_fields.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

namespace sluice {

/// The fields of a config, read one after another; the first error is kept, and later answers are then meaningless.
///
/// Fields that were read are remembered: a config may have a field that changes the sizes and that its reader does not
/// know (a projection in front of the experts, say). `check_all_read` refuses such a config by the field's name. Names
/// that cannot change a size (rotations, tokens, training) are known; so are names that only a known one explains.
class HfFields {
 public:
  /// Refers to `object`, which must be an object and outlive this.
  HfFields(const nlohmann::json& object, std::string where);

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] const std::string& where() const { return fields_.where(); }
  [[nodiscard]] const nlohmann::json& json() const { return *object_; }

  /// Whether the field is there, and not null. Counts as read.
  [[nodiscard]] bool has(const char* name);
  /// Above every known size but vocabularies and contexts, so that no product of a few sizes overflows.
  static constexpr int widest = 1 << 18;
  static constexpr int most = 1 << 24;

  /// A positive whole number. Of several names the first that is there; an error names the first.
  int size(std::initializer_list<const char*> names, int limit = widest);
  int size(const char* name, int limit = widest) { return size({name}, limit); }
  /// The same, from 0; `otherwise` if none is there.
  int size_or(std::initializer_list<const char*> names, int otherwise, int limit = widest);
  int size_or(const char* name, int otherwise, int limit = widest) { return size_or({name}, otherwise, limit); }
  /// `number` experts side by side, as one MLP.
  int joined(int number, int width);
  double number(const char* name, double least, double greatest);
  bool flag(const char* name, bool otherwise);
  std::string text(const char* name, const std::string& otherwise);
  /// A list of whole numbers from `least`; empty if it is absent.
  std::vector<int> numbers(const char* name, int least = 0);
  std::vector<std::string> texts(const char* name);
  /// An object, or null if it is absent.
  const nlohmann::json* object(const char* name);
  /// The field's value whatever it is, or null if it is absent.
  const nlohmann::json* value(const char* name);

  /// Marks fields as understood: their values do not change what is read here.
  void known(std::initializer_list<const char*> names) {
    for (const char* name : names) read_.insert(name);
  }
  /// Keeps an error.
  void refuse(const std::string& what, const std::string& expected);
  void keep(const Error& error) {
    if (status_) status_ = error;
  }
  /// Refuses the first field that was not read and could change a size.
  void check_all_read();

 private:
  const nlohmann::json* object_;
  JsonFields fields_;
  std::set<std::string, std::less<>> read_;
  Status status_;
};

/// Reads and parses a config. Python writes Infinity and NaN, which JSON does not have; they are read as null.
Expected<nlohmann::json> read_hf_json(const std::string& path);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/model/nlohmann/hf_fields.inl.hpp"
#endif
