// SPDX-License-Identifier: Apache-2.0
// Policies: an engine's policies and what they remember; and the table through which the core asks them.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/engine/compose.hpp"
#include "sluice/engine/core/checks.hpp"
#include "sluice/engine/core/policy_table.hpp"
#include "sluice/policy/admission/admission.hpp"
#include "sluice/policy/weights/resident_weights.hpp"
#include "sluice/policy/weights/weights.hpp"
#include "sluice/report/observer/observer.hpp"
#include "sluice/world/backend.hpp"

#include <tuple>
#include <type_traits>
#include <utility>

namespace sluice {

template <class List>
struct ObserverSet;
template <class... Os>
struct ObserverSet<Parts<Os...>> {
  using states = std::tuple<typename Os::State...>;
  static constexpr bool replays = (Os::wants_timeline || ...);
  template <class Event>
  static constexpr bool hears = (Os::hears::template contains<Event> || ...);
};

/// The policies of composition `C` apart from its backend, each with its state.
template <class C>
struct Policies : PolicyValues<C>, PolicyStates<C> {
  using observers_type = ObserverSet<typename C::observer_types>;
  using predictor_type = std::remove_cvref_t<decltype(std::declval<const typename C::cost_type&>().predictor(
      std::declval<const typename C::cost_type::State&>()))>;
  static constexpr bool streams_weights = !std::is_same_v<typename C::weights_type, ResidentWeights>;
  struct NoStep {};

  using PolicyValues<C>::PolicyValues;

  /// A search in progress, which no two engines share: a copy of the engine has its own.
  typename C::placement_type::template State<typename C::transfer_type> placement_state{};
  [[no_unique_address]] typename observers_type::states observer_states{};
  /// Step times of the levels among which a node chooses.
  [[no_unique_address]] std::conditional_t<streams_weights, StreamedStep, NoStep> level_times{};
  /// What Admission may ask.
  static const EstimateTable estimates;
  bool silent = false; ///< a copy that decides asynchronously tells observers nothing

  /// The planner's cost model, corrected by what it has learned.
  [[nodiscard]] decltype(auto) predictor() const { return this->cost.predictor(this->cost_state); }
  /// Asks Admission for its claims.
  void propose(const View& view, Proposal& proposal) {
    if constexpr (ProposesByEstimate<typename C::admission_type>)
      this->admission.propose(view, this->admission_state, proposal, Estimate{estimates, this, view.geometry});
    else
      this->admission.propose(view, this->admission_state, proposal);
  }
  /// Whether an observer hears of such events; what only they need is computed only then.
  template <class Event>
  static constexpr bool hears = observers_type::template hears<Event>;
  /// Tells the observers that hear of such events.
  template <class Event>
  void tell(const Event& event) {
    if constexpr (hears<Event>) {
      if (silent) return;
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (sluice::tell(std::get<I>(this->observers), std::get<I>(observer_states), event), ...);
      }
      (std::make_index_sequence<std::tuple_size_v<typename C::observer_values>>{});
    }
  }
};

template <class C>
constexpr EstimateTable Policies<C>::estimates{
    [](const void* policies, const Work& work) -> StepTime {
      return step_time(static_cast<const Policies*>(policies)->predictor(), work);
    },
    [](const void* policies) -> LinkCost { return static_cast<const Policies*>(policies)->predictor().link(); },
    &evaluate_after_repeats<typename C::transfer_type>};

namespace detail {

/// The functions that a PolicyTable points to.
template <class C>
struct PolicyFunctions {
  using All = Policies<C>;
  static All& of(void* policies) { return *static_cast<All*>(policies); }
  static const All& of(const void* policies) { return *static_cast<const All*>(policies); }

  static LayerBlocks room(TokenBlocks blocks, int held, int layers) {
    return C::layout_type::room(blocks, held, layers);
  }
  static double held_blocks(std::span<const double> loads, std::span<const LayerStream> streams) {
    return C::transfer_type::held_blocks(loads, streams);
  }
  static std::string admission_name() { return type_name<typename C::admission_type>(); }
  static std::string replan_name() { return type_name<typename C::replan_type>(); }
  static std::string lookahead_name() { return type_name<typename C::lookahead_type>(); }
  static std::string retention_name() { return type_name<typename C::retention_type>(); }
  static std::string weights_name() { return type_name<typename C::weights_type>(); }
  static std::string relief_name() { return type_name<typename C::relief_type>(); }
  static std::string placement_name() { return type_name<typename C::placement_type>(); }

  static Kept hidden_only_if_said(Kept kept) {
    if (kept == Kept::hidden && !C::retention_type::keeps_hidden)
      reject_answer(retention_name, "it keeps hidden states", "another answer, or `keeps_hidden`");
    return kept;
  }
  static Kept on_preempt(const void* policies, const View& view, const RequestRow& request) {
    const Kept kept = asked(retention_name, [&] { return of(policies).retention.on_preempt(view, request); });
    return hidden_only_if_said(kept);
  }
  static Kept on_reclaim(const void* policies, const View& view, const RequestRow& request) {
    const Kept kept = asked(retention_name, [&] { return of(policies).retention.on_reclaim(view, request); });
    if (kept == Kept::device) reject_answer(retention_name, "on_reclaim keeps KV on the device", "another answer");
    return hidden_only_if_said(kept);
  }
  static Tokens on_end(const void* policies, const View& view, const RequestRow& request) {
    return asked(retention_name, [&] { return of(policies).retention.on_end(view, request); });
  }
  static LayerSet hidden_layers(const void* policies, const View& view, const RequestRow& request) {
    if constexpr (KeepsHidden<typename C::retention_type, typename All::predictor_type>)
      return asked(retention_name,
                   [&] { return of(policies).retention.hidden_layers(view, request, of(policies).predictor()); });
    else
      return {};
  }
  static LayerBlocks copy_ahead(const void* policies, const View& view, LayerBlocks idle) {
    if constexpr (CopiesAhead<typename C::retention_type>)
      return asked(retention_name, [&] { return of(policies).retention.copy_ahead(view, idle); });
    else
      return LayerBlocks{0};
  }
  static double compute_s(const void* policies, const Work& work, int layers) {
    return compute_time(of(policies).predictor(), work, layers).count();
  }
  static LinkCost link(const void* policies) { return of(policies).predictor().link(); }
  static int most_lent(const void* policies, int layers, double transfer_s, double prefill_s) {
    if constexpr (LendsWeights<typename C::weights_type>)
      return of(policies).weights.most_lent(layers, transfer_s, prefill_s);
    else
      return 0;
  }

  static void left_queue(void* policies, Slot slot, const RequestRow& request) {
    asked(admission_name, [&] { of(policies).admission.leave(of(policies).admission_state, slot, request); });
  }
  static void planned(void* policies) {
    asked(replan_name, [&] { of(policies).replan.planned(of(policies).replan_state); });
  }
  static void tell(void* policies, const AnyEvent& event) {
    event.visit(AllEvents{}, [policies](const auto& of_its_type) { of(policies).tell(of_its_type); });
  }
};

} // namespace detail

/// What engines of composition `C` that cache need: engine/caching.hpp has it.
template <class C>
struct CachingCode {
  static_assert(!Caches<typename C::caching_type>,
                "sluice: an engine with a Caching policy needs its tiers: include sluice/engine/caching.hpp");
};

namespace detail {
template <class Retained>
constexpr auto keeps_checkpoint() -> bool (*)(const BlockEnd&) {
  if constexpr (Retained::finds_released)
    return &Retained::checkpoints::keeps;
  else
    return nullptr;
}
template <class C>
constexpr const CachingTable* caching_table() {
  if constexpr (Caches<typename C::caching_type>)
    return &CachingCode<C>::table;
  else
    return nullptr;
}
/// Whether the core must know who uses a block. (A real backend's tiers know it themselves.)
template <class C>
inline constexpr bool parts_with = [](HintSet of) {
  return (of.keep || of.release) && (C::retention_type::finds_released || has_tiers<C>);
}(heeds_of<typename C::retention_type> | heeds_of<typename C::caching_type>);
template <class C>
constexpr auto on_end_of() {
  if constexpr (JudgesEnded<typename C::retention_type>)
    return &PolicyFunctions<C>::on_end;
  else
    return nullptr;
}
template <class C>
constexpr const TierCalls* tiers_of() {
  if constexpr (has_tiers<C>)
    return CachingCode<C>::tiers;
  else
    return nullptr;
}
} // namespace detail

/// The table of the policies of composition `C`.
template <class C>
inline constexpr PolicyTable policy_table{
    .is = {.returns_layerwise = C::retention_type::returns_layerwise,
           .copies_ahead = CopiesAhead<typename C::retention_type>,
           .keeps_hidden = KeepsHidden<typename C::retention_type>,
           .finds_released = C::retention_type::finds_released,
           .keeps_states = KeepsStates<typename C::placement_type>,
           .streams_weights = Policies<C>::streams_weights,
           .lends_weights = LendsWeights<typename C::weights_type>,
           .real_time = is_real_time<typename C::backend_type>,
           .wants_timeline = ObserverSet<typename C::observer_types>::replays,
           .refuses_victims = C::relief_type::parting == Parting::refuse,
           .layerwise = C::layout_type::layerwise,
           .parts_with = detail::parts_with<C>,
           .foresees = C::foresees},
    .room = &detail::PolicyFunctions<C>::room,
    .held_blocks = &detail::PolicyFunctions<C>::held_blocks,
    .admission_name = &detail::PolicyFunctions<C>::admission_name,
    .placement_name = &detail::PolicyFunctions<C>::placement_name,
    .relief_name = &detail::PolicyFunctions<C>::relief_name,
    .on_preempt = &detail::PolicyFunctions<C>::on_preempt,
    .on_reclaim = &detail::PolicyFunctions<C>::on_reclaim,
    .on_end = detail::on_end_of<C>(),
    .hidden_layers = &detail::PolicyFunctions<C>::hidden_layers,
    .keeps_checkpoint = detail::keeps_checkpoint<typename C::retention_type>(),
    .copy_ahead = &detail::PolicyFunctions<C>::copy_ahead,
    .caching = detail::caching_table<C>(),
    .tiers = detail::tiers_of<C>(),
    .compute_s = &detail::PolicyFunctions<C>::compute_s,
    .link = &detail::PolicyFunctions<C>::link,
    .most_lent = &detail::PolicyFunctions<C>::most_lent,
    .left_queue = &detail::PolicyFunctions<C>::left_queue,
    .planned = &detail::PolicyFunctions<C>::planned,
    .tell = &detail::PolicyFunctions<C>::tell,
};

} // namespace sluice
