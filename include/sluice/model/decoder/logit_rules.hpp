// SPDX-License-Identifier: Apache-2.0
// LogitRules: penalties, biases and forbidden tokens, applied to logits before a token is sampled.
#pragma once

#include "sluice/core/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// With vLLM's meaning and order: biases, then the repetition penalty (Keskar et al., "CTRL", 2019, 4.1), then the
/// frequency and presence penalties (OpenAI's), and forbidden tokens.
struct LogitRules {
  double presence = 0;   ///< subtracted from the logit of every token that the answer has
  double frequency = 0;  ///< subtracted once for each time that the answer has the token
  double repetition = 1; ///< logits of the prompt's and the answer's tokens are divided by it, negative ones multiplied
  std::vector<std::pair<std::int32_t, double>> bias; ///< added to the logit of a token
  std::vector<std::vector<std::int32_t>> bad_words;  ///< the last token of each never follows the ones before it
  std::int64_t min_tokens = 0;                       ///< `ends` are forbidden until the answer has this many
  std::vector<std::int32_t> ends;

  [[nodiscard]] bool empty() const {
    return presence == 0 && frequency == 0 && repetition == 1 && bias.empty() && bad_words.empty() && min_tokens == 0;
  }
};

/// Applies the rules to the logits of the token that follows `tokens`, of which the first `prompt` are the prompt. A
/// pure function, like `sample`. A forbidden token gets -infinity; tokens outside `logits` are ignored.
inline void apply_rules(const LogitRules& rules, std::span<const std::int32_t> tokens, std::size_t prompt,
                        std::span<float> logits) {
  SLUICE_ASSERT(prompt <= tokens.size(), "a prompt that is part of the sequence");
  const auto at = [&logits](std::int32_t token) -> float* {
    return token >= 0 && static_cast<std::size_t>(token) < logits.size() ? &logits[static_cast<std::size_t>(token)]
                                                                         : nullptr;
  };
  // Calls `visit(logit, how often the tokens have it)` for each token that is among them.
  const auto each = [&at](std::span<const std::int32_t> of, const auto& visit) {
    std::vector<std::int32_t> sorted(of.begin(), of.end());
    std::sort(sorted.begin(), sorted.end());
    for (auto first = sorted.begin(); first != sorted.end();) {
      const auto last = std::upper_bound(first, sorted.end(), *first);
      if (float* const logit = at(*first)) visit(*logit, static_cast<double>(last - first));
      first = last;
    }
  };
  const std::span<const std::int32_t> answer = tokens.subspan(prompt);
  for (const auto& [token, value] : rules.bias)
    if (float* const logit = at(token)) *logit = static_cast<float>(static_cast<double>(*logit) + value);
  if (rules.repetition != 1)
    each(tokens, [&rules](float& logit, double) {
      const auto value = static_cast<double>(logit);
      logit = static_cast<float>(value > 0 ? value / rules.repetition : value * rules.repetition);
    });
  if (rules.presence != 0 || rules.frequency != 0)
    each(answer, [&rules](float& logit, double count) {
      logit = static_cast<float>(static_cast<double>(logit) - rules.frequency * count - rules.presence);
    });
  const auto forbid = [&at](std::int32_t token) {
    if (float* const logit = at(token)) *logit = -std::numeric_limits<float>::infinity();
  };
  for (const std::vector<std::int32_t>& word : rules.bad_words) {
    if (word.empty() || word.size() - 1 > answer.size()) continue;
    if (std::equal(word.begin(), word.end() - 1, answer.end() - static_cast<std::ptrdiff_t>(word.size() - 1)))
      forbid(word.back());
  }
  if (static_cast<std::int64_t>(answer.size()) < rules.min_tokens)
    for (const std::int32_t token : rules.ends) forbid(token);
}

} // namespace sluice
