// SPDX-License-Identifier: Apache-2.0
// EngineLoop: an engine of any type, stepped for clients that come and go: by a thread, or by a test's virtual clock.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/bounds.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/serve/engine_figures.hpp"
#include "sluice/serve/feed_relay.hpp"
#include "sluice/serve/gate.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/generation_feed.hpp"
#include "sluice/serve/measured_lengths.hpp"
#include "sluice/serve/measured_pace.hpp"
#include "sluice/serve/outlook.hpp"
#include "sluice/serve/token_source.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// What goes round in a server: generations enter and leave between two steps, and what a step brought is told in one
/// call. Whoever drives the loop brings the present, in seconds of the engine's clock.
///
/// What Delivery hands out ahead of the present (of a simulated iteration, which is computed at once; of a deposit,
/// which is drained for the time that the next step takes) is told with how long it is still to be held: see `Pacer`.
template <class E, class... Gates>
class EngineLoop final : private FeedListener {
  static_assert((Gate<Gates, E> && ...),
                "sluice: a gate needs `GateAnswer answer(const Generation&, const Outlook<E>&)`, which the loop calls "
                "between two steps");
  static_assert(explain_bounds<E>());

 public:
  static constexpr bool real_time = E::backend_type::real_time;
  using Configure = std::function<typename E::Config(FeedListener&)>;

  /// `tokens` and `listener` must outlive the loop.
  EngineLoop(TokenSource& tokens, GenerationListener& listener, Gates... gates)
      : tokens_(&tokens), listener_(&listener), gates_(std::move(gates)...) {}

  /// Makes the engine of `configure(feed)`, whose observers tell `feed` (a GenerationFeed does). It is called twice:
  /// for the engine, and for the observers of copies that look ahead, which run in `ahead`.
  [[nodiscard]] Status make(const Configure& configure, WorldAhead<E> ahead = copied_world()) {
    Expected<E> engine = E::make(configure(*this));
    if (!engine) return engine.error();
    engine_.emplace(std::move(*engine));
    observers_.emplace(configure(relay_).observers);
    ahead_ = std::move(ahead);
    return {};
  }
  /// A simulated world is a value: copies of it run ahead. Of another there is none.
  [[nodiscard]] static WorldAhead<E> copied_world() {
    if constexpr (!real_time && std::is_copy_constructible_v<typename E::backend_type>)
      return [](const E& engine, const Correction&) { return engine.backend(); };
    else
      return nullptr;
  }
  [[nodiscard]] E& engine() { return *engine_; }
  [[nodiscard]] const E& engine() const { return *engine_; }
  /// Counted by the loop; may be read by other threads.
  [[nodiscard]] EngineFigures& figures() { return figures_; }

  /// A generation that came at `arrival` enters: the gates are asked, then the engine.
  void enter(GenerationId id, Generation generation) { enter(id, std::move(generation), engine_->now()); }
  void enter(GenerationId id, Generation generation, Seconds arrival) {
    if (generation.priority != 0 && !heeds_priority<E>) return refuse(id, unheeded_priority(), 0);
    const RequestSpec spec = spec_of(generation, arrival);
    const Outlook<E> outlook(*engine_, arrival, {pace_.slowdown(), lengths_.share()}, figures_, ahead_, *observers_,
                             relay_, looked_s_);
    GateAnswer answer;
    std::string forecast;
    Seconds predicted_ttft{-1};
    const auto ask = [&](auto& gate) {
      answer = gate.answer(generation, outlook);
      if (!answer.forecast.empty()) forecast = answer.forecast;
      if (answer.foresight) {
        predicted_ttft = answer.foresight->ttft;
        figures_.forecast(answer.foresight->took_s);
        looked_s_ += answer.foresight->took_s;
        pace_.foresee(answer.foresight->next);
      }
      return answer.admit;
    };
    if (!std::apply([&](auto&... gate) { return (ask(gate) && ...); }, gates_))
      return refuse(id, std::move(answer.error), answer.retry_after_s, answer.foresight.has_value());
    const Expected<RequestId> entered = engine_->submit(spec);
    if (!entered) {
      ApiError error;
      error.status = 400;
      error.message =
          entered.error().what + (entered.error().expected.empty() ? "" : "; expected " + entered.error().expected);
      return refuse(id, std::move(error), 0);
    }
    tokens_->enter(*entered, generation);
    figures_.entered(*entered, spec, predicted_ttft);
    alive_.emplace(index(*entered), Alive{id, 0, generation.logprobs >= 0});
    requests_.emplace(id, *entered);
    GenerationEvent accepted = event_of(id, GenerationEvent::Kind::accepted);
    accepted.forecast = std::move(forecast);
    add(std::move(accepted));
  }
  /// Its client has left it.
  void leave(GenerationId id) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) return; // it has ended, or was refused
    const RequestId request = found->second;
    (void)engine_->cancel(request); // it is alive: what ends leaves the table
    forget(request, id);
  }
  /// Runs one step. What it brought is told by `tell`.
  Stepped step() {
    looked_s_ = 0;
    const Seconds began = engine_->now();
    // A pause is not to be felt because a step is long: what falls due while it runs is told before it runs, and held
    // until it is due. How long it will run is guessed by the longest of the steps before it, which is forgotten
    // slowly.
    engine_->release_due(real_time ? began + longest_ : began);
    if constexpr (real_time) tell(began);
    const Stepped stepped = engine_->step();
    // A simulated iteration has been computed at once: what falls due within it would wait for the next step.
    if constexpr (!real_time) engine_->release_due(engine_->now());
    if (stepped == Stepped::ran) longest_ = std::max(engine_->now() - began, longest_ * 0.99);
    if (stepped != Stepped::failed) figures_.update(engine_->view());
    return stepped;
  }
  /// Tells what has happened; `present`: now, in the engine's seconds.
  void tell(Seconds present) {
    if (events_.empty()) return;
    for (std::size_t i = 0; i < events_.size(); ++i) events_[i].hold_s = std::max(0.0, (times_[i] - present).count());
    times_.clear();
    listener_->happened(std::exchange(events_, {}));
  }
  /// The run has ended by a mistake: tells everybody in it.
  void fail(const Status& status) {
    failed_ = status.error().line();
    figures_.failed(failed_);
    listener_->stopped(failed_);
    for (const auto& [request, alive] : alive_) add(failure(alive.id, failed_));
    alive_.clear();
    requests_.clear();
  }
  /// A generation that comes after that.
  void refuse_failed(GenerationId id) { add(failure(id, failed_)); }

 private:
  struct Alive {
    GenerationId id{};
    std::size_t told = 0; ///< tokens
    bool with_chances = false;
  };

  [[nodiscard]] static ApiError unheeded_priority() {
    ApiError error;
    error.status = 400;
    error.param = "priority";
    error.message = "priority: this system takes requests in an order of its own; expected 0, or an engine with the "
                    "Admission PriorityFirst";
    return error;
  }
  void forget(RequestId request, GenerationId id) {
    tokens_->forget(request);
    alive_.erase(index(request));
    requests_.erase(id);
  }
  void refuse(GenerationId id, ApiError error, double retry_after_s, bool foreseen = false) {
    figures_.refused(error.message, foreseen);
    GenerationEvent event = event_of(id, GenerationEvent::Kind::refused);
    event.error = std::move(error);
    event.retry_after_s = retry_after_s;
    add(std::move(event));
  }
  [[nodiscard]] static GenerationEvent failure(GenerationId id, std::string why) {
    GenerationEvent event = event_of(id, GenerationEvent::Kind::failed);
    event.error.status = 500;
    event.error.type = "server_error";
    event.error.message = std::move(why);
    return event;
  }
  [[nodiscard]] static GenerationEvent event_of(GenerationId id, GenerationEvent::Kind kind) {
    GenerationEvent event;
    event.id = id;
    event.kind = kind;
    return event;
  }
  void add(GenerationEvent event) { add(std::move(event), engine_->now()); }
  /// `when` it happened, or is to, in the engine's seconds.
  void add(GenerationEvent event, Seconds when) {
    events_.push_back(std::move(event));
    times_.push_back(when);
  }

  // ---- what the engine does, told within a step

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
    add(std::move(event), when);
  }
  void ended(const RequestRow& row, Seconds now) override {
    figures_.ended(row, now);
    lengths_.ended(row);
    const auto found = alive_.find(index(row.id));
    if (found == alive_.end()) return;
    GenerationEvent event = event_of(found->second.id, GenerationEvent::Kind::ended);
    event.reason = tokens_->stopped(row.id) ? FinishReason::stop : FinishReason::length;
    add(std::move(event), now);
    forget(row.id, found->second.id);
  }
  void refused(RequestId id, std::string_view reason) override {
    const auto found = alive_.find(index(id));
    if (found == alive_.end()) return; // at submission: `submit` has said so
    figures_.refused(id, reason);
    add(failure(found->second.id, std::string{reason}));
    forget(id, found->second.id);
  }
  void cancelled(const RequestRow& row, Seconds now) override { figures_.cancelled(row, now); }
  void preempted(const RequestRow& row, Kept kept, Seconds now) override { figures_.preempted(row, kept, now); }
  void resumed(const RequestRow& row, Seconds now) override { figures_.resumed(row, now); }
  void planned(const View& view, const Plan& plan, Seconds wall_time) override {
    figures_.planned(view, plan, wall_time);
  }
  void iterated(const IterationRecord& record) override {
    pace_.ran(record);
    figures_.iterated(record, pace_.slowdown());
  }

  TokenSource* tokens_;
  GenerationListener* listener_;
  std::tuple<Gates...> gates_;
  std::optional<E> engine_;
  FeedRelay relay_;                                      ///< of copies that look ahead
  std::optional<typename E::observer_values> observers_; ///< of them
  WorldAhead<E> ahead_;
  MeasuredPace pace_;
  MeasuredLengths lengths_;
  std::unordered_map<std::uint32_t, Alive> alive_;       ///< by request
  std::unordered_map<GenerationId, RequestId> requests_; ///< of those that are alive
  std::vector<GenerationEvent> events_;
  std::vector<Seconds> times_; ///< of each event
  double looked_s_ = 0;        ///< that gates have taken since the last step
  Seconds longest_{0};         ///< of the last steps, roughly
  EngineFigures figures_;
  std::string failed_; ///< why the run has ended
};

} // namespace sluice
