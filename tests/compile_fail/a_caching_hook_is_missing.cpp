// SPDX-License-Identifier: Apache-2.0
// A Caching policy that caches needs all hooks: with a misspelt one nothing would be loaded.
// sentences: 1
// says: this Caching policy needs `template <class Cost> Reuse reuse
#include "sluice/policy/caching/caching.hpp"

struct Mine {
  using role = sluice::roles::Caching;
  static constexpr bool caches = true;
  static constexpr sluice::Writes writes = sluice::Writes::behind;
  static constexpr sluice::Feed feed = sluice::Feed::written;
  sluice::Tokens write(const sluice::View&, const sluice::RequestRow& row) const { return row.context(); }
  template <class Cost>
  sluice::Worth worth(const sluice::View&, const sluice::RequestRow&, const Cost&) const {
    return {};
  }
  template <class Cost>
#ifdef GOOD
  sluice::Reuse reuse(
#else
  sluice::Reuse re_use(
#endif
      const sluice::View&, const sluice::RequestRow&, const sluice::FoundPrefix& found, const Cost&) const {
    return {found.below, sluice::LoadMode::layerwise};
  }
};
static_assert(sluice::explain<Mine>());
