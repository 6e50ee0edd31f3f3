// SPDX-License-Identifier: Apache-2.0
#include "identity/eigen/trials.hpp"

namespace sluice::testing {

#define SLUICE_DEFINE(E) template Expected<std::unique_ptr<RealEngine>> make_real<E>(typename Observed<E>::Config);
SLUICE_SHARED_ENGINES(SLUICE_DEFINE)
#undef SLUICE_DEFINE

} // namespace sluice::testing
