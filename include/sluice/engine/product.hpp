// SPDX-License-Identifier: Apache-2.0
// Product: all engines that can be composed of some models per role, as a list of types.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/policy/retention/drop.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sluice {

namespace detail {

template <class P>
concept OneRole = DeclaresRole<P> && !PlaysRole<P, roles::Observer>;

template <class First, class... More>
concept PlayOneRole = OneRole<First> &&(PlaysRole<More, typename First::role>&&...);

template <class... Ps>
inline constexpr bool all_differ = true;
template <class P, class... More>
inline constexpr bool all_differ<P, More...> = (!std::same_as<P, More> && ...) && all_differ<More...>;

} // namespace detail

/// Models of one role; every engine of a product has one of them. The first one stands for the others if the role has
/// no effect.
template <class... Models>
struct Choices;
template <class First, class... More>
struct Choices<First, More...> {
  static_assert(detail::PlayOneRole<First, More...>,
                "sluice: the models of one Choices must play the same role, which must not be that of observers: give "
                "every role its own Choices, and each part of a bundle one");
  static_assert(detail::all_differ<First, More...>, "sluice: a model occurs twice in one Choices: keep one of them");
  using role = typename First::role;
  static constexpr std::size_t count = 1 + sizeof...(More);
  template <std::size_t I>
  using model = std::tuple_element_t<I, std::tuple<First, More...>>;
};

/// Whether the model of `Role` can make a difference in the composition `C`, as far as types show; true if they do not
/// show it. It may look at every role of `C` except that one. Specialise it for a role of your own models.
///
/// Every "no effect" is tested: the same run, to the last digit, under every model (tests/engine/product_test.cpp).
template <class Role, class C>
inline constexpr bool has_effect = true;

namespace detail {

/// Whether KV of a layer or its weights may cross the link while an iteration runs. A preempted request that loses
/// everything fetches nothing; one that is swapped in whole arrives before the first layer starts under any transfer
/// rule.
template <class C>
inline constexpr bool fetches_layers =
    C::placement_type::places_layers || !typename C::placement_type().least(2).all_resident() ||
    !std::same_as<typename C::weights_type, ResidentWeights> ||
    (C::retention_type::returns_layerwise && !std::same_as<typename C::retention_type, Drop> &&
     !std::derived_from<typename C::retention_type, KeepUntilOverwritten>);

} // namespace detail

template <class C>
inline constexpr bool has_effect<roles::Transfer, C> = detail::fetches_layers<C>;

/// The one plan of AllResident is a rule for every request: a new plan is the same.
template <class C>
inline constexpr bool has_effect<roles::Replan, C> = !std::same_as<typename C::placement_type, AllResident>;

/// Relief's victim is refused instead of preempted, and no request leaves by choice: only an admission whose order
/// changes with time could want that.
template <class C>
inline constexpr bool has_effect<roles::Retention, C> =
    C::relief_type::parting != Parting::refuse || !C::admission_type::steady;

/// The kind of one combination of models.
enum class Combined : std::uint8_t {
  engine,    ///< an engine that equals no other combination of the product
  conflicts, ///< its policies do not work together: composed by hand it would not compile
  repeats,   ///< another combination does the same: a role without effect here has another model than its first
};

/// All combinations of some models per role (`Lists`: Choices), of which `engines` are the ones worth running. Roles
/// not listed take their defaults.
///
///     using Small = Product<Choices<AllResident, DistancePlacement>, Choices<PreemptNewest, PauseLargest>>;
///     Small::engines   // Parts<Engine<…>, …>, four of them
///
/// Combinations are numbered with the last list varying fastest. An engine's type is named here, not instantiated, and
/// combinations are looked up by number: a product of hundreds costs a fraction of one engine's compile time, and a
/// translation unit that runs a `part` pays only for that part.
template <class... Lists>
struct Product {
  static_assert(sizeof...(Lists) > 0, "sluice: a Product needs at least one Choices");
  static_assert(detail::all_differ<typename Lists::role...>, "sluice: two Choices play the same role: merge them");

  static constexpr std::size_t combinations = (Lists::count * ... * 1);

 private:
  static constexpr std::array<std::size_t, sizeof...(Lists)> counts{Lists::count...};

  /// By how much a combination's number grows from one model of a list to the next.
  static constexpr std::size_t stride(std::size_t list) {
    std::size_t product = 1;
    for (std::size_t l = list + 1; l < counts.size(); ++l) product *= counts[l];
    return product;
  }

 public:
  /// Which model of the list a combination has, counted from 0.
  static constexpr std::size_t turn(std::size_t combination, std::size_t list) {
    return combination / stride(list) % counts[list];
  }

 private:
  template <std::size_t I, class Indices>
  struct At;
  template <std::size_t I, std::size_t... L>
  struct At<I, std::index_sequence<L...>> {
    using type = Parts<typename Lists::template model<turn(I, L)>...>;
  };

 public:
  /// The models of combination `I`, in the order of the lists.
  template <std::size_t I>
  using models = typename At<I, std::index_sequence_for<Lists...>>::type;

 private:
  template <std::size_t I>
  static constexpr bool works = detail::WorksTogether<models<I>>;

  /// The number of the combination that `I` repeats because list `L` has no effect; otherwise `I`.
  template <std::size_t I, class Role, std::size_t L>
  static constexpr std::size_t repeated_by() {
    if constexpr (turn(I, L) == 0) {
      return I;
    } else {
      constexpr std::size_t first = I - turn(I, L) * stride(L);
      return !has_effect<Role, typename detail::Compose<models<I>>::type> && works<first> ? first : I;
    }
  }
  template <std::size_t I, std::size_t... L>
  static constexpr std::size_t repeated(std::index_sequence<L...>) {
    std::size_t least = I;
    if constexpr (works<I>) ((least = least < I ? least : repeated_by<I, typename Lists::role, L>()), ...);
    return least;
  }
  template <std::size_t I>
  static constexpr std::size_t next = repeated<I>(std::index_sequence_for<Lists...>{});

 public:
  template <std::size_t I>
  static constexpr Combined fate = !works<I>      ? Combined::conflicts
                                   : next<I> == I ? Combined::engine
                                                  : Combined::repeats;
  /// The engine of combination `I`; a RejectedEngine if its models conflict.
  template <std::size_t I>
  using engine = typename detail::ComposeEngine<models<I>>::type;

  /// The number of the combination whose engine does the same as `I`: its own, unless it repeats another.
  template <std::size_t I>
  static constexpr std::size_t original() {
    if constexpr (next<I> == I)
      return I;
    else
      return original<next<I>>();
  }

 private:
  template <std::size_t Begin, std::size_t End>
  struct Range {
    static constexpr auto fates = []<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<Combined, sizeof...(I)>{fate<Begin + I>...};
    }
    (std::make_index_sequence<End - Begin>{});
    static constexpr std::size_t count(Combined which) {
      std::size_t n = 0;
      for (const Combined one : fates) n += one == which ? 1 : 0;
      return n;
    }
    static constexpr auto kept = [] {
      std::array<std::size_t, count(Combined::engine)> numbers{};
      for (std::size_t i = 0, n = 0; i < fates.size(); ++i)
        if (fates[i] == Combined::engine) numbers[n++] = Begin + i;
      return numbers;
    }();
    template <std::size_t... N>
    static auto list(std::index_sequence<N...>) -> Parts<engine<kept[N]>...>;
    using engines = decltype(list(std::make_index_sequence<kept.size()>{}));
  };
  using Whole = Range<0, combinations>;

 public:
  /// How many combinations of the product are `which`.
  static constexpr std::size_t count(Combined which) { return Whole::count(which); }

  /// The engines, each a different type, by the number of their combination.
  using engines = typename Whole::engines;

  /// The engines of the `K`-th of `Of` equal runs of combinations, for one translation unit. With as many parts as the
  /// first lists have combinations, each part has one model of these lists, and code that depends on that model alone
  /// (a planner on a transfer rule) is compiled once.
  template <std::size_t K, std::size_t Of>
    requires(K < Of && combinations % Of == 0)
  using part = typename Range<K*(combinations / Of), (K + 1) * (combinations / Of)>::engines;

  /// Calls `visit.template operator()<I>()` for the number of each combination of that part, of any kind.
  template <std::size_t K, std::size_t Of, class Visit>
    requires(K < Of && combinations % Of == 0)
  static constexpr void for_each_of_part(Visit&& visit) {
    constexpr std::size_t size = combinations / Of;
    [&]<std::size_t... I>(std::index_sequence<I...>) { (visit.template operator()<K * size + I>(), ...); }
    (std::make_index_sequence<size>{});
  }
};

/// How to spell a policy whose type name is not what a user would type: specialise it for an alias of a template with
/// arguments. Empty: the type's name.
template <class P>
inline constexpr std::string_view alias_of{};

template <class P>
[[nodiscard]] std::string policy_name() {
  return alias_of<P>.empty() ? type_name<P>() : std::string{alias_of<P>};
}

namespace detail {

template <class P>
void append_choice(std::string& text) {
  if constexpr (!std::same_as<P, typename Default<typename P::role>::type>) {
    if (!text.empty()) text += ", ";
    text += policy_name<P>();
  }
}

template <class... Ps>
void append_choices(std::string& text, Parts<Ps...>) {
  (append_choice<Ps>(text), ...);
}

} // namespace detail

/// `Engine<…>` as a user would write it: only the roles that differ from the defaults, without observers. The text
/// compiles as printed if every policy has a name of its own or an `alias_of`.
template <class E>
[[nodiscard]] std::string engine_name() {
  std::string text;
  detail::append_choices(text, typename E::composition::policies{});
  return "Engine<" + text + ">";
}

} // namespace sluice
