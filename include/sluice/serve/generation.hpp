// SPDX-License-Identifier: Apache-2.0
// Generation, GenerationEngine: what a server asks of an engine, whatever its type, and what the engine tells of it.
#pragma once

#include "sluice/decoder/sampler.hpp"
#include "sluice/serve/completion.hpp"
#include "sluice/serve/openai_reply.hpp"
#include "sluice/serve/prometheus.hpp"
#include "sluice/workload/request.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Names a generation from its submission to its end; never used twice.
enum class GenerationId : std::uint64_t {};

/// One answer to be generated.
struct Generation {
  std::vector<std::int32_t> prompt;
  std::int64_t max_tokens = 16; ///< a bound: an end token ends it before
  bool ignore_end = false;
  Sampling sampling;
  std::uint64_t sequence = 0; ///< what `sample` draws by, beside the seed
  int logprobs = -1;          ///< of each token and of so many likeliest; below 0: none
  Slo slo;
  int priority = 0;
};

/// What an engine is asked for, at `arrival`.
[[nodiscard]] inline RequestSpec spec_of(const Generation& generation, Seconds arrival) {
  return {.arrival = arrival,
          .prompt = Tokens{static_cast<std::int64_t>(generation.prompt.size())},
          .output = Tokens{generation.max_tokens},
          .slo = generation.slo,
          .output_is_bound = true,
          .priority = generation.priority};
}

/// A token and the logarithm of its probability.
struct TokenChance {
  std::int32_t token = 0;
  double logprob = 0;
};

/// What has become of a generation. Of each: one `accepted` or `refused`; after `accepted`, `tokens` as they are
/// released, then one `ended` or `failed`, unless it was cancelled.
struct GenerationEvent {
  enum class Kind : std::uint8_t { accepted, refused, tokens, ended, failed };

  GenerationId id{};
  Kind kind = Kind::tokens;
  std::vector<std::int32_t> tokens; ///< of `tokens`: at least one
  std::vector<std::vector<TokenChance>>
      chances;                              ///< beside them where asked for: the token's own first, then the likeliest
  FinishReason reason = FinishReason::stop; ///< of `ended`
  ApiError error;                           ///< of `refused` and `failed`
  double retry_after_s = 0;                 ///< of `refused`: above 0 where waiting helps
  std::string forecast;                     ///< of `accepted`: what the gate predicts, for a header; may be empty
  double hold_s = 0; ///< from this call on: how long the event is to be held, for it is told before its time
};

/// Hears of generations, on the engine's thread, all that a step brought in one call. Must not block.
class GenerationListener {
 public:
  GenerationListener() = default;
  GenerationListener(const GenerationListener&) = delete;
  GenerationListener& operator=(const GenerationListener&) = delete;
  virtual ~GenerationListener() = default;

  virtual void happened(std::vector<GenerationEvent> events) = 0;
  /// The engine's run has ended by a mistake, which `why` says in one line: nothing will be generated any more.
  virtual void stopped(const std::string& /*why*/) {}
};

/// An engine that runs on a thread of its own. Every call may come from any thread, and returns at once.
///
/// An abstract class: one virtual call a request, and a server's transport and messages are compiled once for all
/// systems that a program offers.
class GenerationEngine {
 public:
  GenerationEngine() = default;
  GenerationEngine(const GenerationEngine&) = delete;
  GenerationEngine& operator=(const GenerationEngine&) = delete;
  virtual ~GenerationEngine() = default;

  virtual void submit(GenerationId id, Generation generation) = 0;
  /// Ends the generation wherever it is; its blocks are free with the next step. Nothing is told of it from then on,
  /// but for what was on its way. Cancelling what has ended changes nothing.
  virtual void cancel(GenerationId id) = 0;

  /// Whether weights are loaded and a submission would be considered at once.
  [[nodiscard]] virtual bool ready() const = 0;
  /// What the engine counts, with the labels that `to` gives all metrics.
  virtual void metrics(PrometheusWriter& to) = 0;
  /// A JSON object: what the live page shows.
  [[nodiscard]] virtual std::string live() = 0;
};

} // namespace sluice
