// SPDX-License-Identifier: Apache-2.0
// Observer: the concept of the role that receives an engine's events.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/report/observer/event.hpp"

#include <concepts>

namespace sluice {

/// Whether `P` replays iterations. If so, the engine keeps the state that the last iteration left.
template <class P>
concept StatesReplay = requires {
  { P::wants_timeline } -> std::convertible_to<bool>;
};

/// Whether `P` has a hook for events of type `E`.
template <class P, class E>
concept HasHookFor = requires(const P& policy, typename P::State& state, const E& event) {
  { policy.on(state, event) } -> std::same_as<void>;
};

namespace detail {

/// Checks `P::hears` of the observer `P` against its hooks.
template <class P, class List>
struct Hearing {
  static constexpr bool is_list = false, of_events = false, all_hooked = false, all_named = false;
};
template <class P, class... Es>
struct Hearing<P, Events<Es...>> {
  static constexpr bool is_list = sizeof...(Es) > 0;
  static constexpr bool of_events = (AllEvents::contains<Es> && ...);
  static constexpr bool all_hooked = (HasHookFor<P, Es> && ...);
  /// A hook that accepts every event does not prove that `P` wants this one.
  template <class... All>
  static consteval bool names(Events<All...>) {
    return HasHookFor<P, AnyEvent> || ((!HasHookFor<P, All> || Events<Es...>::template contains<All>)&&...);
  }
  static constexpr bool all_named = names(AllEvents{});
};
template <class P>
struct HearingOf : Hearing<P, void> {};
template <class P>
  requires requires { typename P::hears; }
struct HearingOf<P> : Hearing<P, typename P::hears> {};

} // namespace detail

/// Whether `P` lists its events, and has a hook for each of them and for no other.
template <class P>
concept HearsEvents = detail::HearingOf<P>::is_list && detail::HearingOf<P>::of_events &&
    detail::HearingOf<P>::all_hooked && detail::HearingOf<P>::all_named;

/// The role that receives an engine's events. An engine has any number of observers; an observer collects its data in
/// its `State`.
///
///  1. `P::role` is `roles::Observer`; `P::State` is default-constructible.
///  2. `P::hears` is `Events<...>`, the events of report/observer/event.hpp that it receives. The engine does not
///     report events that none of its observers lists.
///  3. `on(state, event)` for each of them: overloads, a template, or one `on(State&, const AnyEvent&)`.
///  4. `P::wants_timeline`: whether it calls the `replay` of `events::Iterated`.
template <class P>
concept Observer = PlaysRole<P, roles::Observer> && HasState<P> && StatesReplay<P> && HearsEvents<P>;

/// Passes an event to the observer, if it lists that event.
template <Observer O, Event E>
void tell(const O& observer, typename O::State& state, const E& event) {
  if constexpr (O::hears::template contains<E>) observer.on(state, event);
}
template <Observer O>
void tell(const O& observer, typename O::State& state, const AnyEvent& event) {
  event.visit(typename O::hears{}, [&](const auto& of_its_type) { observer.on(state, of_its_type); });
}

template <>
struct Contract<roles::Observer> {
  template <class P>
  static constexpr bool met = Observer<P>;

  template <class P>
  static consteval auto explain() {
    static_assert(HasState<P>, "sluice: this Observer needs a nested `State` that holds what it collects");
    static_assert(StatesReplay<P>,
                  "sluice: this Observer needs `static constexpr bool wants_timeline = false;` (or true)");
    using Hearing = detail::HearingOf<P>;
    static_assert(Hearing::is_list, "sluice: this Observer needs `using hears = Events<events::Ended>;`, a list of the "
                                    "events that it hears (report/observer/event.hpp has them all)");
    if constexpr (Hearing::is_list) {
      static_assert(Hearing::of_events, "sluice: this Observer names a type in `hears` that is no event: "
                                        "report/observer/event.hpp has them all");
      if constexpr (HasState<P> && Hearing::of_events) {
        static_assert(Hearing::all_hooked, "sluice: this Observer names an event in `hears` and has no "
                                           "`void on(State&, const TheEvent&) const` for it");
        static_assert(Hearing::all_named, "sluice: this Observer has an `on` for an event that its `hears` does not "
                                          "name, so that no engine would call it");
      }
    }
    return true;
  }
};

} // namespace sluice
