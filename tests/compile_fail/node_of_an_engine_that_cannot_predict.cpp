// SPDX-License-Identifier: Apache-2.0
// A node predicts its engines' iterations. A backend that runs them for real cannot predict their ends.
// sentences: 1
// says: a node predicts its engines' iterations: the Backend of each engine needs predicts = true
#include "sluice/engine/node/node.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/world/cpu/cpu.hpp"

#ifdef GOOD
using E = sluice::VllmSwap;
#else
using E = sluice::With<sluice::VllmSwap, sluice::Cpu>;
#endif

using Two = sluice::Node<E, E>;
bool runs(const Two& node);
bool runs(const Two& node) { return node.alive() > 0; }
