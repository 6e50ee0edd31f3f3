// SPDX-License-Identifier: Apache-2.0
// Generation, GenerationEngine: the interface between a server and an engine of any type.
#pragma once

#include "sluice/model/decoder/logit_rules.hpp"
#include "sluice/model/decoder/sampler.hpp"
#include "sluice/serve/completion.hpp"
#include "sluice/serve/openai_reply.hpp"
#include "sluice/serve/prometheus.hpp"
#include "sluice/serve/slo_lead.hpp"
#include "sluice/workload/request.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice {

/// Identifies a generation; never reused.
enum class GenerationId : std::uint64_t {};

/// One answer to generate.
struct Generation {
  std::vector<std::int32_t> prompt;
  std::int64_t max_tokens = 16; ///< a bound: an end token may end the answer earlier
  bool ignore_end = false;
  Sampling sampling;
  std::uint64_t sequence = 0; ///< seeds `sample`, together with the seed
  int logprobs = -1;          ///< log-probabilities of each token and this many alternatives; below 0: none
  std::shared_ptr<const LogitRules> rules; ///< null: none
  bool scores_prompt = false; ///< the first `tokens` event has log-probabilities of the prompt's tokens too
  Slo slo;                    ///< as the client asked
  SloLead lead;               ///< how much earlier the engine must be, because delivery takes that long
  int priority = 0;
};

/// The engine's request for a generation that arrived at `arrival`. `slo`: what the engine is to keep.
[[nodiscard]] inline RequestSpec spec_of(const Generation& generation, Seconds arrival, const Slo& slo) {
  return {.arrival = arrival,
          .prompt = Tokens{static_cast<std::int64_t>(generation.prompt.size())},
          .output = Tokens{generation.max_tokens},
          .slo = slo,
          .output_is_bound = true,
          .priority = generation.priority};
}

/// A token and its log-probability.
struct TokenChance {
  std::int32_t token = 0;
  double logprob = 0;
};

/// A change in a generation's state. Each has one `accepted` or `refused`; after `accepted`, `tokens` as they are
/// released, then one `ended` or `failed`, unless it is cancelled.
struct GenerationEvent {
  enum class Kind : std::uint8_t { accepted, refused, tokens, ended, failed };

  GenerationId id{};
  Kind kind = Kind::tokens;
  std::vector<std::int32_t> tokens;              ///< of `tokens`: at least one
  std::vector<std::vector<TokenChance>> chances; ///< for each token if requested: its own first, then the likeliest
  /// Of the first `tokens`, if requested: of each token of the prompt but the first, like `chances`.
  std::vector<std::vector<TokenChance>> prompt_chances;
  FinishReason reason = FinishReason::stop; ///< of `ended`
  ApiError error;                           ///< of `refused` and `failed`
  double retry_after_s = 0;                 ///< of `refused`: above 0 if waiting helps
  std::string forecast;                     ///< of `accepted`: the gate's prediction, for a header; may be empty
  double hold_s = 0; ///< how long the listener must hold the event, which comes before it is due; below 0: it is late
  double due_s = -1; ///< when it was due, on the application's clock, as Pacer notes it; below 0: when it came
};

/// Called on the engine's thread, once per step with all its events. Must not block.
class GenerationListener {
 public:
  GenerationListener() = default;
  GenerationListener(const GenerationListener&) = delete;
  GenerationListener& operator=(const GenerationListener&) = delete;
  virtual ~GenerationListener() = default;

  virtual void happened(std::vector<GenerationEvent> events) = 0;
  /// The engine's run has failed and generates nothing more; `why` is one line.
  virtual void stopped(const std::string& /*why*/) {}
};

/// An engine that runs on a thread of its own. All calls may come from any thread, and return at once.
///
/// An abstract class costs one virtual call per request, and a program that offers many systems compiles its transport
/// and API once.
class GenerationEngine {
 public:
  GenerationEngine() = default;
  GenerationEngine(const GenerationEngine&) = delete;
  GenerationEngine& operator=(const GenerationEngine&) = delete;
  virtual ~GenerationEngine() = default;

  virtual void submit(GenerationId id, Generation generation) = 0;
  /// Ends the generation in whatever state it is; its blocks are free at the next step. Events that were already on
  /// their way may still arrive. Has no effect on a generation that has ended.
  virtual void cancel(GenerationId id) = 0;

  /// Whether the weights are loaded, so that submissions are considered at once.
  [[nodiscard]] virtual bool ready() const = 0;
  /// Writes the engine's metrics to `to`, which adds its common labels.
  virtual void metrics(PrometheusWriter& to) = 0;
  /// The live page's data, a JSON object.
  [[nodiscard]] virtual std::string live() = 0;
};

} // namespace sluice
