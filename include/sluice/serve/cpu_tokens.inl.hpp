// SPDX-License-Identifier: Apache-2.0
// CpuTokens: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/serve/cpu_tokens.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice::detail {

/// Returns the log-probability of `chosen`, then those of the `count` likeliest tokens, highest first; ties are ordered
/// by token number.
[[nodiscard]] inline std::vector<TokenChance> chances_of(std::span<const float> logits, std::int32_t chosen,
                                                         int count) {
  const float largest = logits[static_cast<std::size_t>(greedy_token(logits))];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(largest));
  const double base = static_cast<double>(largest) + std::log(sum);
  const auto chance = [&](std::int32_t token) {
    return TokenChance{token, static_cast<double>(logits[static_cast<std::size_t>(token)]) - base};
  };
  std::vector<TokenChance> chances{chance(chosen)};
  if (count == 0) return chances;
  std::vector<std::uint64_t> places;
  for (std::size_t token = 0; token < logits.size(); ++token)
    places.push_back(sampling_place(logits[token], static_cast<std::int64_t>(token)));
  const auto most = std::min(static_cast<std::size_t>(count), places.size());
  sort_likeliest(places, most);
  for (std::size_t i = 0; i < most; ++i) chances.push_back(chance(static_cast<std::int32_t>(places[i] & 0xffffffffU)));
  return chances;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE TokenListener CpuTokens::listener() {
  TokenListener listener;
  listener.logits = [this](RequestId id, std::int64_t, std::span<const float> logits) { choosing(id, logits); };
  listener.scored = [this](RequestId id, std::int32_t token, std::span<const float> logits) {
    const auto found = requests_.find(index(id));
    if (found != requests_.end()) // otherwise the request was cancelled while its prompt was computed
      found->second.prompt.push_back(detail::chances_of(logits, token, found->second.wanted));
  };
  listener.wants_logits = [this](RequestId id) { return wants_chances(id); };
  listener.token = [this](RequestId id, std::int32_t token) { chosen(id, token); };
  return listener;
}

SLUICE_INLINE void CpuTokens::attach(std::shared_ptr<TokenWorld> machine) {
  const DecoderConfig& config = machine->weights().config;
  end_tokens_ = config.end_tokens;
  machine_ = std::move(machine);
}

SLUICE_INLINE std::optional<std::uint64_t> CpuTokens::seek(const Generation& generation, const WouldLoad& would_load) {
  if (!tier()) return std::nullopt;
  TokenRequest request;
  request.tokens = generation.prompt;
  request.salt = generation.salt;
  request.scores = generation.scores_prompt;
  return machine_->seek(request, would_load);
}

SLUICE_INLINE std::optional<HostTierCounts> CpuTokens::tier() const {
  const HostTierCounts counts = machine_->host_tier();
  return counts.capacity > 0 ? std::optional{counts} : std::nullopt;
}

SLUICE_INLINE void CpuTokens::enter(RequestId id, const Generation& generation) {
  SLUICE_ASSERT(machine_ != nullptr, "attached to a machine");
  TokenRequest request;
  request.tokens = generation.prompt;
  request.sampling = generation.sampling;
  request.sequence = generation.sequence;
  request.ends = !generation.ignore_end;
  request.scores = generation.scores_prompt;
  request.salt = generation.salt;
  request.rules = generation.rules;
  if (generation.rules && generation.rules->min_tokens > 0 && !generation.ignore_end) {
    LogitRules rules = *generation.rules;
    rules.ends.insert(rules.ends.end(), end_tokens_.begin(), end_tokens_.end());
    request.rules = std::make_shared<const LogitRules>(std::move(rules));
  }
  machine_->enter(id, std::move(request));
  requests_[index(id)].wanted = generation.logprobs;
  requests_[index(id)].ends = !generation.ignore_end;
}

SLUICE_INLINE std::span<const std::int32_t> CpuTokens::generated(RequestId id, std::size_t /*count*/) {
  return requests_.at(index(id)).tokens;
}

SLUICE_INLINE std::span<const std::vector<TokenChance>> CpuTokens::chances(RequestId id) {
  return requests_.at(index(id)).chances;
}

SLUICE_INLINE std::span<const std::vector<TokenChance>> CpuTokens::prompt_chances(RequestId id) {
  return requests_.at(index(id)).prompt;
}

SLUICE_INLINE bool CpuTokens::stopped(RequestId id) {
  const Kept& kept = requests_.at(index(id));
  return kept.ends && !kept.tokens.empty() &&
         std::find(end_tokens_.begin(), end_tokens_.end(), kept.tokens.back()) != end_tokens_.end();
}

SLUICE_INLINE void CpuTokens::forget(RequestId id) {
  machine_->forget(id);
  requests_.erase(index(id));
}

SLUICE_INLINE bool CpuTokens::wants_chances(RequestId id) const {
  const auto found = requests_.find(index(id));
  return found != requests_.end() && found->second.wanted >= 0;
}

SLUICE_INLINE void CpuTokens::choosing(RequestId id, std::span<const float> logits) {
  requests_.at(index(id)).logits.assign(logits.begin(), logits.end());
}

SLUICE_INLINE void CpuTokens::chosen(RequestId id, std::int32_t token) {
  const auto found = requests_.find(index(id));
  if (found == requests_.end()) return; // cancelled while this token was computed
  Kept& kept = found->second;
  kept.tokens.push_back(token);
  if (kept.wanted >= 0) kept.chances.push_back(detail::chances_of(kept.logits, token, kept.wanted));
}

} // namespace sluice
