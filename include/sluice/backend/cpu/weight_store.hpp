// SPDX-License-Identifier: Apache-2.0
// WeightStore: which weights are on the device, in which slots the others pass through, and what must be copied.
#pragma once

#include "sluice/backend/cpu/copy.hpp"
#include "sluice/backend/cpu/device_memory.hpp"
#include "sluice/backend/cpu/virtual_memory.hpp"
#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/decoder/weights.hpp"
#include "sluice/plan/plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

/// The weights of a model in the device's memory, by the plan in force: of every layer the part that stays, and slots
/// through which the other parts pass, one layer a slot. The host has all of them all the time (`ModelWeights`: a
/// mapped file, say), so that nothing is ever written back. Not synchronised.
class WeightStore {
 public:
  /// Bytes of one copy of weights: KV with a nearer deadline waits for one at most.
  static constexpr std::int64_t piece_bytes = 256 << 10;

  /// A part of a layer on its way to the device.
  struct Passage {
    int layer = -1;
    std::int64_t at = 0; ///< bytes of the image: copied up to here
    std::int64_t end = 0;
    std::byte* to = nullptr; ///< where byte `at` goes
    [[nodiscard]] bool done() const { return at >= end; }
  };

  WeightStore(ModelWeights weights, DeviceMemory& device) : host_(std::move(weights)), device_(&device) {}

  [[nodiscard]] const ModelWeights& host() const { return host_; }
  [[nodiscard]] Bytes layer_bytes() const { return host_.layout.bytes; }
  [[nodiscard]] const WeightsPlan& plan() const { return plan_; }
  [[nodiscard]] bool streams(int layer) const { return plan_.streamed.contains(layer); }

  /// A plan to load by before there is any: all layers stay, or the first ones, as many as fit beside a slot through
  /// which the others pass. Error: what never streams does not fit, or there is no room for a slot.
  [[nodiscard]] Expected<WeightsPlan> fitting() const {
    const std::int64_t left = (device_->free() - host_.outer_bytes()).count();
    const int layers = host_.config.shape.layers;
    const std::int64_t layer = layer_bytes().count();
    WeightsPlan plan;
    if (left >= layer * layers) return plan;
    const std::int64_t stay = left / layer - 1; // beside one slot
    if (left < 0 || stay < 0) return no_room();
    plan.streamed = LayerSet::all(layers) - LayerSet::all(static_cast<int>(stay));
    plan.slots = 1;
    return plan;
  }
  /// Puts the weights where the first plan wants them, at the machine's speed: a server loads before it serves.
  [[nodiscard]] Status load(const WeightsPlan& plan) {
    const auto layers = static_cast<std::size_t>(host_.config.shape.layers);
    layers_.resize(layers);
    for (std::size_t l = 0; l < layers; ++l) {
      Expected<VirtualMemory> memory = VirtualMemory::reserve(layer_bytes());
      if (!memory) return memory.error();
      layers_[l].memory = std::move(*memory);
    }
    plan_ = plan;
    if (!device_->take(host_.outer_bytes())) return no_room();
    for (std::size_t l = 0; l < layers; ++l) {
      Layer& layer = layers_[l];
      layer.wanted = stays(static_cast<int>(l));
      if (!device_->take(Bytes{layer.wanted})) return no_room();
      Passage all{static_cast<int>(l), 0, layer.wanted, layer.memory.data()};
      while (!all.done()) {
        const Copy piece = next_piece(all);
        std::memcpy(piece.to, piece.from, static_cast<std::size_t>(piece.bytes));
      }
      layer.here = layer.held = layer.wanted;
      host_.forget(static_cast<int>(l));
    }
    return make_slots();
  }

  /// Whether a plan moves weights or slots. What else a plan says of the weights is for the ledger.
  [[nodiscard]] bool differs(const WeightsPlan& plan) const {
    return plan.streamed != plan_.streamed || plan.share != plan_.share || plan.slots != plan_.slots;
  }
  /// Puts another plan in force. Memory that it gives up is free at once; what it takes is taken as copies begin.
  [[nodiscard]] Status adopt(const WeightsPlan& plan) {
    plan_ = plan;
    for (Slot& slot : slots_)
      if (slot.held) device_->give(Bytes{slot_bytes_});
    slots_.clear();
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      Layer& layer = layers_[l];
      layer.wanted = stays(static_cast<int>(l));
      layer.here = std::min(layer.here, layer.wanted);
      if (layer.held <= layer.wanted) continue;
      device_->give(Bytes{layer.held - layer.wanted});
      layer.memory.decommit(Bytes{layer.wanted}, Bytes{layer_bytes().count() - layer.wanted});
      layer.held = layer.wanted;
    }
    return make_slots();
  }

  /// Device memory that the plan in force will still take, for what returns and for slots.
  [[nodiscard]] Bytes to_take() const {
    std::int64_t bytes = 0;
    for (const Layer& layer : layers_) bytes += std::max<std::int64_t>(0, layer.wanted - layer.held);
    for (const Slot& slot : slots_) bytes += slot.held ? 0 : slot_bytes_;
    return Bytes{bytes};
  }
  /// Bytes of a layer that the plan wants on the device for good and that are not there yet.
  [[nodiscard]] std::int64_t missing(int layer) const { return at(layer).wanted - at(layer).here; }
  /// Begins to bring back a part that stays, if there is room for it.
  [[nodiscard]] std::optional<Passage> begin_return(int layer) {
    Layer& one = at(layer);
    if (one.held < one.wanted) {
      if (!device_->take(Bytes{one.wanted - one.held})) return std::nullopt;
      one.held = one.wanted;
    }
    return Passage{layer, one.here, one.wanted, one.memory.data() + one.here};
  }
  void returned(int layer) {
    at(layer).here = at(layer).wanted;
    if (!streams(layer)) host_.forget(layer);
  }

  /// Begins to stream a part, if a slot is free and there is room for it. Layers must be asked for in the order in
  /// which they are computed.
  [[nodiscard]] std::optional<Passage> begin_stream(int layer) {
    SLUICE_ASSERT(streams(layer) && !slots_.empty(), "a streamed layer and a slot");
    Slot* const free = slot_of(-1);
    if (free == nullptr) return std::nullopt;
    Slot& slot = *free;
    if (!slot.held) {
      if (!device_->take(Bytes{slot_bytes_})) return std::nullopt;
      slot.held = true;
    }
    slot.layer = layer;
    slot.ready = false;
    return Passage{layer, at(layer).wanted, layer_bytes().count(), slot.memory.data()};
  }
  void streamed(int layer) {
    Slot* slot = slot_of(layer);
    SLUICE_ASSERT(slot != nullptr, "it has a slot");
    slot->ready = true;
  }
  /// Whether the layer has a slot, perhaps one that is still being filled.
  [[nodiscard]] bool is_coming(int layer) { return slot_of(layer) != nullptr; }
  /// Frees the layer's slot: the layer has been computed.
  void computed(int layer) {
    if (Slot* slot = slot_of(layer)) slot->layer = -1;
  }
  /// Whether all of the layer's weights are on the device.
  [[nodiscard]] bool ready(int layer) {
    if (missing(layer) > 0) return false;
    if (!streams(layer) || at(layer).wanted == layer_bytes().count()) return true;
    const Slot* slot = slot_of(layer);
    return slot != nullptr && slot->ready;
  }

  /// The next copy of a passage, which it advances.
  [[nodiscard]] Copy next_piece(Passage& passage) const {
    const std::vector<TensorPlace>& places = host_.layout.places;
    const auto place = std::upper_bound(places.begin(), places.end(), passage.at,
                                        [](std::int64_t at, const TensorPlace& p) { return at < p.offset; });
    const auto index = static_cast<std::size_t>(place - places.begin()) - 1;
    const TensorPlace& tensor = places[index];
    const std::int64_t into = passage.at - tensor.offset;
    const std::int64_t next = index + 1 < places.size() ? places[index + 1].offset : layer_bytes().count();
    const std::int64_t bytes = std::min({tensor.bytes() - into, passage.end - passage.at, piece_bytes});
    const std::byte* from = host_.layers[static_cast<std::size_t>(passage.layer)][index] + into;
    const Copy copy{from, passage.to, bytes};
    // After a tensor comes padding that aligns the next one: its bytes belong to no tensor.
    const std::int64_t step = into + bytes == tensor.bytes() ? next - passage.at : bytes;
    passage.at += step;
    passage.to += step;
    return copy;
  }

  /// The layer's weights as the decoder computes with them.
  [[nodiscard]] LayerWeights weights(int layer) {
    const Slot* slot = slot_of(layer);
    return LayerWeights{host_.layout, at(layer).memory.data(), slot != nullptr ? slot->memory.data() : nullptr,
                        at(layer).wanted};
  }

 private:
  struct Layer {
    VirtualMemory memory;    ///< address space for all of it
    std::int64_t wanted = 0; ///< its first bytes stay on the device, by the plan
    std::int64_t held = 0;   ///< for which memory is taken
    std::int64_t here = 0;   ///< that are there
  };
  struct Slot {
    VirtualMemory memory;
    bool held = false; ///< memory is taken for it
    int layer = -1;
    bool ready = false;
  };

  Layer& at(int layer) { return layers_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] const Layer& at(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  Slot* slot_of(int layer) {
    const auto found = std::find_if(slots_.begin(), slots_.end(), [layer](const Slot& s) { return s.layer == layer; });
    return found == slots_.end() ? nullptr : &*found;
  }
  [[nodiscard]] std::int64_t stays(int layer) const {
    return streams(layer) ? host_.layout.cut(plan_.share) : layer_bytes().count();
  }
  [[nodiscard]] static Error no_room() {
    return {ErrorCode::out_of_memory, "device memory", "the weights that the plan keeps there do not fit", ""};
  }
  [[nodiscard]] Status make_slots() {
    slot_bytes_ = plan_.streamed.empty() ? 0 : layer_bytes().count() - host_.layout.cut(plan_.share);
    if (slot_bytes_ == 0) return {};
    const int slots = std::clamp(plan_.slots, 1, plan_.streamed.count());
    for (int i = 0; i < slots; ++i) {
      Expected<VirtualMemory> memory = VirtualMemory::reserve(Bytes{slot_bytes_});
      if (!memory) return memory.error();
      slots_.push_back({std::move(*memory), false, -1, false});
    }
    return {};
  }

  ModelWeights host_;
  DeviceMemory* device_;
  WeightsPlan plan_;
  std::vector<Layer> layers_;
  std::vector<Slot> slots_;
  std::int64_t slot_bytes_ = 0; ///< of each
};

} // namespace sluice
