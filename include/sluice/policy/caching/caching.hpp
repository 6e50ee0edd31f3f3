// SPDX-License-Identifier: Apache-2.0
// Caching: the concept of the role that says which KV outlives its request below the device, and how it comes back.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/view/view.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace sluice {

/// What a request that would join finds of its context.
struct FoundPrefix {
  Tokens device{0}; ///< whose KV is on the device
  Tokens below{0};  ///< whose KV only the first tier has, directly after those
  Tokens lower{0};  ///< directly after those: whose KV some tier has, in part only a lower one
  /// How long the tiers' own channels would take from now on, with what is under way: to deliver `below`, beside the
  /// device's link; and to bring `lower` to the first tier, before they cross the link.
  Seconds below_time{0}, lower_time{0};
  /// A real backend has the tiers: an answer that loads beside the computation (`LoadMode::beside`) ends the run with a
  /// sentence. `lower` is on its disk, and only there when the request
  /// arrives: what is fetched then is in `below` when the request is asked again. `lower_time` is what the disk's
  /// latest reads make expect, 0 before the first; `lower_wait` is the part of it before the disk comes to `lower`.
  /// What would arrive after `Reuse::patience` is not fetched.
  bool only_layerwise = false;
  Seconds lower_wait{0};
};

/// What a request loads of the tokens that the device does not have.
struct Reuse {
  Tokens tokens{0}; ///< how many of `below`, from the first on, in whole blocks; the rest is computed. 0: none
  LoadMode mode = LoadMode::layerwise;
  Tokens skipped{0}; ///< with LoadMode::beside: these of `below` are computed, and the load begins behind them
  /// How many of `lower` are brought to the first tier before that, in whole blocks. The request waits outside the
  /// batch until they have arrived, and is asked again then; a request does this once.
  Tokens fetched{0};
  Seconds patience{std::numeric_limits<double>::infinity()}; ///< for these: then it goes on with what has arrived

  friend constexpr bool operator==(const Reuse&, const Reuse&) = default;
};

/// What a request's blocks are worth.
struct Worth {
  double score = 0;  ///< in a tier with `Replacement::least_worth`
  Seconds pinned{0}; ///< how long the device holds the blocks of a session's request that ends now
  /// Of a request that ends now: only so many of its oldest tokens are worth keeping. Of the others, the blocks that no
  /// other session has used leave the first tier first.
  Tokens kept{std::numeric_limits<std::int64_t>::max()};
  /// So long from now the session's next request is expected: by then its blocks are brought to the first tier, and
  /// used, and they are worth `score` until it joins, or for twice that time. 0: unknown.
  Seconds returns{0};
};

/// When the first tier gets blocks of the device.
enum class Writes : std::uint8_t {
  behind,  ///< when they are computed; they cross while the link is idle
  waited,  ///< when they are computed; the iteration ends when they have crossed
  evicted, ///< when the device overwrites them; the iteration ends when they have crossed
};

/// Which blocks a lower tier gets from the one above it.
enum class Feed : std::uint8_t {
  written,    ///< all, when the tier above has them
  evicted,    ///< those that the tier above evicts
  used_again, ///< those that requests use a second time while the tier above has them
};

/// `P` says whether it ever caches anything.
template <class P>
concept StatesCaching = requires {
  typename std::bool_constant<P::caches>;
};
template <class P>
concept Caches = StatesCaching<P> && bool(P::caches);

/// `P` says when tiers get blocks.
template <class P>
concept StatesWrites = requires {
  typename std::integral_constant<Writes, P::writes>;
};
template <class P>
concept StatesFeed = requires {
  typename std::integral_constant<Feed, P::feed>;
};

/// `P` looks at the queue: `static constexpr bool looks_ahead = true;`.
template <class P>
concept LooksAhead = requires {
  requires bool(P::looks_ahead);
};

/// `P` only loads what others compute the beginning of meanwhile: `static constexpr bool loads_beside = true;`.
template <class P>
concept LoadsBeside = requires {
  requires bool(P::loads_beside);
};

/// `P` says how much of a request the tier gets; it may have a `State` that this hook writes.
template <class P>
concept RemembersWrites = requires(const P& policy, typename P::State& state, const View& view, const RequestRow& row) {
  requires std::same_as<decltype(policy.write(state, view, row)), Tokens>;
};
template <class P>
concept HasWrite = RemembersWrites<P> || requires(const P& policy, const View& view, const RequestRow& row) {
  requires std::same_as<decltype(policy.write(view, row)), Tokens>;
};
template <class P>
concept NamesWrite = requires(P& policy, const View& view, const RequestRow& row) {
  policy.write(view, row);
};

/// `P` says what is loaded, and asks what iterations would take before.
template <class P>
concept ReusesByEstimate = requires(const P& policy, const View& view, const RequestRow& row, const FoundPrefix& found,
                                    const CostArchetype& cost, const Estimate& estimate) {
  requires std::same_as<decltype(policy.reuse(view, row, found, cost, estimate)), Reuse>;
};
/// `P` says what is loaded.
template <class P>
concept HasReuse = ReusesByEstimate<P> || requires(const P& policy, const View& view, const RequestRow& row,
                                                   const FoundPrefix& found, const CostArchetype& cost) {
  requires std::same_as<decltype(policy.reuse(view, row, found, cost)), Reuse>;
};
template <class P>
concept NamesReuse = requires(P& policy, const View& view, const RequestRow& row, const FoundPrefix& found,
                              const CostArchetype& cost) {
  policy.reuse(view, row, found, cost);
};

/// `P` says what a request's blocks are worth in the tier.
template <class P>
concept HasWorth = requires(const P& policy, const View& view, const RequestRow& row, const CostArchetype& cost) {
  requires std::same_as<decltype(policy.worth(view, row, cost)), Worth>;
};

/// `P` has a first tier of its own: `P::first_tier(host)` is the host's memory with another way to it, or another order
/// of eviction, which a configuration's `tier` must have.
template <class P>
concept HasFirstTier = requires(const Tier& host) {
  requires std::same_as<decltype(P::first_tier(host)), Tier>;
};
/// The host's memory as `P` has it.
template <class P>
[[nodiscard]] Tier reached_by(const Tier& host) {
  if constexpr (HasFirstTier<P>)
    return P::first_tier(host);
  else
    return host;
}

/// Which KV outlives its request in tiers below the device (host memory, an SSD, a pool), and what of it comes back.
///
///  1. `P::role` is `roles::Caching`.
///  2. `P::caches`: false caches nothing, and the engine has no tier. The following are then absent.
///  3. `P::writes`: when the first tier gets blocks. A block can be found when it has arrived.
///  4. `P::feed`: which of them the next tier gets, and so on.
///  5. `write(view, row)`: how many of the oldest tokens of the request the first tier should have, asked after each of
///     its iterations, and once more when it ends (`row.phase` is `ended`); the engine writes the full blocks of those
///     with KV that the tier does not have. Not asked with `Writes::evicted`.
///  6. `reuse(view, row, found, cost)`: what a request loads if it joins now, asked in every decision until it joins.
///     The answer depends on nothing but the arguments. With a fifth argument, `const Estimate&`, it may ask the
///     evaluator what iterations would take. One load serves all: a second request that would load the same blocks
///     waits for the first one's load, and finds them on the device, if Retention has `finds_released`. With any other
///     Retention each request loads its own.
///  7. `worth(view, row, cost)`: of the request's blocks, asked when they are stored and when the request ends. Pinned
///     blocks take room of the device until their time is over, the session's next request joins, or running requests
///     need the room: pins are given up before a request is preempted, and before nothing could run.
///  8. Optional: `P::looks_ahead`. If true, `worth` is also asked when a request arrives and when it first joins; the
///     first tier's blocks of the request have that worth from then on. Blocks of several waiting requests have the
///     largest worth. When a request arrives, the engine fetches the part of its prefix that only lower tiers hold.
///  9. Optional: a `P::State`. The hook is then `write(state, view, row)`.
/// 10. Optional: `P::uses_hints`, the hints of clients that it reads (`row.hints(heeded<P>)`): `Worth::kept` and
/// `returns`
///     are asked for of a policy that reads some.
/// 11. Optional: `P::first_tier(host)`, if the first tier is not host memory with LRU behind the device's link alone.
///
/// A real backend has tiers of its own, and asks the same: `Writes::evicted` is when the device overwrites blocks, or
/// when their request ends if it keeps none. `worth` is asked when a request ends or is cancelled; a device that keeps
/// blocks pins them, and else the host does (docs/tiers.md, "On this machine").
/// Its `first_tier` must only choose the order of eviction, and the backend's tier must have it.
///
/// Not checked: `write` should not shrink. The device's own blocks are Retention's (`finds_released`).
template <class P>
concept Caching = PlaysRole<P, roles::Caching> && StatesCaching<P> &&
    (Caches<P> ? HasWrite<P>&& HasReuse<P>&& HasWorth<P>&& StatesWrites<P>&& StatesFeed<P>
               : !NamesWrite<P> && !NamesReuse<P>);

template <>
struct Contract<roles::Caching> {
  template <class P>
  static constexpr bool met = Caching<P>;

  template <class P>
  static constexpr const char* equal_layers =
      Caches<P> ? "its Caching policy stores token blocks of all layers" : nullptr;

  template <class P>
  static consteval auto explain() {
    static_assert(StatesCaching<P>, "sluice: this Caching policy needs `static constexpr bool caches = true;` (or "
                                    "false, and no hooks)");
    if constexpr (Caches<P>) {
      static_assert(
          StatesWrites<P>,
          "sluice: this Caching policy needs `static constexpr Writes writes = Writes::behind;` (or another)");
      static_assert(StatesFeed<P>,
                    "sluice: this Caching policy needs `static constexpr Feed feed = Feed::written;` (or another)");
      static_assert(HasWrite<P>,
                    "sluice: this Caching policy needs `Tokens write(const View&, const RequestRow&) const`");
      static_assert(HasReuse<P>,
                    "sluice: this Caching policy needs `template <class Cost> Reuse reuse(const View&, const "
                    "RequestRow&, const FoundPrefix&, const Cost&) const`");
      static_assert(HasWorth<P>,
                    "sluice: this Caching policy needs `template <class Cost> Worth worth(const View&, const "
                    "RequestRow&, const Cost&) const`");
    } else if constexpr (StatesCaching<P>) {
      static_assert(!NamesWrite<P> && !NamesReuse<P>,
                    "sluice: this Caching policy has `write` or `reuse`, but says caches = false: the engine would "
                    "never call them. Say true, or leave the hooks out");
    }
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Caching policies in one engine: keep one of them");
    return true;
  }
};

} // namespace sluice
