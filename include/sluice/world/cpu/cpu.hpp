// SPDX-License-Identifier: Apache-2.0
// Cpu: the backend that computes real tokens and moves real bytes between two memories of this machine.
#pragma once

#include "sluice/world/real/world.hpp"

namespace sluice {

/// Both memories are parts of this machine's memory, with stated sizes; one thread per lane is the link: CpuMachine
/// (world/cpu/cpu_machine.hpp).
class Cpu : public RealBackend {
 public:
  using RealBackend::RealBackend;
};

static_assert(explain<Cpu>());

} // namespace sluice
