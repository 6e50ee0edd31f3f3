// SPDX-License-Identifier: Apache-2.0
// Bounds: which engines can serve requests whose output is only bounded, as a server's are, or that have priorities.
#pragma once

#include "sluice/engine/with.hpp"

namespace sluice {

/// Whether an engine's policies use the length of each request. Placements and Weights policies that reserve for
/// `spec.output` do not count: a bound is enough for them.
template <class E>
inline constexpr bool knows_lengths = false; // a rejected engine: its own sentences say what is wrong
template <class C>
inline constexpr bool knows_lengths<BasicEngine<C>> = C::admission_type::knows_lengths;

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
