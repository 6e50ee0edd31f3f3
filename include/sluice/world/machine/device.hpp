// SPDX-License-Identifier: Apache-2.0
// MachineDevice: what a machine requires from its device.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/link_schedule.hpp"
#include "sluice/world/machine/machine_core.hpp"
#include "sluice/world/machine/machine_setup.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace sluice {

/// When a layer was computed.
struct LayerMoments {
  using Time = std::chrono::steady_clock::time_point;
  Time begun, ended;
  Time arrived = Time::min(); ///< when the last copy arrived that the lane waited for; `min()` if it waited for none
};

/// The lane of a device that computes. The device orders its work behind the previous uses of the places that the work
/// reads and writes.
///
/// - `reads(place, table)`, `writes(place, table)`: the address of a place for the next launch, which waits for the
/// copies and layers
///   that the place's content needs. There is no other way to an address that work may use. (A lane whose device does
///   not compute at once also has `address(place)`: the same address, for a table that is uploaded before.)
/// - `table`, which may be left out: the number, from 0, of the table that keeps the address of KV for later launches.
///   `again(table)`: the next launch reads all that this table has, and may append to it.
/// - `given()`: the device was given the work for which addresses were requested, in the middle of a layer.
/// - `begins(layer)`: the launches of this layer follow, and perhaps of those behind it. `launched(layer)`: the device
///   was given all of them, up to this layer's.
/// - `finish()`: waits until the device has computed everything it was given; the link continues meanwhile.
/// - `times(layer)`: the times of a layer that the device has computed. Layers that were launched as one share their
///   time equally.
template <class L>
concept ComputeLane = requires(L& lane, const DevicePlace& place, std::int32_t table, int layer) {
  { lane.reads(place) } -> std::same_as<const std::byte*>;
  { lane.writes(place) } -> std::same_as<std::byte*>;
  { lane.reads(place, table) } -> std::same_as<const std::byte*>;
  { lane.writes(place, table) } -> std::same_as<std::byte*>;
  { lane.again(table) } -> std::same_as<void>;
  { lane.given() } -> std::same_as<void>;
  { lane.begins(layer) } -> std::same_as<void>;
  { lane.launched(layer) } -> std::same_as<void>;
  { lane.finish() } -> std::same_as<void>;
  { lane.times(layer) } -> std::same_as<LayerMoments>;
};

/// A compute lane whose work may also use the host's memory: `host_block(block)` is the address of a host block, which
/// no copy uses meanwhile. The host can then attend KV there, if the runner has a thread for it.
template <class L>
concept HostAddresses = requires(L& lane, std::int32_t block) {
  { lane.host_block(block) } -> std::same_as<std::byte*>;
};

/// A device, its memory and its link.
///
/// - `computes_at_once`: a layer has been computed when its launch returns. Otherwise the device tells the schedule
///   when a layer starts to compute and when it has been computed, whenever the machine's thread waits or asks for more
///   (`rest`, `wake`, `finish`).
/// - `element_bytes()`: the size of an element of K and V.
/// - `copies_count(setup)`: when blocks change hands.
/// - `copy_bytes`: how much one copy moves at most, of neighbouring blocks or of weights.
/// - `granularity(block)`: the weights' memory is rounded up to this, if the memory is cut into blocks.
/// - `beside(model, workspace)`: the memory for the runner's workspace and the weights outside the layers.
/// - `connect(core, runner)`: reserves both memories, tells the runner its own part, and starts the link, which from
///   then on asks `core.schedule`; `stop()` ends it. Errors: the system has not enough memory, or the device cannot do
///   what the setup asks of the link.
/// - `load(core)`: before anything runs, loads the weights outside the layers and stages the layers that may stream.
/// - `adopt_weights(core)`: the plan of the weights has changed. Error: no address space for its slots.
/// - `put(copy)`: copies weights at once, before anything runs.
/// - `rest(lock)`: the machine's thread, which holds the schedule's mutex by `lock`, waits until the link makes
/// progress,
///   or returns at once if that is its own work.
/// - `wake()`: the schedule may have something to move. `moved()`: what the link has moved. `lane()`: the compute lane.
template <class D>
concept MachineDevice = requires(D& device, MachineCore& core, ModelRunner& runner, const ModelWeights& model,
                                 const MachineSetup& setup, const PlacedCopy& copy, Bytes bytes,
                                 std::unique_lock<std::mutex>& lock) {
  requires std::same_as<decltype(D::computes_at_once), const bool>;
  requires std::same_as<decltype(D::copy_bytes), const std::int64_t>;
  { device.element_bytes() } -> std::same_as<std::int64_t>;
  { device.copies_count(setup) } -> std::same_as<CopiesCount>;
  { device.granularity(bytes) } -> std::same_as<Bytes>;
  { device.beside(model, bytes) } -> std::same_as<Bytes>;
  { device.connect(core, runner) } -> std::same_as<Status>;
  { device.load(core) } -> std::same_as<void>;
  { device.stop() } -> std::same_as<void>;
  { device.adopt_weights(core) } -> std::same_as<Status>;
  { device.put(copy) } -> std::same_as<void>;
  { device.rest(lock) } -> std::same_as<void>;
  { device.wake() } -> std::same_as<void>;
  { device.moved() } -> std::same_as<CopyTotals>;
  { device.lane() } -> ComputeLane;
};

} // namespace sluice
