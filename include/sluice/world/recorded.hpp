// SPDX-License-Identifier: Apache-2.0
// Recorded: adds a record of the clock to any backend.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/state/memory/shared_blocks.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/world/clock_record.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Does what `Base` does and records its answers. If `Base` is a handle, so is this; copies share one record.
///
/// The clock shows the time of the last recorded event: it advances only when an iteration has run, the engine has
/// idled, or a plan was waited for. If it moved during a decision, the engine would read a new time at each look, and a
/// replay with one more observer would read other times.
template <class Base>
class Recorded {
 public:
  using role = roles::Backend;
  using base_type = Base;
  static constexpr bool keeps_requests = true;
  static constexpr bool real_time = Base::real_time;
  static constexpr bool ends_requests = Base::ends_requests;
  static constexpr bool plans_async = Base::plans_async;
  static constexpr bool predicts = false;
  static constexpr bool keeps_released = KeepsReleased<Base>;

  /// `record` is empty, and outlives this.
  Recorded(Base base, ClockRecord& record) : base_(std::move(base)), record_(&record) {
    SLUICE_ASSERT(record.events.empty(), "a record of one run");
    record_->events.push_back(detail::plain_event(ClockEvent::Kind::start));
    record_->events.back().now = base_.now();
  }

  [[nodiscard]] Seconds now() const { return record_->events.back().now; }
  void idle_until(Seconds when) {
    if (when <= now()) return;
    base_.idle_until(when);
    write(detail::idle_event(when), base_.now());
  }
  void idle_until(Seconds when, Doorbell& bell) requires is_real_time<Base> {
    if (when <= now()) return;
    base_.idle_until(when, bell);
    write(detail::plain_event(ClockEvent::Kind::wait), base_.now());
  }
  [[nodiscard]] Status load() requires is_real_time<Base> { return base_.load(); }
  [[nodiscard]] bool attends_on_host() const { return host_attends(base_); }

  template <class Transfer>
  void launch(const Iteration& iteration) {
    base_.template launch<Transfer>(iteration);
  }
  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    ClockEvent event = detail::run_event(iteration);
    event.cost = base_.template wait<Transfer>(iteration, state);
    const Seconds end = base_.now();
    event.background_blocks = state.background_blocks;
    if constexpr (EndsRequests<Base>)
      for (const RequestOutcome& outcome : base_.outcomes()) {
        SLUICE_ASSERT(outcome.reason.find('\n') == std::string_view::npos, "a reason is one line");
        event.outcomes.push_back({outcome.slot, outcome.failed, std::string{outcome.reason}, outcome.recompute});
      }
    write(std::move(event), end);
    return record_->events.back().cost;
  }

  template <class Transfer, class Sink>
  void replay(const Iteration& iteration, typename Transfer::State& state, Sink&& sink) {
    base_.template replay<Transfer>(iteration, state, sink);
  }

  [[nodiscard]] auto layer_times() const requires MeasuresTimes<Base> { return base_.layer_times(); }
  [[nodiscard]] auto link_times() const requires MeasuresTimes<Base> { return base_.link_times(); }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const requires EndsRequests<Base> {
    return base_.outcomes();
  }
  void cancelled(Slot slot, std::int64_t submitted) {
    if constexpr (KeepsRequests<Base>) base_.cancelled(slot, submitted);
    write(detail::cancel_event(slot, submitted), now());
  }
  void released(Seconds until) {
    if constexpr (KeepsRequests<Base>) base_.released(until);
    write(detail::release_event(until), now());
  }
  /// Of no influence on the clock's record: what a host keeps is no answer to the engine.
  void keep(std::span<const KeptKv> kept) requires KeepsKv<Base> { base_.keep(kept); }
  [[nodiscard]] std::optional<Replacement> host_tier_evicts() const requires KeepsKv<Base> {
    return base_.host_tier_evicts();
  }
  [[nodiscard]] bool has_disk() const {
    if constexpr (requires { base_.has_disk(); }) return base_.has_disk();
    return false;
  }
  [[nodiscard]] bool has_loaded(Slot slot) const {
    ClockEvent event = detail::loaded_event(slot);
    const bool loaded = detail::has_loaded(base_, slot);
    if (!loaded) event.kind = ClockEvent::Kind::loading;
    write(std::move(event), now());
    return loaded;
  }
  [[nodiscard]] BlockNames block_names() const requires KeepsReleased<Base> {
    const BlockNames own = base_.block_names();
    if (own.of == nullptr) return {};
    named_->push_back({own, record_});
    return {&named_->back(), [](void* of, RequestId id, std::size_t count, std::vector<BlockKey>& keys) {
              const auto& [names, record] = *static_cast<const Named*>(of);
              const std::size_t known = keys.size();
              names.name(names.of, id, count, keys);
              ClockEvent event = detail::name_event(id, count);
              event.now = record->events.back().now;
              event.keys.assign(keys.begin() + static_cast<std::ptrdiff_t>(known), keys.end());
              record->events.push_back(std::move(event));
            }};
  }
  void async(void (*work)(void*), void* what) requires PlansAsync<Base> { base_.async(work, what); }
  [[nodiscard]] bool async_done() requires PlansAsync<Base> {
    const bool done = base_.async_done();
    write(detail::plain_event(done ? ClockEvent::Kind::ready : ClockEvent::Kind::late), now());
    return done;
  }
  void join_async() requires PlansAsync<Base> {
    base_.join_async();
    write(detail::plain_event(ClockEvent::Kind::joined), base_.now());
  }

 private:
  struct Named {
    BlockNames names;
    ClockRecord* record = nullptr;
  };

  void write(ClockEvent event, Seconds end) const {
    event.now = std::max(now(), end);
    record_->events.push_back(std::move(event));
  }

  Base base_;
  ClockRecord* record_;
  /// For each engine that was told names: it stays where it is when this is moved, and copies add their own.
  std::shared_ptr<std::deque<Named>> named_ = std::make_shared<std::deque<Named>>();
};

} // namespace sluice
