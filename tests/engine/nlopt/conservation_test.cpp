// SPDX-License-Identifier: Apache-2.0
// Conservation over random traces: eLLM with its own solver.
#include "sluice/engine/systems/nlopt/ellm.hpp"

#include "engine/trials.hpp"

namespace {
using namespace sluice;

SLUICE_CONSERVES(EllmSlsqp)
} // namespace
