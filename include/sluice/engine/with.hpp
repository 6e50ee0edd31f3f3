// SPDX-License-Identifier: Apache-2.0
// Engine, With: the names of engine types, and of those that the policies do not make.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/role.hpp"
#include "sluice/core/units.hpp"
#include "sluice/engine/compose.hpp"
#include "sluice/engine/config.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/state/memory/prefix_cache.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/workload/request.hpp"

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace sluice {

// RejectedEngine: what `Engine<…>` names where the policies make no engine, so that the sentences are the only errors.

namespace detail {

/// Stands for a policy of an engine that was rejected: made of anything, and becomes anything.
struct Anything {
  using State = Anything;
  constexpr Anything() = default;
  constexpr Anything(auto&&...) {} // NOLINT(google-explicit-constructor)
  template <class T>
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator T() const; // never defined: nothing of a rejected engine runs (constexpr would be warned about)
  constexpr Anything operator()(auto&&...) const { return {}; }
};

template <class O>
struct StateOf {
  using type = Anything;
};
template <class O>
  requires requires { typename O::State; }
struct StateOf<O> {
  using type = typename O::State;
};

/// Stands for the composition of an engine that was rejected.
struct PlayedByAnything {
  template <class Role>
  using of = Anything;
};
struct RejectedComposition : NamedPolicies<PlayedByAnything> {
  using policies = Parts<>;
  using observer_types = Parts<>;
  using observer_values = Anything;
};

} // namespace detail

/// The members of an engine, declared and never defined: whatever is written with a rejected engine compiles, so that
/// the sentences that say why it was rejected are the only errors. A result that does not depend on the policies has
/// its own type here, or using it would be an error too.
///
/// `Explained` is what the function with the sentences returns: naming this type makes the compiler print them.
template <class Explained>
struct RejectedEngine : detail::RejectedComposition {
  using composition = detail::RejectedComposition;

  using Config = EngineConfig<composition>;

  static Expected<RejectedEngine> make(Config config);
  template <class Holder>
  static Expected<Holder> make_in(Config&& config);
  Status load();
  [[nodiscard]] RejectedEngine fork(const detail::Anything& backend, const detail::Anything& observers) const;
  Expected<RequestId> submit(const RequestSpec& spec, std::span<const BlockKey> prompt_keys = {});
  void take_answers(std::vector<Answered>& answers);
  [[nodiscard]] bool has_answers() const;
  Status cancel(RequestId id);
  Stepped step();
  Begun begin();
  void finish(const detail::Anything& around = {});
  [[nodiscard]] const Status& status() const;
  [[nodiscard]] detail::Anything port() const;
  [[nodiscard]] detail::Anything backend() const;
  [[nodiscard]] Seconds next_due() const;
  [[nodiscard]] Seconds next_load() const;
  void release_due(Seconds until);
  void idle_until(Seconds when);
  void idle_until(Seconds when, const detail::Anything& bell);
  [[nodiscard]] Seconds now() const;
  [[nodiscard]] View view() const;
  [[nodiscard]] const Plan& plan() const;
  [[nodiscard]] const Ledger& ledger() const;
  [[nodiscard]] std::int64_t alive() const;
  [[nodiscard]] std::int64_t steps() const;
  template <class O>
  [[nodiscard]] const typename detail::StateOf<O>::type& observed() const;
};

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

// Bounds: which engines can serve requests whose output is only bounded, as a server's are, or that have priorities.

/// Whether an engine's Admission uses the length of each request. Policies of other roles that reserve for it
/// (`RequestRow::output`) do not count: a bound is enough for them.
template <class E>
inline constexpr bool knows_lengths = false; // a rejected engine: its own sentences say what is wrong
template <class C>
inline constexpr bool knows_lengths<BasicEngine<C>> = C::admission_type::knows_lengths;

namespace detail {

template <class List>
inline constexpr HintSet all_heeded = {};
template <class... Ps>
inline constexpr HintSet all_heeded<Parts<Ps...>> = (HintSet{} | ... | heeds_of<Ps>);

} // namespace detail

/// Whether any of an engine's policies, of whatever role, decides by lengths that only a simulation knows: such an
/// engine is an oracle, whose results bound what others can reach.
template <class E>
inline constexpr bool foresees = false;
template <class C>
inline constexpr bool foresees<BasicEngine<C>> = C::foresees;

/// The hints of clients (`RequestSpec::hints`) that any of an engine's policies reads; the engine ignores all others. A
/// real backend brings nothing up ahead of a request, so it ignores `prefetch`.
template <class E>
inline constexpr HintSet heeded_hints = {};
template <class C>
inline constexpr HintSet heeded_hints<BasicEngine<C>> =
    detail::all_heeded<typename C::policies> - HintSet{.prefetch = is_real_time<typename C::backend_type>};

/// Whether a server can run `E`.
template <class E>
concept ServesBounds = !knows_lengths<E>;

/// Whether an engine's Admission orders requests by `RequestSpec::priority`.
template <class E>
inline constexpr bool heeds_priority = false;
template <class C>
inline constexpr bool heeds_priority<BasicEngine<C>> = requires {
  requires C::admission_type::heeds_priority;
};

/// Whether this engine does.
template <class C>
[[nodiscard]] constexpr bool orders_by_priority(const BasicEngine<C>& /*engine*/) {
  return heeds_priority<BasicEngine<C>>;
}
/// The hints that change something in this engine: none if its backend could keep KV on its host, and keeps none.
template <class C>
[[nodiscard]] HintSet hints_read(const BasicEngine<C>& engine) {
  if constexpr (KeepsKv<typename C::backend_type>)
    if (!engine.backend().host_tier_evicts()) return {};
  return heeded_hints<BasicEngine<C>>;
}

/// The sentence for a server composed of `E`: `static_assert(explain_bounds<E>());`.
template <class E>
consteval bool explain_bounds() {
  static_assert(
      ServesBounds<E>,
      "sluice: this engine's Admission looks at how long each request will be (knows_lengths = true), which a server "
      "does not know: max_tokens is only a bound. Use With<E, Fcfs> or another Admission with knows_lengths = false");
  return true;
}

} // namespace sluice
