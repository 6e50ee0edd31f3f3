// SPDX-License-Identifier: Apache-2.0
// A hook that returns another type is not the hook that the policy declares.
// sentences: 1
// says: this Weights policy says promises = true and needs .template <class Request> Status promise
#include "sluice/policy/weights/resident_weights.hpp"

struct SaysYes : sluice::ResidentWeights {
  static constexpr bool promises = true;
  template <class Request>
#ifdef GOOD
  sluice::Status promise(const Request&) const {
    return {};
  }
#else
  bool promise(const Request&) const {
    return true;
  }
#endif
};

static_assert(sluice::explain<SaysYes>());
