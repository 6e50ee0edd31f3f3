// SPDX-License-Identifier: Apache-2.0
// SharedMemory: what a block's threads share, and find full of nonsense.
#pragma once

#include "emulate/sanitizers.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace sluice::emulate {

/// Exactly so many bytes, so that AddressSanitizer sees their end; of the heap anew for each block, so that
/// ThreadSanitizer does not take two blocks' for one.
class SharedMemory {
 public:
  /// Filled with `poison`: 0xff is no number in any of the types, 0x7b a very large one where a comparison with no
  /// number would hide it.
  SharedMemory(std::size_t bytes, unsigned char poison) : bytes_(bytes), poison_(poison) {
    const Quiet quiet;
    if (posix_memalign(&at_, 128, bytes) != 0) std::abort();
    std::memset(at_, poison, bytes);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() {
    const Quiet quiet;
    std::free(at_);
  }
  [[nodiscard]] void* at() const { return at_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] unsigned char poison() const { return poison_; }

 private:
  void* at_ = nullptr;
  std::size_t bytes_;
  unsigned char poison_;
};

} // namespace sluice::emulate
