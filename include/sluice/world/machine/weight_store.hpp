// SPDX-License-Identifier: Apache-2.0
// WeightStore: which weights are on the device, which slots the others pass through, and what must be copied.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/block_pool.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

/// A model's weights in the device's memory under the plan in force: of every layer the part that stays, and slots
/// through which the other parts pass, one layer per slot. The host always has all weights (`ModelWeights`: a mapped
/// file, say), so nothing is ever written back. Homes and slots are places: the device decides where their bytes lie.
/// Not synchronised.
class WeightStore {
 public:
  /// Bytes per copy of weights, where a device asks for no more: KV with a nearer deadline waits for at most one.
  static constexpr std::int64_t piece_bytes = 256 << 10;

  /// A part of a layer on its way to the device.
  struct Passage {
    int layer = -1;
    std::int64_t at = 0; ///< offset in the image: copied up to here
    std::int64_t end = 0;
    DevicePlace to;
    std::int64_t to_at = 0; ///< offset in that place to which byte `at` goes
    [[nodiscard]] bool done() const { return at >= end; }
  };

  /// The result of asking for a larger place.
  enum class Taken : std::uint8_t {
    none, ///< nothing: something is in the way that cannot be moved yet
    more, ///< the old place, with room behind it
    anew, ///< a new place, with nothing in it
  };
  /// Finds room for the first `bytes` of a home or a slot, on a device that cuts one memory into pieces. Giving back
  /// keeps the first `bytes`. `reuse` gives a home the memory in which an earlier machine kept these bytes; false if
  /// none did. It is asked while weights are loaded, once per home and before anything is taken.
  struct Places {
    Taken (*take)(void* device, const DevicePlace& place, std::int64_t bytes) = nullptr;
    void (*keep)(void* device, const DevicePlace& place, std::int64_t bytes) = nullptr;
    bool (*reuse)(void* device, const DevicePlace& place, std::int64_t bytes) = nullptr;
    void* device = nullptr;
  };

  /// `outer`: the device memory of the weights outside the layers. `granularity`: each layer's memory is rounded up to
  /// it.
  WeightStore(ModelWeights weights, DeviceMemory& device, Bytes outer, Bytes granularity,
              std::int64_t piece = piece_bytes)
      : host_(std::move(weights)), device_(&device), outer_(outer), granularity_(granularity.count()), piece_(piece) {}

  void find_places_by(const Places& places) { places_ = places; }

  [[nodiscard]] const ModelWeights& host() const { return host_; }
  [[nodiscard]] Bytes layer_bytes() const { return host_.layout.bytes; }
  [[nodiscard]] const WeightsPlan& plan() const { return plan_; }
  [[nodiscard]] bool streams(int layer) const { return plan_.streamed.contains(layer); }

  /// A plan for loading before there is any other: all layers stay, or as many of the first layers as fit besides a
  /// slot for the others. Error: what never streams does not fit, or there is no room for a slot.
  [[nodiscard]] Expected<WeightsPlan> fitting() const {
    const std::int64_t left = (device_->free() - outer_).count();
    const int layers = host_.config.shape.layers;
    const std::int64_t layer = rounded(layer_bytes().count());
    WeightsPlan plan;
    if (left >= layer * layers) return plan;
    const std::int64_t stay = left / layer - 1; // besides one slot
    if (left < 0 || stay < 0) return no_room();
    plan.streamed = LayerSet::all(layers) - LayerSet::all(static_cast<int>(stay));
    plan.slots = 1;
    return plan;
  }
  /// Puts the weights where the first plan wants them. `put(copy)` copies a piece at once, at full speed: a server
  /// loads before it serves.
  template <class Put>
  [[nodiscard]] Status load(const WeightsPlan& plan, Put&& put) {
    const auto layers = static_cast<std::size_t>(host_.config.shape.layers);
    layers_.resize(layers);
    plan_ = plan;
    if (!device_->take(outer_)) return no_room();
    for (std::size_t l = 0; l < layers; ++l) { // all before any layer is copied, which would overwrite kept bytes
      Layer& layer = layers_[l];
      layer.wanted = stays(static_cast<int>(l));
      if (places_.reuse == nullptr || layer.wanted == 0) continue;
      if (!places_.reuse(places_.device, home_of(static_cast<int>(l)), layer.wanted)) continue;
      layer.here = layer.held = layer.wanted;
      if (!device_->take(Bytes{rounded(layer.held)})) return no_room();
    }
    for (std::size_t l = 0; l < layers; ++l) {
      Layer& layer = layers_[l];
      const DevicePlace home = home_of(static_cast<int>(l));
      if (layer.held < layer.wanted && take(home, 0, layer.wanted) == Taken::none) return no_room();
      layer.held = layer.wanted;
      Passage all{static_cast<int>(l), layer.here, layer.wanted, home, layer.here};
      while (!all.done()) put(next_piece(all));
      layer.here = layer.wanted;
      host_.forget(static_cast<int>(l));
    }
    make_slots();
    return {};
  }

  /// Whether a plan moves weights or slots. The rest of a weights plan concerns only the ledger.
  [[nodiscard]] bool differs(const WeightsPlan& plan) const {
    return plan.streamed != plan_.streamed || plan.share != plan_.share || plan.slots != plan_.slots;
  }
  /// Adopts another plan. Memory that the plan gives up is free at once; memory that it takes is taken when copies
  /// begin.
  void adopt(const WeightsPlan& plan) {
    plan_ = plan;
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].held) keep({DevicePlace::Kind::slot, static_cast<std::int32_t>(i)}, slot_bytes_, 0);
    slots_.clear();
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      Layer& layer = layers_[l];
      layer.wanted = stays(static_cast<int>(l));
      layer.here = std::min(layer.here, layer.wanted);
      if (layer.held <= layer.wanted) continue;
      keep(home_of(static_cast<int>(l)), layer.held, layer.wanted);
      layer.held = layer.wanted;
    }
    make_slots();
  }

  /// Device memory that the plan in force will still take, for returning weights and for slots.
  [[nodiscard]] Bytes to_take() const { return Bytes{to_take_}; }
  /// Bytes of a layer that should stay on the device under the plan and have not arrived.
  [[nodiscard]] std::int64_t missing(int layer) const { return at(layer).wanted - at(layer).here; }
  /// Begins to bring back a part that stays, if there is room.
  [[nodiscard]] std::optional<Passage> begin_return(int layer) {
    Layer& one = at(layer);
    if (one.held < one.wanted) {
      const Taken taken = take(home_of(layer), one.held, one.wanted);
      if (taken == Taken::none) return std::nullopt;
      one.held = one.wanted;
      count_to_take();
      if (taken == Taken::anew) one.here = 0;
    }
    return Passage{layer, one.here, one.wanted, home_of(layer), one.here};
  }
  void returned(int layer) { at(layer).here = at(layer).wanted; }

  /// No copy reads the returned layer's weights any more.
  void left_alone(int layer) {
    if (!streams(layer)) host_.forget(layer);
  }

  /// Begins to stream a part, if a slot is free and there is room. Call it in the order in which layers are computed.
  [[nodiscard]] std::optional<Passage> begin_stream(int layer) {
    SLUICE_ASSERT(streams(layer) && !slots_.empty(), "a streamed layer and a slot");
    Slot* const free = slot_of(-1);
    if (free == nullptr) return std::nullopt;
    Slot& slot = *free;
    const DevicePlace place{DevicePlace::Kind::slot, static_cast<std::int32_t>(free - slots_.data())};
    if (!slot.held) {
      if (take(place, 0, slot_bytes_) == Taken::none) return std::nullopt;
      slot.held = true;
      count_to_take();
    }
    slot.layer = layer;
    slot.ready = false;
    return Passage{layer, at(layer).wanted, layer_bytes().count(), place, 0};
  }
  void streamed(int layer) {
    Slot* slot = slot_of(layer);
    SLUICE_ASSERT(slot != nullptr, "it has a slot");
    slot->ready = true;
  }
  /// Whether the layer has a slot, which may still be filling.
  [[nodiscard]] bool is_coming(int layer) { return slot_of(layer) != nullptr; }
  /// Slots that no layer has.
  [[nodiscard]] std::ptrdiff_t free_slots() const {
    return std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.layer < 0; });
  }
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

  /// The next copy of a passage; advances the passage.
  [[nodiscard]] PlacedCopy next_piece(Passage& passage) const {
    const std::vector<TensorPlace>& places = host_.layout_at(passage.layer).places;
    const auto place = std::upper_bound(places.begin(), places.end(), passage.at,
                                        [](std::int64_t at, const TensorPlace& p) { return at < p.offset; });
    const auto index = static_cast<std::size_t>(place - places.begin()) - 1;
    const TensorPlace& tensor = places[index];
    const std::int64_t into = passage.at - tensor.offset;
    const std::int64_t next = index + 1 < places.size() ? places[index + 1].offset : layer_bytes().count();
    const std::int64_t bytes = std::min({tensor.bytes() - into, passage.end - passage.at, piece_});
    PlacedCopy copy;
    copy.device = passage.to;
    copy.device_at = passage.to_at;
    copy.layer = passage.layer;
    copy.host_at = passage.at;
    copy.image = host_.layers[static_cast<std::size_t>(passage.layer)][index] + into;
    copy.bytes = bytes;
    // Padding after a tensor aligns the next one; its bytes belong to no tensor.
    const std::int64_t step = into + bytes == tensor.bytes() ? next - passage.at : bytes;
    passage.at += step;
    passage.to_at += step;
    return copy;
  }

  /// The slot that holds, or will hold, the streamed part of the layer.
  [[nodiscard]] std::optional<DevicePlace> slot_place(int layer) const {
    const Slot* slot = slot_of(layer);
    if (slot == nullptr) return std::nullopt;
    return DevicePlace{DevicePlace::Kind::slot, static_cast<std::int32_t>(slot - slots_.data())};
  }
  [[nodiscard]] static DevicePlace home_of(int layer) { return {DevicePlace::Kind::home, layer}; }
  /// Bytes of the layer's image that its home keeps under the plan in force; the slot has the rest.
  [[nodiscard]] std::int64_t kept(int layer) const { return at(layer).wanted; }
  [[nodiscard]] std::size_t slots() const { return slots_.size(); }
  [[nodiscard]] Bytes slot_bytes() const { return Bytes{slot_bytes_}; }

 private:
  struct Layer {
    std::int64_t wanted = 0; ///< bytes from the start that stay on the device, by the plan
    std::int64_t held = 0;   ///< bytes for which memory is taken
    std::int64_t here = 0;   ///< bytes that have arrived
  };
  struct Slot {
    bool held = false; ///< memory is taken for it
    int layer = -1;
    bool ready = false;
  };

  Layer& at(int layer) { return layers_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] const Layer& at(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] const Slot* slot_of(int layer) const { return const_cast<WeightStore*>(this)->slot_of(layer); }
  Slot* slot_of(int layer) {
    const auto found = std::find_if(slots_.begin(), slots_.end(), [layer](const Slot& s) { return s.layer == layer; });
    return found == slots_.end() ? nullptr : &*found;
  }
  [[nodiscard]] std::int64_t stays(int layer) const {
    return streams(layer) ? host_.layout_at(layer).cut(plan_.share) : layer_bytes().count();
  }
  [[nodiscard]] static Error no_room() {
    return {ErrorCode::out_of_memory, "device memory", "the weights that the plan keeps there do not fit", ""};
  }
  void make_slots() {
    slot_bytes_ = 0;
    plan_.streamed.for_each(
        [&](int layer) { slot_bytes_ = std::max(slot_bytes_, layer_bytes().count() - stays(layer)); });
    if (slot_bytes_ > 0) slots_.resize(static_cast<std::size_t>(std::clamp(plan_.slots, 1, plan_.streamed.count())));
    count_to_take();
  }
  /// A sum, because the schedule asks for it before every copy.
  void count_to_take() {
    to_take_ = 0;
    for (const Layer& layer : layers_)
      to_take_ += std::max<std::int64_t>(0, rounded(layer.wanted) - rounded(layer.held));
    for (const Slot& slot : slots_) to_take_ += slot.held ? 0 : rounded(slot_bytes_);
  }

  [[nodiscard]] std::int64_t rounded(std::int64_t bytes) const {
    return (bytes + granularity_ - 1) / granularity_ * granularity_;
  }
  /// Extends a place from its first `held` bytes to its first `wanted`.
  [[nodiscard]] Taken take(const DevicePlace& place, std::int64_t held, std::int64_t wanted) {
    const Bytes bytes{rounded(wanted) - rounded(held)};
    if (!device_->take(bytes)) return Taken::none;
    if (places_.take == nullptr) return Taken::more;
    const Taken taken = places_.take(places_.device, place, wanted);
    if (taken == Taken::none) device_->give(bytes);
    return taken;
  }
  void keep(const DevicePlace& place, std::int64_t held, std::int64_t kept) {
    if (places_.keep != nullptr) places_.keep(places_.device, place, kept);
    device_->give(Bytes{rounded(held) - rounded(kept)});
  }

  ModelWeights host_;
  DeviceMemory* device_;
  Bytes outer_;
  std::int64_t granularity_;
  std::int64_t piece_; ///< bytes per copy
  Places places_;
  WeightsPlan plan_;
  std::vector<Layer> layers_;
  std::vector<Slot> slots_;
  std::int64_t slot_bytes_ = 0; ///< of each
  std::int64_t to_take_ = 0;
};

} // namespace sluice
