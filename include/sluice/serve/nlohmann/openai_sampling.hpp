// SPDX-License-Identifier: Apache-2.0
// CompletionFields: reads a request's fields one by one; read_rules: penalties, biases, forbidden words, stop tokens.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/serve/completion.hpp"
#include "sluice/serve/nlohmann/openai_fields.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::detail {

/// Reads fields one after another until one is invalid.
class CompletionFields {
 public:
  explicit CompletionFields(const nlohmann::json& body) : body_(&body), fields_(body, "the body") {}

  template <class T>
  void whole(const char* name, T& into, std::int64_t least, std::int64_t most) {
    if (error || !fields_.has(name)) return;
    const Expected<std::int64_t> value = fields_.whole(name, least, most);
    if (!value) return fail(name, value.error());
    into = static_cast<T>(*value);
  }
  void number(const char* name, double& into, double least, double most, const std::string& expected);
  void flag(const char* name, bool& into);
  void text(const char* name, std::string& into);
  void fail(std::string param, std::string message);
  void fail(const char* name, const Error& wrong) { error = api_error(name, wrong); }

  [[nodiscard]] bool has(const char* name) const { return fields_.has(name); }
  [[nodiscard]] const nlohmann::json& operator[](const char* name) const { return (*body_)[name]; }

  std::optional<ApiError> error;

 private:
  const nlohmann::json* body_;
  JsonFields fields_;
};

/// Reads the fields that end an answer or change its logits.
void read_rules(CompletionFields& fields, Completion& into);

} // namespace sluice::detail

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/nlohmann/openai_sampling.inl.hpp"
#endif
