// SPDX-License-Identifier: Apache-2.0
// MemoryDevice: a device with memory of its own and streams, as a GPU is.
#pragma once

#include "sluice/backend/machine/copy.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// A device does what a stream was given in the order in which it was given, and what two streams were given in any.
enum class StreamId : std::uint8_t { compute, to_device, to_host };
inline constexpr std::size_t stream_count = 3;
inline constexpr std::array<StreamId, stream_count> all_streams{StreamId::compute, StreamId::to_device,
                                                                StreamId::to_host};

/// All that a stream had been given when the ticket was taken. Number 0 is nothing; a larger number of the same stream
/// has all that a smaller one has.
struct Ticket {
  StreamId stream = StreamId::compute;
  std::uint64_t number = 0;

  friend constexpr bool operator==(const Ticket&, const Ticket&) = default;
};

/// One reservation of the device's memory, one of memory of the host that the device can copy from and to, and streams.
///
///  - `reserve(blocks, beside, host)`: all that there will ever be, once: of the device's memory the blocks, and what
///    lies beside them (beside.hpp); and memory of the host. Each begins at a multiple of 256 bytes. Error: there is
///    not that much.
///  - `device_arena()`, `beside_arena()`, `host_arena()`: their first bytes.
///  - `copy_async(stream, copy)`: from any memory to any other, or within the device's. Until a ticket taken behind the
///    copy is done its bytes may be read and written.
///  - `record(stream)`: a ticket. `wait(stream, ticket)`: what the stream is given from now on begins when that ticket
///    is done; the host goes on.
///  - `done(ticket)`: the host asks. `synchronize(ticket)`: the host waits. `time(ticket)`: when a ticket that is done
///    was, by the device.
///  - `rest()`: the host has nothing to do until something is done. Returns when that may be so, or soon.
template <class M>
concept MemoryDevice = requires(M& memory, StreamId stream, const Ticket& ticket, const Copy& copy, Bytes bytes) {
  { memory.reserve(bytes, bytes, bytes) } -> std::same_as<Status>;
  { memory.device_arena() } -> std::same_as<std::byte*>;
  { memory.beside_arena() } -> std::same_as<std::byte*>;
  { memory.host_arena() } -> std::same_as<std::byte*>;
  { memory.copy_async(stream, copy) } -> std::same_as<void>;
  { memory.record(stream) } -> std::same_as<Ticket>;
  { memory.wait(stream, ticket) } -> std::same_as<void>;
  { memory.done(ticket) } -> std::same_as<bool>;
  { memory.synchronize(ticket) } -> std::same_as<void>;
  { memory.time(ticket) } -> std::same_as<std::chrono::steady_clock::time_point>;
  { memory.rest() } -> std::same_as<void>;
};

} // namespace sluice
