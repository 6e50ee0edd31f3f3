// SPDX-License-Identifier: Apache-2.0
// fork: copies an engine to look ahead, on another backend and with other observers.
#pragma once

#include "sluice/engine/engine.hpp"

#include <type_traits>
#include <utility>

namespace sluice {

template <class C>
template <class Observers>
BasicEngine<C> BasicEngine<C>::fork(backend_type backend, Observers observers) const {
  BasicEngine copy(Checked{}, Config{.limits = core_.limits,
                                     .geometry = core_.geometry,
                                     .device_blocks = core_.device_blocks,
                                     .host_blocks = core_.ledger.host().capacity(),
                                     .cost = policies_.cost,
                                     .backend = std::move(backend),
                                     .admission = policies_.admission,
                                     .placement = policies_.placement,
                                     .weights = policies_.weights,
                                     .replan = policies_.replan,
                                     .relief = policies_.relief,
                                     .retention = policies_.retention,
                                     .caching = policies_.caching,
                                     .delivery = policies_.delivery,
                                     .lookahead = policies_.lookahead,
                                     .observers = std::move(observers)}); // its tiers come with the core
  copy.core_ = core_;
  static_cast<PolicyStates<C>&>(copy.policies_) = policies_;
  copy.policies_.placement_state = policies_.placement_state;
  copy.accounts_ = accounts_;
  copy.transfer_ = transfer_;
  copy.draft_ = draft_;
  copy.draft_.offer.coordination = {};
  copy.decision_ = decision_;
  copy.status_ = status_;
  // A decision made ahead on the virtual clock is data and is copied. One that a backend's thread makes stays with the
  // engine: the copy decides again.
  if constexpr (std::is_copy_assignable_v<DecisionSource<C>>) copy.source_ = source_;
  // The committed and prepared iteration refers to the engine's lists, so the copy decides, commits and prepares its
  // next step itself. That weights returned in it is a fact that the next commit asks for.
  copy.core_.carry_over.forked();
  copy.commit_.moves.returned_blocks = commit_.moves.returned_blocks;
  return copy;
}

} // namespace sluice
