// SPDX-License-Identifier: Apache-2.0
// KernelQueue: the stream on which a decoder's kernels are launched: a GPU's, or the emulator's.
#pragma once

#include "kernels/decoder/launch_graphs.hpp"
#include "kernels/families.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace sluice::kernels {

/// The purpose of a host's wait. A queue waits in the same way for both; they are distinguished so that a test can
/// leave one out and check that this is detected.
enum class QueueWait : std::uint8_t {
  results, ///< the host reads data that a copy has brought down
  reuse    ///< the host overwrites data that a copy reads
};

/// Pinned host memory, which a device can copy from and to by itself. The destructor frees it.
template <class M>
concept HostMemory = std::movable<M> && std::default_initializable<M> && requires(const M& memory) {
  { memory.data() } -> std::same_as<std::byte*>;
  { memory.size() } -> std::same_as<std::size_t>;
};

/// Executes its work in order, while the host continues.
///
///  1. `launch<config>(params)` enqueues the kernel `KernelFamily<Config>::Kernel<config>` over the grid that the
///     parameters need, and copies the parameters at once. The emulator instantiates the kernel; for a GPU's queue,
///     kernels/configs.cmake must list the configuration, so that nvcc compiles it.
///  2. `copy(to, from, bytes)` enqueues a copy, up, down or within the device.
///  3. `record()` returns a ticket for all work enqueued before; `wait(ticket, why)` blocks the host until that is
///     done. A ticket that was never recorded counts as done.
///  4. `host(bytes)`: memory that such a copy may read or write. With zero bytes it is empty.
///  5. `multiply(call)` enqueues a product by a library, whose rows may depend on their number (`Products::fast`).
///     Before the first, `lend(room)` gives the queue device memory that the library may use as workspace.
///  6. `graph(place, body)` holds the launches and products of `body` back until `give()`, or until anything else is
///     enqueued or recorded. Bodies that follow each other directly are one sequence, enqueued kernel by kernel, or as
///     the graph made of an earlier sequence that was the same (LaunchGraphs). `body` may not copy, record or wait.
///     `graph_counts()` returns how many were enqueued in each way.
///
/// A device error stays in the queue until its owner asks for it; later work is not executed, and waits return.
///
/// Not checked: the caller must not change host memory until the copy that reads it is done.
template <class Q>
concept KernelQueue = std::default_initializable<typename Q::Ticket> && HostMemory<typename Q::Memory> &&
    requires(Q& queue, const typename Q::Ticket& ticket, void* to, const void* from, std::size_t bytes,
             const PlaceParams& params, const ProductCall& call, std::span<std::byte> room, const GraphPlace& place,
             void (*body)()) {
  queue.template launch<PlaceConfig{}>(params);
  queue.copy(to, from, bytes);
  { queue.record() } -> std::same_as<typename Q::Ticket>;
  queue.wait(ticket, QueueWait::results);
  { queue.host(bytes) } -> std::same_as<typename Q::Memory>;
  queue.lend(room);
  queue.multiply(call);
  queue.graph(place, body);
  queue.give();
  { std::as_const(queue).graph_counts() } -> std::convertible_to<GraphCounts>;
};

} // namespace sluice::kernels
