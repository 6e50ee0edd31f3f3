// SPDX-License-Identifier: Apache-2.0
// Compose: from a list of policies, in any order, to one composition; or to the sentences that say why there is none.
#pragma once

#include "sluice/core/contract.hpp"
#include "sluice/engine/defaults.hpp"

#include <concepts>
#include <type_traits>

namespace sluice {

/// One policy for each role, by name. Two engines with the same policies are the same type, whatever order they were
/// written in and whether their defaults were named.
template <class AdmissionP, class PlacementP, class WeightsP, class CostP, class TransferP, class ReplanP,
          class ReliefP, class RetentionP, class DeliveryP, class LookaheadP, class LayoutP, class BackendP,
          class... ObserverPs>
struct Composition {
  using admission_type = AdmissionP;
  using placement_type = PlacementP;
  using weights_type = WeightsP;
  using cost_type = CostP;
  using transfer_type = TransferP;
  using replan_type = ReplanP;
  using relief_type = ReliefP;
  using retention_type = RetentionP;
  using delivery_type = DeliveryP;
  using lookahead_type = LookaheadP;
  using layout_type = LayoutP;
  using backend_type = BackendP;
  using observer_types = Parts<ObserverPs...>;
};

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

/// Bundles replaced by their parts, also those within bundles.
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

template <class Role, class List>
struct OrDefault {
  using type = typename Default<Role>::type;
};
template <class Role, class P, class... More>
struct OrDefault<Role, Parts<P, More...>> {
  using type = P;
};

template <class Role, class List>
using Chosen = typename OrDefault<Role, typename OfRole<Role, List>::type>::type;

template <class List>
struct Compose;
template <class... Ps>
struct Compose<Parts<Ps...>> {
  using list = Parts<Ps...>;
  template <class... Observers>
  static auto with(Parts<Observers...>)
      -> Composition<Chosen<roles::Admission, list>, Chosen<roles::Placement, list>, Chosen<roles::Weights, list>,
                     Chosen<roles::Cost, list>, Chosen<roles::Transfer, list>, Chosen<roles::Replan, list>,
                     Chosen<roles::Relief, list>, Chosen<roles::Retention, list>, Chosen<roles::Delivery, list>,
                     Chosen<roles::Lookahead, list>, Chosen<roles::Layout, list>, Chosen<roles::Backend, list>,
                     Observers...>;
  using type = decltype(with(typename OfRole<roles::Observer, list>::type{}));
};

// Yes or no, from concepts alone: nothing here fails to compile whatever the policies are. ----------------------------

template <class P>
concept MeetsItsContract = DeclaresRole<P> && requires {
  requires Contract<typename P::role>::template met<P>;
};

template <class List>
inline constexpr bool at_most_one = true;
template <class A, class B, class... More>
inline constexpr bool at_most_one<Parts<A, B, More...>> = false;

template <class Role, class List>
concept HasOneOf = at_most_one<typename OfRole<Role, List>::type>;

template <class List>
concept NoRoleTwice =
    HasOneOf<roles::Admission, List> && HasOneOf<roles::Placement, List> && HasOneOf<roles::Weights, List> &&
    HasOneOf<roles::Cost, List> && HasOneOf<roles::Transfer, List> && HasOneOf<roles::Replan, List> &&
    HasOneOf<roles::Relief, List> && HasOneOf<roles::Retention, List> && HasOneOf<roles::Delivery, List> &&
    HasOneOf<roles::Lookahead, List> && HasOneOf<roles::Layout, List> && HasOneOf<roles::Backend, List>;

/// Policies that place layers one by one need a layout that can hold them so.
template <class C>
concept LayersFitLayout = C::layout_type::layerwise || !C::placement_type::places_layers;

template <class List>
inline constexpr bool all_meet_contract = false;
template <class... Ps>
inline constexpr bool all_meet_contract<Parts<Ps...>> = (MeetsItsContract<Ps> && ...);

template <class List>
concept PoliciesStand = all_meet_contract<List> && NoRoleTwice<List>;

template <class List>
concept WorksTogether = PoliciesStand<List> && LayersFitLayout<typename Compose<List>::type>;

// The sentences: instantiated only for a composition that was rejected. ---------------------------------------------

template <class P>
consteval auto explain_policy() {
  if constexpr (!DeclaresRole<P>) {
    static_assert(DeclaresRole<P>,
                  "sluice: this type is no policy: a policy says `using role = roles::…;` (core/role.hpp), "
                  "a bundle says `using parts = Parts<…>;`");
  } else {
    explain<P>();
  }
  return true;
}

template <class List>
consteval auto explain_pairs() {
  // One sentence per role, so that the reader sees which.
  static_assert(HasOneOf<roles::Admission, List>, "sluice: two Admission policies in one engine: keep one of them");
  static_assert(HasOneOf<roles::Placement, List>, "sluice: two Placement policies in one engine: keep one of them");
  static_assert(HasOneOf<roles::Weights, List>, "sluice: two Weights policies in one engine: keep one of them");
  static_assert(HasOneOf<roles::Cost, List>,
                "sluice: two Cost models in one engine: keep one (the world's belongs to the "
                "backend: BasicSimulated<World>)");
  static_assert(HasOneOf<roles::Transfer, List>, "sluice: two Transfer rules in one engine: keep one of them");
  static_assert(HasOneOf<roles::Replan, List>, "sluice: two Replan policies in one engine: keep one of them");
  static_assert(HasOneOf<roles::Relief, List>, "sluice: two Relief policies in one engine: keep one of them (does a "
                                               "bundle such as PauseResume bring one?)");
  static_assert(HasOneOf<roles::Retention, List>,
                "sluice: two Retention policies in one engine: keep one of them (does a "
                "bundle such as PauseResume bring one?)");
  static_assert(HasOneOf<roles::Delivery, List>, "sluice: two Delivery policies in one engine: keep one of them");
  static_assert(HasOneOf<roles::Lookahead, List>, "sluice: two Lookahead policies in one engine: keep one of them");
  static_assert(HasOneOf<roles::Layout, List>, "sluice: two Layouts in one engine: keep one of them");
  static_assert(HasOneOf<roles::Backend, List>, "sluice: two Backends in one engine: keep one of them");
  if constexpr (PoliciesStand<List>) {
    static_assert(LayersFitLayout<typename Compose<List>::type>,
                  "sluice: this Placement holds some layers of a request and not others, but the Layout gives room to "
                  "all layers or none: use PerLayer or LayerGroups<F>, or a Placement with places_layers = false");
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
