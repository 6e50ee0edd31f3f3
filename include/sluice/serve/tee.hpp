// SPDX-License-Identifier: Apache-2.0
// Tee: runs the same generations on two engines. Clients get the first engine's tokens; the second engine's tokens are
// compared with them.
#pragma once

#include "sluice/core/compiled.hpp"
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
[[nodiscard]] std::string log_line(const TeeDifference& difference, std::string_view time);

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
               TeeLimits limits = {});

  [[nodiscard]] GenerationListener& first() { return first_ear_; }
  [[nodiscard]] GenerationListener& second() { return second_ear_; }
  void attach(std::unique_ptr<GenerationEngine> first, std::unique_ptr<GenerationEngine> second);

  void submit(GenerationId id, Generation generation) override;
  void cancel(GenerationId id) override;

  /// Once both are ready, only the first decides: a failure of the second engine does not affect clients.
  [[nodiscard]] bool ready() const override;
  /// Writes the first engine's metrics and the tee's.
  void metrics(PrometheusWriter& to) override;
  [[nodiscard]] std::string live() override { return first_->live(); }

  [[nodiscard]] TeeFigures figures() const;

 private:
  enum class Side : std::uint8_t { first, second };

  struct Ear final : GenerationListener {
    Ear(Tee& tee, Side side) : tee_(tee), side_(side) {}
    void happened(std::vector<GenerationEvent> events) override { tee_.heard(side_, std::move(events)); }
    void stopped(const std::string& why) override;

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

  void heard(Side side, std::vector<GenerationEvent> events);

  void take(Side side, const GenerationEvent& event, std::vector<GenerationId>& spared,
            std::vector<TeeDifference>& found);

  void add(GenerationId id, Pair& pair, Side side, std::int32_t token, std::vector<TeeDifference>& found);
  /// Compares the next position: `side` has made `token`, the other engine has made `others`.
  void compare(GenerationId id, Pair& pair, Side side, std::int32_t token, std::optional<std::int32_t> others,
               std::vector<TeeDifference>& found);
  void pop(Pair& pair);
  void erase(Pairs::iterator at);
  /// Returns whether the second engine gets the generation.
  [[nodiscard]] bool follow(GenerationId id);
  [[nodiscard]] bool forget(GenerationId id);
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

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/tee.inl.hpp"
#endif
