// SPDX-License-Identifier: Apache-2.0
// TokenSource: supplies the tokens of an engine's requests, which a machine computes or which are drawn at random.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/random.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/policy/caching/caching.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/world/host_tier/host_tier_counts.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace sluice {

/// All functions are called on the engine's thread.
class TokenSource {
 public:
  TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;
  virtual ~TokenSource() = default;

  /// Begins to look up the prompt of a generation that has arrived in the tiers below the device, of which a thread
  /// reads the disk. Returns a number for `find` or `leave_search`, one of which must follow; nothing if there is no
  /// tier. `would_load(found)`: of what these tiers have, how many of the oldest tokens the engine wants in the upper
  /// one; records behind these are not read.
  [[nodiscard]] virtual std::optional<std::uint64_t>
  seek(const Generation& /*generation*/, const std::function<Tokens(const FoundPrefix&)>& /*would_load*/) {
    return std::nullopt;
  }
  /// Returns whether nothing is being read for this search any more, and nothing that it waits for is on its way to the
  /// upper tier. Once that has arrived, the disk is looked at behind it, and `would_load` asked as by `seek`.
  [[nodiscard]] virtual bool sought(std::uint64_t /*search*/,
                                    const std::function<Tokens(const FoundPrefix&)>& /*would_load*/) {
    return true;
  }
  /// Ends a search, and waits for it if it is not over. Returns how many tokens of the prompt, which is about to be
  /// submitted, have KV in the tier above the disk, in whole blocks. They are kept until the next call, or if `enter`
  /// follows for this generation, until it starts. So a generation that is not submitted at once is looked up again.
  [[nodiscard]] virtual Tokens find(std::uint64_t /*search*/) { return Tokens{0}; }
  /// Ends the search for a generation that is not submitted.
  virtual void leave_search(std::uint64_t /*search*/) {}
  /// Returns what that tier has done so far; nothing if there is none.
  [[nodiscard]] virtual std::optional<HostTierCounts> tier() const { return std::nullopt; }
  /// Reports that the engine has accepted a generation as request `id`.
  virtual void enter(RequestId id, const Generation& generation) = 0;
  /// Returns the tokens generated so far: at least `count`, the number that the engine has counted.
  [[nodiscard]] virtual std::span<const std::int32_t> generated(RequestId id, std::size_t count) = 0;
  /// Returns for each of these tokens, if requested: its own log-probability, then those of the likeliest alternatives.
  [[nodiscard]] virtual std::span<const std::vector<TokenChance>> chances(RequestId id) = 0;
  /// Returns the same for the tokens of the prompt except the first, if `Generation::scores_prompt` is set. Complete
  /// when the first token has been generated.
  [[nodiscard]] virtual std::span<const std::vector<TokenChance>> prompt_chances(RequestId /*id*/) { return {}; }
  /// Returns whether the request ended with an end token, and not at its length limit.
  [[nodiscard]] virtual bool stopped(RequestId id) = 0;
  virtual void forget(RequestId id) = 0;
};

// DrawnTokens: random tokens for a simulated system; equal seeds give equal tokens.

/// Draws tokens from `vocabulary`, seeded by a generation's seed and sequence. Every answer has its maximum length, and
/// tokens have no log-probabilities.
class DrawnTokens final : public TokenSource {
 public:
  explicit DrawnTokens(std::vector<std::int32_t> vocabulary);

  void enter(RequestId id, const Generation& generation) override;
  [[nodiscard]] std::span<const std::int32_t> generated(RequestId id, std::size_t count) override;
  [[nodiscard]] std::span<const std::vector<TokenChance>> chances(RequestId /*id*/) override { return {}; }
  [[nodiscard]] bool stopped(RequestId /*id*/) override { return false; }
  void forget(RequestId id) override { requests_.erase(index(id)); }

 private:
  struct Drawn {
    Random random;
    std::vector<std::int32_t> tokens;
  };

  std::vector<std::int32_t> vocabulary_;
  std::unordered_map<std::uint32_t, Drawn> requests_;
};

/// Returns tokens that look like words: frequent lower-case letters, with a space after about every fourth.
[[nodiscard]] std::vector<std::int32_t> letters_to_draw(const Tokenizer& tokenizer);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/token_source.inl.hpp"
#endif
