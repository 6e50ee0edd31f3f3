// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's runtime that world/cuda/cudart calls, on the kernels' emulator.
#include "world/cuda/cudart/runtime.hpp"

#include "sluice/core/random.hpp"

#include "emulate/streams.hpp"
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

struct CUgraph_st {
  sluice::emulate::Device::Graph work;
};
struct CUgraphExec_st {
  sluice::emulate::Device::Graph work;
};

namespace {

using sluice::emulate::Device;
using sluice::testing::EmulatedRuntime;
using Clock = std::chrono::steady_clock;

constexpr int most_streams = 8;

struct State {
  EmulatedRuntime seen;
  std::map<void*, std::size_t> sizes; ///< of allocations
  std::unique_ptr<Device> device;
  sluice::Random random{0};
  int streams = 0;
  std::unique_ptr<CUgraph_st> captured; ///< the graph being captured
};

/// Never destroyed: at the program's end, a device would give its fibers' stacks to a list that no longer exists.
State& state() {
  static State& one = *new State;
  return one;
}

/// Every call after the loss fails with the same error, as in CUDA.
bool lost() {
  EmulatedRuntime& seen = state().seen;
  return seen.fails_at >= 0 && seen.calls++ >= seen.fails_at;
}

/// Noise, aligned to 256 bytes.
cudaError_t allocate(void** at, std::size_t bytes) {
  if (lost()) return cudaErrorIllegalAddress;
  if (bytes > state().seen.free_bytes) return cudaErrorMemoryAllocation;
  *at = ::operator new (bytes, std::align_val_t{256});
  std::memset(*at, 0xff, bytes);
  ++state().seen.allocations;
  state().seen.free_bytes -= bytes;
  state().sizes[*at] = bytes;
  return cudaSuccess;
}
cudaError_t release(void* at) {
  if (at != nullptr) {
    --state().seen.allocations;
    if (const auto size = state().sizes.extract(at)) state().seen.free_bytes += size.mapped();
  }
  ::operator delete (at, std::align_val_t{256});
  return cudaSuccess;
}

} // namespace

struct CUstream_st {
  int number;
};
struct CUevent_st {
  Device::Ticket done;
  std::shared_ptr<Clock::time_point> time;
  bool timed = true;
};

namespace sluice::testing {

EmulatedRuntime& emulated_runtime() { return state().seen; }
emulate::Device& runtime_device() { return *state().device; }
int stream_number(CUstream_st* stream) { return stream->number; }
void give(CUstream_st* stream, std::function<void()> work) { state().device->launch(stream->number, std::move(work)); }
bool runtime_lost() { return lost(); }
void restart_runtime(std::uint64_t seed) {
  state().device.reset();
  state().seen = {};
  state().sizes.clear();
  state().random = Random{seed};
  state().streams = 0;
  state().device = std::make_unique<Device>(most_streams, seed);
}

} // namespace sluice::testing

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
  case cudaErrorIllegalAddress:
    return "cudaErrorIllegalAddress";
  case cudaErrorMemoryAllocation:
    return "cudaErrorMemoryAllocation";
  case cudaErrorStreamCaptureUnsupported:
    return "cudaErrorStreamCaptureUnsupported";
  default:
    return "an error";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "of another kind";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = state().seen.driver_version;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = state().seen.devices;
  if (state().seen.driver_version < 13000) return cudaErrorInsufficientDriver;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaSetDevice(int /*device*/) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* /*value*/, cudaDeviceAttr /*attribute*/, int /*device*/) {
  return cudaErrorNotSupported; // the callers keep their defaults
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *free = state().seen.free_bytes;
  *all = std::size_t{80} << 30;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** at, std::size_t bytes) { return allocate(at, bytes); }
cudaError_t cudaFree(void* at) { return release(at); }
cudaError_t cudaHostAlloc(void** at, std::size_t bytes, unsigned /*flags*/) { return allocate(at, bytes); }
cudaError_t cudaFreeHost(void* at) { return release(at); }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (lost()) return cudaErrorIllegalAddress;
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  if (lost()) return cudaErrorIllegalAddress;
  *stream = new CUstream_st{state().streams++};
  return state().streams <= most_streams ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return priority > 0 || priority < -5 ? cudaErrorInvalidValue : cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Device& device = *state().device;
  device.synchronize(device.record(stream->number));
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (lost()) return cudaErrorIllegalAddress;
  Device& device = *state().device;
  return device.query(device.record(stream->number)) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  if (lost()) return cudaErrorIllegalAddress;
  if (event->done != nullptr) state().device->wait(stream->number, event->done);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (lost()) return cudaErrorIllegalAddress;
  *event = new CUevent_st{};
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  ++state().seen.events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  --state().seen.events;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (lost()) return cudaErrorIllegalAddress;
  auto time = std::make_shared<Clock::time_point>();
  event->time = time;
  ++(event->timed ? state().seen.timed : state().seen.untimed);
  state().device->launch(stream->number, [time] { *time = Clock::now(); });
  event->done = state().device->record(stream->number);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (lost()) return cudaErrorIllegalAddress;
  return event->done == nullptr || state().device->query(event->done) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (lost()) return cudaErrorIllegalAddress;
  if (event->done != nullptr) state().device->synchronize(event->done);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (lost()) return cudaErrorIllegalAddress;
  if (from->done == nullptr || to->done == nullptr || !from->timed || !to->timed) return cudaErrorInvalidResourceHandle;
  if (!from->done->done || !to->done->done) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(std::chrono::duration<double, std::milli>(*to->time - *from->time).count());
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  if (lost()) return cudaErrorIllegalAddress;
  state().seen.copied += static_cast<std::int64_t>(bytes);
  state().device->copy(stream->number, to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  if (lost()) return cudaErrorIllegalAddress;
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  for (std::size_t row = 0; row < height; ++row)
    state().device->copy(stream->number, static_cast<char*>(to) + row * to_pitch,
                         static_cast<const char*>(from) + row * from_pitch, width);
  return cudaSuccess;
}
cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const std::size_t* bytes, std::size_t count,
                                 cudaMemcpyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                                 cudaStream_t stream) {
  if (lost()) return cudaErrorIllegalAddress;
  if (!state().seen.batches) return cudaErrorNotSupported;
  if (count == 0 || attribute_count != 1 || firsts[0] != 0 ||
      attributes[0].srcAccessOrder != cudaMemcpySrcAccessOrderStream)
    return cudaErrorInvalidValue;
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  for (std::size_t i = count; i-- > 1;) std::swap(order[i], order[state().random.below(i + 1)]);
  for (const std::size_t i : order) {
    if (to[i] == nullptr || from[i] == nullptr || bytes[i] == 0) return cudaErrorInvalidValue;
    state().device->copy(stream->number, to[i], from[i], bytes[i]);
    state().seen.copied += static_cast<std::int64_t>(bytes[i]);
  }
  state().seen.batched += static_cast<std::int64_t>(count);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  if (lost()) return cudaErrorIllegalAddress;
  if (!state().seen.graphs) return cudaErrorStreamCaptureUnsupported;
  state().captured = std::make_unique<CUgraph_st>();
  state().device->begin_capture(stream->number, state().captured->work);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  state().device->end_capture(stream->number);
  *graph = state().captured.release();
  ++state().seen.graphs_alive;
  return lost() ? cudaErrorIllegalAddress : cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long /*flags*/) {
  if (lost()) return cudaErrorIllegalAddress;
  if (state().seen.instantiated == state().seen.graphs_at_most) return cudaErrorMemoryAllocation;
  *executable = new CUgraphExec_st{graph->work};
  ++state().seen.graphs_alive;
  ++state().seen.instantiated;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  --state().seen.graphs_alive;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  --state().seen.graphs_alive;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (lost()) return cudaErrorIllegalAddress;
  state().device->launch(stream->number, graph->work);
  ++state().seen.replayed;
  return cudaSuccess;
}

} // extern "C"
