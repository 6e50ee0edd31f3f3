// SPDX-License-Identifier: Apache-2.0
// An optional hook whose answer is wrong must not pass for none: nobody would be refused for its SLO, in silence.
// sentences: 1
// says: this Weights policy's .promise. must be .template <class Request> Expected<LayerBlocks> promise\(const
// Request&\) const.
#include "sluice/weights/resident_weights.hpp"

struct SaysYes : sluice::ResidentWeights {
  template <class Request>
#ifdef GOOD
  sluice::Expected<sluice::LayerBlocks> promise(const Request&) const {
    return sluice::LayerBlocks{0};
  }
#else
  bool promise(const Request&) const {
    return true;
  }
#endif
};

static_assert(sluice::explain<SaysYes>());
