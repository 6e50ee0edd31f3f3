// SPDX-License-Identifier: Apache-2.0
// Retention: the concept of the role that says what remains of a request's KV when it is preempted. Checkpoints: at
// which blocks' ends copies of recurrent states are kept for later requests.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/state/memory/group_prefix_cache.hpp"
#include "sluice/state/view/view.hpp"

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace sluice {

/// A recurrent state is valid after exactly the tokens that made it, so a later request can only begin where a copy was
/// kept. `keeps(end)`: whether to keep one at this end of a block, of which the iteration has just computed the last
/// token. A checkpoint takes a state's room among the blocks that can be found, and leaves with the others.
///
/// A part of Retention policies with `finds_released` (`P::checkpoints`), for models that have states.
template <class P>
concept Checkpoints = requires(const BlockEnd& end) {
  { P::keeps(end) } -> std::same_as<bool>;
};

/// One where each iteration's chunk ends, or at the last end of a block before: vLLM's `mamba_cache_mode = "align"`. A
/// prefix is found only up to the end of a chunk that lies within it (vllm#45238). A decode ends a chunk with each
/// block.
struct ChunkEnds {
  static constexpr bool keeps(const BlockEnd& end) { return end.blocks == end.last; }
};

/// One at every end of a block: vLLM's "all". Every block of a prefix is found, and a state is stored with each.
struct EveryBlock {
  static constexpr bool keeps(const BlockEnd& /*end*/) { return true; }
};

/// Where requests part, and at the prompt's end: after Marconi (Pan et al., MLSys 2025), which stores few states of
/// much use. The second request with a prefix computes it again, since only then it is known where the two part, and
/// keeps the state there; further ones find it. Marconi also keeps the state after the answer's last token; here the
/// next turn of a conversation begins at the prompt's end, and keeps the state at the answer's end.
struct BranchPoints {
  static constexpr bool keeps(const BlockEnd& end) { return end.blocks == end.shared || end.blocks == end.prompt; }
};

static_assert(Checkpoints<ChunkEnds> && Checkpoints<EveryBlock> && Checkpoints<BranchPoints>);

/// What remains of a preempted request's KV.
enum class Kept : std::uint8_t {
  nothing, ///< dropped: all of it is recomputed
  host,    ///< moved to the host
  device,  ///< left on the device until its room is needed
  hidden,  ///< the saved hidden states of some layers, from which K and V are rebuilt (`KeepsHidden`); K and V of the
           ///< other layers move to the host
};

/// `P` says what remains when a request is preempted.
template <class P>
concept KeepsOnPreempt = requires(const P& policy, const View& view, const RequestRow& row) {
  { policy.on_preempt(view, row) } -> std::same_as<Kept>;
};

/// `P` says what happens to KV kept on the device once its room is needed, layer by layer from the last.
template <class P>
concept YieldsOnDemand = requires(const P& policy, const View& view, const RequestRow& row) {
  { policy.on_reclaim(view, row) } -> std::same_as<Kept>;
};

/// `P` says how KV returns: layer by layer, just in time, or as a whole before the first layer starts.
template <class P>
concept StatesReturn = requires {
  { P::returns_layerwise } -> std::convertible_to<bool>;
};

/// `P` says whether released blocks can be found again.
template <class P>
concept StatesFinding = requires {
  { P::finds_released } -> std::convertible_to<bool>;
};
/// If they can, `P` says where checkpoints of recurrent states are kept.
template <class P>
concept ChoosesCheckpoints = !bool(P::finds_released) || Checkpoints<typename P::checkpoints>;

/// `P` says whether it ever answers `Kept::hidden`.
template <class P>
concept StatesHiding = requires {
  typename std::bool_constant<P::keeps_hidden>;
};
template <class P, class = CostArchetype>
concept KeepsHidden = StatesHiding<P> && bool(P::keeps_hidden);

/// `P` says which layers' hidden states are saved for `Kept::hidden`; K and V are kept of the others. It may ask the
/// planner's cost model.
template <class P>
concept HasHiddenLayers = requires(const P& policy, const View& view, const RequestRow& row,
                                   const CostArchetype& cost) {
  // Not `-> std::same_as`: g++ reports a mismatch of that as a second error besides the sentence.
  requires std::same_as<decltype(policy.hidden_layers(view, row, cost)), LayerSet>;
};
template <class P>
concept NamesHiddenLayers = requires(P& policy, const View& view, const RequestRow& row, const CostArchetype& cost) {
  policy.hidden_layers(view, row, cost);
};

/// `P` says whether it copies KV of running requests to the host ahead of need.
template <class P>
concept StatesCopying = requires {
  typename std::bool_constant<P::copies_ahead>;
};
template <class P>
concept CopiesAhead = StatesCopying<P> && bool(P::copies_ahead);

/// `P` says how much it copies.
template <class P>
concept HasCopyAhead = requires(const P& policy, const View& view, LayerBlocks idle) {
  requires std::same_as<decltype(policy.copy_ahead(view, idle)), LayerBlocks>;
};
template <class P>
concept NamesCopyAhead = requires(P& policy, const View& view, LayerBlocks idle) {
  policy.copy_ahead(view, idle);
};

/// `P` says how much of an ended request keeps its place among the blocks that can be found.
template <class P>
concept JudgesEnded = requires(const P& policy, const View& view, const RequestRow& row) {
  requires std::same_as<decltype(policy.on_end(view, row)), Tokens>;
};
template <class P>
concept NamesOnEnd = requires(P& policy, const View& view, const RequestRow& row) {
  policy.on_end(view, row);
};

/// `P` has a hook exactly if its constant says so.
template <class P>
concept RetentionAsSaid = StatesHiding<P> &&
    hook_as_said(KeepsHidden<P>, HasHiddenLayers<P>, NamesHiddenLayers<P>) && StatesCopying<P> &&
    hook_as_said(CopiesAhead<P>, HasCopyAhead<P>, NamesCopyAhead<P>) &&
    hook_as_said(NamesOnEnd<P>, JudgesEnded<P>, NamesOnEnd<P>) &&(!NamesOnEnd<P> || bool(P::finds_released));

/// What remains of the KV of a preempted request.
///
///  1. `P::role` is `roles::Retention`.
///  2. `on_preempt(view, row)`: what remains when the request is preempted.
///  3. `on_reclaim(view, row)`: what remains of a layer kept on the device when its room is needed; never `device`.
///  4. `P::returns_layerwise`: whether a returning request's KV is fetched layer by layer.
///  5. `P::finds_released`: whether released blocks can be found by their content until they are overwritten
///     (PrefixCache). A request with that content then computes only the tokens after them. `P::checkpoints`
///     (Checkpoints) then says at which blocks' ends states of recurrent layers are kept for this.
///  6. `P::keeps_hidden`: whether a hook ever answers `Kept::hidden`. When a request joins with nothing computed,
///     `hidden_layers(view, row, cost)` then says for which layers the iterations that compute hidden states also write
///     them to the host. The engine saves them while the host has room, gives them up before KV and after copies, and
///     treats `Kept::hidden` as `Kept::host` if a request has none.
///  7. `P::copies_ahead`: whether KV is copied to the host before it must leave. `copy_ahead(view, idle)` then says
///     how many layer blocks of full blocks to copy during this iteration, out of the `idle` that the outbound lane has
///     time for. The engine chooses which, keeps the copies while the host has room for them, and gives them up before
///     anything else.
///  8. Optional, with `finds_released`: `on_end(view, row)`, asked when a request ends: how many of its oldest tokens
///     keep their place. The room of blocks after these is taken before that of all others, except for blocks that
///     another session has used, too.
///
/// If the host has no room for KV that should move there, the engine drops it and reports that to the observers.
template <class P>
concept Retention = PlaysRole<P, roles::Retention> && KeepsOnPreempt<P> && YieldsOnDemand<P> && StatesReturn<P> &&
    StatesFinding<P> && ChoosesCheckpoints<P> && RetentionAsSaid<P>;

template <>
struct Contract<roles::Retention> {
  template <class P>
  static constexpr bool met = Retention<P>;

  template <class P>
  static constexpr const char* equal_layers =
      JudgesEnded<P>   ? "its Retention policy parts with token blocks of all layers"
      : KeepsHidden<P> ? "its Retention policy keeps hidden states of single layers"
                       : nullptr;

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
    if constexpr (StatesFinding<P>)
      static_assert(ChoosesCheckpoints<P>, "sluice: this Retention policy says finds_released = true and needs `using "
                                           "checkpoints = ChunkEnds;` (or EveryBlock, BranchPoints, your own)");
    static_assert(StatesHiding<P>, "sluice: this Retention policy needs `static constexpr bool keeps_hidden = false;` "
                                   "(true if it answers Kept::hidden: `hidden_layers`)");
    if constexpr (StatesHiding<P>) {
      static_assert(!KeepsHidden<P> || HasHiddenLayers<P>,
                    "sluice: this Retention policy says keeps_hidden = true and needs `template <class Cost> LayerSet "
                    "hidden_layers(const View&, const RequestRow&, const Cost&) const`");
      static_assert(KeepsHidden<P> || !NamesHiddenLayers<P>,
                    "sluice: this Retention policy has `hidden_layers`, but says keeps_hidden = false: the engine "
                    "would never call it. Say true, or leave the hook out");
    }
    static_assert(StatesCopying<P>, "sluice: this Retention policy needs `static constexpr bool copies_ahead = false;` "
                                    "(true if it copies KV of running requests: `copy_ahead`)");
    if constexpr (StatesCopying<P>) {
      static_assert(!CopiesAhead<P> || HasCopyAhead<P>,
                    "sluice: this Retention policy says copies_ahead = true and needs `LayerBlocks copy_ahead(const "
                    "View&, LayerBlocks idle) const`");
      static_assert(CopiesAhead<P> || !NamesCopyAhead<P>,
                    "sluice: this Retention policy has `copy_ahead`, but says copies_ahead = false: nothing would be "
                    "copied. Say true, or leave the hook out");
    }
    static_assert(!NamesOnEnd<P> || (JudgesEnded<P> && bool(P::finds_released)),
                  "sluice: this Retention policy has `on_end`, which must be `Tokens on_end(const View&, const "
                  "RequestRow&) const`, and needs finds_released = true: the device keeps nothing otherwise");
    return true;
  }

  template <bool Once>
  static consteval auto explain_twice() {
    static_assert(Once, "sluice: two Retention policies in one engine: keep one of them (does a bundle such as "
                        "PauseResume bring one?)");
    return true;
  }
};

} // namespace sluice
