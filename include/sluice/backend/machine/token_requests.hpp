// SPDX-License-Identifier: Apache-2.0
// TokenRequests: the tokens of the requests that a machine runs; an engine plans with their lengths alone.
#pragma once

#include "sluice/backend/backend.hpp"
#include "sluice/backend/machine/machine_core.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"
#include "sluice/decoder/model_runner.hpp"
#include "sluice/decoder/sampler.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// What a request is made of apart from its lengths.
struct TokenRequest {
  std::vector<std::int32_t> tokens; ///< the prompt; generated tokens are appended
  Sampling sampling{};
  std::uint64_t sequence = 0; ///< names the random numbers that its samples are drawn by
  bool ends = true;           ///< at any of the decoder's end tokens, before its length runs out
  std::size_t prompt = 0;     ///< how many of `tokens`: `TokenRequests::enter` sets it
};

/// Callbacks for tokens as they are sampled, before Delivery has seen them: for what looks into the decoder. Users get
/// theirs when Delivery releases them (observer/releases.hpp). The thread that steps the engine calls these.
struct TokenListener {
  std::function<void(RequestId, std::int32_t token)> token;
  /// The logits that a token was chosen from, and its position in the sequence.
  std::function<void(RequestId, std::int64_t position, std::span<const float>)> logits;
  /// Whether `logits` is to be called for a request: a GPU's are fetched over the link, those of a batch at once.
  /// Empty: for every request.
  std::function<bool(RequestId)> wants_logits;
};

class TokenRequests {
 public:
  explicit TokenRequests(TokenListener listener) : listener_(std::move(listener)) {}

  /// Before the first iteration in which the engine may run the request.
  void enter(RequestId id, TokenRequest request) {
    request.prompt = request.tokens.size();
    requests_[index(id)] = std::move(request);
  }
  void forget(RequestId id) { requests_.erase(index(id)); }
  /// The prompt, and the tokens generated so far.
  [[nodiscard]] std::span<const std::int32_t> tokens(RequestId id) const { return requests_.at(index(id)).tokens; }
  /// Of the tokens that a request has generated, `count` from `first` on.
  [[nodiscard]] std::span<const std::int32_t> generated(RequestId id, Tokens first, Tokens count) const {
    const TokenRequest& request = requests_.at(index(id));
    return std::span{request.tokens}.subspan(request.prompt + static_cast<std::size_t>(first.count()),
                                             static_cast<std::size_t>(count.count()));
  }

  /// Launches the choice of the next token of each request that has nothing left to compute. The schedule's mutex is
  /// held: a lane may lose a request meanwhile.
  void collect_samples(MachineCore& core) {
    rows_.clear();
    samplers_.clear();
    for (const Part& part : core.batch.parts()) {
      KvSequence& sequence = core.sequence(part);
      if (sequence.lost) continue;
      sequence.computed = part.total();
      if (!part.samples) continue;
      TokenRequest& request = requests_.at(index(part.row->id));
      if (request.tokens.size() == request.prompt) // for all that it may generate, so that no step allocates later
        request.tokens.reserve(
            request.prompt +
            static_cast<std::size_t>(std::min(part.row->spec.output, core.setup.limits.max_context).count()));
      rows_.push_back({part.first_row + static_cast<int>(part.fresh) - 1, request.sampling, request.sequence,
                       static_cast<std::int64_t>(request.tokens.size())});
      samplers_.push_back(&part);
    }
  }
  [[nodiscard]] std::span<const SampleRow> samples() const { return rows_; }

  /// Takes the tokens that were chosen, and tells which requests end with theirs.
  void take(ModelRunner& runner, std::vector<RequestOutcome>& outcomes) {
    const std::span<const std::int32_t> chosen = runner.tokens();
    const std::vector<int>& ends = runner.config().end_tokens;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Part& part = *samplers_[i];
      const RequestId id = part.row->id;
      const std::int32_t token = chosen[i];
      if (token < 0) {
        outcomes.push_back(
            {part.slot, true, "its logits are not all finite: the model's weights, or too large for its elements"});
        continue;
      }
      TokenRequest& request = requests_.at(index(id));
      request.tokens.push_back(token);
      if (listener_.logits && (!listener_.wants_logits || listener_.wants_logits(id)))
        listener_.logits(id, rows_[i].position, runner.logits(i));
      if (listener_.token) listener_.token(id, token);
      if (request.ends && std::find(ends.begin(), ends.end(), token) != ends.end())
        outcomes.push_back({part.slot, false, {}});
    }
  }

 private:
  TokenListener listener_;
  std::unordered_map<std::uint32_t, TokenRequest> requests_;
  std::vector<SampleRow> rows_;       ///< of the iteration
  std::vector<const Part*> samplers_; ///< their parts
};

} // namespace sluice
