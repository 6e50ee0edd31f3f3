// SPDX-License-Identifier: Apache-2.0
// ScriptedMachine: a real machine on an emulated device, stepped by hand: no engine, no policy, no clock.
#pragma once

#include "sluice/world/machine/machine.hpp"
#include "sluice/world/stream/beside.hpp"
#include "sluice/world/stream/stream_device.hpp"

#include "emulated/eigen/digest_model.hpp"
#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::testing {

/// Runs requests of one prompt token through a model of two layers. Every block of KV holds two tokens of one layer, so
/// a request has one block in each layer until its third token. A layer's weights take `layer_blocks` blocks. For each
/// step the script says which requests compute, and where each one's KV and the weights must be; the machine moves the
/// difference, as it does for an engine.
template <class Waits>
class ScriptedMachine {
 public:
  static constexpr int layers = 2;
  static constexpr std::int64_t layer_blocks = 3;

  /// Device memory for `blocks` blocks of weights and KV. `late`: the stream that is delayed.
  ScriptedMachine(std::int64_t blocks, StreamId late, std::uint64_t seed, Waits waits) {
    weights_ = DigestModel::weights(layers);
    world_.limits.block_tokens = Tokens{2};
    model_.block = kv_block_shape(weights_.config.shape, world_.limits.block_tokens, element_bytes);
    REQUIRE(weights_.layout.bytes == layer_blocks * model_.block.bytes());
    auto gpu = std::make_shared<EmulatedGpu>(seed);
    gpu->hold_back(late);
    auto runner = std::make_unique<DigestRunner>(model_, weights_.config, gpu);
    MachineSetup setup;
    setup.limits = world_.limits;
    setup.host_blocks = LayerBlocks{16};
    setup.staged = LayerSet::all(layers);
    setup.link.each_way = true; // on one stream copies wait for each other anyway
    setup.device_memory = bytes_beside(weights_, runner->workspace(0, 0)) + blocks * model_.block.bytes();
    auto machine = Machine<StreamDevice<EmulatedGpu, Waits>>::make(weights_, std::move(runner), setup, TokenListener{},
                                                                   std::move(gpu), element_bytes, std::move(waits));
    REQUIRE(machine);
    machine_ = *machine;
  }

  /// When transfers may start.
  TransferOrder order;
  /// The weights that stream from the next step on. The others stay on the device.
  void stream(LayerSet streamed, int slots) {
    world_.plan.weights.streamed = streamed;
    world_.plan.weights.slots = slots;
  }
  /// A request arrives.
  Slot join(Holding holding = {}) {
    const Slot slot = world_.add(Tokens{1}, Tokens{8}, Tokens{0}, Tokens{0}, Phase::running);
    world_.running.push_back(slot);
    row(slot).holding = holding;
    TokenRequest request;
    request.tokens = {prompt_of(slot)};
    request.ends = false;
    machine_->enter(row(slot).id, std::move(request));
    return slot;
  }
  /// Places the request's KV there from the next step on.
  void hold(Slot slot, Holding holding) { row(slot).holding = holding; }
  /// A request ends.
  void leave(Slot slot) { std::erase(world_.running, slot); }

  /// An iteration in which some requests compute one token each. `idle`: requests of the batch that compute none; their
  /// device KV is fetched in the background. Other requests' KV moves to its place.
  void step(std::initializer_list<Slot> computing, std::initializer_list<Slot> idle = {}) {
    std::vector<Claim> batch;
    for (const Slot slot : computing) {
      batch.push_back({slot, Tokens{1}});
      row(slot).blocks = row(slot).blocks_after(Tokens{1}, world_.limits.block_tokens);
    }
    for (const Slot slot : idle) batch.push_back({slot, Tokens{0}});
    const View view = world_.view();
    const Work work;
    const Iteration iteration{view, work, batch, {}, {}};
    machine_->launch(iteration, order);
    (void)machine_->wait(iteration);
    CHECK(machine_->outcomes().empty());
    for (const Slot slot : computing) {
      RequestRow& one = row(slot);
      one.computed += Tokens{1};
      one.generated += Tokens{1};
      one.slack = Tokens{one.blocks.count() * world_.limits.block_tokens.count()} - one.computed;
    }
  }

  /// How many blocks of K and V the link has brought to the device.
  [[nodiscard]] std::int64_t fetched() const { return machine_->moved().to_device.bytes / model_.block.bytes(); }
  /// Each request's tokens, and the expected ones.
  [[nodiscard]] std::vector<std::vector<std::int32_t>> tokens() const {
    std::vector<std::vector<std::int32_t>> all;
    for (const RequestRow& one : world_.rows) {
      const auto tokens = machine_->tokens(one.id);
      all.emplace_back(tokens.begin(), tokens.end());
    }
    return all;
  }
  [[nodiscard]] std::vector<std::vector<std::int32_t>> expected() const {
    std::vector<std::vector<std::int32_t>> all;
    for (std::size_t i = 0; i < world_.rows.size(); ++i)
      all.push_back(model_.generate(weights_, {prompt_of(Slot{static_cast<std::uint32_t>(i)})},
                                    world_.rows[i].generated.count()));
    return all;
  }

 private:
  static constexpr std::int64_t element_bytes = 4;

  RequestRow& row(Slot slot) { return world_.rows[index(slot)]; }
  static std::int32_t prompt_of(Slot slot) { return static_cast<std::int32_t>(100 + index(slot)); }

  HandMade world_;
  DigestModel model_;
  ModelWeights weights_;
  std::shared_ptr<Machine<StreamDevice<EmulatedGpu, Waits>>> machine_;
};

} // namespace sluice::testing
