// SPDX-License-Identifier: Apache-2.0
// Immediate: a token reaches the user as soon as it exists (the default).
#pragma once

#include "sluice/policy/delivery/delivery.hpp"

namespace sluice {

struct Immediate {
  using role = roles::Delivery;
  static constexpr bool deposits = false;

  void generated(RequestRow& row, Seconds now, auto&& sink) const {
    row.delivered += Tokens{1};
    sink(row, Tokens{1}, now);
  }
  void advance(RequestRow& /*row*/, Seconds /*now*/, auto&& /*sink*/) const {}
  [[nodiscard]] Seconds next_due(const RequestRow& /*row*/) const { return never_due; }
  void finish(RequestRow& /*row*/, Seconds /*now*/, auto&& /*sink*/) const {}
};

static_assert(Delivery<Immediate>);

template <>
struct Default<roles::Delivery> {
  using type = Immediate;
};

} // namespace sluice
