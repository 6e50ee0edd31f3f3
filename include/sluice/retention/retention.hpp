// SPDX-License-Identifier: Apache-2.0
// Retention: the concept of the role that says what remains of a request that does not run.
#pragma once

#include "sluice/core/contract.hpp"
#include "sluice/view/view.hpp"

#include <concepts>
#include <cstdint>

namespace sluice {

/// What remains of a preempted request's KV.
enum class Kept : std::uint8_t {
  nothing, ///< dropped: everything is computed again
  host,    ///< moved to the host
  device,  ///< left where it is until somebody needs the room
  hidden,  ///< moved to the host, of some layers as the hidden states from which K and V are made again (`KeepsHidden`)
};

/// `P` says what remains when a request is preempted.
template <class P>
concept KeepsOnPreempt = requires(const P& policy, const View& view, const RequestRow& row) {
  { policy.on_preempt(view, row) } -> std::same_as<Kept>;
};

/// `P` says what becomes of what was kept on the device, once the room is needed: layer by layer, from the last.
template <class P>
concept YieldsOnDemand = requires(const P& policy, const View& view, const RequestRow& row) {
  { policy.on_reclaim(view, row) } -> std::same_as<Kept>;
};

/// `P` says how KV comes back: layer by layer, just in time, or all of it before the first layer starts.
template <class P>
concept StatesReturn = requires {
  { P::returns_layerwise } -> std::convertible_to<bool>;
};

/// `P` says whether blocks that were released can be found again.
template <class P>
concept StatesFinding = requires {
  { P::finds_released } -> std::convertible_to<bool>;
};

/// `P` says, in answer to `Kept::hidden`, of which layers hidden states are kept; of the others K and V are. It may ask
/// the planner's cost model. Of retentions that never answer so, nothing of it is asked.
template <class P, class Cost>
concept KeepsHidden = requires(const P& policy, const View& view, const RequestRow& row, const Cost& cost) {
  { policy.hidden_layers(view, row, cost) } -> std::same_as<LayerSet>;
};

/// `P` copies KV of those who run to the host, before anybody asks for the room. Optional: without it nothing is
/// copied.
template <class P>
concept CopiesAhead = requires(const P& policy, const View& view, LayerBlocks idle) {
  // Not `-> std::same_as`: g++ calls a miss of that an error of its own, beside the sentence.
  requires std::same_as<decltype(policy.copy_ahead(view, idle)), LayerBlocks>;
};

/// Such a hook is right, or not there.
template <class P>
concept CopiesAheadOrNot = CopiesAhead<P> || !requires(const P& policy, const View& view, LayerBlocks idle) {
  policy.copy_ahead(view, idle);
};

/// What remains of a request that does not run.
///
///  1. `P::role` is `roles::Retention`.
///  2. `on_preempt(view, row)`: what remains when it stops.
///  3. `on_reclaim(view, row)`: what remains of a layer kept on the device when somebody needs its room: never
///  `device`.
///  4. `P::returns_layerwise`: whether a returning request's KV is fetched layer by layer.
///  5. `P::finds_released`: released blocks stay findable by their content until they are overwritten (PrefixCache),
///  and whoever computes that content again begins behind them.
///  6. `copy_ahead(view, idle)`, if it is there: how many layer blocks of full blocks to copy to the host during this
///  iteration, of the `idle` that the way out has time for. The engine says whose, keeps the copies while the host has
///  room for them, and gives them up before anything else.
///
/// Where the host has no room for what should move there, the engine drops it instead and says so to the observers.
template <class P>
concept Retention = PlaysRole<P, roles::Retention> && KeepsOnPreempt<P> && YieldsOnDemand<P> && StatesReturn<P> &&
    StatesFinding<P> && CopiesAheadOrNot<P>;

template <>
struct Contract<roles::Retention> {
  template <class P>
  static constexpr bool met = Retention<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(KeepsOnPreempt<P>,
                  "sluice: this Retention policy needs `Kept on_preempt(const View&, const RequestRow&) const`");
    static_assert(YieldsOnDemand<P>,
                  "sluice: this Retention policy needs `Kept on_reclaim(const View&, const RequestRow&) const` "
                  "(Kept::nothing or Kept::host)");
    static_assert(StatesReturn<P>,
                  "sluice: this Retention policy needs `static constexpr bool returns_layerwise = true;` (or false)");
    static_assert(StatesFinding<P>,
                  "sluice: this Retention policy needs `static constexpr bool finds_released = false;` (or true)");
    static_assert(CopiesAheadOrNot<P>, "sluice: this Retention policy's `copy_ahead` must be `LayerBlocks "
                                       "copy_ahead(const View&, LayerBlocks idle) const`");
    return true;
  }
};

} // namespace sluice
