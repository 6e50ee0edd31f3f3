// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/orbitflow_baselines.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System deepspeed_inference() {
  return entry<sluice::DeepSpeedInference>("DeepSpeedInference", "every layer's KV on the host, fetched a layer ahead");
}

} // namespace engines
