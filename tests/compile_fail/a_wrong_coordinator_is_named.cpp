// SPDX-License-Identifier: Apache-2.0
// A coordinator without its declarations and with levels of another type: one message for each.
// sentences: 2
// says: this Coordinator needs .static constexpr bool lends. and .grants.
// says: this Coordinator needs .int grant\(std::span<const Member>, std::size_t asks\) const.
#include "sluice/engine/node/coordinator.hpp"

#include <cstddef>
#include <span>

struct Cautious {
  using role = sluice::roles::Coordinator;
  void lend(std::span<const sluice::Member>, std::size_t, sluice::Bytes, std::span<int>) const {}
#ifdef GOOD
  static constexpr bool lends = false;
  static constexpr bool grants = true;
  int grant(std::span<const sluice::Member>, std::size_t) const { return 1; }
#else
  double grant(std::span<const sluice::Member>, std::size_t) const { return 1; }
#endif
};

static_assert(sluice::explain<Cautious>());
