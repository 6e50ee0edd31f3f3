// SPDX-License-Identifier: Apache-2.0
// RejectedEngine: what `Engine<…>` names where the policies make no engine, so that the sentences are the only errors.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/core/role.hpp"
#include "sluice/engine/compose.hpp"
#include "sluice/engine/config.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/state/memory/prefix_cache.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/workload/request.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

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

} // namespace sluice
