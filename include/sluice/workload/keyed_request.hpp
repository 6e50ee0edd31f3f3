// SPDX-License-Identifier: Apache-2.0
// KeyedRequest: a request with the keys of its blocks.
#pragma once

#include "sluice/workload/content.hpp"
#include "sluice/workload/request.hpp"

#include <vector>

namespace sluice {

/// A request as an engine receives it. The keys identify the full blocks of its prompt and, as far as they are known,
/// of its answer.
struct KeyedRequest {
  RequestSpec spec;
  std::vector<BlockKey> keys;
};

} // namespace sluice
