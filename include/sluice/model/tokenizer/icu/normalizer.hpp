// SPDX-License-Identifier: Apache-2.0
// Normalizer: changes a text before it is cut into pieces (with ICU for Unicode's normal forms).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/icu/pattern.hpp"

#include <unicode/unorm2.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

/// "NFC", "NFD", "NFKC" or "NFKD": Unicode Standard Annex 15. Parts that are not UTF-8 stay unchanged.
class NormalForm {
 public:
  [[nodiscard]] static bool knows(std::string_view name);
  /// `name` must be one of these.
  [[nodiscard]] static Expected<NormalForm> named(std::string_view name);

  [[nodiscard]] Expected<std::string> apply(std::string_view text) const;

 private:
  explicit NormalForm(const UNormalizer2* form) : form_(form) {}

  [[nodiscard]] Status append(std::string_view whole, std::string& out) const;

  const UNormalizer2* form_; ///< ICU's own; never freed
};

/// Puts `prefix` before a text that is not empty.
struct PrependText {
  std::string prefix;
};

/// Replaces each match by `content`.
struct ReplaceText {
  Pattern pattern;
  std::string content;
};

/// The steps of a file's `normalizer`, in order; possibly none.
class Normalizer {
 public:
  using Step = std::variant<NormalForm, PrependText, ReplaceText>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  [[nodiscard]] bool empty() const { return steps_.empty(); }

  [[nodiscard]] Expected<std::string> apply(std::string text) const;

 private:
  static Expected<std::string> apply_step(const NormalForm& form, const std::string& text) { return form.apply(text); }
  static Expected<std::string> apply_step(const PrependText& prepend, const std::string& text);
  static Expected<std::string> apply_step(const ReplaceText& replace, const std::string& text);

  std::vector<Step> steps_;
};

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/icu/normalizer.inl.hpp"
#endif
