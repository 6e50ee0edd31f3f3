// SPDX-License-Identifier: Apache-2.0
// Engine, With: the names of engine types.
#pragma once

#include "sluice/engine/compose.hpp"
#include "sluice/engine/rejected.hpp"

#include <type_traits>

namespace sluice {

template <class C>
class BasicEngine;

namespace detail {

template <class List>
struct ComposeEngine {
  using type = RejectedEngine<decltype(explain_all(List{}))>;
};
template <class List>
  requires WorksTogether<List>
struct ComposeEngine<List> {
  using type = BasicEngine<typename Compose<List>::type>;
};

/// `Keep` without the policies whose role also occurs in `Others`.
template <class Keep, class Others>
struct Without;
template <class... Ks, class Others>
struct Without<Parts<Ks...>, Others>
    : Concat<std::conditional_t<std::is_same_v<typename OfRole<typename Ks::role, Others>::type, Parts<>>, Parts<Ks>,
                                Parts<>>...> {};

/// Engine types may be incomplete.
template <class E>
consteval auto explain_no_engine() {
  static_assert(sizeof(E) == 0, "sluice: the first type of With is no engine; expected one, as in With<OrbitFlow, "
                                "DeadlinePool>, or Engine<...> of these policies");
  return true;
}

template <class E, class Overrides>
struct Override {
  using type = RejectedEngine<decltype(explain_no_engine<E>())>;
};
template <class C, class Overrides>
struct Override<BasicEngine<C>, Overrides> {
  using before = C;
  using kept = typename Without<typename Concat<typename before::policies, typename before::observer_types>::type,
                                Overrides>::type;
  using type = typename ComposeEngine<typename Concat<kept, Overrides>::type>::type;
};

/// A rejected composition has already been explained.
template <class Explained, class Overrides>
struct Override<RejectedEngine<Explained>, Overrides> {
  using type = RejectedEngine<Explained>;
};

} // namespace detail

/// The engine composed of these policies, in any order; other roles take their defaults. A wrong composition gives one
/// sentence per mistake.
///
///     using MyEngine = sluice::Engine<DistancePlacement, TokenDeposit, PauseResume>;
template <class... Policies>
using Engine = typename detail::ComposeEngine<typename detail::Unpack<Parts<Policies...>>::type>::type;

/// The engine `E` with some policies replaced: `With<OrbitFlow, DeadlinePool>`.
template <class E, class... Policies>
using With = typename detail::Override<E, typename detail::Unpack<Parts<Policies...>>::type>::type;

} // namespace sluice
