// SPDX-License-Identifier: Apache-2.0
// DeepSeek's routers in double precision: masks over all experts, as its classes write them.
#pragma once

#include "model/decoder/doubled.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::testing {

/// The `count` largest of some numbers that are not excluded.
inline std::vector<std::size_t> largest(const Vector& of, std::size_t count, const std::vector<bool>& excluded) {
  std::vector<std::size_t> taken;
  std::vector<bool> out = excluded;
  while (taken.size() < count) {
    std::size_t best = of.size();
    for (std::size_t i = 0; i < of.size(); ++i)
      if (!out[i] && (best == of.size() || of[i] > of[best])) best = i;
    taken.push_back(best);
    out[best] = true;
  }
  return taken;
}

/// What the configs of DeepSeek, Kimi-K2 and GLM-4.5 say of their routers.
struct GroupedRouter {
  bool third = true; ///< DeepSeek-V3; else V2
  std::size_t groups = 1, groups_per_token = 1, experts_per_token = 1;
  bool normalised = true;
  double scale = 1;
};

/// Weights as the classes of DeepSeek-V2 and V3 compute them: masks over all experts. `chosen`: how often each was.
inline Vector grouped_weights(const GroupedRouter& router, const Vector& logits, const LayerWeights& w,
                              std::vector<int>& chosen) {
  const std::size_t experts = logits.size(), of_group = experts / router.groups;
  Vector scores, choice;
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  for (std::size_t e = 0; e < experts; ++e) {
    scores.push_back(router.third ? 1 / (1 + std::exp(-logits[e])) : std::exp(logits[e]) / sum);
    choice.push_back(scores[e] + (router.third ? number(w.router_bias, 0, static_cast<std::int64_t>(e)) : 0));
  }
  Vector of_groups;
  for (std::size_t g = 0; g < router.groups; ++g) {
    const Vector own(choice.begin() + static_cast<std::ptrdiff_t>(g * of_group),
                     choice.begin() + static_cast<std::ptrdiff_t>((g + 1) * of_group));
    double best = 0;
    for (const std::size_t e : largest(own, router.third ? 2 : 1, std::vector<bool>(of_group))) best += own[e];
    of_groups.push_back(best);
  }
  std::vector<bool> masked(experts, true);
  for (const std::size_t g : largest(of_groups, router.groups_per_token, std::vector<bool>(router.groups)))
    for (std::size_t e = 0; e < of_group; ++e) masked[g * of_group + e] = false;
  const std::vector<std::size_t> taken = largest(choice, router.experts_per_token, masked);
  double total = 0;
  for (const std::size_t e : taken) total += scores[e];
  Vector weights(experts, 0.0);
  for (const std::size_t e : taken) {
    weights[e] = scores[e] / (router.normalised ? total : 1) * router.scale;
    ++chosen[e];
  }
  return weights;
}

} // namespace sluice::testing
