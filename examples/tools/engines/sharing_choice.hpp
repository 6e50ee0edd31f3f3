// SPDX-License-Identifier: Apache-2.0
// SharingChoice: how tenants share devices, selected at run time, so that each system is one node type.
#pragma once

#include "sluice/engine/node/sharing.hpp"

#include <cstddef>
#include <cstdint>

namespace engines {

enum class SharingKind : std::uint8_t {
  turns,    ///< one device, one tenant at a time
  together, ///< one device, all at once
  apart,    ///< each on its own device, or on its own part of one
};

struct SharingChoice {
  using role = sluice::roles::Sharing;
  using State = sluice::TakeTurns::State;

  SharingKind kind = SharingKind::turns;
  sluice::TakeTurns turns{};

  [[nodiscard]] bool may_run(State& state, const sluice::Occupancy& now, std::size_t engine, sluice::Seconds at) const {
    return kind != SharingKind::turns || turns.may_run(state, now, engine, at);
  }
  [[nodiscard]] bool inactive(const State& state, std::size_t engine) const {
    return kind == SharingKind::turns && turns.inactive(state, engine);
  }
  [[nodiscard]] double slowdown(const sluice::Occupancy& now) const {
    return kind == SharingKind::together ? sluice::SideBySide{}.slowdown(now) : 1;
  }
};

static_assert(sluice::Sharing<SharingChoice>);

} // namespace engines
