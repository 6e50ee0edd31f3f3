// SPDX-License-Identifier: Apache-2.0
// A server whose engine has no GenerationFeed and knows each request's length, with a gate that misspells `answer` and
// a policy instead of a gate: one message for each.
// sentences: 4
// says: this engine has no GenerationFeed, so that no token would reach a client: write .With<E, GenerationFeed>.
// says: this engine's Admission looks at how long each request will be
// says: this gate needs .GateAnswer answer\(const Generation&, const Outlook<E>&\)., as serve/gate.hpp declares it
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/shortest_first.hpp"
#include "sluice/serve/gate.hpp"

struct Open {
#ifdef GOOD
  sluice::GateAnswer answer(const sluice::Generation&, const auto&) const { return {}; }
#else
  sluice::GateAnswer answers(const sluice::Generation&, const auto&) const { return {}; }
#endif
};

#ifdef GOOD
using Mine = sluice::With<sluice::VllmSwap, sluice::GenerationFeed, sluice::DeadlinePool>;
static_assert(sluice::explain_server<Mine, Open, sluice::QueueLimit>());
#else
using Mine = sluice::With<sluice::VllmSwap, sluice::ShortestKnownFirst>;
static_assert(sluice::explain_server<Mine, Open, sluice::QueueLimit, sluice::DeadlinePool>());
#endif
