// SPDX-License-Identifier: Apache-2.0
// MemoryDevice: a device with memory and streams of its own, such as a GPU.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/link/copy.hpp"

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

/// A device executes one stream's work in order, and two streams' work in any order.
enum class StreamId : std::uint8_t { compute, to_device, to_host };
inline constexpr std::size_t stream_count = 3;
inline constexpr std::array<StreamId, stream_count> all_streams{StreamId::compute, StreamId::to_device,
                                                                StreamId::to_host};

/// Everything that a stream had been given when the ticket was taken. Number 0 is nothing; a larger number of the same
/// stream includes all smaller ones.
struct Ticket {
  StreamId stream = StreamId::compute;
  std::uint64_t number = 0;

  friend constexpr bool operator==(const Ticket&, const Ticket&) = default;
};

/// Whether anyone will ask when a ticket was done. A device's events cost less without a time.
enum class Timing : std::uint8_t { untimed, timed };

/// One reservation of the device's memory, one of host memory that the device can access, and streams.
///
/// - `reserve(blocks, beside, host)`: reserves everything, once: device memory for the blocks and for the runner's
///   memory beside them (beside.hpp), and host memory. Each begins at a multiple of 256 bytes. Error: too little
///   memory.
/// - `device_arena()`, `beside_arena()`, `host_arena()`: their first bytes.
/// - `copy_async(stream, copy)`: copies from any memory to any other, or within the device's. The bytes may be read and
///   written until a ticket taken after the copy is done.
/// - `record(stream, timing)`: takes a ticket, untimed if `timing` is left out. `wait(stream, ticket)`: later work of
///   the stream begins when that ticket is done; the host does not wait.
/// - `done(ticket)`: the host asks. `synchronize(ticket)`: the host waits. `time(ticket)`: the device's time at which a
///   completed timed ticket was done.
/// - `rest()`: the host has nothing to do until something is done. Returns when that may be so, or soon.
template <class M>
concept MemoryDevice = requires(M& memory, StreamId stream, const Ticket& ticket, const Copy& copy, Bytes bytes) {
  { memory.reserve(bytes, bytes, bytes) } -> std::same_as<Status>;
  { memory.device_arena() } -> std::same_as<std::byte*>;
  { memory.beside_arena() } -> std::same_as<std::byte*>;
  { memory.host_arena() } -> std::same_as<std::byte*>;
  { memory.copy_async(stream, copy) } -> std::same_as<void>;
  { memory.record(stream) } -> std::same_as<Ticket>;
  { memory.record(stream, Timing::timed) } -> std::same_as<Ticket>;
  { memory.wait(stream, ticket) } -> std::same_as<void>;
  { memory.done(ticket) } -> std::same_as<bool>;
  { memory.synchronize(ticket) } -> std::same_as<void>;
  { memory.time(ticket) } -> std::same_as<std::chrono::steady_clock::time_point>;
  { memory.rest() } -> std::same_as<void>;
};

// DeviceWeights: the weights that a machine keeps in a device's memory for the next machine on that device.

/// A program that runs many systems on one device loads a model once: each machine notes where its weights lie when it
/// ends, and the next machine with the same weights loads only what was not kept. A layer is kept from its first byte
/// to the last one that had arrived; KV may have taken the rest since.
struct DeviceWeights {
  struct Part {
    std::int64_t before_end = 0; ///< bytes from the layer's first byte to the arena's end
    std::int64_t bytes = 0;      ///< of the layer's image, from its start
  };

  WeightsIdentity host;
  std::vector<Part> layers; ///< empty: not kept
  Bytes outer{0}; ///< of the weights outside the layers, at the end of the memory beside the blocks; 0: not kept
};

/// A memory device whose memory stays reserved when its machine ends.
///
/// - `weights()`: what the last machine kept. Only a machine writes it, but `reserve` clears it if it replaces the
///   memory.
/// - `in_use()`: whether a machine lives on the memory. Only a machine writes it.
/// - `check()`: an error if work has failed; then nothing in the memory can be trusted.
template <class M>
concept KeepsWeights = requires(M& memory) {
  { memory.weights() } -> std::same_as<DeviceWeights&>;
  { memory.in_use() } -> std::same_as<bool&>;
  { memory.check() } -> std::same_as<const Status&>;
};

/// Where a reservation of `bytes` begins in memory of `held` bytes: at the end, because weights lie there, however much
/// KV lies before them. Empty if the memory is too small, or if that is not a multiple of 256.
[[nodiscard]] inline std::optional<std::size_t> begin_in(std::size_t held, std::size_t bytes) {
  if (bytes > held || (held - bytes) % 256 != 0) return std::nullopt;
  return held - bytes;
}

} // namespace sluice
