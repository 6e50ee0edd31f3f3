// SPDX-License-Identifier: Apache-2.0
// TokenSource: where the tokens of an engine's requests come from, a machine that computes them or a generator.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/serve/generation.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Every call is made on the engine's thread.
class TokenSource {
 public:
  TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;
  virtual ~TokenSource() = default;

  /// The engine has accepted a generation as request `id`.
  virtual void enter(RequestId id, const Generation& generation) = 0;
  /// The tokens generated so far, the first `count` of them at least: what the engine has counted is there.
  [[nodiscard]] virtual std::span<const std::int32_t> generated(RequestId id, std::size_t count) = 0;
  /// Of each of them, where it was asked for: its own chance, then the likeliest.
  [[nodiscard]] virtual std::span<const std::vector<TokenChance>> chances(RequestId id) = 0;
  /// Whether an end token ended it, and not its bound.
  [[nodiscard]] virtual bool stopped(RequestId id) = 0;
  virtual void forget(RequestId id) = 0;
};

} // namespace sluice
