// SPDX-License-Identifier: Apache-2.0
// Bounds: which engines serve requests whose output is a bound and not a length, as a server's are, or have priorities.
#pragma once

#include "sluice/engine/with.hpp"

namespace sluice {

/// Whether an engine's policies look at how long each request will be. Placements and Weights policies that reserve for
/// `spec.output` do not count: a bound is all that they need.
template <class E>
inline constexpr bool knows_lengths = false; // of a rejected engine: its own sentences say what is wrong
template <class C>
inline constexpr bool knows_lengths<BasicEngine<C>> = C::admission_type::knows_lengths;

/// `E` can be the engine of a server.
template <class E>
concept ServesBounds = !knows_lengths<E>;

/// Whether an engine's Admission orders requests by `RequestSpec::priority`.
template <class E>
inline constexpr bool heeds_priority = false;
template <class C>
inline constexpr bool heeds_priority<BasicEngine<C>> = requires {
  requires C::admission_type::heeds_priority;
};

/// The sentence, for a server that is composed of `E`: `static_assert(explain_bounds<E>());`.
template <class E>
consteval bool explain_bounds() {
  static_assert(ServesBounds<E>,
                "sluice: this engine's Admission looks at how long each request will be (knows_lengths = true), and a "
                "server cannot say: there max_tokens is a bound. Use With<E, Fcfs> or another Admission that does not");
  return true;
}

} // namespace sluice
