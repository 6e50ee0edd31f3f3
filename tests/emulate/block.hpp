// SPDX-License-Identifier: Apache-2.0
// Block: a thread block whose CUDA threads are fibers. The next fiber to run is drawn, and behaviour that a GPU does
// not guarantee is not provided. Under ThreadSanitizer each CUDA thread counts as a thread, ordered only by barriers.
#pragma once

#include "emulate/bulk.hpp"
#include "emulate/copies.hpp"
#include "emulate/fences.hpp"
#include "emulate/fiber.hpp"
#include "emulate/report.hpp"
#include "emulate/schedule.hpp"
#include "emulate/shared_memory.hpp"
#include "emulate/warp.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace sluice::emulate {

/// The blocks of a launch, one after the other in the same object.
class Block {
 public:
  Block(int threads, std::uint64_t seed, Report& report) : threads_(threads), random_(seed), report_(report) {
    for (int i = 0; i < threads; ++i) all_.push_back(std::make_unique<Thread>());
    warps_.resize(static_cast<std::size_t>(threads) / 32);
  }

  /// Runs `body()` once in each thread of block (x, y), with the shared memory `shared`. Returns false if the block has
  /// an error: then every thread was stopped where it was and its frames unwound.
  template <class Body>
  bool run(int x, int y, const SharedMemory& shared, Body& body) {
    const Quiet quiet;
    x_ = x, y_ = y;
    shared_ = &shared;
    body_ = [](void* what) { (*static_cast<Body*>(what))(); };
    what_ = &body;
    start();
    active_ = this;
    if (const int first = draw(); first >= 0) switch_to(first);
    for (int i = 0; i < threads_ && failed_; ++i)
      if (thread(i).state != State::ended) switch_to(i); // it throws, and ends
    if (!failed_) check_end();
    bulk_.drain(*this, &ended_);
    bulk_.restart();
    return !failed_;
  }
  /// The block of the calling thread.
  EMULATE_UNSEEN static Block& active() { return *active_; }
  EMULATE_UNSEEN int thread() const { return running_; }
  EMULATE_UNSEEN bool failed() const { return failed_; }
  Random& random() { return random_; }
  Report& report() { return report_; }
  /// Makes everything that the blocks have written so far visible to the caller.
  void finish() { acquire(&ended_); }

  void sync(Where where) {
    const Quiet quiet;
    Order& order = barrier_order_[barriers_ & 1U]; // two: a thread may reach the next barrier before all have left
    give(order);
    Thread& me = wait_at(State::barrier, where);
    if (++at_barrier_ == threads_) {
      at_barrier_ = 0;
      ++barriers_;
      for (int i = 0; i < threads_; ++i)
        if (!(thread(i).where == me.where))
          fail(where, "waits at another barrier than thread " + std::to_string(i) + ", at " + thread(i).where.text());
      for (int warp = 0; warp * 32 < threads_; ++warp) schedule_.add(warp, ~0U);
    }
    pause();
    take(order);
  }
  /// Before a call uses `room`: a barrier must separate it from the room's last `sync_in`.
  void enter(const void* room, Where where) {
    const Quiet quiet;
    for (const Room& one : rooms_)
      if (one.at == room && one.barriers == barriers_)
        fail(where, "uses the room of " + one.where.text() + " again without a sync() since");
  }
  /// A barrier inside a call that uses `room`.
  void sync_in(const void* room, Where where) {
    const Quiet quiet;
    sync(where);
    std::erase_if(rooms_, [room](const Room& one) { return one.at == room; });
    rooms_.push_back({room, barriers_, where});
  }

  void sync_warp(std::uint32_t lanes, Where where) {
    if (!watched_for_races) return (void)meet(lanes, Exchange::sync_warp, '\0', where, [](char*) {});
    const Quiet quiet;
    Warp& warp = warps_[static_cast<std::size_t>(running_ / 32)];
    WarpBarrier& barrier = warp.barrier(lanes);
    Order& order = barrier.order[barrier.passed & 1U];
    give(order);
    meet(lanes, Exchange::sync_warp, '\0', where, [&barrier](char*) { ++barrier.passed; });
    take(order);
  }

  /// All `lanes` of the warp call this, each with `mine`; the last one runs `combine(all)` on one array in lane order,
  /// and each lane returns its element. Orders no memory.
  template <class T, class Combine>
  T meet(std::uint32_t lanes, Exchange kind, const T& mine, Where where, Combine&& combine) {
    const Quiet quiet;
    const int lane = running_ % 32;
    Warp& warp = warps_[static_cast<std::size_t>(running_ / 32)];
    if ((lanes >> lane & 1U) == 0) fail(where, "calls for lanes " + hex(lanes) + ", and is none of them");
    Meeting& meeting = warp.join(lanes, kind, where);
    T* const all = meeting.slots<T>();
    ::new (&all[lane]) T(mine);
    meeting.come |= 1U << lane;
    wait_at(State::meeting, where).meeting = &meeting;
    if (meeting.come == lanes) {
      warp.close(meeting);
      combine(all);
      schedule_.add(running_ / 32, lanes);
    }
    pause();
    const T result = all[lane];
    if ((meeting.come &= ~(1U << lane)) == 0) warp.reuse(meeting);
    return result;
  }

  /// Blocks this thread until `barrier` has completed phase `parity`.
  void wait_barrier(kernels::Mbarrier& barrier, int parity, Where where) {
    const Quiet quiet;
    Order* order = nullptr;
    while ((order = bulk_.passed(*this, barrier, parity, where)) == nullptr) {
      wait_at(State::mbarrier, where).barrier = &barrier;
      pause();
    }
    take(*order);
  }
  /// Lets threads that wait for a phase check again.
  void wake() {
    for (int i = 0; i < threads_; ++i)
      if (thread(i).state == State::mbarrier) schedule_.add(i / 32, 1U << (i % 32));
  }

  /// A point at which other threads may run.
  void give_way() {
    const Quiet quiet;
    if (!random_.one_in(4)) return;
    schedule_.add(running_ / 32, 1U << (running_ % 32));
    pause();
  }

  /// Ends the launch: the calling thread has done something that is an error on every GPU.
  [[noreturn, gnu::noinline]] void fail(Where where, const std::string& why) {
    report_.errors.push_back(where.text() + ": " + place() + ", thread " + std::to_string(running_) + ": " + why);
    failed_ = true;
    throw Abandoned{};
  }
  void require_shared(const void* at, std::size_t bytes, const char* what, Where where) {
    if (in_shared(at, bytes)) return;
    fail(where, std::string{what} + " is not in the block's shared memory");
  }
  void require_aligned(const void* at, std::size_t to, const char* what, Where where) {
    if (reinterpret_cast<std::uintptr_t>(at) % to == 0) return;
    fail(where, std::string{what} + " is not aligned to " + std::to_string(to) + " bytes");
  }
  [[nodiscard]] bool in_shared(const void* at, std::size_t bytes) const {
    const auto* const first = static_cast<const char*>(at);
    return first >= shared() && first + bytes <= shared() + shared_bytes();
  }
  [[nodiscard]] const char* shared() const { return static_cast<const char*>(shared_->at()); }
  [[nodiscard]] std::size_t shared_bytes() const { return shared_->bytes(); }
  [[nodiscard]] unsigned char poison() const { return shared_->poison(); }

  EMULATE_UNSEEN Copies& copies() { return self().copies; }
  EMULATE_UNSEEN Fences& fences() { return self().fences; }
  EMULATE_UNSEEN Bulk& bulk() { return bulk_; }

  /// Hands over at `order` what this thread knows, including what the async proxy may see of it; the other takes it.
  void give(Order& order) {
    release(&order.known);
    if (bulk_.fenced()) self().proxy.give(&order.fenced);
  }
  void take(Order& order) {
    acquire(&order.known);
    if (bulk_.fenced()) self().proxy.take(&order.fenced);
  }
  /// For each thread, what the async proxy may see of it: nothing since the block began.
  void start_proxies() {
    for (auto& one : all_) one->proxy.start_from(home_->tsan());
  }
  ShadowThread& proxy() { return self().proxy; }

 private:
  enum class State : std::uint8_t { running, barrier, meeting, mbarrier, ended };
  struct Room {
    const void* at;
    unsigned barriers; // barriers of the block that had passed at the room's last use
    Where where;
  };
  struct Abandoned {}; // unwinds the frames of a thread whose block has an error
  struct Thread {
    Fiber fiber;
    State state = State::running;
    Where where;
    Meeting* meeting = nullptr;
    const kernels::Mbarrier* barrier = nullptr;
    Copies copies;
    Fences fences;
    ShadowThread proxy;
  };

  EMULATE_UNSEEN Thread& thread(int i) { return *all_[static_cast<std::size_t>(i)]; }
  EMULATE_UNSEEN Thread& self() { return thread(running_); }
  [[nodiscard]] std::string place() const { return "block (" + std::to_string(x_) + ", " + std::to_string(y_) + ")"; }
  [[nodiscard]] std::string waiting(int i) {
    static constexpr const char* at[] = {"runs", "in sync", "in a call of its warp", "at an mbarrier", "has ended"};
    const State state = thread(i).state;
    const bool waits = state != State::running && state != State::ended;
    return (waits ? "waits " : "") + std::string{at[static_cast<int>(state)]} +
           (waits ? " at " + thread(i).where.text() : "");
  }

  void start() {
    failed_ = false;
    at_barrier_ = 0;
    running_ = -1;
    ended_threads_ = 0;
    home_ = &Fiber::current();
    barrier_order_ = std::make_unique<Order[]>(2); // afresh: blocks are not ordered with each other
    rooms_.clear();
    for (Warp& warp : warps_) warp.restart();
    schedule_.start(threads_, random_);
    for (auto& one : all_) {
      one->state = State::running;
      one->copies.restart();
      one->fences.restart();
      one->proxy.stop();
      one->fiber.start(&Block::live, this);
    }
  }
  static Fiber& live(void* block) { return static_cast<Block*>(block)->live(); }
  /// A thread's life, and which thread continues after it.
  Fiber& live() {
    const int me = thread();
    try {
      if (!failed()) {
        body_(what_);
        const Quiet quiet;
        const Where* unwaited = self().copies.unwaited();
        if (unwaited != nullptr) fail(*unwaited, "ends before it has waited for the copy that it asked for here");
        bulk_.check_thread(*this, me);
      }
    } catch (const Abandoned&) {
    } catch (...) {
      const Quiet quiet;
      report_.errors.push_back(place() + ", thread " + std::to_string(me) + ": the kernel threw an exception");
      failed_ = true;
    }
    const Quiet quiet;
    release(&ended_);
    thread(me).state = State::ended;
    ++ended_threads_;
    const int next = failed_ ? -1 : draw();
    if (next < 0) return *home_;
    running_ = next;
    ++report_.switches;
    return thread(next).fiber;
  }
  EMULATE_UNSEEN Thread& wait_at(State state, Where where) {
    Thread& me = self();
    me.state = state;
    me.where = where;
    return me;
  }
  /// Returns when this thread is ready and drawn.
  void pause() {
    if (self().copies.under_way() && random_.one_in(8)) self().copies.land_one();
    const int me = running_;
    const int next = draw();
    if (next >= 0 && next != me) switch_to(next);
    if (failed_) throw Abandoned{};
    self().state = State::running;
  }
  EMULATE_UNSEEN void switch_to(int next) {
    const int me = running_;
    running_ = next;
    ++report_.switches;
    thread(next).fiber.resume();
    running_ = me;
  }
  /// The next thread to run, or -1 if none can ever run.
  int draw() {
    if (bulk_.under_way() && random_.one_in(8)) bulk_.land_one(*this);
    while (schedule_.empty()) {
      if (ended_threads_ == threads_) return -1;
      if (!bulk_.under_way()) return explain(), -1;
      bulk_.land_one(*this);
    }
    return schedule_.draw(random_);
  }

  /// Names the threads that wait, where they wait, and one that is missing: one sentence for each place.
  void explain() {
    failed_ = true;
    std::vector<Where> told;
    for (int i = 0; i < threads_ && told.size() < 3; ++i) {
      const Thread& one = thread(i);
      if (one.state == State::ended || std::find(told.begin(), told.end(), one.where) != told.end()) continue;
      told.push_back(one.where);
      std::string text =
          one.where.text() + ": " + place() + ", thread " + std::to_string(i) + ": waits for ever " + missing(i);
      report_.errors.push_back(text);
    }
  }
  std::string missing(int i) {
    const Thread& one = thread(i);
    if (one.state == State::mbarrier) return bulk_.missing(*one.barrier);
    const bool warp = one.state == State::meeting;
    const std::string what = warp ? "for lanes " + hex(one.meeting->lanes) + " of its warp" : "in sync";
    const int first = warp ? i / 32 * 32 : 0, end = warp ? first + 32 : threads_;
    for (int other = first; other < end; ++other) {
      if (warp && (one.meeting->lanes >> (other % 32) & 1U) == 0) continue;
      const Thread& its = thread(other);
      if (its.state == one.state && (warp ? its.meeting == one.meeting : true)) continue;
      return what + ": thread " + std::to_string(other) + " " + waiting(other);
    }
    return what;
  }
  void check_end() {
    if (const std::string text = bulk_.left_over(); !text.empty()) {
      report_.errors.push_back(place() + ": " + text);
      failed_ = true;
    }
  }

  int threads_;
  std::vector<std::unique_ptr<Thread>> all_;
  std::vector<Warp> warps_;
  Schedule schedule_;
  Random random_;
  Report& report_;
  Bulk bulk_;
  Fiber* home_ = nullptr; // the fiber that started the block
  void (*body_)(void*) = nullptr;
  void* what_ = nullptr;
  const SharedMemory* shared_ = nullptr;
  int x_ = 0, y_ = 0;
  int running_ = -1, ended_threads_ = 0, at_barrier_ = 0;
  unsigned barriers_ = 0;
  std::unique_ptr<Order[]> barrier_order_;
  std::vector<Room> rooms_;
  char ended_ = 0;
  bool failed_ = false;
  inline static Block* active_ = nullptr;
};

} // namespace sluice::emulate
