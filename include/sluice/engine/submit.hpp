// SPDX-License-Identifier: Apache-2.0
// submit: makes an engine from its configuration, submits a request, and cancels one. needs_equal_layers: which part of
// a composition serves only models whose layers are alike.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/engine/compose.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/policy/placement/placement.hpp"
#include "sluice/policy/weights/resident_weights.hpp"
#include "sluice/state/plan/space.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {
template <class P>
inline constexpr const char* policy_needs_equal_layers = nullptr;
template <class P>
  requires requires { Contract<typename P::role>::template equal_layers<P>; }
inline constexpr const char* policy_needs_equal_layers<P> = Contract<typename P::role>::template equal_layers<P>;

/// The first of the sentences of these policies; null if there is none. A Caching policy of an engine on a machine says
/// what the machine's host tier keeps, and without one it does nothing (`check`).
template <bool OnMachine, class... Ps>
consteval const char* first_need(Parts<Ps...>) {
  const char* first = nullptr;
  ((first = first != nullptr || (OnMachine && std::is_same_v<typename Ps::role, roles::Caching>)
                ? first
                : policy_needs_equal_layers<Ps>),
   ...);
  return first;
}
} // namespace detail

/// What a part of composition `C` does that a model whose layers keep different amounts of KV does not allow
/// (`Geometry::groups`): a sentence without its end, its policy's (`Contract`) or of several together. Null if the
/// engine serves the model: requests are on the device whole, or on the host whole, or dropped, or its placement moves
/// only layers of `movable` (`Geometry::movable`). `same_blocks`: of the layers (`KvBlocks::same_blocks`); a machine
/// has blocks of one size, and streams the weights of layers of one layout.
template <class C>
[[nodiscard]] const char* needs_equal_layers(const typename C::placement_type& placement, LayerSet movable, int layers,
                                             bool same_blocks = false) {
  using L = typename C::layout_type;
  if constexpr (is_real_time<typename C::backend_type>) {
    if (!same_blocks) return "its Backend stores blocks of one size";
    if (!std::is_same_v<typename C::weights_type, ResidentWeights>)
      return "its Weights policy streams layers, which its Backend does where they are alike";
    if (C::retention_type::finds_released) return "its Retention finds blocks of all layers, which its Backend shares";
  }
  constexpr const char* need = detail::first_need<is_real_time<typename C::backend_type>>(typename C::policies{});
  if (need != nullptr) return need;
  if (L::layerwise && L::room(TokenBlocks{1}, 1, layers) != LayerBlocks{1}) return "its Layout groups layers";
  if (!C::placement_type::places_layers && placement.least(layers).all_resident()) return nullptr; // it moves no layer
  if (!L::layerwise) return "its Layout holds all layers of a block together";
  if (C::retention_type::copies_ahead) return "its Retention policy copies the blocks of all layers alike";
  return movable.empty() ? "its Placement policy moves single layers, and none here keeps only what grows" : nullptr;
}

/// What layers keep of a request, for an error's line: "25 of 30 layers keep at most 65 blocks, 5 all".
[[nodiscard]] std::string in_words(const KvBlocks& kv, int layers);

namespace detail {
/// The refusal of a composition.
[[nodiscard]] Error unequal_layers(const char* why, const KvBlocks& kv, int layers);
} // namespace detail

template <class C>
BasicEngine<C>::BasicEngine(Checked, Config&& config)
    : core_(policy_table<C>, config.limits, config.geometry, config.device_blocks, config.host_blocks,
            TierList{config.tier, std::move(config.lower_tiers), config.explains_misses},
            config.cost.link().host_attention_rate.count() > 0 && host_attends(config.backend)),
      policies_(config),
      backend_(std::move(config.backend)) {
  if constexpr (C::retention_type::finds_released && is_real_time<backend_type>)
    name_blocks(core_, backend_.block_names());
}

template <class C>
Expected<BasicEngine<C>> BasicEngine<C>::make(Config config) {
  return make_in<BasicEngine>(std::move(config));
}

template <class C>
Status BasicEngine<C>::check(const Config& config) {
  LayerBlocks most = config.device_blocks;
  if constexpr (All::streams_weights) // if all weights stream
    if (config.geometry.layer_block_bytes.count() > 0)
      most += config.geometry.blocks_in(config.geometry.streamable_layers());
  Status status = detail::check_setup(config.limits, config.geometry, most, config.host_blocks);
  if (status.ok() && !config.geometry.alike()) {
    const char* why = needs_equal_layers<C>(config.placement, config.geometry.movable(), config.geometry.layers,
                                            config.geometry.kv().same_blocks());
    if constexpr (keeps_on_host<C>)
      if (config.backend.host_tier_evicts()) why = "its Backend's host tier stores token blocks of all layers";
    if (why != nullptr) return detail::unequal_layers(why, config.geometry.kv(), config.geometry.layers);
  }
  if constexpr (has_tiers<C>)
    if (status.ok())
      status =
          policy_table<C>.tiers->check(config.tier, config.lower_tiers, C::caching_type::writes, C::caching_type::feed);
  if constexpr (has_tiers<C> && HasFirstTier<typename C::caching_type>)
    if (const Replacement own = reached_by<typename C::caching_type>(config.tier).replacement;
        status.ok() && config.tier.capacity.count() > 0 && config.tier.replacement != own)
      status = Error{ErrorCode::bad_input, "engine configuration",
                     "tier 1 evicts by " + std::string{name(config.tier.replacement)} + ", and its Caching policy by " +
                         std::string{name(own)},
                     "the Replacement of the policy's first_tier()"};
  if constexpr (keeps_on_host<C> && HasFirstTier<typename C::caching_type>)
    if (const std::optional<Replacement> evicts = config.backend.host_tier_evicts(); status.ok() && evicts)
      // Of a host without limits, and of one whose limits differ from what a policy that scales makes of them.
      for (const Tier& host : {Tier{.replacement = *evicts}, detail::odd_tier(*evicts)})
        if (status.ok()) status = detail::check_host_tier(*evicts, host, reached_by<typename C::caching_type>(host));
  if constexpr (keeps_on_host<C>) {
    if constexpr (C::caching_type::feed != Feed::written && requires { config.backend.has_disk(); })
      if (status.ok() && config.backend.has_disk()) status = detail::feeds_otherwise();
  }
  return status;
}

template <class C>
Expected<RequestId> BasicEngine<C>::submit(const RequestSpec& spec, std::span<const BlockKey> prompt_keys,
                                           Tokens on_host, Tokens arrived) {
  const RequestId id = new_request_id(core_);
  const auto refused = [&](const Status& status) {
    policies_.tell(events::Refused{id, spec, now(), status.error().what});
    return status.error();
  };
  if (const Status status = detail::check_length(id, spec, core_.limits); !status.ok()) return refused(status);
  if (arrived.count() != 0)
    if (const Status status =
            detail::check_arrived(id, spec, arrived, core_.geometry.alike(), is_real_time<backend_type>,
                                  Rebuilds<typename C::placement_type> || KeepsStates<typename C::placement_type> ||
                                      KeepsHidden<typename C::retention_type>);
        !status.ok())
      return refused(status);
  if constexpr (C::admission_type::knows_lengths)
    if (spec.output_is_bound) return refused(detail::unknown_length(id));
  // Does it fit alone, at its longest, with the least device memory that the placement could choose?
  const Footprint room = least_room(spec);
  WeightsPlan lending;
  lending.freed = policies_.weights.most_freed(core_.geometry);
  if constexpr (PromisesSlo<typename C::weights_type>) {
    // Judged by what a server knows of the answer. Rejected: the last context for requests that need the weights'
    // memory, since no server could refuse the same requests.
    const auto& predictor = policies_.predictor();
    const KnownSpec known = spec;
    RequestSpec least = spec;
    least.output = known.output_bound().value_or(Tokens{1});
    const LayerBlocks lacking = std::max(LayerBlocks{0}, least_room(least).device - core_.device_blocks);
    const Status promised = policies_.weights.promise(
        Submission<typename All::predictor_type>{known, now(), core_.limits, core_.geometry, predictor,
                                                 core_.device_blocks, lacking, spec.prompt + least.output});
    if (!promised.ok()) return refused(detail::refusal_of(id, promised.error()));
  }
  // The ledger's capacity is smaller while several requests hold a block: each that it can have had counts.
  const LayerBlocks growth = core_.capacity_with(lending) - core_.ledger.device().capacity();
  if (const Status status = detail::check_room(id, room, core_.ledger, growth); !status.ok()) return refused(status);

  const Slot slot = enter_request(core_, id, spec, prompt_keys, on_host);
  if (arrived.count() > 0) arrive_with_kv(core_, slot, arrived);
  try {
    policies_.admission.enter(policies_.admission_state, slot, core_.row(slot));
  } catch (...) {
    status_ = thrown_by(detail::PolicyFunctions<C>::admission_name, now());
    return status_.error();
  }
  if constexpr (has_tiers<C> && LooksAhead<typename C::caching_type>)
    core_.policies->tiers->entered(core_, slot, now(), calls());
  policies_.tell(events::Submitted{core_.row(slot)});
  return id;
}

template <class C>
Footprint BasicEngine<C>::least_room(const RequestSpec& spec) const {
  const auto& placement = policies_.placement;
  const LayerSet among = core_.geometry.movable();
  const int layers = among.count();
  const auto room_with = [&](Holding least) { // which counts the layers that may move
    least.host = layers_at(least.host, among);
    return detail::least_room(core_, least, spec);
  };
  Footprint room = room_with(placement.least(layers));
  if constexpr (StatesLeastWithinHost<typename C::placement_type>) {
    if (const LayerBlocks host = core_.ledger.host().capacity(); room.host > host) {
      const auto on_host = static_cast<int>(layers * host.count() / room.host.count());
      room = room_with(placement.least(layers, on_host));
    }
    // Layers in flight may take more room than the ones that are away give up.
    const Footprint resident = room_with(placement.least(layers, 0));
    if (resident.device < room.device) return resident;
  }
  return room;
}

template <class C>
std::size_t BasicEngine<C>::finds(std::span<const BlockKey> keys) const {
  std::size_t found = 0;
  if constexpr (C::retention_type::finds_released) found = core_.prefix.finds(keys);
  if constexpr (has_tiers<C>) found += core_.tiers.calls().find(*core_.tiers, keys.subspan(found));
  return found;
}

template <class C>
Tokens BasicEngine<C>::would_load(const RequestSpec& spec, const FoundPrefix& found) {
  if constexpr (Caches<typename C::caching_type>) {
    RequestRow request;
    request.spec = spec;
    request.hides_length = !C::foresees;
    try {
      const Reuse reuse = load_of(core_, request, found, core_.view(now()), calls());
      return found.below + detail::arriving_within(reuse.patience, reuse.fetched, found, core_.limits.block_tokens);
    } catch (...) {
      fail_with_thrown();
      return found.below;
    }
  }
  return found.below + found.lower;
}

template <class C>
Status BasicEngine<C>::cancel(RequestId id) {
  const RequestRow* const request = core_.find(id);
  if (request == nullptr) return detail::not_alive(id);
  const auto slot = static_cast<Slot>(request - core_.requests.rows.data());
  if constexpr (keeps_on_host<C>) {
    try {
      keep_on_host({}, {&slot, 1});
    } catch (...) {
      fail_with_thrown();
      return status_.error();
    }
  }
  policies_.tell(events::Cancelled{*request, now()});
  source_.forget(slot); // decisions made ahead lose this request
  draft_.forget(slot);
  accounts_.forget(id);
  if constexpr (KeepsRequests<backend_type>) backend_.cancelled(slot, core_.requests.next_id);
  cancel_request(core_, slot, draft_, calls());
  return {};
}

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/submit.inl.hpp"
#endif
