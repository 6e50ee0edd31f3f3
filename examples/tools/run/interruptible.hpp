// SPDX-License-Identifier: Apache-2.0
// Interruptible: a machine that stops waiting for requests once the program is interrupted.
#pragma once

#include "sluice/world/real/world.hpp"

#include "shared/interrupt.hpp"

#include <algorithm>

namespace running {

/// Traces have minutes without a request: waits in short stretches, so that an interrupt is noticed.
class Interruptible : public sluice::RealBackend {
 public:
  using RealBackend::RealBackend;

  using RealBackend::idle_until;
  void idle_until(sluice::Seconds when) {
    constexpr sluice::Seconds stretch{0.05};
    while (sluice::interrupted() == 0 && now() < when) RealBackend::idle_until(std::min(when, now() + stretch));
  }
};

} // namespace running
