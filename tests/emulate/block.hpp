// SPDX-License-Identifier: Apache-2.0
// Block: every thread of a block is a fiber, whoever may run next is drawn, and what a GPU does not promise is not
// kept. Under ThreadSanitizer each thread is a thread of its own, ordered by barriers alone.
#pragma once
#include "emulate/fiber.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

namespace sluice::emulate {

struct Where { // (clang 14 has no std::source_location)
  unsigned at = 0;
  static constexpr Where current(unsigned line = __builtin_LINE()) { return {line}; }
  constexpr unsigned line() const { return at; }
};
struct Report {
  std::vector<std::string> errors;
  std::uint64_t switches = 0;
  bool ok() const { return errors.empty(); }
};

class Block {
 public:
  Block(int threads, std::uint64_t seed)
      : threads_(static_cast<std::size_t>(threads)), random_(static_cast<std::uint32_t>(seed)) {
    for (int i = 0; i < threads; ++i) threads_[static_cast<std::size_t>(i)] = std::make_unique<Thread>();
    main_.adopt();
  }
  /// Runs `body(thread)` for each thread of a block; false where they came to no end.
  template <class Body>
  bool run(Body& body, Report& report) {
    const Quiet quiet;
    report_ = &report;
    body_ = [](void* what, int thread) { (*static_cast<Body*>(what))(thread); };
    what_ = &body;
    failed_ = false;
    ready_.clear();
    finished_ = 0;
    barrier_arrived_ = 0;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      threads_[i]->state = State::ready;
      threads_[i]->groups.clear();
      threads_[i]->fiber.start(&Block::entry);
      ready_.push_back(static_cast<int>(i));
    }
    warps_.assign((threads_.size() + 31) / 32, {});
    active_ = this;
    go(main_, -1);
    active_ = nullptr;
    report.switches += switches_;
    switches_ = 0;
    return !failed_;
  }
  static Block& active() { return *active_; }
  int thread() const {
    const Quiet quiet;
    return running_;
  }
  /// What all blocks so far have written is there for the caller.
  void finish() { acquire(&ended_); }

  void sync(Where where) {
    const Quiet quiet;
    Thread& me = self();
    me.where = where;
    me.state = State::barrier;
    char* const order = &barrier_order_[barrier_phase_ & 1];
    release(order);
    if (++barrier_arrived_ == threads_.size()) {
      barrier_arrived_ = 0;
      ++barrier_phase_;
      for (std::size_t i = 0; i < threads_.size(); ++i) {
        Thread& one = *threads_[i];
        if (one.where.line() != where.line())
          fail("threads " + std::to_string(i) + " and " + std::to_string(running_) +
               " wait at different barriers: lines " + std::to_string(one.where.line()) + " and " +
               std::to_string(where.line()));
        one.state = State::ready;
        if (static_cast<int>(i) != running_) ready_.push_back(static_cast<int>(i));
      }
      ready_.push_back(running_);
    }
    yield();
    acquire(order);
  }
  /// All `lanes` of the warp come here with `bytes` of theirs; afterwards `slots` has everybody's. `orders`: as
  /// __syncwarp does, and shuffles do not.
  using Slots = const char (*)[16];
  Slots meet(std::uint32_t lanes, int kind, const void* mine, std::size_t bytes, bool orders, Where where) {
    const Quiet quiet;
    const int lane = running_ % 32;
    Warp& warp = warps_[static_cast<std::size_t>(running_ / 32)];
    if (!(lanes >> lane & 1))
      return fail("lane " + std::to_string(lane) + " calls for lanes " + hex(lanes) + ", of which it is none (line " +
                  std::to_string(where.line()) + ")"),
             nullptr;
    Meeting& meeting = warp.find({lanes, kind, where.line()});
    char(&slots)[32][16] =
        meeting.slot[meeting.phase & 1]; // two: nobody begins the next but one before all have left this
    std::memcpy(slots[lane], mine, bytes);
    meeting.come |= 1u << lane;
    Thread& me = self();
    me.where = where;
    me.lanes = lanes;
    me.state = State::meeting;
    char* const order = &meeting.order[meeting.phase & 1];
    if (orders) release(order);
    if (meeting.come == lanes) {
      meeting.come = 0;
      ++meeting.phase;
      for (int l = 0; l < 32; ++l)
        if (lanes >> l & 1) {
          const int thread = running_ / 32 * 32 + l;
          threads_[static_cast<std::size_t>(thread)]->state = State::ready;
          ready_.push_back(thread);
        }
    }
    yield();
    if (orders) acquire(order);
    return slots;
  }
  [[gnu::noinline]] void fail(const std::string& why) {
    report_->errors.push_back(why);
    failed_ = true;
    Thread& me = self();
    me.state = State::done;
    go(me.fiber, -2); // never comes back
  }
  // Copies behind a thread's back: they happen when they are waited for, not before.
  struct Pending {
    void* to;
    const void* from;
    bool wanted;
  };
  void copy_async(void* to, const void* from, bool wanted) {
    std::memset(to, 0xff, 16); // whoever reads it early reads no number
    const Quiet quiet;
    self().open.push_back({to, from, wanted});
  }
  static void move(const Pending& one) {
    one.wanted ? (void)std::memcpy(one.to, one.from, 16) : (void)std::memset(one.to, 0, 16);
  }
  void commit() {
    const Quiet quiet;
    self().groups.push_back(std::move(self().open));
    self().open.clear();
  }
  void wait(std::size_t left) {
    for (;;) {
      std::vector<Pending> group;
      {
        const Quiet quiet;
        auto& groups = self().groups;
        if (groups.size() <= left) return;
        group = std::move(groups.front());
        groups.pop_front();
      }
      for (std::size_t i = 0; i < group.size(); ++i) move(group[i]);
    }
  }

 private:
  enum class State { ready, barrier, meeting, done };
  struct Thread {
    Fiber fiber;
    State state = State::ready;
    Where where;
    std::uint32_t lanes = 0;
    std::vector<Pending> open;
    std::deque<std::vector<Pending>> groups;
  };
  struct Meeting {
    alignas(16) char slot[2][32][16] = {};
    std::uint32_t come = 0;
    unsigned phase = 0;
    char order[2] = {};
  };
  struct Key {
    std::uint32_t lanes;
    int kind;
    unsigned line;
    auto operator<=>(const Key&) const = default;
  };
  struct Warp {
    std::map<Key, Meeting> meetings;
    Key last{};
    Meeting* found = nullptr;
    Meeting& find(const Key& key) {
      if (found == nullptr || key != last) last = key, found = &meetings[key];
      return *found;
    }
  };

  static std::string hex(std::uint32_t x) {
    char s[16];
    std::snprintf(s, sizeof s, "0x%08x", x);
    return s;
  }
  static void release([[maybe_unused]] void* at) {
#if EMULATE_TSAN
    __tsan_release(at);
#endif
  }
  static void acquire([[maybe_unused]] void* at) {
#if EMULATE_TSAN
    __tsan_acquire(at);
#endif
  }
  Thread& self() { return *threads_[static_cast<std::size_t>(running_)]; }
  static void entry() {
    Block& block = begun();
    block.body_(block.what_, block.thread());
    const Quiet quiet;
    release(&block.ended_);
    block.self().state = State::done;
    ++block.finished_;
    block.go(block.self().fiber, -1, true);
    __builtin_trap();
  }
  static Block& begun() {
    const Quiet quiet;
    active_->self().fiber.landed();
    return *active_;
  }
  void yield() { go(self().fiber, -1); }
  /// Whoever is drawn runs; nobody: back to the caller of `run`.
  void go(Fiber& from, int to, bool ends = false) {
    ++switches_;
    if (to == -2 || failed_) {
      leave(from, ends);
      return;
    }
    if (ready_.empty()) {
      if (finished_ != threads_.size()) explain();
      leave(from, ends);
      return;
    }
    const auto drawn = static_cast<std::size_t>((static_cast<std::uint64_t>(random_()) * ready_.size()) >> 31);
    const int next = ready_[drawn];
    ready_[drawn] = ready_.back();
    ready_.pop_back();
    const int before = running_;
    if (next == before && &from != &main_) return;
    running_ = next;
    from.switch_to(threads_[static_cast<std::size_t>(next)]->fiber, ends);
  }
  void leave(Fiber& from, bool ends) {
    if (&from != &main_) from.switch_to(main_, ends);
  }
  void explain() {
    failed_ = true;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      const Thread& one = *threads_[i];
      if (one.state != State::barrier && one.state != State::meeting) continue;
      std::string text = "thread " + std::to_string(i) + " waits for ever at line " + std::to_string(one.where.line());
      if (one.state == State::meeting) {
        text += " for lanes " + hex(one.lanes) + ":";
        int told = 0;
        for (int l = 0; l < 32 && told < 1; ++l) {
          const Thread& other = *threads_[i / 32 * 32 + static_cast<std::size_t>(l)];
          if (!(one.lanes >> l & 1)) continue;
          if (other.state == State::meeting && other.lanes == one.lanes && other.where.line() == one.where.line())
            continue;
          text += " lane " + std::to_string(l) +
                  (other.state == State::done ? " has ended" : " waits at line " + std::to_string(other.where.line()));
          ++told;
        }
      }
      report_->errors.push_back(text);
      if (report_->errors.size() >= 3) break;
    }
  }

  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Warp> warps_;
  std::vector<int> ready_;
  std::minstd_rand random_;
  Fiber main_;
  int running_ = -1;
  std::size_t finished_ = 0, barrier_arrived_ = 0;
  unsigned barrier_phase_ = 0;
  char barrier_order_[2] = {};
  char ended_ = 0;
  bool failed_ = false;
  Report* report_ = nullptr;
  void (*body_)(void*, int) = nullptr;
  void* what_ = nullptr;
  std::uint64_t switches_ = 0;
  inline static Block* active_ = nullptr;
};

} // namespace sluice::emulate
