// SPDX-License-Identifier: Apache-2.0
// A fleet of three pools.
// sentences: 1
// says: a fleet has one pool of engines, or one that computes prompts and one that generates
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/fleet/fleet.hpp"
#include "sluice/fleet/round_robin.hpp"

using E = sluice::VllmRecompute;
#ifdef GOOD
using Pools = sluice::Fleet<sluice::RoundRobin, E, E>;
#else
using Pools = sluice::Fleet<sluice::RoundRobin, E, E, E>;
#endif

static_assert(Pools::pools > 0);
