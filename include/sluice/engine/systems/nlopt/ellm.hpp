// SPDX-License-Identifier: Apache-2.0
// EllmSlsqp: eLLM with its own solver.
#pragma once

#include "sluice/engine/systems/ellm.hpp"
#include "sluice/policy/placement/nlopt/slsqp_batch_share.hpp"

namespace sluice {

/// eLLM with (b, r) by SLSQP (section 4.2.2). `Ellm` solves the same problem exactly, and faster.
using EllmSlsqp = With<Ellm, BasicTokenWise<SlsqpBatchShare>>;

} // namespace sluice
