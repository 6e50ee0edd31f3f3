// SPDX-License-Identifier: Apache-2.0
// Compose: makes one composition from a list of policies in any order, or the sentences that say why there is none.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/engine/config.hpp"
#include "sluice/engine/defaults.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/view/known_spec.hpp"
#include "sluice/world/backend.hpp"

#include <concepts>
#include <tuple>
#include <type_traits>

namespace sluice {

struct EveryStep;
struct ResidentWeights;

namespace detail {

/// Finds the policy of a role among policies of different roles by overload resolution: one instantiation for all
/// roles, while a recursion through the list takes one per role.
template <class Role, class P>
struct Plays {};
template <class... Ps>
struct Cast : Plays<typename Ps::role, Ps>... {};
template <class Role, class P>
P* played(const Plays<Role, P>*);
template <class Role>
typename Default<Role>::type* played(const void*);

/// The policy among these (no two of one role) that plays `Role`; the role's default if none does.
template <class Role, class... Ps>
using Chosen = std::remove_pointer_t<decltype(played<Role>(static_cast<const Cast<Ps...>*>(nullptr)))>;

template <class... Ps>
struct PolicyOf {
  template <class Role>
  using of = Chosen<Role, Ps...>;
};

} // namespace detail

/// One policy for each role in the order of `roles::OnePerEngine`, and the observers. Two engines with the same
/// policies are the same type, in whatever order they were written, and whether or not defaults were named.
template <class Policies, class Observers>
struct Composition;
template <class... Ps, class... Os>
struct Composition<Parts<Ps...>, Parts<Os...>> : detail::NamedPolicies<detail::PolicyOf<Ps...>> {
  using policies = Parts<Ps...>;
  using observer_types = Parts<Os...>;
  using observer_values = std::tuple<Os...>;
  static constexpr bool foresees = (KnowsLengths<Ps> || ...); ///< some policy decides by lengths to come
};

/// Whether an engine, or a composition, has the tiers of its Caching policy itself: a real backend has its own.
template <class E>
inline constexpr bool has_tiers = Caches<typename E::caching_type> && !is_real_time<typename E::backend_type>;
/// Whether that policy says what its backend's host keeps of requests.
template <class E>
inline constexpr bool keeps_on_host = Caches<typename E::caching_type>&& KeepsKv<typename E::backend_type>;

/// Whether the device may hold blocks of ended requests as long as that policy says (`Worth::pinned`).
template <class E>
inline constexpr bool pins_on_device = Caches<typename E::caching_type>&& E::retention_type::finds_released;

namespace detail {

template <class... Lists>
struct Concat {
  using type = Parts<>;
};
template <class... As>
struct Concat<Parts<As...>> {
  using type = Parts<As...>;
};
template <class... As, class... Bs, class... Rest>
struct Concat<Parts<As...>, Parts<Bs...>, Rest...> : Concat<Parts<As..., Bs...>, Rest...> {};

/// `P` as a list: a bundle is replaced by its parts, also within a bundle.
template <class P>
struct Unpack {
  using type = Parts<P>;
};
template <class... Ps>
struct Unpack<Parts<Ps...>> : Concat<typename Unpack<Ps>::type...> {};
template <Bundle P>
struct Unpack<P> : Unpack<typename P::parts> {};

/// The policies of a list that play a role.
template <class Role, class List>
struct OfRole;
template <class Role, class... Ps>
struct OfRole<Role, Parts<Ps...>> : Concat<std::conditional_t<PlaysRole<Ps, Role>, Parts<Ps>, Parts<>>...> {};

/// The policies of a list that do not play the role.
template <class Role, class List>
struct NotOfRole;
template <class Role, class... Ps>
struct NotOfRole<Role, Parts<Ps...>> : Concat<std::conditional_t<PlaysRole<Ps, Role>, Parts<>, Parts<Ps>>...> {};

template <class List>
struct Compose {
  template <class... Roles, class... Ps>
  static auto choose(Parts<Roles...>, Parts<Ps...>) -> Parts<Chosen<Roles, Ps...>...>;
  using type = Composition<decltype(choose(roles::OnePerEngine{}, typename NotOfRole<roles::Observer, List>::type{})),
                           typename OfRole<roles::Observer, List>::type>;
};

// Yes or no, from concepts alone: nothing here fails to compile whatever the policies are. ----------------------------

template <class Role, class... Roles>
consteval bool is_one_of(Parts<Roles...>) {
  return (std::same_as<Role, Roles> || ...);
}

/// Whether an engine has `P`'s role.
template <class P>
concept PlaysInEngine = PlaysRole<P, roles::Observer> ||
    (DeclaresRole<P>&& is_one_of<typename P::role>(roles::OnePerEngine{}));

template <class P>
concept MeetsItsContract = PlaysInEngine<P> && requires {
  requires Contract<typename P::role>::template met<P>;
};

template <class Role, class List>
inline constexpr bool played_once = false;
template <class Role, class... Ps>
inline constexpr bool played_once<Role, Parts<Ps...>> = (int{PlaysRole<Ps, Role>} + ... + 0) <= 1;

template <class List, class... Roles>
consteval bool no_role_twice(Parts<Roles...>) {
  return (played_once<Roles, List> && ...);
}

template <class List>
concept NoRoleTwice = no_role_twice<List>(roles::OnePerEngine{});

/// Policies that place layers one by one need a layout that can hold single layers.
template <class C>
concept LayersFitLayout = C::layout_type::layerwise || !C::placement_type::places_layers;

/// A policy finds released blocks only on a device that keeps them. A real one keeps them where they are, so its memory
/// is not weights' from time to time; and it reads which blocks requests share when an iteration begins, so nothing is
/// decided before.
template <class C>
concept ReleasedBlocksStay = !C::retention_type::finds_released || !is_real_time<typename C::backend_type> ||
                             (KeepsReleased<typename C::backend_type> &&
                              std::same_as<typename C::weights_type, ResidentWeights> && !C::lookahead_type::ahead);

/// A request that finds released blocks takes them for KV of all layers on the device. (A Placement without
/// places_layers that moves all layers of a request is refused when it makes such a plan.)
template <class C>
concept ReleasedBlocksAreWhole = !C::retention_type::finds_released || !C::placement_type::places_layers;

/// A simulated tier keeps no hidden states, and does not know which blocks Retention has copied.
template <class C>
concept TiersFit = !has_tiers<C> || (!C::retention_type::keeps_hidden && !C::retention_type::copies_ahead);

/// A real backend loads in a request's first iteration, layer by layer.
template <class C>
concept LoadsWhereItCan = !LoadsBeside<typename C::caching_type> || !is_real_time<typename C::backend_type>;

/// A block in a tier has all layers. Rejected: to write a block without the layers that are rebuilt; who finds it would
/// have to rebuild them, too, whatever its plan is.
template <class C>
concept TiersHaveAllLayers = !has_tiers<C> || !Rebuilds<typename C::placement_type>;

/// Hidden states on the device: a plan that is only applied would reserve no room for the layer that is rebuilt, and
/// whoever finds released blocks takes them for K and V.
template <class C>
concept StatesFit =
    !KeepsStates<typename C::placement_type> || (std::same_as<typename C::replan_type, EveryStep> &&
                                                 !C::lookahead_type::ahead && !C::retention_type::finds_released);

/// The first tier gets what the device overwrites.
template <class P>
concept WritesEvicted = Caches<P> && P::writes == Writes::evicted;
/// Only blocks that can still be found when they are overwritten can be written then. (Where a real backend's device
/// keeps nothing of ended requests, their blocks count as overwritten when they end.)
template <class C>
concept OverwritesWhatItFinds =
    !has_tiers<C> || !WritesEvicted<typename C::caching_type> || C::retention_type::finds_released;

/// Deciding ahead in real time needs a thread.
template <class C>
concept DecidesWhereItCan =
    !C::lookahead_type::ahead || !is_real_time<typename C::backend_type> || PlansAsync<typename C::backend_type>;

template <class C>
concept RolesFit = LayersFitLayout<C> && ReleasedBlocksStay<C> && ReleasedBlocksAreWhole<C> && TiersFit<C> &&
    TiersHaveAllLayers<C> && StatesFit<C> && LoadsWhereItCan<C> && OverwritesWhatItFinds<C> && DecidesWhereItCan<C>;

template <class List>
inline constexpr bool all_meet_contract = false;
template <class... Ps>
inline constexpr bool all_meet_contract<Parts<Ps...>> = (MeetsItsContract<Ps> && ...);

template <class List>
concept PoliciesStand = all_meet_contract<List> && NoRoleTwice<List>;

template <class List>
concept WorksTogether = PoliciesStand<List> && RolesFit<typename Compose<List>::type>;

// The sentences: instantiated only for a composition that was rejected. ---------------------------------------------

template <class P>
consteval auto explain_policy() {
  if constexpr (!DeclaresRole<P>) {
    static_assert(DeclaresRole<P>, "sluice: this type is not a policy: a policy says `using role = roles::…;` "
                                   "(core/role.hpp), a bundle says `using parts = Parts<…>;`");
  } else if constexpr (!PlaysInEngine<P>) {
    static_assert(PlaysInEngine<P>, "sluice: an engine has no role like this policy's (core/role.hpp lists its roles); "
                                    "Coordinator and Sharing belong to a Node");
  } else {
    explain<P>();
  }
  return true;
}

/// One sentence for each role that is played twice, so that the reader sees which.
template <class List, class... Roles>
consteval void explain_roles(Parts<Roles...>) {
  (Contract<Roles>::template explain_twice<played_once<Roles, List>>(), ...);
}

template <class List>
consteval auto explain_pairs() {
  explain_roles<List>(roles::OnePerEngine{});
  if constexpr (PoliciesStand<List>) {
    using C = typename Compose<List>::type;
    static_assert(LayersFitLayout<C>,
                  "sluice: this Placement places layers one by one, but the Layout holds all layers of a block or "
                  "none: use PerLayer or LayerGroups<F>, or a Placement with places_layers = false");
    static_assert(
        ReleasedBlocksStay<C>,
        "sluice: this Retention policy (KeepUntilOverwritten) finds released blocks, which a real-time backend "
        "keeps only if it says so (keeps_released = true), beside weights that stay (ResidentWeights), and "
        "without a Lookahead");
    static_assert(
        ReleasedBlocksAreWhole<C>,
        "sluice: this Retention policy finds released blocks (KeepUntilOverwritten), which must have KV of all "
        "layers on the device: use a Placement with places_layers = false that keeps it there, such as "
        "AllResident, or another Retention");
    static_assert(TiersFit<C>,
                  "sluice: a Caching policy of a simulated engine needs a Retention without hidden states or copies "
                  "ahead: a loaded prefix has none");
    static_assert(LoadsWhereItCan<C>,
                  "sluice: this Caching policy (MeetInTheMiddle) loads beside the computation, and a real-time backend "
                  "only layer by layer: use another one, such as IfFaster, or a simulated backend");
    static_assert(
        TiersHaveAllLayers<C>,
        "sluice: this Placement rebuilds layers (rebuilds = true), of which a tier would have no copy: use one "
        "that keeps all layers on the host or the device, or NoCaching");
    static_assert(StatesFit<C>,
                  "sluice: this Placement keeps hidden states on the device (keeps_states = true): use it with "
                  "EveryStep, because a plan that is only applied reserves no room for the rebuilt layer, without a "
                  "Lookahead, and with a Retention that finds no released blocks, because hidden states are no KV");
    static_assert(OverwritesWhatItFinds<C>,
                  "sluice: this Caching policy writes what the device overwrites: it needs a Retention with "
                  "finds_released = true (KeepUntilOverwritten)");
    static_assert(
        DecidesWhereItCan<C>,
        "sluice: OneStepAhead in real time needs a Backend that says plans_async = true: one with a thread on "
        "which to plan");
  }
  return true;
}

template <class... Ps>
consteval auto explain_all(Parts<Ps...>) {
  (explain_policy<Ps>(), ...);
  explain_pairs<Parts<Ps...>>();
  return std::true_type{};
}

} // namespace detail
} // namespace sluice
