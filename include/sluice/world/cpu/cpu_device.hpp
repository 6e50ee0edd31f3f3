// SPDX-License-Identifier: Apache-2.0
// CpuDevice: a device whose two memories are parts of this machine's memory, with threads as the link.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/cpu/copy_engine.hpp"
#include "sluice/world/cpu/cpu_memory.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/device.hpp"
#include "sluice/world/machine/link_schedule.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// The launching thread computes a layer, so a launch has ended when it returns, and a copy counts when it has ended:
/// nothing on this device needs a ticket.
class CpuDevice {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr bool computes_at_once = true;
  static constexpr std::int64_t copy_bytes = WeightStore::piece_bytes; ///< a nearer need waits for no more than this

  /// The compute lane: the caller's thread.
  class Lane {
   public:
    explicit Lane(const CpuMemory& memory) : memory_(&memory) {}
    [[nodiscard]] const std::byte* reads(const DevicePlace& place, std::int32_t /*table*/ = -1) const {
      return memory_->address(place);
    }
    [[nodiscard]] std::byte* writes(const DevicePlace& place, std::int32_t /*table*/ = -1) const {
      return memory_->address(place);
    }
    [[nodiscard]] std::byte* host_block(std::int32_t block) const { return memory_->host_block(block).data(); }
    void again(std::int32_t /*table*/) const {}
    void given() const {}
    void begins(int layer) {
      if (times_.size() <= static_cast<std::size_t>(layer)) times_.resize(static_cast<std::size_t>(layer) + 1);
      times_[static_cast<std::size_t>(layer)].begun = std::chrono::steady_clock::now();
    }
    void launched(int layer) { times_[static_cast<std::size_t>(layer)].ended = std::chrono::steady_clock::now(); }
    void finish() const {}
    [[nodiscard]] LayerMoments times(int layer) const { return times_[static_cast<std::size_t>(layer)]; }

   private:
    const CpuMemory* memory_;
    std::vector<LayerMoments> times_;
  };

  CpuDevice() : lane_(memory_) {}
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;
  ~CpuDevice() { stop(); }

  /// K and V are f32.
  [[nodiscard]] static std::int64_t element_bytes() { return 4; }
  [[nodiscard]] static CopiesCount copies_count(const MachineSetup& /*setup*/) { return CopiesCount::when_ended; }
  /// Weights take the device's memory to the byte.
  [[nodiscard]] static Bytes granularity(Bytes /*block*/) { return Bytes{1}; }

  [[nodiscard]] static Bytes beside(const ModelWeights& model, Bytes workspace) {
    return model.outer_bytes() + workspace;
  }

  /// Reserves the memories, and starts the link.
  [[nodiscard]] Status connect(MachineCore& core, ModelRunner& /*runner*/) {
    if (Status status = memory_.reserve(core); !status) return status;
    source_ = std::make_unique<Source>(Source{&memory_, &core.schedule, nullptr, {}});
    engine_ = std::make_unique<CopyEngine<Source>>(*source_, core.setup.link, core.setup.faults);
    source_->engine = engine_.get(); // before any lane has work; lanes still run while `engine_` is being reset
    return {};
  }
  /// Finishes the copies under way. The schedule has been halted.
  void stop() { engine_.reset(); }

  /// A decoder reads the weights outside the layers from the host's memory.
  void load(const MachineCore& /*core*/) const {}
  [[nodiscard]] Status adopt_weights(const MachineCore& core) { return memory_.adopt_weights(core); }
  /// Copies at once, without the link.
  void put(const PlacedCopy& placed) {
    const Copy copy = memory_.addressed(placed);
    std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
  }
  /// The bytes of a host block, which no copy writes meanwhile.
  [[nodiscard]] std::span<std::byte> host_block(std::int32_t block) const { return memory_.host_block(block); }
  void wake() { engine_->wake(); }
  void rest(std::unique_lock<std::mutex>& lock) { source_->schedule->progress.wait(lock); }
  [[nodiscard]] CopyTotals moved() const { return engine_->totals(); }
  [[nodiscard]] Lane& lane() { return lane_; }

 private:
  /// What a CopyEngine's lanes ask: the schedule, with places translated to addresses.
  struct Source {
    const CpuMemory* memory;
    LinkSchedule* schedule;
    CopyEngine<Source>* engine;
    std::array<Time, 2> begun; ///< of each way's copy under way

    std::optional<Copy> next(Way way) {
      const std::lock_guard lock{schedule->mutex};
      const std::optional<PlacedCopy> placed = schedule->next(way);
      if (!placed) return std::nullopt;
      begun[static_cast<std::size_t>(way)] = std::chrono::steady_clock::now();
      return memory->addressed(*placed);
    }
    void ended(Way way, const Copy& /*copy*/, CopyOutcome outcome) {
      const std::lock_guard lock{schedule->mutex};
      if (schedule->ended(way, outcome, begun[static_cast<std::size_t>(way)], std::chrono::steady_clock::now()))
        engine->wake(Way::to_device);
    }
  };

  CpuMemory memory_;
  Lane lane_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<CopyEngine<Source>> engine_;
};

static_assert(MachineDevice<CpuDevice>);

} // namespace sluice
