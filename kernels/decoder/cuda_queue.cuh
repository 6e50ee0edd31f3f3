// SPDX-License-Identifier: Apache-2.0
// CudaQueue: the KernelQueue of a GPU, which is the compute stream of a CudaMemory.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/world/cuda/cudart/cuda_memory.hpp"
#include "sluice/world/cuda/cudart/driver.hpp"
#include "sluice/world/stream/memory_device.hpp"

#include "kernels/decoder/kernel_queue.hpp"
#include "kernels/families.hpp"
#include "kernels/products/library_products.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::kernels {

/// Pinned host memory for a queue's copies. If the system refuses to pin it, it is ordinary memory, so that writers can
/// continue; the queue has then failed and copies nothing.
class QueueMemory {
 public:
  QueueMemory() = default;
  explicit QueueMemory(PinnedBytes pinned) : pinned_(std::move(pinned)) {}
  explicit QueueMemory(std::size_t bytes) : other_(bytes) {}

  [[nodiscard]] std::byte* data() const { return other_.empty() ? pinned_.data() : other_.data(); }
  [[nodiscard]] std::size_t size() const { return std::max(pinned_.size(), other_.size()); }

 private:
  PinnedBytes pinned_;
  mutable std::vector<std::byte> other_;
};

/// A handle: copies of it share the stream. The memory holds its errors and its tickets. Any compiler can compile this
/// header: functions that nvcc compiled launch the kernels (kernels/lookup.hpp), so nvcc need not compile the runner
/// above it, which is host code.
class CudaQueue {
 public:
  using Ticket = sluice::Ticket;
  using Memory = QueueMemory;

  explicit CudaQueue(std::shared_ptr<CudaMemory> memory) : memory_(std::move(memory)) {}

  /// A configuration that is not listed does not compile: a caller with a template argument learns it at compile time.
  template <auto config>
  void launch(const typename KernelFamily<std::remove_const_t<decltype(config)>>::Params& params) {
    using Family = KernelFamily<std::remove_const_t<decltype(config)>>;
    static_assert(std::find(Family::configs.begin(), Family::configs.end(), config) != Family::configs.end(),
                  "sluice: kernels/configs.cmake has no line for this configuration");
    graphs_->template launch<&CudaQueue::enqueue<config>>(*this, params);
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    SLUICE_ASSERT(!graphs_->collects(), "no copies among launches");
    give();
    Copy copy;
    copy.to = static_cast<std::byte*>(to);
    copy.from = static_cast<const std::byte*>(from);
    copy.bytes = static_cast<std::int64_t>(bytes);
    memory_->copy_async(StreamId::compute, copy);
  }
  [[nodiscard]] Ticket record() {
    give();
    return memory_->record(StreamId::compute);
  }
  void wait(const Ticket& ticket, QueueWait /*why*/) { memory_->synchronize(ticket); }
  [[nodiscard]] Memory host(std::size_t bytes) {
    Expected<PinnedBytes> pinned = pinned_bytes(bytes, "tables of an iteration");
    if (pinned) return Memory{std::move(*pinned)};
    (void)memory_->succeeds(Status{pinned.error()});
    return Memory{bytes};
  }

  /// A missing cuBLASLt is recorded as the memory's error.
  void lend(std::span<std::byte> room) {
    auto library = make_library_products(room);
    if (library)
      library_ = *std::move(library);
    else
      (void)memory_->succeeds(Status{library.error()});
  }
  void multiply(const ProductCall& call) { graphs_->template launch<&CudaQueue::enqueue_product>(*this, call); }

  /// If the driver refuses to capture, or has no memory for graphs, kernels are launched one by one.
  template <class Body>
  void graph(const GraphPlace& place, Body&& body) {
    graphs_->add(place, std::forward<Body>(body));
  }
  void give() { graphs_->give(*this); }
  [[nodiscard]] const GraphCounts& graph_counts() const { return graphs_->counts(); }

  [[nodiscard]] CudaMemory& memory() { return *memory_; }

 private:
  struct DestroyGraph {
    void operator()(cudaGraph_t graph) const { (void)cudaGraphDestroy(graph); }
    void operator()(cudaGraphExec_t graph) const { (void)cudaGraphExecDestroy(graph); }
  };
  using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraph>;
  using Captured = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;
  using Graphs = LaunchGraphs<CudaQueue, Graph>;
  friend Graphs;

  template <auto config>
  static void enqueue(CudaQueue& queue,
                      const typename KernelFamily<std::remove_const_t<decltype(config)>>::Params& params) {
    using Kernel = typename KernelFamily<std::remove_const_t<decltype(config)>>::template Kernel<config>;
    static const Status ready = OnGpu::prepare<Kernel>(); // prepared once, since there is one device
    if (queue.goes_on() && queue.succeeds(ready))
      (void)queue.succeeds(OnGpu::launch<Kernel>(params, queue.memory_->stream(StreamId::compute)));
  }
  static void enqueue_product(CudaQueue& queue, const ProductCall& call) {
    if (queue.goes_on() && queue.library_ != nullptr)
      (void)queue.succeeds((*queue.library_)(queue.memory_->stream(StreamId::compute), call));
  }

  /// An error while launches are captured does not count yet: they are then launched one by one, which may succeed.
  bool succeeds(const Status& status) {
    if (!captures_) return memory_->succeeds(status);
    if (captured_ && !status) captured_ = status;
    return captured_.ok();
  }
  [[nodiscard]] bool goes_on() const { return captures_ ? captured_.ok() : memory_->status().ok(); }

  void replay(const Graph& graph) {
    if (memory_->status())
      (void)memory_->succeeds(cudaGraphLaunch(graph.get(), memory_->stream(StreamId::compute)),
                              "cuda: a graph of launches");
  }
  [[nodiscard]] Expected<Graph> captured(std::span<const Launch<CudaQueue>> launches) {
    if (!memory_->status()) return memory_->status().error();
    const cudaStream_t stream = memory_->stream(StreamId::compute);
    // Relaxed: other calls of this thread and of others do not affect the capture.
    if (const Status begun = asked(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)); !begun)
      return begun.error();
    captures_ = true;
    captured_ = {};
    for (const Launch<CudaQueue>& launch : launches) launch.enqueue(*this);
    captures_ = false;
    cudaGraph_t graph = nullptr;
    const Status ended = asked(cudaStreamEndCapture(stream, &graph));
    const Captured captured{graph};
    if (!captured_) return captured_.error(); // the first error: the end of a capture reports only that there was one
    if (!ended) return ended.error();
    cudaGraphExec_t executable = nullptr;
    if (const Status made = asked(cudaGraphInstantiate(&executable, graph, 0)); !made) return made.error();
    return Graph{executable};
  }
  /// A refusal is no error of the device, unless the device has failed.
  Status asked(cudaError_t error) {
    Status said = status_of(error, "cuda: making a graph of launches");
    if (ends_context(error))
      (void)memory_->succeeds(said);
    else if (!said)
      (void)cudaGetLastError();
    return said;
  }

  std::shared_ptr<CudaMemory> memory_;
  std::shared_ptr<LibraryProducts> library_;
  std::shared_ptr<Graphs> graphs_ = std::make_shared<Graphs>();
  bool captures_ = false;
  Status captured_; // the first error while capturing
};
static_assert(KernelQueue<CudaQueue>);

} // namespace sluice::kernels
