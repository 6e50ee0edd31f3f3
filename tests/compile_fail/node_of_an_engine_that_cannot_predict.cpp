// SPDX-License-Identifier: Apache-2.0
// A node looks ahead in its engines' iterations. A backend that runs them for real cannot tell beforehand how they end.
// sentences: 1
// says: a node looks ahead in its engines' iterations: the Backend of each engine needs predicts = true
#include "sluice/backend/cpu/cpu.hpp"
#include "sluice/node/node.hpp"
#include "sluice/systems/vllm.hpp"

#ifdef GOOD
using E = sluice::VllmSwap;
#else
using E = sluice::With<sluice::VllmSwap, sluice::Cpu>;
#endif

using Two = sluice::Node<E, E>;
bool runs(const Two& node);
bool runs(const Two& node) { return node.alive() > 0; }
