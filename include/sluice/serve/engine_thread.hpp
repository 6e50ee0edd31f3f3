// SPDX-License-Identifier: Apache-2.0
// EngineThread: runs an engine of any type on a thread of its own.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/engine_loop.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/outlook.hpp"
#include "sluice/serve/token_source.hpp"
#include "sluice/world/real/async_thread.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {
namespace detail {

/// Messages from many threads to one thread. The queue is unbounded: a gate limits it, because a gate can answer with a
/// reason.
template <class Message>
class Inbox {
 public:
  /// May be called from any thread.
  void push(Message message) {
    {
      const std::lock_guard lock{mutex_};
      messages_.push_back(std::move(message));
    }
    bell_.ring();
  }
  /// Takes all messages in order of arrival; swaps instead of copying. Never waits.
  void take(std::vector<Message>& into) {
    into.clear();
    const std::lock_guard lock{mutex_};
    into.swap(messages_);
  }
  /// Signalled when a message arrives.
  [[nodiscard]] Doorbell& bell() { return bell_; }

 private:
  std::mutex mutex_;
  Doorbell bell_;
  std::vector<Message> messages_;
};

} // namespace detail

/// Runs engine `E` behind the gates, on the wall clock. After each iteration a simulated engine waits for the wall
/// clock, so that it answers at the pace of the simulated device.
///
/// Lifecycle: construct, `start`, submissions. `stop` (or the destructor) ends the thread after the current step.
template <class E, class... Gates>
class EngineThread final : public GenerationEngine {
  using Loop = EngineLoop<E, Gates...>;

 public:
  /// `tokens` and `listener` must outlive the thread. `listener` may receive tokens before they are due: a Pacer holds
  /// them.
  EngineThread(TokenSource& tokens, GenerationListener& listener, Gates... gates)
      : loop_(tokens, listener, std::move(gates)...) {}
  ~EngineThread() override { stop(); }

  /// `listener` receives every finished request, on the engine's thread, and must outlive the thread. Call before
  /// `start`.
  void tell_served(ServedListener& listener) { loop_.figures().tell(&listener); }
  /// Makes the engine as EngineLoop::make does, and starts the thread, which first loads the weights.
  [[nodiscard]] Status start(const typename Loop::Configure& configure, WorldAhead<E> ahead = Loop::copied_world()) {
    if (Status made = loop_.make(configure, std::move(ahead)); !made) return made;
    began_ = Clock::now();
    thread_ = std::thread([this] { run(); });
    return {};
  }
  void stop() {
    if (!thread_.joinable()) return;
    inbox_.push({Message::Kind::stop, {}, {}, {}});
    thread_.join();
  }

  void submit(GenerationId id, Generation generation) override {
    inbox_.push({Message::Kind::submit, id, std::move(generation), Clock::now()});
  }
  void cancel(GenerationId id) override { inbox_.push({Message::Kind::cancel, id, {}, {}}); }
  [[nodiscard]] bool ready() const override { return ready_.load(std::memory_order_acquire); }
  void metrics(PrometheusWriter& to) override { loop_.figures().metrics(to); }
  [[nodiscard]] std::string live() override { return loop_.figures().live(); }
  /// Returns the error that ended the run, if any: a policy's impossible answer, or weights that could not be loaded.
  /// Call after `stop`.
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Message {
    enum class Kind : std::uint8_t { submit, cancel, stop };
    Kind kind = Kind::stop;
    GenerationId id{};
    Generation generation;
    Clock::time_point sent; ///< of a submission: its wait for the current step is part of its TTFT
  };

  void run() {
    if constexpr (Loop::real_time)
      if (Status loaded = loop_.engine().load(); !loaded) return fail(std::move(loaded));
    ready_.store(true, std::memory_order_release);
    std::vector<Message> messages;
    bool idle = false;
    for (;;) {
      if (idle) wait_for_news();
      inbox_.take(messages);
      // A virtual clock stands still while the engine is idle, so it is set to the present when newcomers arrive.
      if constexpr (!Loop::real_time) loop_.engine().idle_until(wall());
      for (Message& message : messages) {
        if (message.kind == Message::Kind::stop) return;
        if (message.kind == Message::Kind::submit)
          loop_.enter(message.id, std::move(message.generation), arrival_of(message));
        else
          loop_.leave(message.id);
      }
      taken_ = loop_.engine().now();
      const Stepped stepped = loop_.step();
      if (stepped == Stepped::failed) return fail(loop_.engine().status());
      idle = stepped == Stepped::idle;
      loop_.tell(present());
      if constexpr (!Loop::real_time) hold_back();
    }
  }

  /// Waits until the wall clock reaches the virtual clock.
  void hold_back() {
    const auto until = began_ + std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(loop_.engine().now().count()));
    std::this_thread::sleep_until(until);
  }
  [[nodiscard]] Seconds wall() const { return Seconds{std::chrono::duration<double>(Clock::now() - began_).count()}; }
  [[nodiscard]] Seconds present() const { return Loop::real_time ? loop_.engine().now() : wall(); }
  /// Returns when the message was sent, on the engine's clock; never in the future, and never before the previous
  /// message's arrival. The clocks are read one after another, so the times of two messages could swap by microseconds.
  /// The result is always later than the last time messages were taken: a sender may be descheduled between reading the
  /// clock and pushing its message, and a request that arrived before a step that ran without it could not be replayed.
  [[nodiscard]] Seconds arrival_of(const Message& message) {
    const Seconds waited{std::chrono::duration<double>(Clock::now() - message.sent).count()};
    const Seconds latest = loop_.engine().now();
    const Seconds after{std::nextafter(taken_.count(), std::numeric_limits<double>::infinity())};
    const Seconds earliest = std::min(std::max(last_arrival_, after), latest);
    return last_arrival_ = std::clamp(present() - waited, earliest, latest);
  }
  /// Waits for a message, or until Delivery must release a token or a gate must be asked again.
  void wait_for_news() {
    const Seconds due = loop_.next_due();
    if constexpr (Loop::real_time)
      loop_.engine().idle_until(due, inbox_.bell());
    else
      (void)inbox_.bell().wait_for(std::chrono::duration<double>((due - loop_.engine().now()).count()));
  }
  /// Ends the run and all its requests; refuses later submissions until `stop`.
  void fail(Status status) {
    status_ = std::move(status);
    ready_.store(false, std::memory_order_release);
    loop_.fail(status_);
    std::vector<Message> messages;
    for (;;) {
      loop_.tell(present());
      (void)inbox_.bell().wait_for(std::chrono::duration<double>(never_due.count()));
      inbox_.take(messages);
      for (const Message& message : messages) {
        if (message.kind == Message::Kind::stop) return;
        if (message.kind == Message::Kind::submit) loop_.refuse_failed(message.id);
      }
    }
  }

  Loop loop_;
  detail::Inbox<Message> inbox_;
  Status status_;
  Clock::time_point began_;
  Seconds last_arrival_{0};
  Seconds taken_{-1}; ///< the engine's time when messages were last taken
  std::atomic<bool> ready_{false};
  std::thread thread_;
};

} // namespace sluice
