// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/future_memory.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System future_memory() {
  return entry<sluice::FutureMemory>("FutureMemory", "LightLLM: whom the memory expected to be needed has room for");
}

} // namespace engines
