// SPDX-License-Identifier: Apache-2.0
// Compose a server: from an engine and a list of parts, in any order, to one composition; or to the sentences that say
// why there is none.
#pragma once

#include "sluice/engine/bounds.hpp"
#include "sluice/engine/compose.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/rejected.hpp"
#include "sluice/serve/engine_thread.hpp"
#include "sluice/serve/gate.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/generation_feed.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/server_role.hpp"

#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>

namespace sluice {

/// What clients say, and are answered.
///
///  1. `A::role` is `roles::Api`.
///  2. It is an HttpApp and a GenerationListener: requests come to it, and what becomes of its generations.
///  3. `A::Setup`; `A(Setup, HttpTransport&, GenerationEngine&)`: both outlive it.
///  4. `drain()`: refuses new requests from here on; `under_way()`: how many are left.
///
/// Not checked, and owed: `happened` comes on the engine's thread, everything else on the transport's.
template <class A>
concept AnswersHttp = std::derived_from<A, HttpApp> && std::derived_from<A, GenerationListener>;
template <class A>
concept MadeOfSetup = requires {
  typename A::Setup;
  requires std::constructible_from<A, typename A::Setup, HttpTransport&, GenerationEngine&>;
};
template <class A>
concept DrainsRequests = requires(A& api, const A& same) {
  { api.drain() } -> std::same_as<void>;
  { same.under_way() } -> std::convertible_to<std::size_t>;
};
template <class A>
concept Api = PlaysRole<A, roles::Api> && AnswersHttp<A> && MadeOfSetup<A> && DrainsRequests<A>;

template <>
struct ServerContract<roles::Api> {
  template <class P, class E>
  static constexpr bool met = Api<P>;

  template <class P, class E>
  static consteval void explain() {
    static_assert(AnswersHttp<P>, "sluice: this Api has to be an HttpApp (serve/http.hpp) and a GenerationListener "
                                  "(serve/generation.hpp)");
    static_assert(MadeOfSetup<P>, "sluice: this Api needs a nested `Setup`, and to be made of `(Setup, HttpTransport&, "
                                  "GenerationEngine&)`");
    static_assert(DrainsRequests<P>, "sluice: this Api needs `void drain()`, after which it refuses new requests, and "
                                     "`std::size_t under_way() const`");
  }
  template <bool Once>
  static consteval void explain_twice() {
    static_assert(Once, "sluice: two Apis in one server: keep one of them");
  }
};

template <>
struct ServerContract<roles::Gate> {
  template <class P, class E>
  static constexpr bool met = Gate<P, E>;

  template <class P, class E>
  static consteval void explain() {
    static_assert(Gate<P, E>, "sluice: this Gate needs `GateAnswer answer(const Generation&, …)` as serve/gate.hpp "
                              "declares it, callable with this server's engine");
  }
};

/// What other systems would have made of the requests.
///
///  1. `W::role` is `roles::WhatIf`.
///  2. `W::Setup`; `W(Setup)`.
///  3. `hear(thread)`: called once, before the engine thread starts; `W` outlives the thread.
///  4. `json()`: a JSON object, at once, on the transport's thread; `stop()`: ends what it does on threads of its own.
template <class W, class E>
concept TellsWhatIf = PlaysRole<W, roles::WhatIf> && requires(W& what_if, EngineThread<E>& thread) {
  typename W::Setup;
  requires std::constructible_from<W, typename W::Setup>;
  { what_if.hear(thread) } -> std::same_as<void>;
  { what_if.json() } -> std::same_as<std::string>;
  { what_if.stop() } -> std::same_as<void>;
};
template <>
struct ServerContract<roles::WhatIf> {
  template <class P, class E>
  static constexpr bool met = TellsWhatIf<P, E>;

  template <class P, class E>
  static consteval void explain() {
    static_assert(TellsWhatIf<P, E>, "sluice: this WhatIf needs a nested `Setup` of which it is made, `void "
                                     "hear(auto& engine_thread)`, `std::string json()` and `void stop()`");
  }
  template <bool Once>
  static consteval void explain_twice() {
    static_assert(Once, "sluice: two WhatIfs in one server: name all systems in one, `WhatIf<A, B>`");
  }
};

namespace detail {

/// Where a server has no part of a role.
struct NoPart {
  struct Setup {};
  NoPart() = default;
  explicit NoPart(Setup /*setup*/) {}
};

template <class List>
struct FirstOr {
  using type = NoPart;
};
template <class P, class... Ps>
struct FirstOr<Parts<P, Ps...>> {
  using type = P;
};

} // namespace detail

/// What a server is composed of, by role; `Gates` is a list.
template <class E, class A, class Gates, class W, class Connection>
struct ServerComposition {
  using engine_type = E;
  using api_type = A;
  using gate_types = Gates;
  using what_if_type = W;             ///< detail::NoPart if there is none
  using connection_type = Connection; ///< likewise
  static constexpr bool has_what_if = !std::same_as<W, detail::NoPart>;
};

namespace detail {

template <class E>
inline constexpr bool is_basic_engine = false;
template <class C>
inline constexpr bool is_basic_engine<BasicEngine<C>> = true;
/// An engine that was rejected: its own sentences say why, and the server adds none.
template <class E>
inline constexpr bool is_rejected_engine = false;
template <class Explained>
inline constexpr bool is_rejected_engine<RejectedEngine<Explained>> = true;

template <class E, class List>
struct ComposeServer {
  template <class Role>
  using one = typename FirstOr<typename OfRole<Role, List>::type>::type;
  using type = ServerComposition<E, one<roles::Api>, typename OfRole<roles::Gate, List>::type, one<roles::WhatIf>,
                                 one<roles::Connection>>;
};

// Yes or no, from concepts alone. -------------------------------------------------------------------------------------

template <class P>
concept PlaysInServer = PlaysRole<P, roles::Gate> ||
    (DeclaresRole<P>&& is_one_of<typename P::role>(roles::OnePerServer{}));

template <class P, class E>
concept FitsServer = PlaysInServer<P> && requires {
  requires ServerContract<typename P::role>::template met<P, E>;
};

template <class E, class List>
inline constexpr bool all_fit_server = false;
template <class E, class... Ps>
inline constexpr bool all_fit_server<E, Parts<Ps...>> = (FitsServer<Ps, E> && ...);

template <class List, class... Roles>
consteval bool no_server_role_twice(Parts<Roles...>) {
  return (played_once<Roles, List> && ...);
}

template <class List>
inline constexpr bool has_feed = false;
template <class... Os>
inline constexpr bool has_feed<Parts<Os...>> = (std::same_as<Os, GenerationFeed> || ...);
/// The engine tells what it does to whoever listens.
template <class E>
concept FeedsServer = has_feed<typename E::observer_types>;

template <class C>
concept ApiShowsWhatIf = !C::has_what_if || requires(typename C::api_type::Setup & setup) {
  setup.what_if = std::function<std::string()>{};
};

template <class E, class List>
concept MakesServer = is_basic_engine<E> && ServesBounds<E> && FeedsServer<E> && all_fit_server<E, List> &&
                      no_server_role_twice<List>(roles::OnePerServer{}) &&
                      !std::same_as<typename ComposeServer<E, List>::type::api_type, NoPart> &&
                      ApiShowsWhatIf<typename ComposeServer<E, List>::type>;

// The sentences: instantiated only for a composition that was rejected. -----------------------------------------------

template <class P, class E>
consteval void explain_part() {
  if constexpr (!DeclaresRole<P>) {
    static_assert(DeclaresRole<P>, "sluice: this type is no part of a server: a part says `using role = roles::…;` "
                                   "(serve/server_role.hpp)");
  } else if constexpr (!PlaysInServer<P>) {
    static_assert(PlaysInServer<P>, "sluice: a server has no such role as this part's (serve/server_role.hpp lists "
                                    "those that it has); a policy is its engine's: `LiveServer<With<E, Policy>, …>`");
  } else if constexpr (!FitsServer<P, E>) {
    ServerContract<typename P::role>::template explain<P, E>();
  }
}

/// The contract of a Connection is there where a Connection is.
template <class Role, class List>
consteval void explain_server_role() {
  if constexpr (!played_once<Role, List>) ServerContract<Role>::template explain_twice<false>();
}
template <class List, class... Roles>
consteval void explain_server_roles(Parts<Roles...>) {
  (explain_server_role<Roles, List>(), ...);
}

template <class E, class... Ps>
consteval auto explain_server_parts(Parts<Ps...>) {
  using List = Parts<Ps...>;
  if constexpr (!is_rejected_engine<E>) {
    static_assert(is_basic_engine<E>,
                  "sluice: the first of a server's parts is its engine: `LiveServer<With<OrbitFlow, "
                  "GenerationFeed>, OpenAi>`");
    if constexpr (is_basic_engine<E>) {
      explain_bounds<E>();
      static_assert(FeedsServer<E>, "sluice: this engine tells nobody of its tokens, so that none would reach a "
                                    "client: write `With<E, GenerationFeed>`");
      (explain_part<Ps, E>(), ...);
      explain_server_roles<List>(roles::OnePerServer{});
      using A = typename ComposeServer<E, List>::type::api_type;
      static_assert(!std::same_as<A, NoPart>, "sluice: this server has no Api: name one, as OpenAi");
      if constexpr (Api<A>)
        static_assert(ApiShowsWhatIf<typename ComposeServer<E, List>::type>,
                      "sluice: this server has a WhatIf, and its Api's Setup has no `std::function<std::string()> "
                      "what_if` that would show what it says");
    }
  }
  return std::true_type{};
}

} // namespace detail

/// `static_assert(explain_server<E, Parts…>());` says what is wrong with a list of parts, a sentence each.
template <class E, class... Ps>
consteval bool explain_server() {
  using List = typename detail::Unpack<Parts<Ps...>>::type;
  if constexpr (!detail::MakesServer<E, List>) (void)detail::explain_server_parts<E>(List{});
  return true;
}

} // namespace sluice
