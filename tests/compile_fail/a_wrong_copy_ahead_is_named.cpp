// SPDX-License-Identifier: Apache-2.0
// A hook that returns another type is not the hook that the policy declares.
// sentences: 1
// says: this Retention policy says copies_ahead = true and needs .LayerBlocks copy_ahead\(const View&
#include "sluice/policy/retention/eager_copy.hpp"

struct InTokens : sluice::EagerCopy {
#ifdef GOOD
  sluice::LayerBlocks copy_ahead(const sluice::View&, sluice::LayerBlocks idle) const { return idle; }
#else
  sluice::Tokens copy_ahead(const sluice::View&, sluice::LayerBlocks) const { return sluice::Tokens{1}; }
#endif
};

static_assert(sluice::explain<InTokens>());
