// SPDX-License-Identifier: Apache-2.0
// An iteration of decodes alone.
#pragma once

#include "sluice/cost/work.hpp"

#include <cstdint>

namespace sluice::testing {

/// `count` requests that each produce a token; `context` is of each, its fresh token with it.
inline Work decoding(std::int64_t count, std::int64_t context) {
  Work work;
  work.decodes = count;
  work.decode_context = Tokens{count * context};
  work.samples = count;
  return work;
}

} // namespace sluice::testing
