// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/other_admissions.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System future_memory() {
  return entry<sluice::FutureMemory>("FutureMemory", "LightLLM: admits requests whose expected memory fits");
}

} // namespace engines
