// SPDX-License-Identifier: Apache-2.0
// KernelQueue: the model of kernels/decoder/kernel_queue.hpp that is a stream of an emulated device.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"

#include "emulate/host_library.hpp"
#include "emulate/streams.hpp"
#include "kernels/decoder/kernel_queue.hpp"
#include "kernels/products/bucketed_product.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace sluice::emulate {

/// Memory of the host or of an emulated device: allocated at its exact size, so that AddressSanitizer sees its end, and
/// filled with NaN.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    at_.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
    std::memset(at_.get(), 0xff, bytes);
  }
  Memory(Memory&& other) noexcept : at_(std::move(other.at_)), size_(std::exchange(other.size_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    at_ = std::move(other.at_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  [[nodiscard]] std::byte* data() const { return at_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t alignment{256}; // as CUDA's allocations have
  struct Free {
    void operator()(std::byte* at) const { ::operator delete(at, alignment); }
  };
  std::unique_ptr<std::byte, Free> at_;
  std::size_t size_ = 0;
};

/// Launches of CopySegments that carry their list, which uploads do; and their bytes.
struct Uploads {
  std::int64_t launches = 0, bytes = 0;
};

/// One stream of a device; the device must outlive it. Kernel errors are in the device's report.
class KernelQueue {
 public:
  using Ticket = Device::Ticket;
  using Memory = emulate::Memory;

  KernelQueue(Device& device, int stream) : device_(&device), stream_(stream) {}

  template <auto config>
  void launch(const typename kernels::KernelFamily<std::remove_const_t<decltype(config)>>::Params& params) {
    graphs_->template launch<&KernelQueue::enqueue<config>>(*this, params);
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    SLUICE_ASSERT(!graphs_->collects(), "no copies among launches");
    give();
    ++*copies_;
    device_->copy(stream_, to, from, bytes);
  }
  Ticket record() {
    give();
    return device_->record(stream_);
  }
  void wait(const Ticket& ticket, kernels::QueueWait why) {
    if (ticket != nullptr && !leaves_out_[static_cast<std::size_t>(why)]) device_->synchronize(ticket);
  }
  Memory host(std::size_t bytes) { return Memory{bytes}; }

  void lend(std::span<std::byte> room) {
    products_ = std::make_shared<kernels::BucketedProduct<HostLibrary>>(HostLibrary{room});
  }
  void multiply(const kernels::ProductCall& call) {
    graphs_->template launch<&KernelQueue::enqueue_product>(*this, call);
  }
  template <class Body>
  void graph(const kernels::GraphPlace& place, Body&& body) {
    graphs_->add(place, std::forward<Body>(body));
  }
  void give() { graphs_->give(*this); }
  [[nodiscard]] Expected<Device::Graph> captured(std::span<const kernels::Launch<KernelQueue>> launches) {
    Expected<Device::Graph> graph{std::in_place};
    device_->begin_capture(stream_, *graph);
    for (const auto& launch : launches) launch.enqueue(*this);
    device_->end_capture(stream_);
    return graph;
  }
  void replay(const Device::Graph& graph) { device_->launch(stream_, graph); }
  [[nodiscard]] const GraphCounts& graph_counts() const { return graphs_->counts(); }

  /// Copies by other means than kernels.
  [[nodiscard]] std::int64_t copies() const { return *copies_; }
  [[nodiscard]] const Uploads& uploads() const { return *uploads_; }

  /// The kind of wait that is skipped from now on: a test shows that skipping it matters.
  void leave_out(kernels::QueueWait why) { leaves_out_[static_cast<std::size_t>(why)] = true; }

 private:
  template <auto config>
  static void enqueue(KernelQueue& queue,
                      const typename kernels::KernelFamily<std::remove_const_t<decltype(config)>>::Params& params) {
    using Kernel = typename kernels::KernelFamily<std::remove_const_t<decltype(config)>>::template Kernel<config>;
    if constexpr (std::is_same_v<typename Kernel::Params, kernels::CopySegmentsParams>) {
      if (params.segments == nullptr) ++queue.uploads_->launches;
      for (int i = 0; params.segments == nullptr && i < params.count; ++i)
        queue.uploads_->bytes += params.launched[i].bytes;
    }
    const kernels::Grid grid = Kernel::grid(params);
    if (grid.x > 0 && grid.y > 0) queue.device_->template launch<Kernel>(queue.stream_, grid, params);
  }
  static void enqueue_product(KernelQueue& queue, const kernels::ProductCall& call) {
    [[maybe_unused]] const Status status = (*queue.products_)({queue.device_, queue.stream_}, call);
    SLUICE_ASSERT(status.ok(), "a product that a library has");
  }

  Device* device_;
  int stream_;
  std::shared_ptr<kernels::LaunchGraphs<KernelQueue, Device::Graph>> graphs_ =
      std::make_shared<kernels::LaunchGraphs<KernelQueue, Device::Graph>>();
  std::shared_ptr<std::int64_t> copies_ = std::make_shared<std::int64_t>(0);
  std::shared_ptr<Uploads> uploads_ = std::make_shared<Uploads>();
  bool leaves_out_[2] = {};                                         // by QueueWait
  std::shared_ptr<kernels::BucketedProduct<HostLibrary>> products_; ///< once it has room
};
static_assert(kernels::KernelQueue<KernelQueue>);

} // namespace sluice::emulate
