// SPDX-License-Identifier: Apache-2.0
// A server's max_tokens is a bound, so a server rejects an engine that ranks requests by their lengths.
// sentences: 1
// says: this engine's Admission looks at how long each request will be
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/other_admissions.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/engine/with.hpp"

using namespace sluice;

#ifdef GOOD
static_assert(explain_bounds<VllmRecompute>());
#else
static_assert(explain_bounds<SjfOracle>());
#endif
