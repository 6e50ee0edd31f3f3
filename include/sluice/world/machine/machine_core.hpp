// SPDX-License-Identifier: Apache-2.0
// MachineCore: the state of a machine's two memories and of the iteration under way.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/world/host_tier/host_tier.hpp"
#include "sluice/world/machine/kv_sequences.hpp"
#include "sluice/world/machine/kv_store.hpp"
#include "sluice/world/machine/link_schedule.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/machine/released_blocks.hpp"
#include "sluice/world/machine/weight_store.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

// Batch: what an iteration computes: its scheduled requests, and the rows of their tokens.

/// Where the plan in force wants a layer block.
enum class KvPlace : std::uint8_t { device, host, nowhere };

/// Where the plan in force wants a layer block. `head`: the number of oldest blocks that the sets of the row's holding
/// describe.
[[nodiscard]] inline KvPlace kv_place(const RequestRow& row, std::int64_t head, int layer, std::int64_t block) {
  if (block >= head) return KvPlace::device;
  return row.holding.host.contains(layer)      ? KvPlace::host
         : row.holding.nowhere.contains(layer) ? KvPlace::nowhere
                                               : KvPlace::device;
}

/// What an iteration computes for one scheduled request.
struct ScheduledRequest {
  Slot slot{};
  const RequestRow* row = nullptr;
  const KvReach* reach = nullptr;
  std::int64_t held = 0;    ///< tokens that have KV
  std::int64_t fresh = 0;   ///< new tokens
  std::int64_t head = 0;    ///< oldest blocks, which the sets of its holding describe
  std::int64_t blocks = 0;  ///< after this iteration
  std::int64_t rebuilt = 0; ///< oldest tokens that pass layers again
  LayerSet made;            ///< layers that compute K and V of these tokens, which are nowhere
  LayerSet passed;          ///< layers that these tokens pass completely, for the sake of later layers
  LayerSet restored;        ///< among those layers, the ones that start from hidden states kept on the host
  int first_row = 0, rebuilt_row = 0;
  bool samples = false;
  bool whole = false;  ///< was preempted or attended on the host, and returns whole before the first layer
  bool hosted = false; ///< the host attends its one new token, and all of its KV is and stays there

  [[nodiscard]] std::int64_t total() const { return held + fresh; }
  /// Whether the layer computes with the tokens that pass again.
  [[nodiscard]] bool rebuilds(int layer) const { return made.contains(layer) || passed.contains(layer); }
  /// Whether the layer reads all of the request's KV on the device.
  [[nodiscard]] bool uses(int layer) const { return (fresh > 0 && !hosted) || rebuilds(layer); }
  void rebuild_nothing() {
    rebuilt = 0;
    made = passed = restored = {};
  }
  /// The first block that the layer reads or writes.
  [[nodiscard]] std::int64_t first_block(int layer) const { return reach->first(layer, held); }
  /// The first that a later token reads: those before leave with the layer's end.
  [[nodiscard]] std::int64_t first_kept(int layer) const { return reach->first(layer, total()); }
  [[nodiscard]] KvPlace place(int layer, std::int64_t block) const {
    return block < first_kept(layer) ? KvPlace::nowhere : kv_place(*row, head, layer, block);
  }
};

/// An iteration's scheduled requests, and how their tokens lie in the rows of the model's activations: first all new
/// tokens, then the tokens that pass again, those that stop latest first. A layer computes the rows up to the last one
/// it needs. Rows in between that it does not need are computed for nothing, and harm nothing: they have stopped, or
/// start again at a later layer from hidden states of the host. (Such rows occur only when prefixes are restored at
/// different layers; prefixes that all pass from the first layer on leave none.)
class Batch {
 public:
  [[nodiscard]] std::span<const ScheduledRequest> requests() const { return requests_; }
  [[nodiscard]] std::size_t size() const { return requests_.size(); }
  [[nodiscard]] const ScheduledRequest& operator[](std::size_t i) const { return requests_[i]; }
  [[nodiscard]] std::span<const std::int32_t> tokens() const { return tokens_; }
  [[nodiscard]] std::span<const std::int32_t> positions() const { return positions_; }

  void clear() { requests_.clear(); }
  void add(const ScheduledRequest& scheduled) { requests_.push_back(scheduled); }

  /// Lays out the rows. `tokens_of(scheduled)`: the sequence's tokens. `refuse(scheduled)`: the buffers, which have
  /// room for `most_rebuilt` rows of tokens that pass again, have none for this request.
  template <class TokensOf, class Refuse>
  void lay_out_rows(std::int64_t most_rebuilt, const TokensOf& tokens_of, const Refuse& refuse) {
    std::int64_t again = 0;
    for (ScheduledRequest& scheduled : requests_) {
      if (again + scheduled.rebuilt > most_rebuilt) {
        refuse(scheduled);
        scheduled.rebuild_nothing();
      }
      again += scheduled.rebuilt;
    }
    tokens_.clear();
    positions_.clear();
    rebuilding_.clear();
    const auto add = [&](const ScheduledRequest& scheduled, std::int64_t from, std::int64_t count) {
      const std::span<const std::int32_t> tokens = tokens_of(scheduled);
      SLUICE_ASSERT(from + count <= static_cast<std::int64_t>(tokens.size()),
                    "a request has the tokens that it claims");
      for (std::int64_t i = from; i < from + count; ++i) {
        tokens_.push_back(tokens[static_cast<std::size_t>(i)]);
        positions_.push_back(static_cast<std::int32_t>(i));
      }
    };
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      ScheduledRequest& scheduled = requests_[i];
      scheduled.first_row = static_cast<int>(tokens_.size());
      add(scheduled, scheduled.held, scheduled.fresh);
      if (scheduled.rebuilt > 0) rebuilding_.push_back(i);
    }
    fresh_rows_ = static_cast<int>(tokens_.size());
    // Ties are broken by position: a stable sort would allocate.
    std::sort(rebuilding_.begin(), rebuilding_.end(), [this](std::size_t a, std::size_t b) {
      const ScheduledRequest &one = requests_[a], &other = requests_[b];
      const std::array stops{one.passed.highest(), one.made.highest()};
      const std::array others{other.passed.highest(), other.made.highest()};
      return stops != others ? stops > others : a < b;
    });
    for (const std::size_t i : rebuilding_) {
      requests_[i].rebuilt_row = static_cast<int>(tokens_.size());
      add(requests_[i], 0, requests_[i].rebuilt);
    }
  }

  [[nodiscard]] int fresh_rows() const { return fresh_rows_; }
  /// Rows 0 .. n - 1 that pass through a layer to the next one.
  [[nodiscard]] int rows(int layer) const {
    return end_of_rows([layer](const ScheduledRequest& scheduled) { return scheduled.passed.contains(layer); });
  }
  /// Rows behind those, for which the layer computes only K and V.
  [[nodiscard]] int stored_rows(int layer) const {
    return end_of_rows([layer](const ScheduledRequest& scheduled) { return scheduled.rebuilds(layer); }) - rows(layer);
  }
  /// Whether any request's prefix starts again at the layer.
  [[nodiscard]] bool restores(int layer) const {
    return std::any_of(requests_.begin(), requests_.end(),
                       [layer](const ScheduledRequest& scheduled) { return scheduled.restored.contains(layer); });
  }

 private:
  /// The end of the last rows for which `needed(scheduled)` is true.
  template <class Needed>
  [[nodiscard]] int end_of_rows(const Needed& needed) const {
    for (std::size_t i = rebuilding_.size(); i-- > 0;) {
      const ScheduledRequest& scheduled = requests_[rebuilding_[i]];
      if (needed(scheduled)) return scheduled.rebuilt_row + static_cast<int>(scheduled.rebuilt);
    }
    return fresh_rows_;
  }

  std::vector<ScheduledRequest> requests_;
  std::vector<std::int32_t> tokens_, positions_; ///< by row
  std::vector<std::size_t> rebuilding_; ///< requests with rebuilt tokens, those that pass the most layers first
  int fresh_rows_ = 0;
};

/// The shape of a layer block of a model's KV, with elements of `element_bytes`; hidden states have the same element.
[[nodiscard]] inline KvBlockShape kv_block_shape(const ModelShape& shape, Tokens block_tokens,
                                                 std::int64_t element_bytes) {
  return {std::int64_t{shape.kv_vectors()}, element_bytes * shape.kv_width(), block_tokens.count(),
          element_bytes * shape.hidden, element_bytes * kv_block_floats(shape, block_tokens)};
}

/// How many device blocks are numbered: as many as if layers took nothing. The budget bounds how many are in use.
[[nodiscard]] inline std::int64_t device_block_numbers(Bytes memory, Bytes beside, Bytes block) {
  return std::max(Bytes{0}, memory - beside) / block;
}

/// The state of a machine, without addresses: everything here is a number of a block, a layer or a slot. The steps of
/// an iteration are functions over it (block_steps.hpp, layers.hpp, hidden_states.hpp), the same for every device;
/// `schedule.mutex` guards it while a link moves. Do not move it: the schedule holds its members' addresses.
struct MachineCore {
  /// `workspace_bytes`: memory that an iteration computes in. MachineDevice (device.hpp) describes `device`.
  template <class Device>
  MachineCore(ModelWeights model, const MachineSetup& machine_setup, const KvBlockShape& block, DeviceMemory& memory,
              Bytes workspace_bytes, const Device& device)
      : setup(machine_setup),
        workspace(workspace_bytes),
        beside(device.beside(model, workspace_bytes)),
        layers(model.config.shape.layers),
        states(model.config.shape.delta.layers),
        block_tokens(machine_setup.limits.block_tokens.count()),
        reach(machine_setup.gives_back ? KvReach{model.config, machine_setup.limits.block_tokens} : KvReach{}),
        store(block, memory, machine_setup.host_blocks + machine_setup.tier_blocks,
              device_block_numbers(memory.size(), beside, block.bytes())),
        tier(store, layers, machine_setup.tier_blocks, machine_setup.tier_evicts, machine_setup.tier_pin_share),
        released(store),
        sequences(store, layers),
        weights(std::move(model), memory, beside - workspace, device.granularity(block.bytes()), Device::copy_bytes),
        schedule(store, sequences, weights, layers, machine_setup.link.each_way, device.copies_count(machine_setup),
                 std::max<std::int64_t>(1, Device::copy_bytes / std::max<std::int64_t>(1, block.bytes().count())),
                 machine_setup.faults) {}
  MachineCore(const MachineCore&) = delete;
  MachineCore& operator=(const MachineCore&) = delete;

  [[nodiscard]] std::int64_t blocks_of(std::int64_t tokens) const { return (tokens + block_tokens - 1) / block_tokens; }
  [[nodiscard]] std::int64_t head_of(const RequestRow& row) const {
    return row.holding.head_blocks(row.blocks, setup.limits.block_tokens).count();
  }
  [[nodiscard]] KvSequence& sequence(const ScheduledRequest& scheduled) { return *sequences.find(scheduled.slot); }
  /// Moves a run of blocks to the host, and releases their device copies. `table`: from L on, hidden states.
  void evict(const KvSequence& sequence, int table, BlockRun& run) {
    schedule.evict(sequences.ref(sequence, table, run.first), run);
  }

  MachineSetup setup;
  Bytes workspace; ///< the runner's
  Bytes beside;    ///< workspace and the weights outside the layers, with their alignment
  int layers;
  LayerSet states; ///< layers whose newest block is written anew by each token (`DeltaRule`)
  std::int64_t block_tokens;
  KvReach reach;
  KvStore store;
  HostTier tier;
  ReleasedBlocks released;
  KvSequences sequences;
  WeightStore weights;
  LinkSchedule schedule;
  Batch batch;
  std::vector<std::uint8_t> marks; ///< of `reconcile`, by slot
};

} // namespace sluice
