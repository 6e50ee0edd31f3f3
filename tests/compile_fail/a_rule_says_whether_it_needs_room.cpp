// SPDX-License-Identifier: Apache-2.0
// A transfer rule that does not say whether it reads the room: one sentence, where there was none.
// sentences: 1
// says: this Transfer policy needs .static constexpr bool needs_room = true;.
#include "sluice/policy/transfer/fair_share.hpp"

struct Half : sluice::FairShare {
#ifndef GOOD
  struct needs_room {};
#endif
};

static_assert(sluice::explain<Half>());
