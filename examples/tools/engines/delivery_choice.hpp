// SPDX-License-Identifier: Apache-2.0
// DeliveryChoice: delivery with or without a deposit, selected per row.
#pragma once

#include "sluice/policy/delivery/immediate.hpp"
#include "sluice/policy/delivery/token_deposit.hpp"

namespace engines {

/// `TokenDeposit` or `Immediate`, selected at run time: every system runs with both, and one type for both halves the
/// number of engines that the program instantiates. It costs one branch per token; an engine built for one purpose
/// names its policy as a type.
struct DeliveryChoice {
  using role = sluice::roles::Delivery;
  static constexpr bool deposits = true;

  bool deposit = false;

  void generated(sluice::RequestRow& row, sluice::Seconds now, auto&& sink) const {
    deposit ? sluice::TokenDeposit{}.generated(row, now, sink) : sluice::Immediate{}.generated(row, now, sink);
  }
  void advance(sluice::RequestRow& row, sluice::Seconds now, auto&& sink) const {
    if (deposit) sluice::TokenDeposit{}.advance(row, now, sink);
  }
  [[nodiscard]] sluice::Seconds next_due(const sluice::RequestRow& row) const {
    return deposit ? sluice::TokenDeposit{}.next_due(row) : sluice::never_due;
  }
  void finish(sluice::RequestRow& row, sluice::Seconds now, auto&& sink) const {
    if (deposit) sluice::TokenDeposit{}.finish(row, now, sink);
  }
};

} // namespace engines
