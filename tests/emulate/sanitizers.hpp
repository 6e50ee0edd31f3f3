// SPDX-License-Identifier: Apache-2.0
// What the emulator tells ThreadSanitizer and AddressSanitizer, and nothing where neither watches.
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

/// A function of the emulator whose loads and stores ThreadSanitizer leaves alone. It must call nothing that is not so
/// marked, or be `Quiet` meanwhile: the mark is the function's own.
#define EMULATE_UNSEEN __attribute__((no_sanitize("thread")))

#if EMULATE_TSAN
extern "C" { // of the runtime, in no header of it
void AnnotateIgnoreReadsBegin(const char*, int);
void AnnotateIgnoreReadsEnd(const char*, int);
void AnnotateIgnoreWritesBegin(const char*, int);
void AnnotateIgnoreWritesEnd(const char*, int);
}
#endif

namespace sluice::emulate {

inline constexpr bool watched_for_races = EMULATE_TSAN != 0;

/// While one lives, what this thread reads and writes is the emulator's bookkeeping and none of the kernel's.
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
  Quiet() {} // not trivial: an unused one is no warning
#endif
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

/// What this thread knows of others' work, and its own so far, is known to whoever acquires `at` afterwards.
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

/// What is handed over where threads meet: what they know, and what of it the async proxy may see (Block::give). For
/// ThreadSanitizer it is known by its address, and forgotten when its memory is freed.
struct Order {
  char known = 0, fenced = 0;
};

/// A thread in ThreadSanitizer's eyes that has no stack: what a copy engine does while the thread that asked for it
/// goes on, or what a thread knew at some moment of its past. Elsewhere it is nothing.
///
/// A report names the place where it was started: the line of the kernel that asked for the copy.
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

  /// Starts it afresh, with all that the calling thread knows now.
  void start() {
#if EMULATE_TSAN
    stop();
    tsan_ = __tsan_create_fiber(0);
#endif
  }
  /// The same, with what another knows (Fiber::tsan, or a shadow's).
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

  /// Done in its name if it was started, else in the caller's. Functions of their own, for what they read besides would
  /// be read in its name as well.
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
  struct As { // always inlined, for ThreadSanitizer counts the functions that a thread is in
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
