// SPDX-License-Identifier: Apache-2.0
// Device: streams and events of a GPU that runs whatever it may, in an order that is drawn.
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

/// Each stream is a fiber that does its operations one after the other; which stream goes on is drawn from the seed,
/// and nothing runs but while the host waits. Under ThreadSanitizer each stream is a thread: an operation knows what
/// the host knew when it was enqueued, what came before it in its stream, and what events that it waited for know; the
/// host knows what it has waited for. So a copy of the host's memory that the host touches before it has waited is a
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
  /// What is left undone is not done.
  ~Device() {
    const Quiet quiet;
    closing_ = true;
    for (auto& stream : streams_) resume(*stream);
  }

  /// A host function in the stream (cudaLaunchHostFunc), or anything else.
  void launch(int stream, std::function<void()> work) {
    if (std::vector<std::function<void()>>* const captured = streams_[static_cast<std::size_t>(stream)]->captured) {
      const Quiet quiet;
      captured->push_back(std::move(work));
      return;
    }
    enqueue(stream, {std::move(work), nullptr, nullptr});
  }

  /// Work that was captured, with the parameters that it had then, to be done again and again.
  using Graph = std::vector<std::function<void()>>;
  /// What the stream is given from now on goes to `into` and is not done (cudaStreamBeginCapture), until `end_capture`.
  void begin_capture(int stream, Graph& into) { streams_[static_cast<std::size_t>(stream)]->captured = &into; }
  void end_capture(int stream) { streams_[static_cast<std::size_t>(stream)]->captured = nullptr; }
  void launch(int stream, const Graph& graph) {
    for (const auto& work : graph) launch(stream, work);
  }
  /// A kernel, emulated: others run between its blocks. What is wrong with it is in `report()`.
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
  /// In pieces, between which others run.
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
  /// Done when all is that the stream was given before.
  Ticket record(int stream) {
    const Quiet quiet;
    auto event = std::make_shared<Event>();
    enqueue(stream, {nullptr, event, nullptr});
    return event;
  }
  /// What the stream is given after waits for the event.
  void wait(int stream, Ticket event) {
    const Quiet quiet;
    enqueue(stream, {nullptr, nullptr, std::move(event)});
  }

  /// From now on the stream runs only while the host waits and no other stream can run. A stream that should wait for
  /// it and does not is then ahead of it, whatever the seed.
  void hold_back(int stream) { held_back_ = stream; }

  /// The host asks (cudaEventQuery), and something may run.
  bool query(const Ticket& event) {
    {
      const Quiet quiet;
      step(false);
      if (!event->done) return false;
    }
    acquire(&event->order);
    return true;
  }
  /// The host waits. Meanwhile anything may run.
  void synchronize(const Ticket& event) {
    {
      const Quiet quiet;
      while (!event->done && step()) {
      }
    }
    acquire(&event->order);
  }
  /// The host does something else for so many steps. The stream that is held back runs for at most one of them.
  void run_some(int steps) {
    const Quiet quiet;
    for (bool host_waits = true; steps-- > 0 && step(host_waits); host_waits = false) {
    }
  }
  /// The host waits for all that there is.
  void finish() {
    {
      const Quiet quiet;
      while (step()) {
      }
    }
    acquire(&all_);
  }
  /// Of the kernels that have run.
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
    std::vector<std::function<void()>>* captured = nullptr;             // null: what it is given is done
  };

  void enqueue(int stream, Operation operation) {
    const Quiet quiet;
    SLUICE_ASSERT(streams_[static_cast<std::size_t>(stream)]->captured == nullptr, "work that a graph can have");
    auto known = std::make_unique<char>();
    release(known.get());
    streams_[static_cast<std::size_t>(stream)]->operations.emplace_back(std::move(operation), std::move(known));
  }
  /// A stream goes on, if one can.
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
  /// Back to the host, which may resume another stream.
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
