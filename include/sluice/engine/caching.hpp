// SPDX-License-Identifier: Apache-2.0
// caching: the tiers of engines whose Caching policy caches. Include it where such an engine is composed.
#pragma once

#include "sluice/engine/core/tiers.hpp"
#include "sluice/engine/policies.hpp"

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/tiers.inl.hpp" // IWYU pragma: keep
#endif

namespace sluice {

/// Rejected: the tiers in every engine's core, which was a tenth of the templates of a program that caches nothing.
template <class C>
  requires Caches<typename C::caching_type>
struct CachingCode<C> {
  using Policy = typename C::caching_type;
  static const Policies<C>& of(const void* policies) { return *static_cast<const Policies<C>*>(policies); }
  static std::string name() { return type_name<Policy>(); }

  static constexpr const TierCalls* tiers = &tier_calls;
  static constexpr CachingTable table{
      .writes = Policy::writes,
      .feed = Policy::feed,
      .looks_ahead = LooksAhead<Policy>,
      .uses_hints = heeds_of<Policy>,
      .write =
          [](void* policies, const View& view, const RequestRow& request) {
            auto& all = *static_cast<Policies<C>*>(policies);
            return asked(name, [&] {
              if constexpr (RemembersWrites<Policy>)
                return all.caching.write(all.caching_state, view, request);
              else
                return all.caching.write(view, request);
            });
          },
      .reuse =
          [](const void* policies, const View& view, const RequestRow& request, const FoundPrefix& found) {
            const Reuse reuse = asked(name, [&] {
              const Policies<C>& all = of(policies);
              if constexpr (ReusesByEstimate<Policy>)
                return all.caching.reuse(view, request, found, all.predictor(),
                                         Estimate{Policies<C>::estimates, policies, view.geometry});
              else
                return all.caching.reuse(view, request, found, all.predictor());
            });
            if constexpr (is_real_time<typename C::backend_type>)
              if (reuse.tokens.count() > 0 && reuse.mode == LoadMode::beside)
                reject_answer(name,
                              std::string{"reuse() loads by LoadMode::"} + sluice::name(reuse.mode) +
                                  " on a real-time backend",
                              "another LoadMode: its host's KV comes before the request computes, or layer by layer");
            return reuse;
          },
      .worth =
          [](const void* policies, const View& view, const RequestRow& request) {
            return asked(name, [&] { return of(policies).caching.worth(view, request, of(policies).predictor()); });
          }};
};

} // namespace sluice
