// SPDX-License-Identifier: Apache-2.0
// Notifies ThreadSanitizer and AddressSanitizer; does nothing without them.
#pragma once

#include <cstddef>
#include <cstring>

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define EMULATE_TSAN 1
#include <sanitizer/tsan_interface.h>
#else
#define EMULATE_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define EMULATE_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define EMULATE_ASAN 0
#endif

/// A function of the emulator whose loads and stores ThreadSanitizer ignores. It must call only functions marked the
/// same way, or be `Quiet` meanwhile: the mark does not extend to callees.
#define EMULATE_UNSEEN __attribute__((no_sanitize("thread")))

#if EMULATE_TSAN
extern "C" { // in the runtime, but in none of its headers
void AnnotateIgnoreReadsBegin(const char*, int);
void AnnotateIgnoreReadsEnd(const char*, int);
void AnnotateIgnoreWritesBegin(const char*, int);
void AnnotateIgnoreWritesEnd(const char*, int);
}
#endif

namespace sluice::emulate {

inline constexpr bool watched_for_races = EMULATE_TSAN != 0;

/// While one lives, this thread's reads and writes are the emulator's bookkeeping, not the kernel's.
struct Quiet {
#if EMULATE_TSAN
  Quiet() {
    AnnotateIgnoreReadsBegin("", 0);
    AnnotateIgnoreWritesBegin("", 0);
  }
  ~Quiet() {
    AnnotateIgnoreWritesEnd("", 0);
    AnnotateIgnoreReadsEnd("", 0);
  }
#else
  Quiet() {} // not trivial, so that an unused one is no warning
#endif
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

/// Publishes what this thread knows, including its own work so far, to any thread that acquires `at` afterwards.
inline void release([[maybe_unused]] void* at) {
#if EMULATE_TSAN
  __tsan_release(at);
#endif
}
inline void acquire([[maybe_unused]] void* at) {
#if EMULATE_TSAN
  __tsan_acquire(at);
#endif
}

/// What threads hand over where they meet: what they know, and what the async proxy may see of it (Block::give).
/// ThreadSanitizer identifies it by its address, and forgets it when its memory is freed.
struct Order {
  char known = 0, fenced = 0;
};

/// A stackless thread for ThreadSanitizer: a copy engine's work while the requesting thread continues, or a thread's
/// knowledge at some past moment. Without ThreadSanitizer it does nothing.
///
/// A report names the place where it was started: the kernel line that requested the copy.
class ShadowThread {
 public:
  ShadowThread() = default;
  ShadowThread(const ShadowThread&) = delete;
  ShadowThread& operator=(const ShadowThread&) = delete;
  ShadowThread(ShadowThread&& other) noexcept : tsan_(other.tsan_) { other.tsan_ = nullptr; }
  ShadowThread& operator=(ShadowThread&& other) noexcept {
    void* const mine = tsan_;
    tsan_ = other.tsan_;
    other.tsan_ = mine;
    return *this;
  }
  ~ShadowThread() { stop(); }

  [[nodiscard]] bool started() const { return tsan_ != nullptr; }

  /// Starts it afresh with everything that the calling thread knows now.
  void start() {
#if EMULATE_TSAN
    stop();
    tsan_ = __tsan_create_fiber(0);
#endif
  }
  /// Starts it with what another thread knows (Fiber::tsan, or a shadow's).
  EMULATE_UNSEEN void start_from([[maybe_unused]] void* other) {
#if EMULATE_TSAN
    void* const mine = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(other, __tsan_switch_to_fiber_no_sync);
    start();
    __tsan_switch_to_fiber(mine, __tsan_switch_to_fiber_no_sync);
#endif
  }
  void stop() {
#if EMULATE_TSAN
    if (tsan_ != nullptr) __tsan_destroy_fiber(tsan_);
    tsan_ = nullptr;
#endif
  }
  [[nodiscard]] void* tsan() const { return tsan_; }

  /// Runs in the shadow's name if it was started, else in the caller's. Separate functions, because other reads of
  /// theirs would count in its name as well.
  [[gnu::noinline]] EMULATE_UNSEEN void copy(void* to, const void* from, std::size_t bytes) {
    const As as(*this);
    std::memcpy(to, from, bytes);
  }
  [[gnu::noinline]] EMULATE_UNSEEN void fill(void* to, int with, std::size_t bytes) {
    const As as(*this);
    std::memset(to, with, bytes);
  }
  [[gnu::noinline]] EMULATE_UNSEEN void give(void* at) {
    const As as(*this);
    release(at);
  }
  [[gnu::noinline]] EMULATE_UNSEEN void take(void* at) {
    const As as(*this);
    acquire(at);
  }

 private:
  struct As { // always inlined, because ThreadSanitizer counts the functions that a thread is in
#if EMULATE_TSAN
    [[gnu::always_inline]] EMULATE_UNSEEN explicit As(const ShadowThread& shadow) : mine(__tsan_get_current_fiber()) {
      if (shadow.tsan_ != nullptr) __tsan_switch_to_fiber(shadow.tsan_, __tsan_switch_to_fiber_no_sync);
    }
    [[gnu::always_inline]] EMULATE_UNSEEN ~As() { __tsan_switch_to_fiber(mine, __tsan_switch_to_fiber_no_sync); }
    void* mine;
#else
    explicit As(const ShadowThread& shadow) { (void)shadow; }
#endif
  };

  void* tsan_ = nullptr;
};

} // namespace sluice::emulate
