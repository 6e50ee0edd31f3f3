// SPDX-License-Identifier: Apache-2.0
// An optional hook whose answer is wrong must not pass for none: nothing would be copied, in silence.
// sentences: 1
// says: this Retention policy's .copy_ahead. must be .LayerBlocks copy_ahead\(const View&, LayerBlocks idle\) const.
#include "sluice/retention/eager_copy.hpp"

struct InTokens : sluice::EagerCopy {
#ifdef GOOD
  sluice::LayerBlocks copy_ahead(const sluice::View&, sluice::LayerBlocks idle) const { return idle; }
#else
  sluice::Tokens copy_ahead(const sluice::View&, sluice::LayerBlocks) const { return sluice::Tokens{1}; }
#endif
};

static_assert(sluice::explain<InTokens>());
