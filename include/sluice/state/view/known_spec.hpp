// SPDX-License-Identifier: Apache-2.0
// KnownSpec: what a server knows of a request; LengthPermit: a policy's permission to read how long its answer will be.
#pragma once

#include "sluice/core/interrupt.hpp"
#include "sluice/core/units.hpp"
#include "sluice/workload/request.hpp"

#include <optional>
#include <type_traits>

namespace sluice {

/// `P` says that it decides by the lengths of answers to come, as no server can. Reports mark its systems as oracles.
template <class P>
concept KnowsLengths = requires {
  requires bool(P::knows_lengths);
};

/// The permission of policy `P` to read the length of an answer to come: `row.remaining(LengthPermit<MyPolicy>{})`.
/// Only `P` itself can make one, and only if it declares `knows_lengths`: no policy decides by what another one may
/// read. It is empty.
template <class P>
class LengthPermit {
  friend P;

  constexpr LengthPermit() {
    static_assert(KnowsLengths<P>,
                  "sluice: only an oracle may read how long an answer will be: declare `static constexpr bool "
                  "knows_lengths = true;` in this policy (and in one that contains it), or decide without it");
  }
};

/// Engines, worlds, observers and tests, which decide nothing.
struct NotAPolicy {
  static constexpr bool knows_lengths = true;
  static constexpr LengthPermit<NotAPolicy> permit() { return {}; }
};
/// Their permission. A test checks that no policy of the library uses it.
inline constexpr LengthPermit<NotAPolicy> not_a_policy = NotAPolicy::permit();

namespace detail {
/// A policy reads a length through a part whose `knows_lengths` its own engine's policies do not repeat.
[[noreturn, gnu::cold]] inline void undeclared_oracle() {
  policy_mistake("a part of it reads how long an answer will be, and no policy of this engine declares knows_lengths = "
                 "true: repeat the part's constant in the policy that contains it");
}
} // namespace detail

/// `P` says which of its clients' hints it reads: `static constexpr HintSet uses_hints{.ttl = true};`.
template <class P>
concept HeedsHints = requires {
  requires P::uses_hints == HintSet{P::uses_hints};
  typename std::bool_constant<P::uses_hints.any()>;
};

/// The hints that a policy reads; none if it does not say so.
template <class P>
inline constexpr HintSet heeds_of = {};
template <HeedsHints P>
inline constexpr HintSet heeds_of<P> = P::uses_hints;

/// The permission to read hints (`RequestRow::hints`): those that a policy says it reads, so that a hint that a system
/// ignores is ignored visibly. A hint is what a client says; it makes no policy an oracle.
class HintPermit {
 public:
  template <class P>
  static consteval HintPermit of_policy() {
    static_assert(HeedsHints<P>, "sluice: this policy reads what clients say of their KV and does not say so: declare "
                                 "`static constexpr HintSet uses_hints{.ttl = true};` with the hints that it reads");
    return HintPermit{heeds_of<P>};
  }
  [[nodiscard]] constexpr HintSet hints() const { return hints_; }

 private:
  constexpr explicit HintPermit(HintSet of) : hints_(of) {}

  HintSet hints_;
};

/// The permission of policy `P`, which must declare `uses_hints`: `row.hints(heeded<MyPolicy>).ttl`.
template <class P>
inline constexpr HintPermit heeded = HintPermit::of_policy<P>();

/// Stands where a RequestSpec has its output: whatever reads it gets the sentence that says why not.
class OutputThatOnlyAnOracleKnows {
 public:
  template <class T>
  operator T() const { // NOLINT(google-explicit-constructor): so that each use of it as a number is explained
    explain<T>();
    __builtin_unreachable();
  }
  template <class T = Tokens>
  [[nodiscard]] auto count() const {
    explain<T>();
    return T{}.count();
  }

  /// Fails to compile, with the sentence.
  template <class T>
  static constexpr void explain() {
    static_assert(sizeof(T) == 0,
                  "sluice: no server knows how long an answer will be, so a policy cannot read `spec.output`: use "
                  "`view.lengths`, `row.generated` or `spec.output_bound()`, or declare knows_lengths = true and read "
                  "`row.output(LengthPermit<Policy>{})` or `row.remaining(LengthPermit<Policy>{})`");
  }
};

/// A RequestSpec as a server knows it: all its fields but `output` and `output_is_bound`. The engine ends the request
/// by its output length, and only an oracle may read that (`RequestRow::output`). Hints are read with the permission of
/// a policy that says which (`RequestRow::hints`).
class KnownSpec : private RequestSpec {
 public:
  constexpr KnownSpec() = default;
  constexpr KnownSpec(const RequestSpec& spec) : RequestSpec(spec) {} // NOLINT(google-explicit-constructor)

  using RequestSpec::arrival;
  using RequestSpec::delay;
  using RequestSpec::follows;
  using RequestSpec::priority;
  using RequestSpec::prompt;
  using RequestSpec::session;
  using RequestSpec::slo;
  using RequestSpec::turn;
  static constexpr OutputThatOnlyAnOracleKnows output{};

  /// The most tokens that the answer may have, if its client said so (`max_tokens`); none for a request that a workload
  /// replays, whose `RequestSpec::output` is the exact length.
  [[nodiscard]] constexpr std::optional<Tokens> output_bound() const {
    return output_is_bound ? std::optional{RequestSpec::output} : std::nullopt;
  }
  /// What its client says of its KV: the hints that the policy reads, and nothing of the others.
  [[nodiscard]] constexpr SessionHints hints(HintPermit permit) const {
    return RequestSpec::hints.only(permit.hints());
  }
  /// All of it, with the length of the answer. Policies read that of a row, if at all.
  [[nodiscard]] constexpr const RequestSpec& whole(LengthPermit<NotAPolicy> /*permit*/) const { return *this; }
};

} // namespace sluice
