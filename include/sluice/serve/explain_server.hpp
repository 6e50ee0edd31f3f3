// SPDX-License-Identifier: Apache-2.0
// explain_server: checks whether an engine and gates make a server, and explains why not.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/engine/bounds.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/rejected.hpp"
#include "sluice/serve/gate.hpp"
#include "sluice/serve/generation_feed.hpp"

#include <concepts>

namespace sluice {
namespace detail {

template <class E>
inline constexpr bool is_basic_engine = false;
template <class C>
inline constexpr bool is_basic_engine<BasicEngine<C>> = true;
template <class E>
inline constexpr bool is_rejected_engine = false;
template <class Explained>
inline constexpr bool is_rejected_engine<RejectedEngine<Explained>> = true;

template <class List>
inline constexpr bool has_feed = false;
template <class... Os>
inline constexpr bool has_feed<Parts<Os...>> = (std::same_as<Os, GenerationFeed> || ...);
template <class E>
concept FeedsServer = has_feed<typename E::observer_types>;

} // namespace detail

/// `E` and `Gates` make a server: E is an engine that serves bounds and has a GenerationFeed, and each gate is a Gate.
template <class E, class... Gates>
concept MakesServer = detail::is_basic_engine<E> && ServesBounds<E> && detail::FeedsServer<E> &&(Gate<Gates, E>&&...);

/// `static_assert(explain_server<E, Gates…>());` reports one sentence per mistake. A rejected engine has its own
/// sentences: the server adds none.
template <class E, class... Gates>
consteval bool explain_server() {
  static_assert(detail::is_basic_engine<E> || detail::is_rejected_engine<E>,
                "sluice: the first parameter of a server is its engine: `LiveServer<With<OrbitFlow, GenerationFeed>, "
                "QueueLimit>`");
  if constexpr (detail::is_basic_engine<E>) {
    static_assert(detail::FeedsServer<E>, "sluice: this engine has no GenerationFeed, so that no token would reach a "
                                          "client: write `With<E, GenerationFeed>`");
    return explain_bounds<E>() && explain_gates<E, Gates...>();
  }
  return true;
}

} // namespace sluice
