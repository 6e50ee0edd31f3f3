// SPDX-License-Identifier: Apache-2.0
// Fiber: a stack to switch to. x86-64 by hand (six registers), others by ucontext; the sanitizers are told.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#if defined(FIBER_UCONTEXT) || !defined(__x86_64__)
#include <ucontext.h>
#define FIBER_BY_UCONTEXT 1
#else
#define FIBER_BY_UCONTEXT 0
#endif
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

#if EMULATE_TSAN
extern "C" {
void AnnotateIgnoreReadsBegin(const char*, int);
void AnnotateIgnoreReadsEnd(const char*, int);
void AnnotateIgnoreWritesBegin(const char*, int);
void AnnotateIgnoreWritesEnd(const char*, int);
}
#endif

namespace sluice::emulate {

/// The emulator's own reads and writes are none of the kernel's.
struct Quiet {
  Quiet() {
#if EMULATE_TSAN
    AnnotateIgnoreReadsBegin("", 0);
    AnnotateIgnoreWritesBegin("", 0);
#endif
  }
  ~Quiet() {
#if EMULATE_TSAN
    AnnotateIgnoreWritesEnd("", 0);
    AnnotateIgnoreReadsEnd("", 0);
#endif
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

#if !FIBER_BY_UCONTEXT
extern "C" void sluice_switch_stack(void** save, void* to);
asm(R"(
.text
.globl sluice_switch_stack
.weak sluice_switch_stack
.type sluice_switch_stack,@function
sluice_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sluice_switch_stack,.-sluice_switch_stack
)");
#endif

class Fiber {
 public:
  static constexpr std::size_t stack_bytes = 128 << 10;
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() {
#if EMULATE_TSAN
    if (tsan_ != nullptr && owns_ && ended_) __tsan_destroy_fiber(tsan_);
#endif
    if (stack_ != nullptr) munmap(stack_, stack_bytes);
  }
  /// The one that runs now: where others switch back to.
  void adopt() {
#if EMULATE_TSAN
    tsan_ = __tsan_get_current_fiber();
#endif
  }
  void start(void (*body)()) {
#if EMULATE_TSAN
    if (stack_ != nullptr) munmap(stack_, stack_bytes); // nobody has written there
    stack_ = nullptr;
#endif
    if (stack_ == nullptr)
      stack_ = static_cast<std::byte*>(
          mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
#if EMULATE_ASAN
    __asan_unpoison_memory_region(stack_, stack_bytes); // frames of a run that never returned
#endif
#if EMULATE_TSAN
    if (tsan_ != nullptr && ended_)
      __tsan_destroy_fiber(tsan_); // each run is another thread: nothing is remembered of the last
    tsan_ = __tsan_create_fiber(0);
    owns_ = true;
#endif
#if FIBER_BY_UCONTEXT
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = stack_bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, body, 0);
#else
    auto* top = reinterpret_cast<std::uint64_t*>(stack_ + stack_bytes) - 3; // a call's alignment
    *top = 0;
    *--top = reinterpret_cast<std::uint64_t>(body);
    for (int i = 0; i < 6; ++i) *--top = 0;
    at_ = top;
#endif
  }
  void switch_to(Fiber& to, bool ends = false) {
#if EMULATE_ASAN
    const bool own = to.stack_ != nullptr;
    __sanitizer_start_switch_fiber(ends ? nullptr : &fake_, own ? static_cast<const void*>(to.stack_) : main_bottom_,
                                   own ? stack_bytes : main_size_);
#endif
#if !FIBER_BY_UCONTEXT
    void* const there = to.at_;
#endif
#if EMULATE_TSAN
    ended_ = ends;
    void* const whom = to.tsan_;
    if (ends) { // of what it did quietly this is the last
      AnnotateIgnoreWritesEnd("", 0);
      AnnotateIgnoreReadsEnd("", 0);
    }
    __tsan_switch_to_fiber(whom, __tsan_switch_to_fiber_no_sync);
#endif
    (void)ends;
#if FIBER_BY_UCONTEXT
    swapcontext(&context_, &to.context_);
#else
    sluice_switch_stack(&at_, there);
#endif
    landed();
  }
  /// The first thing that a body calls, and what follows every switch.
  void landed() {
#if EMULATE_ASAN
    const void* bottom = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(fake_, &bottom, &size);
    if (main_bottom_ == nullptr) {
      main_bottom_ = bottom;
      main_size_ = size;
    } // the first to leave is the main stack
#endif
  }

 private:
  std::byte* stack_ = nullptr;
#if FIBER_BY_UCONTEXT
  ucontext_t context_;
#else
  void* at_ = nullptr;
#endif
  void* tsan_ = nullptr;
  bool owns_ = false, ended_ = false;
#if EMULATE_ASAN
  void* fake_ = nullptr;
  inline static const void* main_bottom_ = nullptr;
  inline static std::size_t main_size_ = 0;
#endif
};
} // namespace sluice::emulate
