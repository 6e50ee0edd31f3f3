// SPDX-License-Identifier: Apache-2.0
// SLO-aware offloading, as OrbitFlow compares with it.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/placement/slo_uniform.hpp"
#include "sluice/policy/replan/on_batch_change.hpp"
#include "sluice/policy/transfer/fair_share.hpp"

namespace sluice {

/// SLO-aware Offloading (OrbitFlow, section 5.1, baseline 4; after Select-N, on KV instead of weights): when the batch
/// changes, the smallest uniform distance that fits and meets the SLO by the profile, otherwise the distance with the
/// least latency.
using SloAware = Engine<FcfsPrefillFirst, SloUniform, OnBatchChange, FairShare>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<SloAware::composition>;
#endif

} // namespace sluice
