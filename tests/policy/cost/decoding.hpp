// SPDX-License-Identifier: Apache-2.0
// An iteration with decodes only.
#pragma once

#include "sluice/policy/cost/work.hpp"

#include <cstdint>

namespace sluice::testing {

/// `count` requests that each generate a token; `context` is each request's, including its fresh token.
inline Work decoding(std::int64_t count, std::int64_t context) {
  Work work;
  work.decodes = count;
  work.decode_context = Tokens{count * context};
  work.samples = count;
  return work;
}

} // namespace sluice::testing
