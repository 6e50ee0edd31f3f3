// SPDX-License-Identifier: Apache-2.0
// WriteThrough: every block goes to the host when it is computed.
#pragma once

#include "sluice/policy/caching/caching.hpp"

#include <algorithm>

namespace sluice {

/// Copies KV to the first tier as soon as a block is full, and loads everything that the tiers have. The first tier
/// then holds all that the device holds and more, so an eviction from the device moves nothing. With `Writes::evicted`
/// the same for a tier that gets what the device overwrites (write-back).
///
/// The constants of several systems are its values (engine/systems/prefix_tiers.hpp).
template <Writes W, Feed F = Feed::written>
struct BasicWriteThrough {
  using role = roles::Caching;
  static constexpr bool caches = true;
  static constexpr Writes writes = W;
  static constexpr Feed feed = F;

  Tokens chunk{1};                     ///< whole chunks of so many tokens are written and loaded, at least a block
  Tokens least{1};                     ///< fewer tokens are computed and not loaded
  bool saves_answers = true;           ///< otherwise only prompts are written
  LoadMode mode = LoadMode::layerwise; ///< of loads from the first tier
  Tokens least_fetched{1};             ///< fewer tokens of lower tiers are computed
  Seconds patience{std::numeric_limits<double>::infinity()}; ///< a fetch from a lower tier takes at most this,
  Seconds patience_per_token{0};                             ///< and this for each of its tokens

  Tokens write(const View& /*view*/, const RequestRow& row) const {
    const Tokens all = saves_answers ? row.context() : row.spec.prompt;
    return Tokens{all.count() / chunk.count() * chunk.count()};
  }
  template <class Cost>
  Reuse reuse(const View& /*view*/, const RequestRow& /*row*/, const FoundPrefix& found, const Cost& /*cost*/) const {
    const auto whole = [&](Tokens end, Tokens begin, Tokens at_least) {
      const Tokens tokens = std::max(Tokens{0}, Tokens{end.count() / chunk.count() * chunk.count()} - begin);
      return tokens < at_least ? Tokens{0} : tokens;
    };
    const Tokens below = found.device + found.below;
    Reuse reuse{whole(below, found.device, least), mode};
    reuse.fetched = whole(below + found.lower, below, least_fetched);
    if (reuse.fetched.count() > 0)
      reuse.patience = patience + static_cast<double>(reuse.fetched.count()) * patience_per_token;
    return reuse;
  }
  template <class Cost>
  Worth worth(const View& /*view*/, const RequestRow& /*row*/, const Cost& /*cost*/) const {
    return {};
  }
};

using WriteThrough = BasicWriteThrough<Writes::behind>;

static_assert(explain<WriteThrough>());
static_assert(explain<BasicWriteThrough<Writes::waited>>());

} // namespace sluice
