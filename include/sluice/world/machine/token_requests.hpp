// SPDX-License-Identifier: Apache-2.0
// TokenRequests: the tokens of a machine's requests; the engine plans only with their lengths.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/sampler.hpp"
#include "sluice/policy/caching/caching.hpp"
#include "sluice/world/backend.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Answers how many tokens a request wants on the host, the oldest first, if it finds `below` there and `lower` on the
/// disk, which would take `lower_time`.
using WouldLoad = std::function<Tokens(const FoundPrefix&)>;

/// A request's contents, apart from its lengths.
struct TokenRequest {
  std::vector<std::int32_t> tokens; ///< the prompt; generated tokens are appended
  Sampling sampling{};
  std::uint64_t sequence = 0;                ///< seeds the random numbers that sample its tokens
  bool ends = true;                          ///< at any of the decoder's end tokens, before its length runs out
  std::shared_ptr<const LogitRules> rules{}; ///< for a DecoderRunner; null: none
  std::uint64_t salt = 0;                    ///< its KV is found by requests of the same salt only (HostTier)
  bool scores = false;    ///< `TokenListener::scored` is called for each token of the prompt but the first
  std::size_t prompt = 0; ///< number of prompt tokens in `tokens`; `TokenRequests::enter` sets it
  std::size_t scored = 1; ///< the next token of the prompt to be scored
  std::vector<RecordKey> keys{}; ///< of its first full blocks, as far as `TokenRequests::keys` has made them
};

/// Callbacks for tokens as they are sampled, before Delivery sees them: for tools that look into the decoder. Users get
/// their tokens when Delivery releases them (report/observer/releases.hpp). The thread that steps the engine calls
/// these.
struct TokenListener {
  std::function<void(RequestId, std::int32_t token)> token;
  /// The logits that a token was sampled from, and its position in the sequence.
  std::function<void(RequestId, std::int64_t position, std::span<const float>)> logits;
  /// The logits that precede a token of the prompt, in the prompt's order, each once: how likely the model finds it.
  std::function<void(RequestId, std::int32_t token, std::span<const float>)> scored;
  /// Whether to call `logits` for a request: a GPU's logits are fetched over the link, a batch's all at once. Empty:
  /// for every request.
  std::function<bool(RequestId)> wants_logits;
};

class TokenRequests {
 public:
  explicit TokenRequests(TokenListener listener) : listener_(std::move(listener)) {}

  /// Call before the first iteration in which the engine may run the request.
  void enter(RequestId id, TokenRequest request) {
    request.prompt = request.tokens.size();
    requests_[index(id)] = std::move(request);
  }
  void forget(RequestId id) { requests_.erase(index(id)); }
  /// The prompt, and the tokens generated so far.
  [[nodiscard]] std::span<const std::int32_t> tokens(RequestId id) const { return requests_.at(index(id)).tokens; }
  /// The request; null if it is unknown, or forgotten.
  [[nodiscard]] const TokenRequest* find(RequestId id) const {
    const auto found = requests_.find(index(id));
    return found == requests_.end() ? nullptr : &found->second;
  }
  /// The keys of the request's first full blocks, `count` or as many as its tokens fill; none if it is unknown.
  [[nodiscard]] std::span<const RecordKey> keys(RequestId id, std::size_t count, std::int64_t block_tokens) {
    const auto found = requests_.find(index(id));
    if (found == requests_.end()) return {};
    TokenRequest& request = found->second;
    if (request.keys.size() < count) extend_prefix_keys(request.tokens, block_tokens, request.salt, request.keys);
    return std::span<const RecordKey>(request.keys).first(std::min(count, request.keys.size()));
  }
  /// The generated tokens from number `first` on, `count` of them.
  [[nodiscard]] std::span<const std::int32_t> generated(RequestId id, Tokens first, Tokens count) const {
    const TokenRequest& request = requests_.at(index(id));
    return std::span{request.tokens}.subspan(request.prompt + static_cast<std::size_t>(first.count()),
                                             static_cast<std::size_t>(count.count()));
  }

  /// Collects the samples of the requests that have nothing left to compute. The caller holds the schedule's mutex: a
  /// lane may lose a request meanwhile.
  void collect_samples(MachineCore& core) {
    rows_.clear();
    samplers_.clear();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      if (core.sequence(scheduled).lost || !scheduled.samples) continue;
      TokenRequest& request = requests_.at(index(scheduled.row->id));
      if (request.tokens.size() == request.prompt) // for everything it may generate, so that no later step allocates
        request.tokens.reserve(
            request.prompt + static_cast<std::size_t>(
                                 std::min(scheduled.row->output(not_a_policy), core.setup.limits.max_context).count()));
      rows_.push_back({scheduled.first_row + static_cast<int>(scheduled.fresh) - 1, request.sampling, request.sequence,
                       static_cast<std::int64_t>(request.tokens.size()), request.rules.get(), request.tokens,
                       request.prompt});
      samplers_.push_back(&scheduled);
    }
  }
  [[nodiscard]] std::span<const SampleRow> samples() const { return rows_; }
  /// All layers have computed the batch. The caller holds the schedule's mutex.
  void computed(MachineCore& core) {
    scoring_.clear();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      KvSequence& sequence = core.sequence(scheduled);
      if (sequence.lost) continue;
      sequence.computed = scheduled.total();
      if (scheduled.fresh > 0) collect_scores(scheduled);
    }
  }

  /// Takes the sampled tokens, and reports the requests that end with theirs.
  void take(ModelRunner& runner, std::vector<RequestOutcome>& outcomes) {
    const std::span<const std::int32_t> chosen = runner.tokens();
    const std::vector<int>& ends = runner.config().end_tokens;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const ScheduledRequest& scheduled = *samplers_[i];
      const RequestId id = scheduled.row->id;
      const std::int32_t token = chosen[i];
      if (token < 0) {
        outcomes.push_back({scheduled.slot, true,
                            "its logits are not all finite: the model's weights, or too large for its elements"});
        continue;
      }
      TokenRequest& request = requests_.at(index(id));
      request.tokens.push_back(token);
      if (listener_.logits && (!listener_.wants_logits || listener_.wants_logits(id)))
        listener_.logits(id, rows_[i].position, runner.logits(i));
      if (listener_.token) listener_.token(id, token);
      if (request.ends && std::find(ends.begin(), ends.end(), token) != ends.end())
        outcomes.push_back({scheduled.slot, false, {}});
    }
  }

  /// Computes the logits of the prompts that are scored, `most` rows at a time. Call it after `take`, whose logits it
  /// replaces.
  void score(ModelRunner& runner, std::size_t most) {
    for (std::size_t first = 0; first < scoring_.size(); first += most) {
      const std::size_t count = std::min(most, scoring_.size() - first);
      rows_.clear();
      for (std::size_t i = first; i < first + count; ++i) rows_.push_back({scoring_[i].row, {}, 0, 0});
      runner.launch_samples(rows_);
      (void)runner.tokens(); // waits for them
      for (std::size_t i = 0; i < count; ++i) {
        const Scored& one = scoring_[first + i];
        if (listener_.scored) listener_.scored(one.id, one.token, runner.logits(i));
      }
    }
  }

 private:
  struct Scored {
    RequestId id{};
    std::int32_t token = 0;
    int row = 0; ///< whose logits precede the token
  };

  /// A prompt that is computed again after a preemption has been scored as far as it was computed before.
  void collect_scores(const ScheduledRequest& scheduled) {
    TokenRequest& request = requests_.at(index(scheduled.row->id));
    if (!request.scores) return;
    const std::int64_t end = std::min(scheduled.total(), static_cast<std::int64_t>(request.prompt) - 1);
    for (std::int64_t at = scheduled.held; at < end; ++at) {
      const auto next = static_cast<std::size_t>(at) + 1;
      if (next != request.scored) continue;
      scoring_.push_back(
          {scheduled.row->id, request.tokens[next], scheduled.first_row + static_cast<int>(at - scheduled.held)});
      ++request.scored;
    }
  }

  TokenListener listener_;
  std::unordered_map<std::uint32_t, TokenRequest> requests_;
  std::vector<SampleRow> rows_;                   ///< of the iteration
  std::vector<Scored> scoring_;                   ///< of the iteration
  std::vector<const ScheduledRequest*> samplers_; ///< their requests
};

} // namespace sluice
