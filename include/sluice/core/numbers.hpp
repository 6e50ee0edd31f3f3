// SPDX-License-Identifier: Apache-2.0
// Numbers: a policy's parameters by name, with bounds, so that programs can list, check and set them.
#pragma once

#include "sluice/core/units.hpp"

#include <concepts>
#include <string_view>
#include <type_traits>
#include <utility>

namespace sluice {

namespace detail {

template <class T>
concept HasCount = requires(const T& value) {
  value.count();
};
/// The plain number behind a member: of a unit its count.
template <class T>
constexpr double plain(const T& value) {
  if constexpr (HasCount<T>)
    return static_cast<double>(value.count());
  else
    return static_cast<double>(value);
}
template <class T>
constexpr T from_plain(double value) {
  if constexpr (HasCount<T>)
    return T{static_cast<std::remove_cvref_t<decltype(T{}.count())>>(value)};
  else
    return static_cast<T>(value);
}
template <class T>
constexpr bool is_whole() {
  if constexpr (HasCount<T>)
    return std::is_integral_v<std::remove_cvref_t<decltype(T{}.count())>>;
  else
    return std::is_integral_v<T>;
}

/// Not constexpr: a constant that calls it does not compile, and the error has its name.
inline void the_least_value_is_above_the_most() {}

/// What `of`, a pointer to a member or a function, says of `policy`. Not std::invoke: `<functional>` would be in every
/// program.
template <class Of, class P>
constexpr auto& member(const Of& of, P& policy) {
  if constexpr (std::is_member_object_pointer_v<Of>)
    return policy.*of;
  else
    return of(policy);
}

/// Values of several types, in order. Not std::tuple: its constructors' constraints would cost every program 1,400
/// template instantiations.
template <class... Each>
struct Sequence {
  template <class Visit>
  constexpr void for_each(Visit&& /*visit*/) const {}
};
template <class First, class... Rest>
struct Sequence<First, Rest...> {
  First first;
  Sequence<Rest...> rest;

  constexpr explicit Sequence(const First& value, const Rest&... values) : first(value), rest(values...) {}
  template <class Visit>
  constexpr void for_each(Visit&& visit) const {
    visit(first);
    rest.for_each(visit);
  }
};

} // namespace detail

/// One parameter of a policy, a number, a unit or a bool (0 or 1), and its bounds, which belong to it. `Of` is a
/// pointer to the member, or a function that returns a reference to it for a member of a member. `what` says what it
/// is, in a list.
template <class Of>
struct Number {
  std::string_view name;
  Of of;
  double least, most;
  std::string_view what;

  constexpr Number(std::string_view named, Of member, double from, double to, std::string_view means)
      : name(named), of(member), least(from), most(to), what(means) {
    if (!(from <= to)) detail::the_least_value_is_above_the_most();
  }

  template <class P>
  using value_type = std::remove_cvref_t<decltype(detail::member(std::declval<const Of&>(), std::declval<P&>()))>;
  template <class P>
  static constexpr bool whole = detail::is_whole<value_type<P>>();
  template <class P>
  [[nodiscard]] constexpr double get(const P& policy) const {
    return detail::plain(detail::member(of, policy));
  }
  template <class P>
  constexpr void set(P& policy, double value) const {
    detail::member(of, policy) = detail::from_plain<value_type<P>>(value);
  }
};

/// A member of a member, for a Number: `member_of(&Policy::options, &Options::alpha)`. Rejected: a lambda in its place;
/// clang-format 14 takes a generic lambda inside braces for a block.
template <class C, class Outer, class Inner>
constexpr auto member_of(Outer C::*outer, Inner Outer::*inner) {
  return [ outer, inner ](auto& object) -> auto& { return object.*outer.*inner; };
}

/// A policy's parameters, under the name by which a program sets them: `--set SlackFirst.share=0.8`.
///
///     struct SlackFirst {
///       double share = 0.9;
///       static constexpr auto numbers = Numbers{"SlackFirst", Number{"share", &SlackFirst::share, 0, 1, "of it"}};
///     };
///
/// The name is written out because a template's type name has arguments that no user would type, and so that a program
/// sets only what a policy of that name declares. Rejected: a program that sets every member with a known name; another
/// policy's member of that name was overwritten silently.
template <class... Each>
struct Numbers {
  std::string_view policy;
  detail::Sequence<Each...> each;

  constexpr explicit Numbers(std::string_view name, Each... numbers) : policy(name), each(numbers...) {}
  /// Calls `visit(number)` for each.
  template <class Visit>
  constexpr void for_each(Visit&& visit) const {
    each.for_each(visit);
  }
};

/// Policies that a policy consists of: their numbers are set and listed under their own names.
///
///     static constexpr auto parts = NumberedParts{&ByBatchSize::few, &ByBatchSize::many};
template <class... Each>
struct NumberedParts {
  detail::Sequence<Each...> each;

  constexpr explicit NumberedParts(Each... parts) : each(parts...) {}
  /// Calls `visit(part)` for each part of `policy`.
  template <class P, class Visit>
  constexpr void for_each(P& policy, Visit&& visit) const {
    each.for_each([&](const auto& part) { visit(policy.*part); });
  }
};

/// `P` consists of parts that may have numbers.
template <class P>
concept HasNumberedParts = requires {
  P::parts.each;
};

/// `P` declares parameters.
template <class P>
concept HasNumbers = requires {
  { P::numbers.policy } -> std::convertible_to<std::string_view>;
};

/// The name under which `P` declares its parameters; empty without any.
template <class P>
constexpr std::string_view numbers_name() {
  if constexpr (HasNumbers<P>)
    return P::numbers.policy;
  else
    return {};
}

} // namespace sluice
