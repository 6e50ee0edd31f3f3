// SPDX-License-Identifier: Apache-2.0
// EngineThread: an engine of any type, run on a thread of its own for clients that come and go.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/bounds.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/serve/engine_figures.hpp"
#include "sluice/serve/gate.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/generation_feed.hpp"
#include "sluice/serve/inbox.hpp"
#include "sluice/serve/token_source.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Runs engine `E` behind the gates. The engine's clock is the wall's:
/// of a backend in real time by itself; a simulated one is held back to it, iteration by iteration, so that a simulated
/// system answers at the pace that it would have.
///
/// Life: construct, `start`, submissions; `stop` (or the destructor) ends the thread after the step under way.
template <class E, class... Gates>
class EngineThread final : public GenerationEngine, private FeedListener {
  static_assert((Gate<Gates, E> && ...),
                "sluice: a gate needs `GateAnswer answer(const Generation&, const E&)`, callable between two steps");
  static_assert(explain_bounds<E>());
  static constexpr bool real_time = E::backend_type::real_time;

 public:
  /// `tokens` and `listener` must outlive the thread.
  EngineThread(TokenSource& tokens, GenerationListener& listener, Gates... gates)
      : tokens_(&tokens), listener_(&listener), gates_(std::move(gates)...) {}
  ~EngineThread() override { stop(); }

  /// Makes the engine of `configure(feed)`, whose observers tell `feed` (a GenerationFeed does), and starts the thread,
  /// which loads the weights first.
  template <class Configure>
  [[nodiscard]] Status start(Configure&& configure) {
    Expected<E> engine = E::make(configure(static_cast<FeedListener&>(*this)));
    if (!engine) return engine.error();
    engine_.emplace(std::move(*engine));
    began_ = Clock::now();
    thread_ = std::thread([this] { run(); });
    return {};
  }
  void stop() {
    if (!thread_.joinable()) return;
    inbox_.push({Message::Kind::stop, {}, {}});
    thread_.join();
  }

  void submit(GenerationId id, Generation generation) override {
    inbox_.push({Message::Kind::submit, id, std::move(generation)});
  }
  void cancel(GenerationId id) override { inbox_.push({Message::Kind::cancel, id, {}}); }
  [[nodiscard]] bool ready() const override { return ready_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string metrics() override { return figures_.metrics(); }
  [[nodiscard]] std::string live() override { return figures_.live(); }
  /// What ended the run, if anything has: a policy's impossible answer, or weights that could not be loaded. After
  /// `stop`.
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Message {
    enum class Kind : std::uint8_t { submit, cancel, stop };
    Kind kind = Kind::stop;
    GenerationId id{};
    Generation generation;
  };
  struct Alive {
    GenerationId id{};
    std::size_t told = 0; ///< tokens
    bool with_chances = false;
  };

  void run() {
    if constexpr (real_time)
      if (Status loaded = engine_->backend().load(); !loaded) return fail(std::move(loaded));
    ready_.store(true, std::memory_order_release);
    std::vector<Message> messages;
    bool idle = false;
    for (;;) {
      if (idle) wait_for_news();
      inbox_.take(messages);
      for (Message& message : messages) {
        if (message.kind == Message::Kind::stop) return;
        if (message.kind == Message::Kind::submit)
          enter(message.id, std::move(message.generation));
        else
          leave(message.id);
      }
      catch_up();
      engine_->release_due(engine_->now());
      const Stepped stepped = engine_->step();
      if (stepped == Stepped::failed) return fail(engine_->status());
      idle = stepped == Stepped::idle;
      if constexpr (!real_time) hold_back();
      figures_.update(engine_->view());
      tell();
    }
  }

  /// A virtual clock that stood still while nothing ran goes on to the present.
  void catch_up() {
    if constexpr (!real_time) engine_->idle_until(wall());
  }
  /// Waits until the present is where the virtual clock is: what the iteration made goes out when it would have been
  /// made.
  void hold_back() {
    const auto until =
        began_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(engine_->now().count()));
    std::this_thread::sleep_until(until);
  }
  [[nodiscard]] Seconds wall() const { return Seconds{std::chrono::duration<double>(Clock::now() - began_).count()}; }
  /// Waits until a message comes, or until a token is due that delivery holds back.
  void wait_for_news() {
    const Seconds due = engine_->next_due();
    if constexpr (real_time)
      engine_->idle_until(due, inbox_.bell());
    else
      (void)inbox_.bell().wait_for(std::chrono::duration<double>((due - engine_->now()).count()));
  }

  void enter(GenerationId id, Generation generation) {
    GateAnswer answer;
    std::string forecast;
    const auto ask = [&](auto& gate) {
      answer = gate.answer(generation, *engine_);
      if (!answer.forecast.empty()) forecast = answer.forecast;
      return answer.admit;
    };
    if (!std::apply([&](auto&... gate) { return (ask(gate) && ...); }, gates_))
      return refuse(id, std::move(answer.error), answer.retry_after_s);
    RequestSpec spec;
    spec.arrival = engine_->now();
    spec.prompt = Tokens{static_cast<std::int64_t>(generation.prompt.size())};
    spec.output = Tokens{generation.max_tokens};
    spec.output_is_bound = true;
    spec.slo = generation.slo;
    const Expected<RequestId> entered = engine_->submit(spec);
    if (!entered) {
      ApiError error;
      error.status = 400;
      error.message =
          entered.error().what + (entered.error().expected.empty() ? "" : "; expected " + entered.error().expected);
      return refuse(id, std::move(error), 0);
    }
    tokens_->enter(*entered, generation);
    figures_.entered(*entered, spec);
    alive_.emplace(index(*entered), Alive{id, 0, generation.logprobs >= 0});
    requests_.emplace(id, *entered);
    GenerationEvent accepted = event_of(id, GenerationEvent::Kind::accepted);
    accepted.forecast = std::move(forecast);
    events_.push_back(std::move(accepted));
  }
  void leave(GenerationId id) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) return; // it has ended, or was refused
    const RequestId request = found->second;
    (void)engine_->cancel(request); // it is alive: what ends leaves the table
    forget(request, id);
  }
  void forget(RequestId request, GenerationId id) {
    tokens_->forget(request);
    alive_.erase(index(request));
    requests_.erase(id);
  }
  void refuse(GenerationId id, ApiError error, double retry_after_s) {
    figures_.refused(error.message);
    GenerationEvent event = event_of(id, GenerationEvent::Kind::refused);
    event.error = std::move(error);
    event.retry_after_s = retry_after_s;
    events_.push_back(std::move(event));
  }
  /// The run ends with everything in it.
  void fail(Status status) {
    status_ = std::move(status);
    ready_.store(false, std::memory_order_release);
    figures_.failed(status_.error().line());
    std::vector<Message> messages;
    for (;;) {
      for (const auto& [request, alive] : alive_) events_.push_back(failure(alive.id));
      alive_.clear();
      requests_.clear();
      tell();
      (void)inbox_.bell().wait_for(std::chrono::duration<double>(never_due.count()));
      inbox_.take(messages);
      for (const Message& message : messages) {
        if (message.kind == Message::Kind::stop) return;
        if (message.kind == Message::Kind::submit) events_.push_back(failure(message.id));
      }
    }
  }
  [[nodiscard]] GenerationEvent failure(GenerationId id) const {
    GenerationEvent event = event_of(id, GenerationEvent::Kind::failed);
    event.error.status = 500;
    event.error.type = "server_error";
    event.error.message = status_.error().line();
    return event;
  }
  [[nodiscard]] static GenerationEvent event_of(GenerationId id, GenerationEvent::Kind kind) {
    GenerationEvent event;
    event.id = id;
    event.kind = kind;
    return event;
  }
  void tell() {
    if (!events_.empty()) listener_->happened(std::exchange(events_, {}));
  }

  // ---- what the engine does, told between two steps of the loop above

  void released(const RequestRow& row, Tokens count, Seconds when) override {
    figures_.released(row, count, when);
    const auto found = alive_.find(index(row.id));
    if (found == alive_.end()) return;
    Alive& alive = found->second;
    const auto total = static_cast<std::size_t>(row.delivered.count());
    if (total <= alive.told) return;
    const std::span<const std::int32_t> all = tokens_->generated(row.id, total);
    SLUICE_ASSERT(all.size() >= total, "a token for each that the engine has counted");
    GenerationEvent event = event_of(alive.id, GenerationEvent::Kind::tokens);
    event.tokens.assign(all.begin() + static_cast<std::ptrdiff_t>(alive.told),
                        all.begin() + static_cast<std::ptrdiff_t>(total));
    if (alive.with_chances) {
      const auto chances = tokens_->chances(row.id);
      for (std::size_t at = alive.told; at < total && at < chances.size(); ++at) event.chances.push_back(chances[at]);
    }
    alive.told = total;
    events_.push_back(std::move(event));
  }
  void ended(const RequestRow& row, Seconds now) override {
    figures_.ended(row, now);
    const auto found = alive_.find(index(row.id));
    if (found == alive_.end()) return;
    GenerationEvent event = event_of(found->second.id, GenerationEvent::Kind::ended);
    event.reason = tokens_->stopped(row.id) ? FinishReason::stop : FinishReason::length;
    events_.push_back(std::move(event));
    forget(row.id, found->second.id);
  }
  void refused(RequestId id, std::string_view reason) override {
    const auto found = alive_.find(index(id));
    if (found == alive_.end()) return; // at submission: `submit` has said so
    figures_.refused(id, reason);
    GenerationEvent event = event_of(found->second.id, GenerationEvent::Kind::failed);
    event.error.status = 500;
    event.error.type = "server_error";
    event.error.message = std::string{reason};
    events_.push_back(std::move(event));
    forget(id, found->second.id);
  }
  void cancelled(const RequestRow& row, Seconds now) override { figures_.cancelled(row, now); }
  void preempted(const RequestRow& row, Kept kept, Seconds now) override { figures_.preempted(row, kept, now); }
  void resumed(const RequestRow& row, Seconds now) override { figures_.resumed(row, now); }
  void planned(const View& view, const Plan& plan, Seconds wall_time) override {
    figures_.planned(view, plan, wall_time);
  }
  void iterated(const IterationRecord& record) override { figures_.iterated(record); }

  TokenSource* tokens_;
  GenerationListener* listener_;
  std::tuple<Gates...> gates_;
  std::optional<E> engine_;
  Inbox<Message> inbox_;
  std::unordered_map<std::uint32_t, Alive> alive_;       ///< by request
  std::unordered_map<GenerationId, RequestId> requests_; ///< of those that are alive
  std::vector<GenerationEvent> events_;
  EngineFigures figures_;
  Status status_;
  Clock::time_point began_;
  std::atomic<bool> ready_{false};
  std::thread thread_;
};

} // namespace sluice
