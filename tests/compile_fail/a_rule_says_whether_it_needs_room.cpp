// SPDX-License-Identifier: Apache-2.0
// A transfer rule that does not declare whether it reads the free room: one message.
// sentences: 1
// says: this Transfer policy needs .static constexpr bool needs_room = true;.
#include "sluice/policy/transfer/fair_share.hpp"

struct Half : sluice::FairShare {
#ifndef GOOD
  struct needs_room {};
#endif
};

static_assert(sluice::explain<Half>());
