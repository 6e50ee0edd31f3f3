// SPDX-License-Identifier: Apache-2.0
// WriteThrough: every block goes to the host when it is computed.
#pragma once

#include "sluice/policy/caching/caching.hpp"

#include <algorithm>

namespace sluice {

/// Whether an iteration waits for its writes.
enum class Writes : bool {
  behind, ///< they cross while the link is idle
  waited, ///< the iteration ends when they have crossed
};

/// Copies KV to the host as soon as a block is full, and loads everything that the host has. The host then holds all
/// that the device holds and more, so an eviction from the device moves nothing.
///
/// The constants of several systems are its values (engine/systems/prefix_tiers.hpp).
template <Writes writes>
struct BasicWriteThrough {
  using role = roles::Caching;
  static constexpr bool caches = true;
  static constexpr bool waits_for_writes = writes == Writes::waited;

  Tokens chunk{1};           ///< whole chunks of so many tokens are written and loaded, never less than a block
  Tokens least{1};           ///< fewer tokens are computed and not loaded
  bool saves_answers = true; ///< otherwise only prompts are written
  bool layerwise = true;     ///< as in `Reuse`

  Tokens write(const View& /*view*/, const RequestRow& row) const {
    const Tokens all = saves_answers ? row.context() : row.spec.prompt;
    return Tokens{all.count() / chunk.count() * chunk.count()};
  }
  template <class Cost>
  Reuse reuse(const View& /*view*/, const RequestRow& /*row*/, const FoundPrefix& found, const Cost& /*cost*/) const {
    const Tokens end{(found.device + found.below).count() / chunk.count() * chunk.count()};
    const Tokens tokens = std::max(Tokens{0}, end - found.device);
    return {tokens < least ? Tokens{0} : tokens, layerwise};
  }
  double worth(const View& /*view*/, const RequestRow& /*row*/) const { return 0; }
};

using WriteThrough = BasicWriteThrough<Writes::behind>;

static_assert(explain<WriteThrough>());
static_assert(explain<BasicWriteThrough<Writes::waited>>());

} // namespace sluice
