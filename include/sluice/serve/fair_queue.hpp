// SPDX-License-Identifier: Apache-2.0
// FairQueue: the engine's places, shared among API keys by weighted fair queueing over tokens.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/api_keys.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/prometheus.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace sluice {

/// Holds generations back from the engine, so that a key with many requests delays the others' little. Of the waiting
/// keys, the one whose tokens, divided by its weight, are the fewest is next (start-time fair queueing, Goyal et al.,
/// SIGCOMM 1996; a key that comes back has no credit from before). Tokens are charged as they are counted, prompts when
/// they are sent to the engine: no answer's length need be known.
///
/// While another key has asked for something within the last minute, an eighth of the places, at least one, is left to
/// keys that have nothing in the engine and no more than their share: the first request of such a key finds a place at
/// once. One that comes after a longer quiet is sent beyond the places. Rejected: a reserve at all times, which one key
/// alone could never use; and none, with which a key's next request waits for another's answer to end.
///
/// Without keys, and with one key without a limit of its own, everything passes at once, and the engine's Admission has
/// the whole queue to order. Used on the application's thread.
class FairQueue {
 public:
  /// `places`: the engine's batch; 0: any number. `clock`: seconds.
  FairQueue(GenerationEngine& engine, std::function<double()> clock, int places)
      : engine_(&engine), clock_(std::move(clock)), places_(places) {}

  /// `account`: of the request's key; null: it has none. `among`: how many keys the server knows.
  void submit(GenerationId id, Generation generation, const std::shared_ptr<KeyAccount>& account, std::size_t among);
  /// The generation is over for the application, whether it was held back or not; others may follow.
  void cancel(GenerationId id);
  /// The engine has ended, refused or failed it. Has no effect on one that is gone.
  void left(GenerationId id);
  /// Tokens of an answer are charged to their key.
  void charge(GenerationId id, std::int64_t tokens);
  /// Generations that are held back.
  [[nodiscard]] std::int64_t held() const { return held_; }

  /// Why a key may hold no more.
  struct Full {
    bool own_limit = false; ///< its answers wait for its own limit of answers at once, not for other keys
    std::int64_t held = 0;  ///< answers that wait for the same reason: the key's own, or those of all keys
    double retry_s = 1;     ///< until what it holds will have gone to the engine, at its recent pace; at least 1
  };
  /// Returns why a request of this key must be refused, if at most `most` answers may wait. What waits for the key's
  /// own limit is counted by itself, and delays nobody else. Of the rest, `most` together, a key that holds less than
  /// its part, `most` over `among`, is not refused: no key can lock another out. So at most twice `most` wait for
  /// others.
  [[nodiscard]] std::optional<Full> full(const std::shared_ptr<KeyAccount>& account, std::size_t among,
                                         std::int64_t most) const;

  void write(PrometheusWriter& to) const;

 private:
  struct Held {
    GenerationId id{};
    Generation generation;
    double since = 0;
  };
  struct Key {
    std::shared_ptr<KeyAccount> account;
    std::deque<Held> held;
    std::int64_t running = 0; ///< in the engine
    double start = 0;         ///< tokens over its weight, of all that it was charged, since it was last idle at least
                              ///< those of the key that was next then
    std::int64_t tokens = 0;  ///< charged since the server started
    double active = 0;        ///< when it last asked for something, or had something that ended
    std::deque<double> gone;  ///< when its latest answers left the engine; before them, when it was last idle
  };

  static constexpr double quiet_s = 60;       ///< a key is quiet after so many seconds without a request
  static constexpr std::size_t paced_by = 32; ///< answers of a key that tell its pace

  [[nodiscard]] static bool at_own_limit(const Key& key) {
    return key.account->concurrent() > 0 && key.running >= key.account->concurrent();
  }
  [[nodiscard]] bool others_are_active(const Key& key) const;
  [[nodiscard]] bool may_send(const Key& key) const;
  void charge(Key& key, std::int64_t tokens);
  /// Sends what may be sent.
  void pass_on();

  GenerationEngine* engine_;
  std::function<double()> clock_;
  int places_;
  std::map<std::string, Key> keys_;                  ///< by the key's name
  std::unordered_map<GenerationId, std::string> of_; ///< the key of each generation that is held or in the engine
  std::int64_t running_ = 0, held_ = 0;
  std::size_t among_ = 0;
  double now_ = 0; ///< virtual time: the start of the key that was next last
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/fair_queue.inl.hpp"
#endif
