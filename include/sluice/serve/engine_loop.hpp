// SPDX-License-Identifier: Apache-2.0
// EngineLoop: steps an engine of any type for clients that come and go; driven by a thread, or by a test's virtual
// clock.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/with.hpp"
#include "sluice/serve/engine_figures.hpp"
#include "sluice/serve/forecast_errors.hpp"
#include "sluice/serve/gate.hpp"
#include "sluice/serve/generation.hpp"
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

/// Alternates between steps and clients: generations enter and leave between two steps, and `tell` passes on a step's
/// events in one call. The driver supplies the current time, in seconds of the engine's clock.
///
/// Delivery may release tokens before they are due: all tokens of a simulated iteration, which is computed at once, and
/// deposited tokens that are due during the next step. Their events say how long to hold them: see `Pacer`.
template <class E, class... Gates>
class EngineLoop final : private EventListener {
  static_assert(explain_gates<E, Gates...>());
  static_assert(explain_bounds<E>());

 public:
  static constexpr bool real_time = E::backend_type::real_time;
  using Configure = std::function<typename E::Config(EventListener&)>;

  /// `tokens` and `listener` must outlive the loop.
  EngineLoop(TokenSource& tokens, GenerationListener& listener, Gates... gates)
      : tokens_(&tokens), listener_(&listener), gates_(std::move(gates)...) {}

  /// Makes the engine with `configure(feed)`, whose observers must pass events to `feed`, like a GenerationFeed.
  /// `configure` is called twice: for the engine, and for the observers of copies that look ahead in `ahead`.
  [[nodiscard]] Status make(const Configure& configure, WorldAhead<E> ahead = copied_world()) {
    Expected<E> engine = E::make(configure(*this));
    if (!engine) return engine.error();
    engine_.emplace(std::move(*engine));
    observers_.emplace(configure(relay_).observers);
    ahead_ = std::move(ahead);
    return {};
  }
  /// A simulated world is a value, so copies of it can run ahead. Other worlds cannot be copied.
  [[nodiscard]] static WorldAhead<E> copied_world() {
    if constexpr (!real_time && std::is_copy_constructible_v<typename E::backend_type>)
      return [](const E& engine, const Correction&) { return engine.backend(); };
    else
      return nullptr;
  }
  [[nodiscard]] E& engine() { return *engine_; }
  [[nodiscard]] const E& engine() const { return *engine_; }
  /// Returns the counters and state, which the loop updates and which other threads may read.
  [[nodiscard]] EngineFigures& figures() { return figures_; }

  /// Submits a generation that arrived at `arrival`, first to the gates and then to the engine. If KV of its prompt
  /// must be read from a disk, that begins now, and a later `step` submits the generation when it is over: other
  /// requests do not wait for the disk.
  void enter(GenerationId id, Generation generation) { enter(id, std::move(generation), engine_->now()); }
  void enter(GenerationId id, Generation generation, Seconds arrival) {
    if (generation.priority != 0 && !orders_by_priority(*engine_)) return refuse(id, unheeded_priority(), 0);
    if (const HintSet said = generation.hints.said(); said.any())
      if (const HintSet used = hints_read(*engine_), ignored = said - used; ignored.any())
        return refuse(id, unheeded_hints(ignored, used), 0);
    const std::optional<std::uint64_t> search = tokens_->seek(generation, would_load(generation, arrival));
    if (search && !is_over(*search, generation, arrival))
      searching_.push_back({id, std::move(generation), arrival, *search});
    else
      submit(id, std::move(generation), arrival, search);
  }
  /// Cancels a generation.
  void leave(GenerationId id) {
    const auto searching =
        std::find_if(searching_.begin(), searching_.end(), [&](const auto& s) { return s.id == id; });
    if (searching != searching_.end()) {
      tokens_->leave_search(searching->search);
      searching_.erase(searching);
      return;
    }
    const auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& one) { return one.id == id; });
    if (held != held_.end()) {
      tell_left(*held);
      held_.erase(held);
      return;
    }
    const auto found = requests_.find(id);
    if (found == requests_.end()) return; // it has ended, or was refused
    const RequestId request = found->second;
    errors_.left(request);
    (void)engine_->cancel(request); // cannot fail: requests that have ended are no longer in the table
    forget(request, id);
  }
  /// Runs one step. `tell` passes on its events.
  Stepped step() {
    submit_sought();
    ask_for_held();
    const Seconds began = engine_->now();
    // A long step must not delay deposited tokens: those due during the step are released before it, to be held until
    // they are due. The longest recent step serves as an estimate of the step's length.
    engine_->release_due(real_time ? began + Seconds{steps_.longest_s()} : began);
    if constexpr (real_time) tell(began);
    Stepped stepped = engine_->step();
    // The step may have refused the last request. Those that are held then have nothing to wait for.
    while (stepped == Stepped::idle && engine_->alive() == 0 && !held_.empty()) {
      const std::size_t before = held_.size();
      ask_for_held();
      if (held_.size() == before) break;
      stepped = engine_->step();
    }
    // A simulated iteration is computed at once: tokens due during it would otherwise wait for the next step.
    if constexpr (!real_time) engine_->release_due(engine_->now());
    if (stepped == Stepped::ran) {
      pace_.stepped((engine_->now() - began).count(), ended_ ? (began - *ended_).count() : -1);
      steps_.ran((engine_->now() - began).count());
    }
    ended_ = engine_->alive() > 0 ? std::optional{engine_->now()} : std::nullopt;
    if (stepped != Stepped::failed)
      figures_.update(engine_->view(), tokens_->tier(), static_cast<std::int64_t>(held_.size()));
    return stepped;
  }
  /// Returns when an idle engine must step again although nothing arrives: to release a token, or to ask a gate about a
  /// generation that it holds.
  [[nodiscard]] Seconds next_due() const {
    Seconds next = engine_->next_due();
    for (const Held& one : held_) next = std::min(next, one.hold.until);
    return next;
  }
  /// Passes events to the listener. `present`: the current time on the engine's clock.
  void tell(Seconds present) {
    if (events_.empty()) return;
    for (std::size_t i = 0; i < events_.size(); ++i) events_[i].hold_s = (times_[i] - present).count();
    times_.clear();
    listener_->happened(std::exchange(events_, {}));
  }
  /// Ends a run that failed, with a `failed` event for every generation.
  void fail(const Status& status) {
    failed_ = status.error().line();
    figures_.failed(failed_);
    listener_->stopped(failed_);
    for (const auto& [request, alive] : alive_) add(failure(alive.id, failed_));
    for (const Searching& one : searching_) {
      tokens_->leave_search(one.search);
      add(failure(one.id, failed_));
    }
    for (const Held& one : held_) add(failure(one.id, failed_));
    searching_.clear();
    held_.clear();
    alive_.clear();
    requests_.clear();
  }
  /// Answers a generation that is submitted after the run has failed.
  void refuse_failed(GenerationId id) { add(failure(id, failed_)); }

 private:
  struct Alive {
    GenerationId id{};
    std::size_t told = 0; ///< tokens passed on
    bool with_chances = false;
    bool with_tier = false; ///< its prompt was looked up in the tiers
  };

  /// A generation for which a disk is read, or whose KV is on its way to the host.
  struct Searching {
    GenerationId id{};
    Generation generation;
    Seconds arrival{0};
    std::uint64_t search = 0;
  };

  /// A generation that a gate holds. Nothing is kept for it in the tier meanwhile.
  struct Held {
    GenerationId id{};
    Generation generation;
    Seconds arrival{0};
    bool with_tier = false; ///< its prompt was looked up in the tiers
    std::size_t gate = 0;   ///< that holds it: those before it have admitted it
    Hold hold{};
  };

  /// What the engine would load for a generation; refers to both.
  [[nodiscard]] auto would_load(const Generation& generation, const Seconds& arrival) {
    return [this, &generation, &arrival](const FoundPrefix& found) {
      return engine_->would_load(spec_of(generation, arrival, ahead_of(slo_left(generation), generation.lead)), found);
    };
  }
  /// Whether a search that nobody else knows is over. What the engine throws when it is asked ends the search.
  [[nodiscard]] bool is_over(std::uint64_t search, const Generation& generation, const Seconds& arrival) {
    struct Ends {
      TokenSource* of;
      std::uint64_t search;
      ~Ends() {
        if (of != nullptr) of->leave_search(search);
      }
    } ends{tokens_, search};
    const bool over = tokens_->sought(search, would_load(generation, arrival));
    ends.of = nullptr;
    return over;
  }
  /// Submits the generations whose search is over, in the order of their arrival.
  void submit_sought() {
    for (std::size_t i = 0; i < searching_.size();) {
      if (!tokens_->sought(searching_[i].search, would_load(searching_[i].generation, searching_[i].arrival))) {
        ++i;
        continue;
      }
      Searching one = std::move(searching_[i]);
      searching_.erase(searching_.begin() + static_cast<std::ptrdiff_t>(i));
      submit(one.id, std::move(one.generation), one.arrival, one.search);
    }
  }
  void submit(GenerationId id, Generation generation, Seconds arrival, std::optional<std::uint64_t> search) {
    if (search) generation.on_host = tokens_->find(*search);
    Held one{.id = id, .generation = std::move(generation), .arrival = arrival, .with_tier = search.has_value()};
    std::optional<int> returned; // lowest priority of those held that have returned when they were told
    for (const Held& other : held_) note_returned(other.hold, returned);
    if (!ask(one, nullptr, held_.size(), returned).held) return;
    const auto at = std::upper_bound(held_.begin(), held_.end(), one, asked_before);
    held_.insert(at, std::move(one));
  }
  static bool asked_before(const Held& a, const Held& b) { return a.hold.order < b.hold.order; }
  static void note_returned(const Hold& hold, std::optional<int>& lowest) {
    if (hold.order.returned()) lowest = std::min(lowest.value_or(hold.order.priority), hold.order.priority);
  }
  /// Asks for the generations that are held: in the order that the gates state until there is no time left, and for
  /// those whose time has come.
  void ask_for_held() {
    if (!std::is_sorted(held_.begin(), held_.end(), asked_before)) // a gate has changed its order
      std::stable_sort(held_.begin(), held_.end(), asked_before);
    bool time_left = true;
    std::size_t kept = 0;
    std::optional<int> returned; // of those asked before
    for (std::size_t i = 0; i < held_.size(); ++i) {
      Held& one = held_[i];
      const bool later = !time_left && engine_->alive() > 0 && engine_->now() < one.hold.until;
      if (!later) {
        const Hold before = one.hold;
        const Asked asked = ask(one, &before, kept + held_.size() - i - 1, returned);
        time_left = asked.time_left && time_left;
        if (!asked.held) continue;
      }
      note_returned(one.hold, returned);
      if (kept != i) held_[kept] = std::move(one);
      ++kept;
    }
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(kept), held_.end());
  }
  struct Asked {
    bool held = false;
    bool time_left = true; ///< no gate holds it because there is no time to look ahead
  };
  /// Asks the gates from the one that held the generation before; submits it to the engine if they admit it. `before`:
  /// what that gate said; null: none has. `others`: number of others that are held. `returned`: lowest priority of
  /// those of them that have returned when they were told.
  Asked ask(Held& one, const Hold* before, std::size_t others, const std::optional<int>& returned) {
    const GenerationId id = one.id;
    Generation& generation = one.generation;
    const Seconds arrival = one.arrival;
    const SloLead margin = errors_.margin(generation.slo);
    const Outlook<E> outlook(*engine_, arrival, {pace_.slowdown(), lengths_.share()}, margin, figures_, ahead_,
                             *observers_, relay_, steps_, before, static_cast<std::int64_t>(others), returned);
    Slo kept = ahead_of(slo_left(generation), generation.lead); // the SLO that the engine must keep
    std::vector<Foretold> foretold;
    GateAnswer answer;
    std::string forecast;
    Seconds predicted_ttft{-1};
    std::size_t at = 0; // of the gates
    const auto passes = [&](auto& gate) {
      if (at++ < one.gate) return true;
      answer = gate.answer(generation, outlook);
      if (!answer.forecast.empty()) forecast = answer.forecast;
      if (answer.foresight) {
        predicted_ttft = answer.foresight->ttft;
        figures_.forecast(answer.foresight->took_s);
        if (answer.foresight->next) pace_.foresee(answer.foresight->next);
        foretold = std::move(answer.foresight->foretold);
        if (answer.foresight->keep) kept = *answer.foresight->keep;
      }
      if (answer.unlooked && !answer.hold) figures_.unlooked(answer.admit);
      return answer.admit;
    };
    const bool admitted = std::apply([&](auto&... gate) { return (passes(gate) && ...); }, gates_);
    if (!admitted && answer.hold) {
      one.gate = at - 1;
      one.hold = *answer.hold;
      return {.held = true, .time_left = !answer.unlooked};
    }
    if constexpr (sizeof...(Gates) > 0)
      figures_.gates_answered(static_cast<std::int64_t>(generation.prompt.size()), admitted);
    if (!admitted) {
      const bool foreseen = answer.foresight.has_value() || (before != nullptr && before->looked);
      refuse(id, std::move(answer.error), answer.retry_after_s, foreseen && !answer.unlooked);
      return {};
    }
    if (before != nullptr && one.with_tier) find_again(generation);
    const RequestSpec spec = spec_of(generation, arrival, kept);
    const Expected<RequestId> entered = engine_->submit(spec, {}, generation.on_host);
    if (!entered) {
      ApiError error;
      error.status = 400;
      error.message =
          entered.error().what + (entered.error().expected.empty() ? "" : "; expected " + entered.error().expected);
      refuse(id, std::move(error), 0);
      return {};
    }
    tokens_->enter(*entered, generation);
    figures_.entered(*entered, spec, {slo_left(generation), generation.lead}, predicted_ttft,
                     before != nullptr ? engine_->now() : Seconds{-1});
    errors_.entered(*entered, generation.slo);
    errors_.foretell(foretold);
    alive_.emplace(index(*entered), Alive{id, 0, generation.logprobs >= 0, one.with_tier});
    requests_.emplace(id, *entered);
    GenerationEvent accepted = event_of(id, GenerationEvent::Kind::accepted);
    accepted.forecast = std::move(forecast);
    add(std::move(accepted));
    return {};
  }
  /// What was found for a generation that was held is no longer kept, and a later search may have taken its place:
  /// looks for it again, as far as that needs no disk. The tier's counters count its prompt once more.
  void find_again(Generation& generation) {
    const auto search = tokens_->seek(generation, [](const FoundPrefix& found) { return found.below; });
    generation.on_host = search ? tokens_->find(*search) : Tokens{0};
  }
  /// Tells the gate that holds a generation that its client has left, if the gate wants to know.
  void tell_left(const Held& one) {
    std::size_t at = 0;
    const auto tell_it = [&](auto& gate) {
      if constexpr (requires { gate.left(one.hold); })
        if (at == one.gate) gate.left(one.hold);
      ++at;
    };
    std::apply([&](auto&... gate) { (tell_it(gate), ...); }, gates_);
  }
  [[nodiscard]] static ApiError unheeded_priority() {
    ApiError error;
    error.status = 400;
    error.param = "priority";
    error.message = "priority: this system takes requests in an order of its own; expected 0, or a server with "
                    "--system VllmPriority or VllmPriorityPreempts";
    return error;
  }
  [[nodiscard]] static ApiError unheeded_hints(HintSet ignored, HintSet used) {
    ApiError error;
    error.status = 400;
    error.param = "kv_hints";
    error.message = "kv_hints: this server does not use " + name(ignored) + "; expected " +
                    (used.any() ? "no other than " + name(used)
                                : std::string{"no kv_hints, or a server that keeps KV on its host (--host-cache)"});
    return error;
  }
  void forget(RequestId request, GenerationId id) {
    tokens_->forget(request);
    alive_.erase(index(request));
    requests_.erase(id);
  }
  void refuse(GenerationId id, ApiError error, double retry_after_s, bool foreseen = false) {
    figures_.refused(error.message, foreseen);
    add(refusal(id, std::move(error), retry_after_s));
  }
  [[nodiscard]] static GenerationEvent refusal(GenerationId id, ApiError error, double retry_after_s) {
    GenerationEvent event = event_of(id, GenerationEvent::Kind::refused);
    event.error = std::move(error);
    event.retry_after_s = retry_after_s;
    return event;
  }
  /// The engine's Admission gives up a request that waits. Its client may try again, as after a full queue.
  [[nodiscard]] static GenerationEvent given_up(GenerationId id, std::string_view why) {
    ApiError error;
    error.status = 429;
    error.type = "rate_limit_error";
    error.code = "refused_by_admission";
    error.message = why;
    return refusal(id, std::move(error), 1);
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
  /// `when`: time of the event on the engine's clock, possibly in the future.
  void add(GenerationEvent event, Seconds when) {
    events_.push_back(std::move(event));
    times_.push_back(when);
  }

  // ---- the engine's events during a step

  using hears = Events<events::Delivered, events::Ended, events::Refused, events::Iterated>;
  void hear(const AnyEvent& event) override {
    figures_.hear(event);
    event.visit(hears{}, [this](const auto& of_its_type) { this->on(of_its_type); });
  }
  void on(const events::Delivered& event) {
    const RequestRow& row = event.row;
    errors_.delivered(row.id, event.when);
    const auto found = alive_.find(index(row.id));
    if (found == alive_.end()) return;
    Alive& alive = found->second;
    const auto total = static_cast<std::size_t>(row.delivered.count());
    if (total <= alive.told) return;
    const std::span<const std::int32_t> all = tokens_->generated(row.id, total);
    SLUICE_ASSERT(all.size() >= total, "a token for each that the engine has counted");
    GenerationEvent told = event_of(alive.id, GenerationEvent::Kind::tokens);
    told.tokens.assign(all.begin() + static_cast<std::ptrdiff_t>(alive.told),
                       all.begin() + static_cast<std::ptrdiff_t>(total));
    if ((alive.with_tier || row.found.count() > 0) && alive.told == 0) told.cached = row.found.count();
    if (alive.with_chances) {
      const auto chances = tokens_->chances(row.id);
      for (std::size_t at = alive.told; at < total && at < chances.size(); ++at) told.chances.push_back(chances[at]);
      if (alive.told == 0) {
        const auto of_prompt = tokens_->prompt_chances(row.id);
        told.prompt_chances.assign(of_prompt.begin(), of_prompt.end());
      }
    }
    alive.told = total;
    add(std::move(told), event.when);
  }
  void on(const events::Ended& event) {
    lengths_.ended(event.row);
    errors_.ended(event.row.id);
    figures_.forecast_errors(errors_);
    const auto found = alive_.find(index(event.row.id));
    if (found == alive_.end()) return;
    GenerationEvent told = event_of(found->second.id, GenerationEvent::Kind::ended);
    told.reason = tokens_->stopped(event.row.id) ? FinishReason::stop : FinishReason::length;
    add(std::move(told), event.now);
    forget(event.row.id, found->second.id);
  }
  void on(const events::Refused& event) {
    errors_.left(event.id);
    const auto found = alive_.find(index(event.id));
    if (found == alive_.end()) return; // this is during submission: `enter` has reported the refusal
    const GenerationId id = found->second.id;
    add(event.chosen ? given_up(id, event.reason) : failure(id, std::string{event.reason})); // counted by `figures_`
    forget(event.id, id);
  }
  void on(const events::Iterated& event) {
    pace_.ran(event.record);
    figures_.slowed(pace_.slowdown());
  }

  TokenSource* tokens_;
  GenerationListener* listener_;
  std::tuple<Gates...> gates_;
  std::optional<E> engine_;
  FeedRelay relay_;                                      ///< of copies that look ahead
  std::optional<typename E::observer_values> observers_; ///< of copies that look ahead
  WorldAhead<E> ahead_;
  MeasuredPace pace_;
  MeasuredLengths lengths_;
  ForecastErrors errors_;
  std::unordered_map<std::uint32_t, Alive> alive_;       ///< indexed by request
  std::unordered_map<GenerationId, RequestId> requests_; ///< indexed by live generation
  std::vector<Searching> searching_;
  std::vector<Held> held_; ///< in the order in which they are asked for
  std::vector<GenerationEvent> events_;
  std::vector<Seconds> times_;   ///< one per event
  StepPace steps_;               ///< for gates that look ahead
  std::optional<Seconds> ended_; ///< time of the last step, if requests were left
  EngineFigures figures_;
  std::string failed_; ///< why the run ended
};

} // namespace sluice
