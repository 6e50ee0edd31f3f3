// SPDX-License-Identifier: Apache-2.0
// CudaBench: a GPU through the CUDA runtime (bench_device.hpp). Host code alone: the kernels are sluice::kernels'.
#pragma once

#include "bench_device.hpp"
#include "kernels/families.hpp"
#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
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

  /// The current device, or an exception that says why there is none.
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

  /// A graph of the calls, played twice before and then between two events, so that launches leave no gaps and what is
  /// loaded or chosen at a first launch is no part of a time.
  template <class Enqueue>
  [[nodiscard]] std::vector<double> time(int repetitions, int calls, Enqueue&& enqueue) {
    for (int i = 0; i < calls; ++i) enqueue(i); // outside of the capture: `prepare` and lazy loading are not captured
    finish();
    cudaGraph_t captured = nullptr;
    require(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    try {
      for (int i = 0; i < calls; ++i) enqueue(i);
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
    return repeat(repetitions, calls, [&] { require(cudaGraphLaunch(made, stream()), "cudaGraphLaunch"); });
  }

  /// Without a graph, for calls that no graph takes. `enqueue()` does a whole repetition.
  template <class Enqueue>
  [[nodiscard]] std::vector<double> repeat(int repetitions, int calls, Enqueue&& enqueue) {
    const Event begin = event(), end = event();
    std::vector<double> seconds;
    for (int i = -2; i < repetitions; ++i) {
      require(cudaEventRecord(begin.get(), stream()), "cudaEventRecord");
      enqueue();
      require(cudaEventRecord(end.get(), stream()), "cudaEventRecord");
      require(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
      float milliseconds = 0;
      require(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
      if (i >= 0) seconds.push_back(static_cast<double>(milliseconds) * 1e-3 / calls);
    }
    return seconds;
  }

  /// Two directions at once, on this device's stream and another's: from when the first begins until both have ended.
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
  /// All of them in one call of the driver. Sources are read in the stream's order, as a machine that writes a block
  /// and then evicts it has to have it.
  void copy_batch(std::vector<void*>& to, std::vector<const void*>& from, std::vector<std::size_t>& bytes) {
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    require(cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), to.size(), &attributes, &first, 1, stream()),
            "cudaMemcpyBatchAsync");
  }

  using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, cudaError_t (*)(cudaEvent_t)>;
  [[nodiscard]] static Event event() {
    cudaEvent_t made = nullptr;
    require(cudaEventCreate(&made), "cudaEventCreate");
    return {made, &cudaEventDestroy};
  }

 private:
  void copy_now(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    copy(to, from, bytes);
    finish();
  }
  struct Destroy {
    void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> stream_;
};

} // namespace gpu_bench
