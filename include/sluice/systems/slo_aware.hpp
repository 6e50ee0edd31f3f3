// SPDX-License-Identifier: Apache-2.0
// SLO-aware offloading, as OrbitFlow compares with it.
#pragma once

#include "sluice/admission/fcfs.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/placement/slo_uniform.hpp"
#include "sluice/replan/on_batch_change.hpp"
#include "sluice/transfer/fair_share.hpp"

namespace sluice {

/// SLO-aware Offloading (OrbitFlow, section 5.1, baseline 4; after Select-N, on KV instead of weights): at batch
/// changes the smallest uniform distance that meets the SLO by the profile and fits, else the distance with the least
/// latency.
using SloAware = Engine<FcfsPrefillFirst, SloUniform, OnBatchChange, FairShare>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<SloAware::composition>;
#endif

} // namespace sluice
