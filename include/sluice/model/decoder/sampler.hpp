// SPDX-License-Identifier: Apache-2.0
// sample: the next token of a sequence from its logits: greedy, or drawn with temperature, top-k and top-p.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/random.hpp"
#include "sluice/model/decoder/sampling_weight.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// How a token is chosen. The default is greedy.
struct Sampling {
  double temperature = 0; ///< logits are divided by this; 0: the largest logit wins, and top-k and top-p do nothing
  int top_k = 0;          ///< only this many of the likeliest tokens; 0: all
  double top_p = 1;       ///< of these only the likeliest ones whose probabilities first sum to this; 1: all
  std::uint64_t seed = 0;

  friend bool operator==(const Sampling&, const Sampling&) = default;
};

/// An error, which names the flag, if a number is invalid.
inline Status check(const Sampling& sampling) {
  if (!(std::isfinite(sampling.temperature) && sampling.temperature >= 0)) {
    return Error{ErrorCode::bad_input, "--temperature", "it is " + std::to_string(sampling.temperature),
                 "a number of at least 0 (0: greedy)"};
  }
  if (sampling.top_k < 0) {
    return Error{ErrorCode::bad_input, "--top-k", "it is " + std::to_string(sampling.top_k),
                 "a whole number of at least 0 (0: all tokens)"};
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return Error{ErrorCode::bad_input, "--top-p", "it is " + std::to_string(sampling.top_p),
                 "a number above 0 and at most 1 (1: all tokens)"};
  }
  return {};
}

namespace detail {

/// Uniform in 0 .. 2^53 - 1, a function of the sequence and the position only: a token draws the same number in any
/// batch, on any thread or device, however often it is computed.
[[nodiscard]] constexpr std::uint64_t sampling_draw(std::uint64_t seed, std::uint64_t sequence, std::int64_t position) {
  // A generator's first number reflects its seed: three generators, each seeded from the one before.
  const std::uint64_t first = Random(seed)();
  const std::uint64_t second = Random(first ^ sequence)();
  return Random(second ^ static_cast<std::uint64_t>(position))() >> 11;
}

/// The order of logits. A NaN is below every number, as for `sampling_key`, and must not mislead a search.
[[nodiscard]] inline bool below(float left, float right) {
  return left < right || (std::isnan(left) && !std::isnan(right));
}

/// `sampling_power(i)` at i.
struct SamplingPowers {
  std::uint64_t of[256];

  constexpr SamplingPowers() : of{} {
    for (int i = 0; i < 256; ++i) of[i] = sampling_power(i);
  }
  [[nodiscard]] constexpr std::uint64_t operator[](int i) const { return of[i]; }
};
inline constexpr SamplingPowers sampling_powers;

/// Moves the `count` likeliest tokens to the front, in order. `places`: a `sampling_place` per token.
inline void sort_likeliest(std::span<std::uint64_t> places, std::size_t count) {
  const auto middle = places.begin() + static_cast<std::ptrdiff_t>(count);
  if (count < places.size()) std::nth_element(places.begin(), middle, places.end());
  std::sort(places.begin(), middle);
}

} // namespace detail

/// The token with the largest logit; among equals the lowest. `logits`: one per token. A NaN loses against any number,
/// as in `sample`'s sorting; if all are NaN the result is 0.
[[nodiscard]] inline std::int32_t greedy_token(std::span<const float> logits) {
  SLUICE_ASSERT(!logits.empty(), "logits of at least one token");
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end(), detail::below) - logits.begin());
}

/// The next token: a pure function of its arguments, so that a request that is preempted, recomputed or batched
/// differently gets the same text. `logits`: one per token, some of them finite, none NaN or +infinity (-infinity
/// forbids a token); `position`: of the token to be sampled.
///
/// First temperature, then top-k, then top-p among the remaining tokens (Hugging Face's order; top-p is Holtzman et
/// al., "The Curious Case of Neural Text Degeneration", 2020, 3.1). Weights are whole numbers (sampling_weight.hpp), so
/// the order of summation does not matter: a token with a probability below 2^-45 of the likeliest token's is never
/// drawn.
///
/// The draw is from the unit interval with the kept tokens side by side, likeliest first; or in ascending order of
/// tokens if all are kept, because then nothing needs sorting.
[[nodiscard]] inline std::int32_t sample(std::span<const float> logits, const Sampling& sampling,
                                         std::uint64_t sequence, std::int64_t position) {
  SLUICE_ASSERT(check(sampling).ok(), "a valid Sampling");
  SLUICE_ASSERT(static_cast<std::int64_t>(logits.size()) < sampling_most_tokens, "tokens whose weights fit a sum");
  const std::int32_t best = greedy_token(logits);
  if (!(sampling.temperature > 0) || sampling.top_k == 1) return best;
  const auto largest = static_cast<double>(logits[static_cast<std::size_t>(best)]);
  SLUICE_ASSERT(std::isfinite(largest), "a logit that is finite, and none above all numbers");
  const double scale = sampling_scale(sampling.temperature);
  const auto weight = [&](std::size_t token) {
    return sampling_weight(largest - static_cast<double>(logits[token]), scale, detail::sampling_powers);
  };
  const auto weight_of = [&](std::size_t first, std::size_t last) {
    std::uint64_t sum = 0;
    for (std::size_t token = first; token < last; ++token) sum += weight(token);
    return sum;
  };
  const std::uint64_t draw = detail::sampling_draw(sampling.seed, sequence, position);

  const bool all = sampling.top_k == 0 || static_cast<std::size_t>(sampling.top_k) >= logits.size();
  if (all && sampling.top_p >= 1) {    // nothing to sort
    constexpr std::size_t part = 1024; // sums of parts avoid computing all weights before the token again
    std::vector<std::uint64_t> sums;
    std::uint64_t total = 0;
    for (std::size_t first = 0; first < logits.size(); first += part) {
      sums.push_back(weight_of(first, std::min(first + part, logits.size())));
      total += sums.back();
    }
    std::uint64_t left = sampling_target(draw, total);
    std::size_t token = 0;
    for (std::size_t i = 0; left > sums[i]; ++i, token += part) left -= sums[i];
    for (std::uint64_t passed = weight(token); passed < left;) passed += weight(++token);
    return static_cast<std::int32_t>(token);
  }

  std::vector<std::uint64_t> places(logits.size());
  for (std::size_t token = 0; token < logits.size(); ++token)
    places[token] = sampling_place(logits[token], static_cast<std::int64_t>(token));
  const auto token_at = [&](std::size_t i) { return static_cast<std::size_t>(places[i] & 0xffffffffU); };
  const std::size_t most = all ? places.size() : static_cast<std::size_t>(sampling.top_k);
  std::uint64_t total = all ? weight_of(0, logits.size()) : 0;
  // A nucleus is usually a few tokens of a hundred thousand: more are sorted only if it is larger.
  std::size_t sorted = all ? std::min<std::size_t>(most, 256) : most;
  for (;;) {
    detail::sort_likeliest(places, sorted);
    if (!all) {
      for (std::size_t i = 0; i < most; ++i) total += weight(token_at(i));
    }
    const std::uint64_t nucleus = sampling_nucleus(sampling_share(sampling.top_p), total);
    std::uint64_t kept = 0;
    for (std::size_t count = 0; count < sorted && kept < nucleus;) kept += weight(token_at(count++));
    if (kept < nucleus) {
      sorted = std::min(most, sorted * 16);
      continue;
    }
    const std::uint64_t target = sampling_target(draw, kept);
    std::size_t i = 0;
    for (std::uint64_t passed = weight(token_at(0)); passed < target;) passed += weight(token_at(++i));
    return static_cast<std::int32_t>(token_at(i));
  }
}

// LogitRules: penalties, biases and forbidden tokens, applied to logits before a token is sampled.

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
