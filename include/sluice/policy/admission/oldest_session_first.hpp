// SPDX-License-Identifier: Apache-2.0
// OldestSessionFirst: waiting requests join in the order in which their sessions began.
#pragma once

#include "sluice/policy/admission/least_first.hpp"

#include <cstddef>
#include <vector>

namespace sluice {

/// The arrival of its session's first request; of a request without a session, its own.
struct SessionArrival {
  static constexpr bool knows_lengths = false;
  struct State {
    std::vector<double> first; ///< by session; below 0: none has arrived
  };
  [[nodiscard]] double operator()(State& state, const RequestRow& row) const {
    const auto session = static_cast<std::size_t>(row.spec.session);
    if (session == 0) return row.spec.arrival.count();
    if (session >= state.first.size()) state.first.resize(session + 1, -1);
    double& first = state.first[session];
    return first = first < 0 ? row.spec.arrival.count() : first;
  }
};

/// Programs first come, first served (Continuum, Autellix): a program's later requests keep its place.
using OldestSessionFirst = BasicLeastFirst<SessionArrival>;

static_assert(Admission<OldestSessionFirst>);

} // namespace sluice
