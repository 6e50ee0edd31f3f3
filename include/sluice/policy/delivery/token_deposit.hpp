// SPDX-License-Identifier: Apache-2.0
// TokenDeposit: tokens made early are held back and released one per SLO (OrbitFlow, section 3.2).
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/policy/delivery/delivery.hpp"

namespace sluice {

/// While the deposit holds tokens, one is released every `spec.slo.tbt`. If it is empty, a token is released when it is
/// generated, and the next is due one SLO later. The deposit of a paused request keeps draining. When the request ends,
/// all remaining tokens are released at once. Tokens of a request without an SLO are released immediately.
struct TokenDeposit {
  using role = roles::Delivery;
  static constexpr bool deposits = true;

  void generated(RequestRow& row, Seconds now, auto&& sink) const {
    if (math::isinf(row.spec.slo.tbt.count()) || row.delivered.count() == 0) {
      release(row, now, sink);
      return;
    }
    advance(row, now, sink);
    // The token is late, or due now: release it.
    if (row.deposit().count() == 1 && row.due <= now) release(row, now, sink);
  }

  void advance(RequestRow& row, Seconds now, auto&& sink) const {
    // The newest token cannot be released before now: if it was due earlier it is late, and `generated` releases it.
    while (row.deposit().count() > 0 && row.due <= now) {
      if (row.last_token > row.due && row.deposit().count() == 1) return;
      release(row, row.due, sink);
    }
  }

  [[nodiscard]] Seconds next_due(const RequestRow& row) const {
    return row.deposit().count() > 0 ? row.due : never_due;
  }

  void finish(RequestRow& row, Seconds now, auto&& sink) const {
    advance(row, now, sink);
    const Tokens rest = row.deposit();
    if (rest.count() == 0) return;
    row.delivered += rest;
    sink(row, rest, now);
  }

 private:
  static void release(RequestRow& row, Seconds when, auto&& sink) {
    row.delivered += Tokens{1};
    row.due = when + row.spec.slo.tbt;
    sink(row, Tokens{1}, when);
  }
};

static_assert(Delivery<TokenDeposit>);

} // namespace sluice
