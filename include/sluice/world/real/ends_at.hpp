// SPDX-License-Identifier: Apache-2.0
// EndsAt: a simulated backend on which requests end at stated lengths, before their bounds.
#pragma once

#include "sluice/world/backend.hpp"

#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// How many tokens a request generates. A length that the request has passed already ends nothing.
using OutputLength = std::function<Tokens(const RequestRow&)>;

template <class Base>
class EndsAt : public Base {
 public:
  static constexpr bool ends_requests = true;

  EndsAt(Base base, OutputLength length) : Base(std::move(base)), length_(std::move(length)) {}

  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    const IterationCost cost = Base::template wait<Transfer>(iteration, state);
    outcomes_.clear();
    for (const Claim& claim : iteration.batch) {
      const RequestRow& row = iteration.view.row(claim.slot);
      if (claim.tokens == row.pending() && row.generated + Tokens{1} == length_(row))
        outcomes_.push_back({claim.slot, false, {}});
    }
    return cost;
  }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const { return outcomes_; }

 private:
  OutputLength length_;
  std::vector<RequestOutcome> outcomes_; ///< of the last iteration
};

} // namespace sluice
