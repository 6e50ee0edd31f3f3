// SPDX-License-Identifier: Apache-2.0
// Fiber: a stack to switch to. Hand-written for x86-64 (six registers), ucontext elsewhere; the sanitizers are
// notified.
#pragma once

#include "emulate/sanitizers.hpp"
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#if defined(EMULATE_UCONTEXT) || !defined(__x86_64__)
#define EMULATE_BY_UCONTEXT 1
#include <ucontext.h>
#else
#define EMULATE_BY_UCONTEXT 0
extern "C" void sluice_emulate_switch(void** save, void* to);
// Weak, because every translation unit has it. Saves only the registers that a C callee must preserve.
asm(R"(
.text
.weak sluice_emulate_switch
.type sluice_emulate_switch,@function
sluice_emulate_switch:
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
.size sluice_emulate_switch,.-sluice_emulate_switch
)");
#endif

namespace sluice::emulate {

/// Memory for a fiber's frames. Stacks are reused, except under ThreadSanitizer, which would report a race between the
/// frames of two fibers that used one stack in turn: there each stack is mapped anew.
class Stack {
 public:
  static constexpr std::size_t bytes = std::size_t{watched_for_races ? 128 : 384} << 10;
  static constexpr std::size_t guard = 4096; ///< guard page: an overflow faults, and overwrites no other fiber

  Stack() = default;
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() { give_back(); }

  void take() {
    if (watched_for_races) give_back();
    if (base_ == nullptr && !kept().empty()) {
      base_ = kept().back();
      kept().pop_back();
    }
    if (base_ == nullptr) base_ = map();
#if EMULATE_ASAN
    __asan_unpoison_memory_region(bottom(), size()); // frames that never returned
#endif
  }
  [[nodiscard]] std::byte* bottom() const { return base_ + guard; }
  [[nodiscard]] static std::size_t size() { return bytes - guard; }
  [[nodiscard]] bool taken() const { return base_ != nullptr; }

  /// Where the first frame begins. The offset differs between stacks: they lie a power of two apart, and equal offsets
  /// would map their tops to the same few cache lines.
  [[nodiscard]] std::byte* top() const {
    constexpr std::size_t line = 64;
    const std::size_t place = watched_for_races ? 0 : reinterpret_cast<std::uintptr_t>(base_) / bytes % 128;
    return base_ + bytes - place * (17 * line);
  }

 private:
  static std::vector<std::byte*>& kept() {
    static std::vector<std::byte*> stacks;
    return stacks;
  }
  static std::byte* map() {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) std::abort();
    mprotect(at, guard, PROT_NONE);
    return static_cast<std::byte*>(at);
  }
  void give_back() {
    if (base_ == nullptr) return;
    if (watched_for_races)
      munmap(base_, bytes);
    else
      kept().push_back(base_);
    base_ = nullptr;
  }

  std::byte* base_ = nullptr;
};

/// One of several flows of control in one thread. It runs until it resumes another.
class Fiber {
 public:
  /// Runs on the fiber's own stack, and returns the fiber that continues afterwards.
  using Body = Fiber& (*)(void* argument);

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() { forget(); }

  /// The running fiber. The host thread's original stack is a fiber as well.
  EMULATE_UNSEEN static Fiber& current() {
    if (current_ == nullptr) {
      static Fiber host;
#if EMULATE_TSAN
      host.tsan_ = __tsan_get_current_fiber();
#endif
      current_ = &host;
    }
    return *current_;
  }

  /// Makes it ready to run `body(argument)`, as a thread that knows what the caller knows and nothing of earlier runs.
  void start(Body body, void* argument) {
    forget();
    stack_.take();
#if EMULATE_TSAN
    tsan_ = __tsan_create_fiber(0);
#endif
    body_ = body;
    argument_ = argument;
#if EMULATE_BY_UCONTEXT
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.bottom();
    context_.uc_stack.ss_size = stack_.size();
    context_.uc_link = nullptr;
    makecontext(&context_, &Fiber::enter, 0);
#else
    auto* top = reinterpret_cast<std::uint64_t*>(stack_.top()) - 3; // so that `enter` has a call's alignment
    *top = 0;                                                       // and no caller
    *--top = reinterpret_cast<std::uint64_t>(&Fiber::enter);
    for (int saved = 0; saved < 6; ++saved) *--top = 0;
    at_ = top;
#endif
  }

  /// Runs the fiber; returns when another fiber resumes the caller.
  void resume() { go(*this, false); }

  /// The fiber for ThreadSanitizer; null elsewhere.
  [[nodiscard]] void* tsan() const { return tsan_; }

 private:
  EMULATE_UNSEEN static void go(Fiber& to, bool ends) {
    Fiber& from = current();
    current_ = &to;
    left_ = &from;
#if EMULATE_ASAN
    __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_, to.stack_.taken() ? to.stack_.bottom() : to.bottom_,
                                   to.stack_.taken() ? to.stack_.size() : to.size_);
#endif
#if EMULATE_TSAN
    from.ended_ = ends;
    __tsan_switch_to_fiber(to.tsan_, __tsan_switch_to_fiber_no_sync);
#endif
    (void)ends;
#if EMULATE_BY_UCONTEXT
    swapcontext(&from.context_, &to.context_);
#else
    sluice_emulate_switch(&from.at_, to.at_);
#endif
    from.landed();
  }
  EMULATE_UNSEEN static void enter() {
    Fiber& me = *current_;
    me.landed();
    go(me.body_(me.argument_), true);
    std::abort(); // no fiber resumes one that has ended
  }
  EMULATE_UNSEEN void landed() {
#if EMULATE_ASAN
    const void* bottom = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(fake_, &bottom, &size);
    if (!left_->stack_.taken()) { // the host's stack: only this call reports its bounds
      left_->bottom_ = bottom;
      left_->size_ = size;
    }
#endif
  }
  /// Lets ThreadSanitizer forget the thread that this fiber was, if that thread ended.
  void forget() {
#if EMULATE_TSAN
    if (tsan_ != nullptr && stack_.taken() && ended_) __tsan_destroy_fiber(tsan_);
    tsan_ = nullptr;
    ended_ = false;
#endif
  }

  Stack stack_;
  Body body_ = nullptr;
  void* argument_ = nullptr;
#if EMULATE_BY_UCONTEXT
  ucontext_t context_;
#else
  void* at_ = nullptr;
#endif
  void* tsan_ = nullptr;
#if EMULATE_TSAN
  bool ended_ = false;
#endif
#if EMULATE_ASAN
  void* fake_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
#endif
  inline static Fiber* current_ = nullptr;
  inline static Fiber* left_ = nullptr;
};

} // namespace sluice::emulate
