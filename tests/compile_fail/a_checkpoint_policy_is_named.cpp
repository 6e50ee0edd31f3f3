// SPDX-License-Identifier: Apache-2.0
// A Retention that lets released blocks be found says where states have checkpoints.
// sentences: 1
// says: this Retention policy says finds_released = true and needs .using checkpoints = ChunkEnds;.
#include "sluice/policy/retention/retention.hpp"

struct Find {
  using role = sluice::roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = true;
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = false;
#ifdef GOOD
  using checkpoints = sluice::ChunkEnds;
#endif
  sluice::Kept on_preempt(const sluice::View&, const sluice::RequestRow&) const { return sluice::Kept::nothing; }
  sluice::Kept on_reclaim(const sluice::View&, const sluice::RequestRow&) const { return sluice::Kept::nothing; }
};
static_assert(sluice::explain<Find>());
