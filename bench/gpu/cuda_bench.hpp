// SPDX-License-Identifier: Apache-2.0
// CudaBench: a GPU through the CUDA runtime (bench_device.hpp). Only host code: the kernels are in sluice::kernels.
#pragma once

#include "sluice/world/cuda/cudart/cuda_memory.hpp"
#include "sluice/world/cuda/cudart/measure_gather.hpp"
#include "sluice/world/cuda/gather.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/stream/stream_link.hpp"

#include "bench_device.hpp"
#include "fill.hpp"
#include "kernels/families.hpp"
#include "kernels/machine/cuda_gather.hpp"
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpu_bench {

inline void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw Failed(std::string{what} + ": " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error));
}

class CudaBench {
 public:
  static constexpr bool real = true;

  /// Uses the current device; throws with the reason if there is none.
  CudaBench() {
    require(cudaSetDevice(0), "cudaSetDevice");
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    stream_.reset(stream);
  }

  class Memory {
   public:
    Memory() = default;
    Memory(void* at, std::size_t bytes, cudaError_t (*free)(void*))
        : at_(static_cast<std::byte*>(at), {free}), size_(bytes) {}
    [[nodiscard]] std::byte* data() const { return at_.get(); }
    [[nodiscard]] std::size_t size() const { return size_; }

   private:
    struct Free {
      cudaError_t (*free)(void*) = nullptr;
      void operator()(std::byte* at) const { static_cast<void>(free(at)); }
    };
    std::unique_ptr<std::byte, Free> at_{nullptr, Free{}};
    std::size_t size_ = 0;
  };

  [[nodiscard]] std::string name() const {
    cudaDeviceProp properties{};
    require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    return properties.name;
  }
  [[nodiscard]] Memory memory(std::size_t bytes) const {
    void* at = nullptr;
    require(cudaMalloc(&at, bytes == 0 ? 1 : bytes), "cudaMalloc");
    return {at, bytes, &cudaFree};
  }
  [[nodiscard]] Memory pinned(std::size_t bytes) const {
    void* at = nullptr;
    require(cudaHostAlloc(&at, bytes == 0 ? 1 : bytes, cudaHostAllocMapped), "cudaHostAlloc");
    return {at, bytes, &cudaFreeHost};
  }
  void up(void* to, const void* from, std::size_t bytes) { copy_now(to, from, bytes); }
  void down(void* to, const void* from, std::size_t bytes) { copy_now(to, from, bytes); }
  template <class T>
  void fill(T* to, std::uint64_t count, const Numbers& numbers) {
    require(gpu_bench::fill(to, count, numbers, stream()), "filling memory");
    finish();
  }
  void poison(const Memory& memory) {
    if (memory.size() == 0) return;
    require(cudaMemsetAsync(memory.data(), 0xff, memory.size(), stream()), "cudaMemsetAsync");
    finish();
  }

  template <auto config, class Params>
  void launch(const Params& params) {
    static const auto kernel = [] { // one device, so one preparation
      const auto found = sluice::kernels::find_kernel(config);
      if (!found) throw Failed(found.error().line());
      gpu_bench::require(found->prepare());
      return *found;
    }();
    gpu_bench::require(kernel.launch(params, stream()));
  }
  template <class K>
  void launch_kernel(const typename K::Params& params) {
    static const bool prepared = (gpu_bench::require(sluice::kernels::OnGpu::prepare<K>()), true);
    static_cast<void>(prepared);
    gpu_bench::require(sluice::kernels::OnGpu::launch<K>(params, stream()));
  }
  void finish() { require(cudaStreamSynchronize(stream()), "the stream"); }
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  /// False once an error has ended the device's context: then every call of this process returns the same error.
  [[nodiscard]] bool alive() const {
    static_cast<void>(cudaGetLastError()); // clears an error that did not end the context
    void* at = nullptr;
    if (cudaMalloc(&at, 1) != cudaSuccess || cudaFree(at) != cudaSuccess) return false;
    return cudaDeviceSynchronize() == cudaSuccess;
  }
  /// Size of the L2 cache.
  [[nodiscard]] double cache_bytes() const {
    int bytes = 0;
    require(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, 0), "cudaDeviceGetAttribute");
    return bytes;
  }
  /// Makes as few calls as possible: compute-sanitizer makes each of them hundreds of times slower.
  void be_brief() { brief_ = true; }

  /// Times a graph of at least 16 calls and about a millisecond, so that launches leave no gaps and the events' own
  /// time is negligible. Loading and choices at a first launch are not timed.
  template <class Enqueue>
  [[nodiscard]] std::vector<double> time(int repetitions, int calls, Enqueue&& enqueue) {
    const auto all = [&](int times) {
      for (int i = 0; i < times * calls; ++i) enqueue(i % calls);
    };
    all(1); // outside of the capture: `prepare` and lazy loading are not captured
    finish();
    int rounds = 1;
    if (!brief_) {
      const Event begin = event(), end = event();
      require(cudaEventRecord(begin.get(), stream()), "cudaEventRecord");
      all(1);
      const double once = seconds_between(begin, end) / calls;
      const double wanted = once > 1e-3 ? 1 : std::clamp(1e-3 / once, 16.0, 512.0);
      rounds = static_cast<int>((wanted + calls - 1) / calls);
    }
    cudaGraph_t captured = nullptr;
    require(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    try {
      all(rounds);
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(stream(), &captured));
      throw;
    }
    require(cudaStreamEndCapture(stream(), &captured), "cudaStreamEndCapture");
    const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, cudaError_t (*)(cudaGraph_t)> graph(captured,
                                                                                                  &cudaGraphDestroy);
    cudaGraphExec_t made = nullptr;
    require(cudaGraphInstantiate(&made, captured, 0), "cudaGraphInstantiate");
    const std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, cudaError_t (*)(cudaGraphExec_t)> playable(
        made, &cudaGraphExecDestroy);
    return repeat(repetitions, rounds * calls, [&] { require(cudaGraphLaunch(made, stream()), "cudaGraphLaunch"); });
  }

  /// The same without a graph, for calls that cannot be captured. `enqueue()` does a whole repetition. Each is enqueued
  /// behind another that is not timed: on an idle stream the first event would be stamped before the host has launched
  /// anything, and the sample would include the launch's 5 to 10 us.
  template <class Enqueue>
  [[nodiscard]] std::vector<double> repeat(int repetitions, int calls, Enqueue&& enqueue) {
    using Clock = std::chrono::steady_clock;
    const auto begun = Clock::now();
    for (int i = 0; i < 2 || Clock::now() - begun < std::chrono::milliseconds{50}; ++i) { // until clocks have risen
      enqueue();
      finish();
      if (brief_) break;
    }
    const Event begin = event(), end = event();
    std::vector<double> seconds;
    for (int i = 0; i < repetitions; ++i) {
      if (!brief_) enqueue();
      require(cudaEventRecord(begin.get(), stream()), "cudaEventRecord");
      enqueue();
      seconds.push_back(seconds_between(begin, end) / calls);
    }
    return seconds;
  }

  /// Two directions at once, on this device's stream and another's: from the start of the first until both have ended.
  template <class One, class Other>
  [[nodiscard]] std::vector<double> repeat_both(CudaBench& other, int repetitions, One&& one, Other&& two) {
    const Event begun = event(), done = event();
    return repeat(repetitions, 1, [&] {
      require(cudaEventRecord(begun.get(), stream()), "cudaEventRecord");
      require(cudaStreamWaitEvent(other.stream(), begun.get(), 0), "cudaStreamWaitEvent");
      one();
      two();
      require(cudaEventRecord(done.get(), other.stream()), "cudaEventRecord");
      require(cudaStreamWaitEvent(stream(), done.get(), 0), "cudaStreamWaitEvent");
    });
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()), "cudaMemcpyAsync");
  }
  /// All copies in one driver call. Sources are read in the stream's order, which a machine needs that writes a block
  /// and then evicts it.
  void copy_batch(std::vector<void*>& to, std::vector<const void*>& from, std::vector<std::size_t>& bytes) {
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    require(cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), to.size(), &attributes, &first, 1, stream()),
            "cudaMemcpyBatchAsync");
  }

  /// Only a machine's link: its memory and streams (CudaMemory), which choose between driver calls and CopySegments by
  /// the sizes measured when a GPU is opened, and its batches (FedStream).
  class MachineLink {
   public:
    /// `bytes`: size of each memory.
    MachineLink(const CudaBench& bench, std::size_t bytes) : brief_(bench.brief_) {
      auto memory = sluice::CudaMemory::make();
      if (!memory) throw Failed(memory.error().line());
      memory_ = *std::move(memory);
      memory_->gather_by(sluice::kernels::cuda_gather(), gathered());
      const sluice::Bytes all{static_cast<std::int64_t>(bytes)};
      gpu_bench::require(memory_->reserve(all, sluice::Bytes{0}, all));
    }
    /// A kernel makes copies of fewer bytes. Measured at the first call.
    static const sluice::GatherBelow& gathered() {
      static const sluice::GatherBelow below = [] {
        gpu_bench::require(sluice::kernels::prepare_cuda_gather());
        const auto measured = sluice::measure_gather(sluice::kernels::cuda_gather());
        if (!measured) throw Failed(measured.error().line());
        return measured->below;
      }();
      return below;
    }
    [[nodiscard]] std::byte* host() const { return memory_->host_arena(); }
    [[nodiscard]] std::byte* device() const { return memory_->device_arena(); }
    /// Seconds of all copies of each repetition, by the stream, after a warm-up that raises the link's clocks.
    [[nodiscard]] std::vector<double> repeat(int repetitions, std::span<const sluice::Copy> copies, bool to_device) {
      using Clock = std::chrono::steady_clock;
      const auto begun = Clock::now();
      for (int i = 0; !brief_ && (i < 2 || Clock::now() - begun < std::chrono::milliseconds{50}); ++i)
        (void)once(copies, to_device);
      std::vector<double> seconds;
      for (int i = 0; i < repetitions; ++i) seconds.push_back(once(copies, to_device));
      gpu_bench::require(memory_->check());
      return seconds;
    }

   private:
    double once(std::span<const sluice::Copy> copies, bool to_device) {
      std::array<sluice::FedStream<sluice::CudaMemory>, 1> way{
          {{*memory_, to_device ? sluice::StreamId::to_device : sluice::StreamId::to_host, copies}}};
      sluice::feed(*memory_, way);
      return way[0].took().count();
    }
    std::shared_ptr<sluice::CudaMemory> memory_;
    bool brief_;
  };

  using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, cudaError_t (*)(cudaEvent_t)>;
  [[nodiscard]] static Event event() {
    cudaEvent_t made = nullptr;
    require(cudaEventCreate(&made), "cudaEventCreate");
    return {made, &cudaEventDestroy};
  }

 private:
  /// Time from the recording of `begin` until all enqueued work has ended.
  [[nodiscard]] double seconds_between(const Event& begin, const Event& end) const {
    require(cudaEventRecord(end.get(), stream()), "cudaEventRecord");
    require(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }
  void copy_now(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    copy(to, from, bytes);
    finish();
  }
  struct Destroy {
    void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> stream_;
  bool brief_ = false;
};

} // namespace gpu_bench
