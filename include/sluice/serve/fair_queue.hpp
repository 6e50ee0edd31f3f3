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
#include <string>
#include <unordered_map>

namespace sluice {

/// Holds generations back from the engine, so that a key with many requests delays the others' little. Of the waiting
/// keys, the one whose tokens, divided by its weight, are the fewest is next (start-time fair queueing, Goyal et al.,
/// SIGCOMM 1996; a key that comes back has no credit from before). Tokens are charged as they are counted, prompts when
/// they are sent to the engine: no answer's length need be known.
///
/// An eighth of the places, at least one, is left to keys that have nothing in the engine and no more than their share:
/// the first request of a quiet key joins at once. Rejected: holding back only what exceeds all places, after which it
/// waits for an answer to end.
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
  };

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
