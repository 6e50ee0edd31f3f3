// SPDX-License-Identifier: Apache-2.0
// Device: a GPU's streams and events, executed in a drawn order among all orders that a GPU permits.
#pragma once

#include "sluice/core/assert.hpp"

#include "emulate/launch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::emulate {

/// Each stream is a fiber that runs its operations in order. The seed determines which stream runs next, and streams
/// run only while the host waits. Under ThreadSanitizer each stream is a thread: an operation knows what the host knew
/// when it was enqueued, the earlier operations of its stream, and what the events that it waited for know; the host
/// knows what it has waited for. So if the host touches its memory before it has waited for a copy of it, that is a
/// race.
class Device {
 public:
  struct Event {
    bool done = false;
    char order = 0;
  };
  using Ticket = std::shared_ptr<Event>;

  Device(int streams, std::uint64_t seed) : random_(seed) {
    const Quiet quiet;
    for (int i = 0; i < streams; ++i) {
      streams_.push_back(std::make_unique<Stream>());
      streams_.back()->device = this;
      streams_.back()->fiber.start(&Device::serve, streams_.back().get());
    }
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  /// Unfinished operations are dropped.
  ~Device() {
    const Quiet quiet;
    closing_ = true;
    for (auto& stream : streams_) resume(*stream);
  }

  /// A host function in the stream (cudaLaunchHostFunc), or any other operation.
  void launch(int stream, std::function<void()> work) {
    if (std::vector<std::function<void()>>* const captured = streams_[static_cast<std::size_t>(stream)]->captured) {
      const Quiet quiet;
      captured->push_back(std::move(work));
      return;
    }
    enqueue(stream, {std::move(work), nullptr, nullptr});
  }

  /// Captured work with the parameters of its capture, which can be run repeatedly.
  using Graph = std::vector<std::function<void()>>;
  /// Until `end_capture`, the stream's operations go to `into` and do not run (cudaStreamBeginCapture).
  void begin_capture(int stream, Graph& into) { streams_[static_cast<std::size_t>(stream)]->captured = &into; }
  void end_capture(int stream) { streams_[static_cast<std::size_t>(stream)]->captured = nullptr; }
  void launch(int stream, const Graph& graph) {
    for (const auto& work : graph) launch(stream, work);
  }
  /// An emulated kernel: other streams run between its blocks. `report()` has its errors.
  template <kernels::BlockProgram K>
  void launch(int stream, kernels::Grid grid, const typename K::Params& params) {
    const Quiet quiet;
    const std::uint64_t seed = random_();
    launch(stream, [this, grid, params, seed] {
      const Report one = emulate::launch<K>(grid, params, seed);
      const Quiet inner;
      report_.errors.insert(report_.errors.end(), one.errors.begin(), one.errors.end());
      report_.switches += one.switches;
      report_.matrices += one.matrices;
      report_.conflicts += one.conflicts;
    });
  }
  /// Runs in pieces, between which other streams run.
  void copy(int stream, void* to, const void* from, std::size_t bytes) {
    launch(stream, [this, to, from, bytes] {
      constexpr std::size_t pieces = 4;
      const std::size_t piece = (bytes + pieces - 1) / pieces;
      for (std::size_t at = 0; at < bytes; at += piece) {
        if (at != 0) give_way();
        std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, std::min(piece, bytes - at));
      }
    });
  }
  /// Done when all earlier operations of the stream are.
  Ticket record(int stream) {
    const Quiet quiet;
    auto event = std::make_shared<Event>();
    enqueue(stream, {nullptr, event, nullptr});
    return event;
  }
  /// Later operations of the stream wait for the event.
  void wait(int stream, Ticket event) {
    const Quiet quiet;
    enqueue(stream, {nullptr, nullptr, std::move(event)});
  }

  /// From now on the stream runs only while the host waits and no other stream can run. Any stream that lacks a wait
  /// for it is then ahead of it, whatever the seed.
  void hold_back(int stream) { held_back_ = stream; }

  /// The host queries (cudaEventQuery), and some stream may run.
  bool query(const Ticket& event) {
    {
      const Quiet quiet;
      step(false);
      if (!event->done) return false;
    }
    acquire(&event->order);
    return true;
  }
  /// The host waits. Meanwhile any stream may run.
  void synchronize(const Ticket& event) {
    {
      const Quiet quiet;
      while (!event->done && step()) {
      }
    }
    acquire(&event->order);
  }
  /// The host does other work for a number of steps. The delayed stream runs for at most one of them.
  void run_some(int steps) {
    const Quiet quiet;
    for (bool host_waits = true; steps-- > 0 && step(host_waits); host_waits = false) {
    }
  }
  /// The host waits for all operations.
  void finish() {
    {
      const Quiet quiet;
      while (step()) {
      }
    }
    acquire(&all_);
  }
  /// The report of the kernels that have run.
  [[nodiscard]] const Report& report() const { return report_; }

 private:
  struct Operation {
    std::function<void()> work;
    Ticket records, waits;
  };
  struct Stream {
    Device* device = nullptr;
    Fiber fiber;
    std::deque<std::pair<Operation, std::unique_ptr<char>>> operations; // each with what the host knew
    bool busy = false;                                                  // in the middle of one
    std::vector<std::function<void()>>* captured = nullptr;             // null: operations run
  };

  void enqueue(int stream, Operation operation) {
    const Quiet quiet;
    SLUICE_ASSERT(streams_[static_cast<std::size_t>(stream)]->captured == nullptr, "work that a graph can have");
    auto known = std::make_unique<char>();
    release(known.get());
    streams_[static_cast<std::size_t>(stream)]->operations.emplace_back(std::move(operation), std::move(known));
  }
  /// One stream continues, if one can.
  bool step(bool host_waits = true) {
    std::vector<Stream*> may;
    for (std::size_t i = 0; i < streams_.size(); ++i)
      if (static_cast<int>(i) != held_back_ && can_run(*streams_[i])) may.push_back(streams_[i].get());
    if (may.empty() && host_waits && held_back_ >= 0) {
      Stream& last = *streams_[static_cast<std::size_t>(held_back_)];
      if (can_run(last)) may.push_back(&last);
    }
    if (may.empty()) return false;
    resume(*may[random_.below(may.size())]);
    return true;
  }
  static bool can_run(const Stream& stream) {
    if (stream.busy) return true;
    if (stream.operations.empty()) return false;
    const Operation& next = stream.operations.front().first;
    return next.waits == nullptr || next.waits->done;
  }
  void resume(Stream& stream) {
    host_ = &Fiber::current();
    Stream* const before = running_;
    running_ = &stream;
    void (*const hook)() = std::exchange(between_blocks, &Device::pause_running);
    stream.fiber.resume();
    between_blocks = hook;
    running_ = before;
  }
  /// Returns to the host, which may resume another stream.
  EMULATE_UNSEEN void give_way() {
    const Quiet quiet;
    running_->busy = true;
    if (!closing_) host_->resume();
    running_->busy = false;
  }
  static void pause_running() { running_->device->give_way(); }

  EMULATE_UNSEEN static Fiber& serve(void* stream) {
    Stream& mine = *static_cast<Stream*>(stream);
    return mine.device->serve(mine);
  }
  Fiber& serve(Stream& stream) {
    for (;;) {
      Operation operation;
      {
        const Quiet quiet;
        while (!closing_ && stream.operations.empty()) host_->resume();
        if (closing_) return *host_;
        auto [next, known] = std::move(stream.operations.front());
        stream.operations.pop_front();
        operation = std::move(next);
        acquire(known.get());
        if (operation.waits) acquire(&operation.waits->order);
      }
      if (operation.work) operation.work();
      const Quiet quiet;
      if (operation.records) {
        release(&operation.records->order);
        operation.records->done = true;
      }
      operation = {};
      release(&all_);
      if (!closing_) host_->resume();
    }
  }

  std::vector<std::unique_ptr<Stream>> streams_;
  Random random_;
  Report report_;
  Fiber* host_ = nullptr;
  int held_back_ = -1; // no stream
  bool closing_ = false;
  char all_ = 0;
  inline static Stream* running_ = nullptr;
};

} // namespace sluice::emulate
