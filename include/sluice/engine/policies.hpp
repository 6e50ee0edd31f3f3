// SPDX-License-Identifier: Apache-2.0
// Policies: an engine's policies and what they remember; and the table through which the core asks them.
#pragma once

#include "sluice/admission/admission.hpp"
#include "sluice/backend/backend.hpp"
#include "sluice/core/type_name.hpp"
#include "sluice/engine/compose.hpp"
#include "sluice/engine/core/policy_table.hpp"
#include "sluice/observer/observer.hpp"
#include "sluice/weights/resident_weights.hpp"
#include "sluice/weights/streamed_step.hpp"

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
  static constexpr bool none = sizeof...(Os) == 0;
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

  /// A search in progress, which no two engines share: a copy of the engine that decides has its own.
  typename C::placement_type::template State<typename C::transfer_type> placement_state{};
  [[no_unique_address]] typename observers_type::states observer_states{};
  /// Step times of the levels that a node chooses among.
  [[no_unique_address]] std::conditional_t<streams_weights, StreamedStep, NoStep> level_times{};
  bool silent = false; ///< a copy that decides asynchronously tells observers nothing

  /// The planner's cost model, corrected by what it has learned.
  [[nodiscard]] decltype(auto) predictor() const { return this->cost.predictor(this->cost_state); }
  /// Calls `tell(observer, state)` for each observer.
  template <class Tell>
  void observe(Tell&& tell) {
    if constexpr (!observers_type::none) {
      if (silent) return;
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (tell(std::get<I>(this->observers), std::get<I>(observer_states)), ...);
      }
      (std::make_index_sequence<std::tuple_size_v<typename C::observer_values>>{});
    }
  }
  /// What Delivery calls when tokens reach their user.
  auto delivery_sink() {
    return [this](const RequestRow& request, Tokens count, Seconds when) {
      observe([&](const auto& observer, auto& state) { observer.delivered(state, request, count, when); });
    };
  }
};

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
  static std::string relief_name() { return type_name<typename C::relief_type>(); }
  static std::string placement_name() { return type_name<typename C::placement_type>(); }

  static Kept on_preempt(const void* policies, const View& view, const RequestRow& request) {
    return of(policies).retention.on_preempt(view, request);
  }
  static Kept on_reclaim(const void* policies, const View& view, const RequestRow& request) {
    return of(policies).retention.on_reclaim(view, request);
  }
  static LayerSet hidden_layers(const void* policies, const View& view, const RequestRow& request) {
    if constexpr (KeepsHidden<typename C::retention_type, typename All::predictor_type>)
      return of(policies).retention.hidden_layers(view, request, of(policies).predictor());
    else
      return {};
  }
  static LayerBlocks copy_ahead(const void* policies, const View& view, LayerBlocks idle) {
    if constexpr (CopiesAhead<typename C::retention_type>)
      return of(policies).retention.copy_ahead(view, idle);
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
    of(policies).admission.leave(of(policies).admission_state, slot, request);
  }
  static void planned(void* policies) { of(policies).replan.planned(of(policies).replan_state); }
  static void resumed(void* policies, const RequestRow& request, Seconds now) {
    of(policies).observe([&](const auto& observer, auto& state) { observer.resumed(state, request, now); });
  }
  static void preempted(void* policies, const RequestRow& request, Kept kept, Seconds now) {
    of(policies).observe([&](const auto& observer, auto& state) { observer.preempted(state, request, kept, now); });
  }
  static void refused(void* policies, RequestId id, const RequestSpec& spec, Seconds now, std::string_view why) {
    of(policies).observe([&](const auto& observer, auto& state) { observer.refused(state, id, spec, now, why); });
  }
};

} // namespace detail

/// What the core knows of the policies of composition `C`.
template <class C>
inline constexpr PolicyTable policy_table{
    .is = {.returns_layerwise = C::retention_type::returns_layerwise,
           .copies_ahead = CopiesAhead<typename C::retention_type>,
           .keeps_hidden = KeepsHidden<typename C::retention_type>,
           .finds_released = C::retention_type::finds_released,
           .streams_weights = Policies<C>::streams_weights,
           .lends_weights = LendsWeights<typename C::weights_type>,
           .real_time = is_real_time<typename C::backend_type>,
           .wants_timeline = ObserverSet<typename C::observer_types>::replays,
           .refuses_victims = C::relief_type::parting == Parting::refuse,
           .layerwise = C::layout_type::layerwise},
    .room = &detail::PolicyFunctions<C>::room,
    .held_blocks = &detail::PolicyFunctions<C>::held_blocks,
    .placement_name = &detail::PolicyFunctions<C>::placement_name,
    .relief_name = &detail::PolicyFunctions<C>::relief_name,
    .on_preempt = &detail::PolicyFunctions<C>::on_preempt,
    .on_reclaim = &detail::PolicyFunctions<C>::on_reclaim,
    .hidden_layers = &detail::PolicyFunctions<C>::hidden_layers,
    .copy_ahead = &detail::PolicyFunctions<C>::copy_ahead,
    .compute_s = &detail::PolicyFunctions<C>::compute_s,
    .link = &detail::PolicyFunctions<C>::link,
    .most_lent = &detail::PolicyFunctions<C>::most_lent,
    .left_queue = &detail::PolicyFunctions<C>::left_queue,
    .planned = &detail::PolicyFunctions<C>::planned,
    .resumed = &detail::PolicyFunctions<C>::resumed,
    .preempted = &detail::PolicyFunctions<C>::preempted,
    .refused = &detail::PolicyFunctions<C>::refused,
};

} // namespace sluice
