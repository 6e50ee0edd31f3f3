// SPDX-License-Identifier: Apache-2.0
// OneAtATime: the control row of every comparison.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/admission/narrowed.hpp"
#include "sluice/policy/placement/all_resident.hpp"

namespace sluice {

/// One request at a time, all resident. A running request never gets a token late, and all others wait: a metric on
/// which this server does well does not measure what users see.
using OneAtATime = Engine<Narrowed<FcfsPrefillFirst, 1>, AllResident>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<OneAtATime::composition>;
#endif

} // namespace sluice
