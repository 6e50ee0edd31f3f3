// SPDX-License-Identifier: Apache-2.0
// Narrowed: any admission policy, with a batch of at most `Width` requests.
#pragma once

#include "sluice/policy/admission/admission.hpp"

#include <algorithm>
#include <span>

namespace sluice {

/// `Base` with a batch limit below the engine's.
template <Admission Base, int Width>
  requires(Width >= 1 && ProposesByView<Base>)
struct Narrowed {
  using role = roles::Admission;
  using State = typename Base::State;
  static constexpr bool steady = Base::steady;
  static constexpr bool knows_lengths = Base::knows_lengths;

  Base base{};

  void enter(State& state, Slot slot, const RequestRow& row) const { base.enter(state, slot, row); }
  void leave(State& state, Slot slot, const RequestRow& row) const { base.leave(state, slot, row); }
  void propose(const View& view, State& state, Proposal& proposal) const {
    base.propose(narrow(view), state, proposal);
  }
  void settle(const View& view, std::span<Claim> accepted) const { base.settle(narrow(view), accepted); }

 private:
  static View narrow(View view) {
    view.limits.batch = std::min(view.limits.batch, Width);
    return view;
  }
};

} // namespace sluice
