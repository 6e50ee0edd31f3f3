// SPDX-License-Identifier: Apache-2.0
// KernelQueue: the stream that a decoder's kernels are launched on: a GPU's, or the emulator's.
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

/// What a wait of the host is for. A queue waits alike for both; that they are told apart lets a test leave one out and
/// see that this is noticed.
enum class QueueWait : std::uint8_t {
  results, ///< the host reads what a copy has brought down
  reuse    ///< the host writes anew what a copy takes up
};

/// Memory of the host that a device copies from and to by itself: pinned. Freed when it goes.
template <class M>
concept HostMemory = std::movable<M> && std::default_initializable<M> && requires(const M& memory) {
  { memory.data() } -> std::same_as<std::byte*>;
  { memory.size() } -> std::same_as<std::size_t>;
};

/// Does what it is given one after the other, while the host goes on.
///
///  1. `launch<config>(params)` enqueues the kernel `KernelFamily<Config>::Kernel<config>` over the grid that the
///     parameters ask for; parameters are taken now. The emulator instantiates the kernel; of a GPU's queue the
///     configuration must be one of those that kernels/configs.cmake lists, which are compiled by nvcc.
///  2. `copy(to, from, bytes)` enqueues a copy, up, down or within the device.
///  3. `record()` is a ticket of all that was enqueued before; `wait(ticket, why)` blocks the host until that is done.
///     A ticket that was never recorded is done.
///  4. `host(bytes)`: memory that such a copy may read or write. Zero bytes are none.
///  5. `multiply(call)` enqueues a product by a library, whose rows may depend on how many there are
///     (`Products::fast`). Before the first, `lend(room)` gives the queue memory of the device that the library may use
///     while it multiplies.
///  6. `graph(place, body)` enqueues what `body` launches and multiplies on this queue: kernel by kernel, or as a graph
///     that was made when `body` launched the same before (LaunchGraphs). `body` copies nothing, records nothing, waits
///     for nothing. `graph_counts()` says how many were launched in which way.
///
/// An error of the device stays with the queue, whose owner asks: what is enqueued after it is not done, and waits
/// return.
///
/// Not checked, and the caller's: memory of the host stays what it is until the copy that reads it is done.
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
  { std::as_const(queue).graph_counts() } -> std::convertible_to<GraphCounts>;
};

} // namespace sluice::kernels
