// SPDX-License-Identifier: Apache-2.0
// candidate_key: a key of a set of requests, whatever their order.
#pragma once

#include "sluice/core/ids.hpp"

#include <cstdint>

namespace sluice {

/// The key of one request. The keys of a set's requests, added up, are the key of the set: sums of mixed ids can be
/// added in any order, and fast.
constexpr std::uint64_t candidate_key(RequestId id) {
  std::uint64_t z = (std::uint64_t{index(id)} + 1) * 0x9e3779b97f4a7c15u;
  z ^= z >> 32;
  return z * 0xd6e8feb86659fd93u;
}

} // namespace sluice
