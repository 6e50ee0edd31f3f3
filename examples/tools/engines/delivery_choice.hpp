// SPDX-License-Identifier: Apache-2.0
// DeliveryChoice: with or without a deposit, as the row asks for.
#pragma once

#include "sluice/policy/delivery/immediate.hpp"
#include "sluice/policy/delivery/token_deposit.hpp"

namespace engines {

/// `TokenDeposit` or `Immediate`, chosen at run time: every system is shown with and without, and this halves the
/// engines that the program instantiates. One branch a token; an engine that is built for something names its policy.
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
