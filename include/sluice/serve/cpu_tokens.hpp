// SPDX-License-Identifier: Apache-2.0
// CpuTokens: tokens that a machine has computed, kept until delivery releases them.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/token_source.hpp"
#include "sluice/world/real/token_world.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace sluice {

/// Setup: construct this object, construct the machine with its `listener`, then `attach` the machine.
class CpuTokens final : public TokenSource {
 public:
  [[nodiscard]] TokenListener listener();
  void attach(std::shared_ptr<TokenWorld> machine);

  [[nodiscard]] std::optional<std::uint64_t> seek(const Generation& generation, const WouldLoad& would_load) override;
  [[nodiscard]] bool sought(std::uint64_t search, const WouldLoad& would_load) override {
    return machine_->sought(search, would_load);
  }
  [[nodiscard]] Tokens find(std::uint64_t search) override { return machine_->find(search); }
  void leave_search(std::uint64_t search) override { machine_->leave_search(search); }
  [[nodiscard]] std::optional<HostTierCounts> tier() const override;
  void enter(RequestId id, const Generation& generation) override;
  [[nodiscard]] std::span<const std::int32_t> generated(RequestId id, std::size_t /*count*/) override;
  [[nodiscard]] std::span<const std::vector<TokenChance>> chances(RequestId id) override;
  [[nodiscard]] std::span<const std::vector<TokenChance>> prompt_chances(RequestId id) override;
  [[nodiscard]] bool stopped(RequestId id) override;
  void forget(RequestId id) override;

 private:
  struct Kept {
    std::vector<std::int32_t> tokens;
    std::vector<std::vector<TokenChance>> chances;
    std::vector<std::vector<TokenChance>> prompt;
    std::vector<float> logits; ///< of the next token, if the request wants log-probabilities
    int wanted = -1;
    bool ends = true;
  };

  [[nodiscard]] bool wants_chances(RequestId id) const;
  void choosing(RequestId id, std::span<const float> logits);
  void chosen(RequestId id, std::int32_t token);

  std::shared_ptr<TokenWorld> machine_;
  std::vector<int> end_tokens_;
  std::unordered_map<std::uint32_t, Kept> requests_;
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/cpu_tokens.inl.hpp"
#endif
