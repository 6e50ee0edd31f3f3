// SPDX-License-Identifier: Apache-2.0
// EllmSlsqp: eLLM with its own solver.
#pragma once

#include "sluice/placement/nlopt/slsqp_batch_share.hpp"
#include "sluice/systems/ellm.hpp"

namespace sluice {

/// eLLM, (b, r) by SLSQP (section 4.2.2). `Ellm` finds the exact answer to the same question, sooner.
using EllmSlsqp = With<Ellm, BasicTokenWise<SlsqpBatchShare>>;

} // namespace sluice
