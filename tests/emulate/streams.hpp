// SPDX-License-Identifier: Apache-2.0
// Streams and events of a device that runs whatever it may, in an order that is drawn. Under ThreadSanitizer each
// stream is a thread, ordered by events alone.
#pragma once
#include "emulate/fiber.hpp"

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>
namespace sluice::emulate {
class Device {
 public:
  struct Event {
    bool done = false;
    char order = 0;
  };
  using Ticket = std::shared_ptr<Event>;
  explicit Device(int streams, std::uint64_t seed)
      : streams_(static_cast<std::size_t>(streams)), random_(static_cast<std::uint32_t>(seed)) {
    main_.adopt();
    for (auto& s : streams_) s = std::make_unique<Stream>();
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      running_ = i;
      active_ = this;
      streams_[i]->fiber.start(&Device::serve);
    }
  }
  void launch(int stream, std::function<void()> work) { enqueue(stream, {std::move(work), nullptr, nullptr}); }
  void copy(int stream, void* to, const void* from, std::size_t bytes) {
    launch(stream, [=] { std::memcpy(to, from, bytes); });
  }
  Ticket record(int stream) {
    const Quiet quiet;
    auto event = std::make_shared<Event>();
    enqueue(stream, {nullptr, event, nullptr});
    return event;
  }
  void wait(int stream, Ticket event) {
    const Quiet quiet;
    enqueue(stream, {nullptr, nullptr, std::move(event)});
  }
  /// The host waits. Meanwhile anything may run, or nothing.
  void synchronize(const Ticket& event) {
    {
      const Quiet quiet;
      while (!event->done) step();
    }
    acquire(&event->order);
  }
  void run_some(int steps) {
    const Quiet quiet;
    for (int i = 0; i < steps && step(); ++i) {
    }
  }
  void finish() {
    {
      const Quiet quiet;
      while (step()) {
      }
    }
    acquire(&all_);
  }

 private:
  struct Op {
    std::function<void()> work;
    Ticket records, waits;
  };
  struct Stream {
    Fiber fiber;
    std::deque<Op> ops;
    char host = 0;
  };
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
  void enqueue(int stream, Op op) {
    const Quiet quiet;
    Stream& s = *streams_[static_cast<std::size_t>(stream)];
    s.ops.push_back(std::move(op));
    release(&s.host); // what the host wrote before is there for the operation
  }
  bool step() {
    std::vector<std::size_t> may;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      auto& ops = streams_[i]->ops;
      if (!ops.empty() && (ops.front().waits == nullptr || ops.front().waits->done)) may.push_back(i);
    }
    if (may.empty()) return false;
    running_ = may[random_() % may.size()];
    active_ = this;
    main_.switch_to(streams_[running_]->fiber);
    return true;
  }
  static void serve() {
    for (;;) {
      Op op;
      Stream* s;
      Device* d;
      {
        const Quiet quiet;
        d = active_;
        s = d->streams_[d->running_].get();
        op = std::move(s->ops.front());
        s->ops.pop_front();
      }
      acquire(&s->host);
      if (op.waits) acquire(&op.waits->order);
      if (op.work) op.work();
      {
        const Quiet quiet;
        if (op.records) {
          release(&op.records->order);
          op.records->done = true;
        }
        op = {};
        release(&d->all_);
        s->fiber.switch_to(d->main_);
      }
    }
  }
  std::vector<std::unique_ptr<Stream>> streams_;
  std::minstd_rand random_;
  Fiber main_;
  std::size_t running_ = 0;
  char all_ = 0;
  inline static Device* active_ = nullptr;
};
} // namespace sluice::emulate
