// SPDX-License-Identifier: Apache-2.0
// sluice-plan --vllm-offload: the flags of vLLM's prefetching weight offloader for a model, a device and an SLO.
#pragma once

#include "sluice/core/expected.hpp"

#include "shared/default_machine.hpp"

#include <cstdint>
#include <string>

namespace planned {

struct OffloadQuestion {
  std::string model, device{default_device}, kv_dtype = "auto";
  double slo_s = 0; ///< of one decode step
  std::int64_t batch = 1;
  std::int64_t context = 2048; ///< tokens that each request has
};

/// Prints the flags that free most device memory with every decode step within the SLO, and what they cost.
sluice::Status print_vllm_offload(const OffloadQuestion& question);

} // namespace planned
