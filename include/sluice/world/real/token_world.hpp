// SPDX-License-Identifier: Apache-2.0
// TokenWorld: a machine, on any device, for programs that give it tokens and get tokens back.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/host_tier/host_tier_counts.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/block_pool.hpp"
#include "sluice/world/machine/token_requests.hpp"
#include "sluice/world/real/world.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

/// An abstract class, so that a program that chooses its device at run time compiles without that device's library.
/// Machine (world/machine/machine.hpp) implements it.
class TokenWorld : public BackendWorld {
 public:
  /// Looks up a request that has arrived in the host tier and on the disk, which a thread reads. Returns a number for
  /// `find` or `leave_search`, one of which must follow. If the disk has more than the host, `would_load(found)` says
  /// how many of the oldest tokens the request wants on the host, and records behind these are not read. Empty: it
  /// wants all. If `would_load` throws, there is no search.
  [[nodiscard]] virtual std::uint64_t seek(const TokenRequest& request, const WouldLoad& would_load = {}) = 0;
  /// Whether the search is over: nothing is being read for it, and no KV that it waits for is on its way to the host
  /// tier. Once such KV has arrived, the disk is looked at behind it, and `would_load` asked as by `seek`; if it
  /// throws, the search must still be ended.
  [[nodiscard]] virtual bool sought(std::uint64_t search, const WouldLoad& would_load = {}) = 0;
  /// Ends a search, and waits for it if it is not over: how many of the oldest tokens of the request, which is about to
  /// be submitted, have KV in the host tier. This is the number for `BasicEngine::submit`. What was found is kept until
  /// the next call, or if `enter` follows for this request, until it starts. `would_load`: as for `sought`; if it
  /// throws, the search has ended.
  [[nodiscard]] virtual Tokens find(std::uint64_t search, const WouldLoad& would_load = {}) = 0;
  [[nodiscard]] Tokens find(const TokenRequest& request, const WouldLoad& would_load = {}) {
    return find(seek(request, would_load), would_load);
  }
  /// Ends the search for a request that is not submitted.
  virtual void leave_search(std::uint64_t search) = 0;
  /// Gives the machine a request's tokens; call it before the first iteration in which the engine may run the request.
  virtual void enter(RequestId id, TokenRequest request) = 0;
  /// The prompt, and the tokens generated so far.
  [[nodiscard]] virtual std::span<const std::int32_t> tokens(RequestId id) const = 0;
  /// The request's generated tokens from number `first` on, `count` of them; usually those that Delivery has released.
  /// Valid at least until the next iteration.
  [[nodiscard]] virtual std::span<const std::int32_t> generated(RequestId id, Tokens first, Tokens count) const = 0;
  virtual void forget(RequestId id) = 0;

  [[nodiscard]] virtual const ModelWeights& weights() const = 0;
  [[nodiscard]] virtual const DeviceMemory& device_memory() const = 0;
  [[nodiscard]] virtual CopyTotals moved() const = 0;
  /// For a GPU: whether layers were replayed as graphs.
  [[nodiscard]] virtual std::optional<GraphCounts> graphs() const = 0;
  [[nodiscard]] virtual LayerBlocks host_peak() const = 0;
  [[nodiscard]] virtual HostTierCounts host_tier() const = 0;
};

} // namespace sluice
