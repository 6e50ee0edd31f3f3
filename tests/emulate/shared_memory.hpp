// SPDX-License-Identifier: Apache-2.0
// SharedMemory: a block's shared memory, initially filled with nonsense.
#pragma once

#include "emulate/sanitizers.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace sluice::emulate {

/// Allocated at its exact size, so that AddressSanitizer sees its end, and anew for each block, so that ThreadSanitizer
/// does not mistake two blocks' memory for one.
class SharedMemory {
 public:
  /// Filled with `poison`: 0xff is NaN in all types; 0x7b is a very large number, for comparisons that would hide a
  /// NaN.
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
