// SPDX-License-Identifier: Apache-2.0
// Tee: runs the same generations on two engines. Clients get the first engine's tokens; the second engine's tokens are
// compared with them.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/prometheus.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// The first position at which the answers of both engines differ. An engine whose answer has ended before that
/// position has no token there.
struct TeeDifference {
  GenerationId id{};
  std::int64_t position = 0; ///< in the answer's tokens, from 0
  std::optional<std::int32_t> token, tee_token;
};

/// Formats the difference as one line of JSON for a log. `time`: the wall clock's time when it was found.
[[nodiscard]] inline std::string log_line(const TeeDifference& difference, std::string_view time) {
  std::string line;
  JsonWriter json(line);
  const auto token = [&](const char* name, const std::optional<std::int32_t>& value) {
    json.key(name);
    value ? json.value(*value) : json.null();
  };
  json.begin_object().key("event").value("tee_difference").key("time").value(time);
  json.key("generation").value(static_cast<std::uint64_t>(difference.id)).key("position").value(difference.position);
  token("token", difference.token);
  token("tee_token", difference.tee_token);
  json.end_object();
  return line;
}

/// How far the engines' progress may differ. A generation beyond these limits is no longer compared, and is cancelled
/// on the second engine. (Rejected: holding the first engine back until the second has caught up. A tee must not slow
/// down clients.)
struct TeeLimits {
  std::size_t generations = 4096; ///< generations that at least one engine has not ended
  std::size_t tokens = 1U << 20U; ///< tokens of all generations that one engine has made and the other has not made yet
};

/// A tee's counters.
struct TeeFigures {
  std::int64_t tokens = 0, differing_tokens = 0;           ///< positions compared; those with different tokens
  std::int64_t generations = 0, differing_generations = 0; ///< generations compared until both answers ended;
                                                           ///< generations with a difference, of all
  std::int64_t refused = 0, failed = 0;                    ///< generations refused or failed by the second engine only
  std::int64_t lagged = 0;                                 ///< generations beyond the limits
};

/// Lifecycle: construct; make the engines with the listeners `first()` and `second()`; `attach` them; submit
/// generations.
///
/// The first engine's events go to the listener unchanged; the second engine's events do not. If a generation is
/// cancelled, refused or failed, it is compared up to the last token that both engines made. Compared tokens are
/// dropped.
class Tee final : public GenerationEngine {
 public:
  /// `listener` must outlive the tee. `differs` is called with each generation's first difference, on an engine's
  /// thread.
  explicit Tee(GenerationListener& listener, std::function<void(const TeeDifference&)> differs = {},
               TeeLimits limits = {})
      : listener_(&listener), differs_(std::move(differs)), limits_(limits) {}

  [[nodiscard]] GenerationListener& first() { return first_ear_; }
  [[nodiscard]] GenerationListener& second() { return second_ear_; }
  void attach(std::unique_ptr<GenerationEngine> first, std::unique_ptr<GenerationEngine> second) {
    SLUICE_ASSERT(first != nullptr && second != nullptr, "two engines");
    second_ = std::move(second);
    first_ = std::move(first);
  }

  void submit(GenerationId id, Generation generation) override {
    // Submits to the second engine first: otherwise the first engine might refuse the generation before the second has
    // it, and the resulting cancellation would have no effect.
    if (follow(id)) {
      Generation same = generation;
      same.logprobs = -1; // log-probabilities are not compared
      same.scores_prompt = false;
      second_->submit(id, std::move(same));
    }
    first_->submit(id, std::move(generation));
  }
  void cancel(GenerationId id) override {
    first_->cancel(id);
    if (forget(id)) second_->cancel(id);
  }

  /// Once both are ready, only the first decides: a failure of the second engine does not affect clients.
  [[nodiscard]] bool ready() const override {
    if (!both_were_ready_.load(std::memory_order_relaxed)) {
      if (!first_->ready() || !(second_->ready() || second_has_stopped_.load(std::memory_order_acquire))) return false;
      both_were_ready_.store(true, std::memory_order_relaxed);
    }
    return first_->ready();
  }
  /// Writes the first engine's metrics and the tee's.
  void metrics(PrometheusWriter& to) override {
    first_->metrics(to);
    const std::lock_guard lock{mutex_};
    const auto whole = [](std::int64_t count) { return static_cast<double>(count); };
    to.counter("sluice:tee_tokens_compared_total", "Tokens compared with those of the second engine.",
               whole(figures_.tokens));
    to.counter("sluice:tee_tokens_differing_total", "Of them, tokens that are not the same.",
               whole(figures_.differing_tokens));
    to.counter("sluice:tee_generations_compared_total", "Generations compared to their end.",
               whole(figures_.generations));
    to.counter("sluice:tee_generations_differing_total", "Generations with a token that is not the same.",
               whole(figures_.differing_generations));
    to.counter("sluice:tee_left_out_total", "Generations that the second engine alone did not end, by why.",
               whole(figures_.refused), {{"reason", "refused"}});
    to.counter("sluice:tee_left_out_total", "", whole(figures_.failed), {{"reason", "failed"}});
    to.counter("sluice:tee_left_out_total", "", whole(figures_.lagged), {{"reason", "lag"}});
    to.gauge("sluice:tee_tokens_ahead", "Tokens that one engine has made and the other has not yet.",
             static_cast<double>(ahead_));
  }
  [[nodiscard]] std::string live() override { return first_->live(); }

  [[nodiscard]] TeeFigures figures() const {
    const std::lock_guard lock{mutex_};
    return figures_;
  }

 private:
  enum class Side : std::uint8_t { first, second };

  struct Ear final : GenerationListener {
    Ear(Tee& tee, Side side) : tee_(tee), side_(side) {}
    void happened(std::vector<GenerationEvent> events) override { tee_.heard(side_, std::move(events)); }
    void stopped(const std::string& why) override {
      if (side_ == Side::first)
        tee_.listener_->stopped(why);
      else
        tee_.second_has_stopped_.store(true, std::memory_order_release);
    }

   private:
    Tee& tee_;
    Side side_;
  };

  /// A generation that both engines have.
  struct Pair {
    std::deque<std::int32_t> ahead; ///< tokens that only one engine has made
    Side whose = Side::first;       ///< the engine that made `ahead`
    std::int64_t compared = 0;      ///< number of positions
    bool ended[2] = {false, false}; ///< by side
    bool differs = false;
    bool accepted = false;                     ///< by the first engine
    std::optional<GenerationEvent::Kind> gone; ///< set if the second engine refused it or failed
  };
  using Pairs = std::unordered_map<GenerationId, Pair>;

  void heard(Side side, std::vector<GenerationEvent> events) {
    std::vector<GenerationId> spared; // generations to cancel on the second engine
    std::vector<TeeDifference> found;
    {
      const std::lock_guard lock{mutex_};
      for (const GenerationEvent& event : events) take(side, event, spared, found);
    }
    if (side == Side::first) listener_->happened(std::move(events));
    for (const GenerationId id : spared) second_->cancel(id);
    if (differs_)
      for (const TeeDifference& one : found) differs_(one);
  }

  void take(Side side, const GenerationEvent& event, std::vector<GenerationId>& spared,
            std::vector<TeeDifference>& found) {
    const auto at = pairs_.find(event.id);
    if (at == pairs_.end()) return; // cancelled, or beyond the limits, while this event was under way
    Pair& pair = at->second;
    const bool over = event.kind == GenerationEvent::Kind::refused || event.kind == GenerationEvent::Kind::failed;
    if (over && side == Side::first) {
      spared.push_back(event.id);
      return erase(at);
    }
    if (over) pair.gone = event.kind;
    if (side == Side::first) pair.accepted = true;
    if (pair.gone) { // only the second engine refused, if the first has accepted
      if (!pair.accepted) return;
      (pair.gone == GenerationEvent::Kind::refused ? figures_.refused : figures_.failed) += 1;
      return erase(at);
    }
    switch (event.kind) {
    case GenerationEvent::Kind::tokens:
      for (const std::int32_t token : event.tokens) add(event.id, pair, side, token, found);
      break;
    case GenerationEvent::Kind::ended:
      pair.ended[static_cast<std::size_t>(side)] = true;
      break;
    default:
      return;
    }
    // The other engine's answer has ended, so that it will never make these tokens.
    while (!pair.ahead.empty() && pair.ended[static_cast<std::size_t>(other(pair.whose))]) {
      compare(event.id, pair, pair.whose, pair.ahead.front(), std::nullopt, found);
      pop(pair);
    }
    if (pair.ended[0] && pair.ended[1]) {
      figures_.generations += 1;
      erase(at);
    } else if (ahead_ > limits_.tokens && !pair.ahead.empty()) {
      figures_.lagged += 1;
      spared.push_back(event.id);
      erase(at);
    }
  }

  void add(GenerationId id, Pair& pair, Side side, std::int32_t token, std::vector<TeeDifference>& found) {
    if (pair.ahead.empty() || pair.whose == side) {
      pair.whose = side;
      pair.ahead.push_back(token);
      ahead_ += 1;
      return;
    }
    compare(id, pair, side, token, pair.ahead.front(), found);
    pop(pair);
  }
  /// Compares the next position: `side` has made `token`, the other engine has made `others`.
  void compare(GenerationId id, Pair& pair, Side side, std::int32_t token, std::optional<std::int32_t> others,
               std::vector<TeeDifference>& found) {
    figures_.tokens += 1;
    const std::int64_t position = pair.compared++;
    if (others == token) return;
    figures_.differing_tokens += 1;
    if (std::exchange(pair.differs, true)) return;
    figures_.differing_generations += 1;
    TeeDifference& one = found.emplace_back(TeeDifference{id, position, token, others});
    if (side == Side::second) std::swap(one.token, one.tee_token);
  }
  void pop(Pair& pair) {
    pair.ahead.pop_front();
    ahead_ -= 1;
  }
  void erase(Pairs::iterator at) {
    ahead_ -= at->second.ahead.size();
    pairs_.erase(at);
  }
  /// Returns whether the second engine gets the generation.
  [[nodiscard]] bool follow(GenerationId id) {
    const std::lock_guard lock{mutex_};
    if (pairs_.size() < limits_.generations) return pairs_.try_emplace(id).second;
    figures_.lagged += 1;
    return false;
  }
  [[nodiscard]] bool forget(GenerationId id) {
    const std::lock_guard lock{mutex_};
    const auto at = pairs_.find(id);
    if (at == pairs_.end()) return false;
    erase(at);
    return true;
  }
  [[nodiscard]] static Side other(Side side) { return side == Side::first ? Side::second : Side::first; }

  GenerationListener* listener_;
  std::function<void(const TeeDifference&)> differs_;
  TeeLimits limits_;
  mutable std::atomic<bool> both_were_ready_{false};
  std::atomic<bool> second_has_stopped_{false}; ///< for example because its weights could not be loaded
  mutable std::mutex mutex_;                    ///< guards the next members
  Pairs pairs_;
  std::size_t ahead_ = 0; ///< tokens in `ahead` of all pairs
  TeeFigures figures_;
  Ear first_ear_{*this, Side::first}, second_ear_{*this, Side::second};
  // Declared last, so that their threads end before the members that they use are destroyed. The first engine's thread
  // ends before the second's, which it calls.
  std::unique_ptr<GenerationEngine> second_, first_;
};

} // namespace sluice
