// SPDX-License-Identifier: Apache-2.0
// Generation, GenerationEngine: the interface between a server and an engine of any type.
#pragma once

#include "sluice/model/decoder/sampler.hpp"
#include "sluice/serve/openai_reply.hpp"
#include "sluice/serve/prometheus.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Identifies a generation; never reused.
enum class GenerationId : std::uint64_t {};

/// One answer to generate.
struct Generation {
  std::vector<std::int32_t> prompt;
  std::int64_t max_tokens = 16; ///< a limit: an end token may end the answer earlier
  bool ignore_end = false;
  Sampling sampling;
  std::uint64_t sequence = 0; ///< seeds `sample` together with `seed`
  int logprobs = -1;          ///< log-probabilities of each token and of this many alternatives; below 0: none
  std::shared_ptr<const LogitRules> rules; ///< null: none
  bool scores_prompt = false; ///< the first `tokens` event has log-probabilities of the prompt's tokens too
  Slo slo;                    ///< as the client requested it
  SloLead lead;               ///< how much earlier the engine must be, because delivery takes time
  Seconds waited{0};          ///< before the engine got it, held back for others: part of its TTFT
  int priority = 0;
  SessionHints hints;
  std::uint64_t salt = 0;    ///< its KV is found by generations of the same salt only
  std::uint32_t session = 0; ///< as in a RequestSpec
  std::int32_t turn = 0;     ///< the same
  Tokens on_host{0};         ///< of the prompt, with KV in the engine's host tier; the engine's loop sets it
};

/// Returns the client's SLO as it is when the engine gets the generation: the first token no longer has the time that
/// it has waited. All of it may be gone.
[[nodiscard]] inline Slo slo_left(const Generation& generation) {
  return {std::max(generation.slo.ttft - generation.waited, Seconds{0}), generation.slo.tbt};
}

/// Returns the engine's request for a generation that arrived at `arrival`. `slo`: the SLO that the engine must keep.
[[nodiscard]] inline RequestSpec spec_of(const Generation& generation, Seconds arrival, const Slo& slo) {
  return {.arrival = arrival,
          .prompt = Tokens{static_cast<std::int64_t>(generation.prompt.size())},
          .output = Tokens{generation.max_tokens},
          .slo = slo,
          .output_is_bound = true,
          .priority = generation.priority,
          .session = generation.session,
          .turn = generation.turn,
          .hints = generation.hints};
}

/// A token and its log-probability.
struct TokenChance {
  std::int32_t token = 0;
  double logprob = 0;
};

/// A change in a generation's state. Each generation gets one `accepted` or `refused` event. After `accepted` it gets
/// `tokens` events as tokens are released, and then one `ended` or `failed`, unless it is cancelled. It gets `refused`
/// instead of any `tokens` if the engine's Admission gives it up while it waits.
struct GenerationEvent {
  enum class Kind : std::uint8_t { accepted, refused, tokens, ended, failed };

  GenerationId id{};
  Kind kind = Kind::tokens;
  std::vector<std::int32_t> tokens;              ///< of `tokens`: at least one
  std::vector<std::vector<TokenChance>> chances; ///< for each token if requested: its own log-probability first, then
                                                 ///< those of the likeliest tokens
  /// In the first `tokens` event, if requested: the same as `chances` for each token of the prompt except the first.
  std::vector<std::vector<TokenChance>> prompt_chances;
  FinishReason reason = FinishReason::stop; ///< in `ended`
  ApiError error;                           ///< in `refused` and `failed`
  double retry_after_s = 0;                 ///< in `refused`: above 0 if waiting helps
  std::string forecast;                     ///< in `accepted`: the gate's prediction, for a header; may be empty
  std::optional<std::int64_t> cached{};     ///< in the first `tokens`: tokens of the prompt whose KV was loaded from a
                                            ///< tier; none: there is no tier
  double hold_s = 0; ///< how long the listener must hold the event, which was sent before it is due; below 0: it is
                     ///< late
  double due_s = -1; ///< when it was due, on the application's clock; set by Pacer; below 0: it was due when it arrived
};

/// Called on the engine's thread, once per step with all its events. Must not block.
class GenerationListener {
 public:
  GenerationListener() = default;
  GenerationListener(const GenerationListener&) = delete;
  GenerationListener& operator=(const GenerationListener&) = delete;
  virtual ~GenerationListener() = default;

  virtual void happened(std::vector<GenerationEvent> events) = 0;
  /// Reports that the engine's run has failed, so that it generates nothing more; `why` is one line.
  virtual void stopped(const std::string& /*why*/) {}
};

/// An engine that runs on its own thread. All functions may be called from any thread, and return at once.
///
/// An abstract class costs one virtual call per request; a program that offers many systems compiles its transport and
/// API only once.
class GenerationEngine {
 public:
  GenerationEngine() = default;
  GenerationEngine(const GenerationEngine&) = delete;
  GenerationEngine& operator=(const GenerationEngine&) = delete;
  virtual ~GenerationEngine() = default;

  virtual void submit(GenerationId id, Generation generation) = 0;
  /// Ends the generation in any state; its blocks are free at the next step. Events that were already sent may still
  /// arrive. Has no effect on a generation that has ended.
  virtual void cancel(GenerationId id) = 0;

  /// Returns whether the weights are loaded, so that the engine considers submissions at once.
  [[nodiscard]] virtual bool ready() const = 0;
  /// Writes the engine's metrics to `to`, which adds its common labels.
  virtual void metrics(PrometheusWriter& to) = 0;
  /// Returns the live page's data as a JSON object.
  [[nodiscard]] virtual std::string live() = 0;
};

} // namespace sluice
