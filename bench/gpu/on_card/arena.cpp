// SPDX-License-Identifier: Apache-2.0
// operator new from pinned memory, which a GPU reads and writes at the same addresses. The kernels' tests allocate with
// it as if the device were the host. Rejected: managed memory, whose pages fault and move, and a copy at each launch,
// which would need to follow the pointers in a struct of parameters.
#include "arena.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

/// Blocks whose sizes are powers of two of at least 256 bytes, with a free list per size. A block's first 256 bytes
/// hold its size, so that allocations are aligned to 256 bytes. Memory is never returned to CUDA, which shuts down
/// before the last free.
class Arena {
 public:
  const char* take(std::size_t bytes) {
    void* at = nullptr;
    const cudaError_t error = cudaHostAlloc(&at, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
    if (error != cudaSuccess) return cudaGetErrorString(error);
    begin_ = next_ = static_cast<std::byte*>(at);
    end_ = begin_ + bytes;
    return nullptr;
  }
  [[nodiscard]] bool has(const void* at) const { return at >= begin_ && at < end_; }

  /// Null if there is no arena, or it is full.
  void* allocate(std::size_t bytes) {
    if (begin_ == nullptr) return nullptr;
    const auto kind = static_cast<std::size_t>(std::bit_width(bytes + head - 1));
    const Lock lock(busy_);
    std::byte* at = free_[kind];
    if (at != nullptr) {
      free_[kind] = *reinterpret_cast<std::byte**>(at + head);
    } else {
      const std::size_t size = std::size_t{1} << kind;
      if (static_cast<std::size_t>(end_ - next_) < size) return nullptr;
      at = next_;
      next_ += size;
    }
    *reinterpret_cast<std::size_t*>(at) = kind;
    return at + head;
  }
  void give(void* given) {
    std::byte* const at = static_cast<std::byte*>(given) - head;
    const Lock lock(busy_);
    const std::size_t kind = *reinterpret_cast<std::size_t*>(at);
    *static_cast<std::byte**>(given) = free_[kind];
    free_[kind] = at;
  }

 private:
  static constexpr std::size_t head = 256;
  struct Lock {
    explicit Lock(std::atomic_flag& held) : flag(held) {
      while (flag.test_and_set(std::memory_order_acquire)) {
      }
    }
    ~Lock() { flag.clear(std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    std::atomic_flag& flag;
  };
  std::byte *begin_ = nullptr, *next_ = nullptr, *end_ = nullptr;
  std::array<std::byte*, 48> free_{};
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};
constinit Arena arena; // before anything allocates

void* allocate(std::size_t bytes) {
  if (void* const at = arena.allocate(bytes); at != nullptr) return at;
  if (void* const at = std::malloc(bytes == 0 ? 1 : bytes); at != nullptr) return at;
  throw std::bad_alloc{};
}
void give(void* at) {
  if (arena.has(at))
    arena.give(at);
  else
    std::free(at);
}

} // namespace

namespace gpu_bench {
const char* take_pinned_memory(std::size_t bytes) { return arena.take(bytes); }
} // namespace gpu_bench

// Alignments up to malloc's, and up to 256 bytes from the arena, which is more than any test needs.
void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes, std::align_val_t) { return allocate(bytes); }
void operator delete(void* at) noexcept { give(at); }
void operator delete(void* at, std::size_t) noexcept { give(at); }
void operator delete(void* at, std::align_val_t) noexcept { give(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { give(at); }
void operator delete[](void* at) noexcept { give(at); }
void operator delete[](void* at, std::size_t) noexcept { give(at); }
void operator delete[](void* at, std::align_val_t) noexcept { give(at); }
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept { give(at); }
