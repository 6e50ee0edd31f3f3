// SPDX-License-Identifier: Apache-2.0
// CudaMemory: a GPU as a MemoryDevice: two arenas, three streams, and events as tickets.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/cuda/cudart/driver.hpp"
#include "sluice/world/cuda/gather.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/stream/memory_device.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {

/// The MemoryDevice of an NVIDIA GPU, the first that the driver shows. Any thread may use it, one at a time.
///
/// - **Streams** do not wait for the default stream, only for tickets. The link's streams have priority over the
///   compute stream; otherwise the few blocks of a gathering kernel would wait until a layer leaves them an SM.
/// - **A ticket** is an event, with timing only if its time will be asked for. A stream remembers the times of its last
///   65,536 tickets, and has events for 1,024 of them: an older ticket is done (the host waits for it if necessary),
///   and another ticket uses its event.
/// - **Copies** that follow each other in a stream are given to the driver in one call, before the stream is given a
///   ticket, a wait or anything else (CopyBatch says which cannot share a call). Small copies between the two arenas,
///   such as the newest tokens of many sequences' last blocks, become one kernel launch instead, if there is a kernel
///   (`gather_by`). Without it a copy of several rows is a call of its own.
/// - **The first error stays.** After an error the device is given nothing more, every ticket counts as done, and the
///   host waits only for work that is still running on the device, so callers always terminate; `status()` has the
///   driver's message. Nothing computed or copied since the last successful check can be trusted.
class CudaMemory {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Errors: no driver, a driver too old, no GPU (open_device); the driver's errors for streams and events.
  [[nodiscard]] static Expected<std::shared_ptr<CudaMemory>> make() {
    if (Status status = open_device(); !status) return status.error();
    std::shared_ptr<CudaMemory> memory{new CudaMemory};
    int last = 0, first = 0; // priorities: the lower number goes first
    if (!memory->succeeds(cudaDeviceGetStreamPriorityRange(&last, &first), "cuda: the priorities of streams"))
      return memory->status().error();
    for (const StreamId id : all_streams)
      if (!memory->succeeds(cudaStreamCreateWithPriority(&memory->of(id).handle, cudaStreamNonBlocking,
                                                         id == StreamId::compute ? last : first),
                            "cuda: a stream"))
        return memory->status().error();
    if (!memory->succeeds(memory->clock_.start(), "cuda: events that measure time")) return memory->status().error();
    return memory;
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  /// Waits for the streams' work: it uses the arenas.
  ~CudaMemory() {
    for (const Stream& stream : streams_) {
      if (stream.handle != nullptr) (void)cudaStreamSynchronize(stream.handle);
      for (const Mark& mark : stream.marks)
        if (mark.event != nullptr) (void)cudaEventDestroy(mark.event);
      for (const auto& spare : stream.spare)
        for (CUevent_st* const event : spare) (void)cudaEventDestroy(event);
      if (stream.handle != nullptr) (void)cudaStreamDestroy(stream.handle);
    }
  }

  /// Ok, or the first error of the driver.
  [[nodiscard]] const Status& status() const { return status_; }
  /// Looks for errors that no call has returned yet, without waiting.
  [[nodiscard]] const Status& check() {
    for (const Stream& stream : streams_) {
      const cudaError_t error = cudaStreamQuery(stream.handle);
      if (error != cudaErrorNotReady) (void)succeeds(error, "cuda: work of a stream");
    }
    return status_;
  }
  /// For callers that find an error of this device themselves, such as a failed launch. Returns false for an error; the
  /// first one is kept.
  bool succeeds(cudaError_t error, const char* where) {
    return succeeds(error == cudaSuccess ? Status{} : status_of(error, where));
  }
  bool succeeds(const Status& status) {
    if (!status && status_) status_ = status;
    return status.ok();
  }

  /// Each machine reserves; none may live when the next does. Each part that is large enough stays, with the weights in
  /// it. If the parts that stay leave too little memory for the others, all are replaced.
  [[nodiscard]] Status reserve(Bytes blocks, Bytes beside, Bytes host) {
    const bool holds = beside_arena_.begin != nullptr || device_arena_.begin != nullptr || host_arena_.begin != nullptr;
    Status status = renew_all(blocks, beside, host);
    if (!status && holds) {
      release();
      status = renew_all(blocks, beside, host);
    }
    if (!status) release();
    return status;
  }
  /// Frees all reserved memory; no machine may live.
  void release() {
    beside_arena_ = {};
    device_arena_ = {};
    host_arena_ = {};
    weights_ = {};
  }
  [[nodiscard]] std::byte* beside_arena() { return beside_arena_.begin; }
  [[nodiscard]] std::byte* device_arena() { return device_arena_.begin; }
  [[nodiscard]] std::byte* host_arena() { return host_arena_.begin; }
  [[nodiscard]] DeviceWeights& weights() { return weights_; }
  [[nodiscard]] bool& in_use() { return in_use_; }

  /// For host memory that is not pinned, the call may take as long as the copy.
  void copy_async(StreamId stream, const Copy& copy) {
    if (!status_ || copy.bytes <= 0 || copy.rows <= 0) return;
    Stream& to = of(stream);
    if (to.batch.take(copy)) return;
    flush(to);
    [[maybe_unused]] const bool taken = to.batch.take(copy);
    SLUICE_ASSERT(taken, "an empty batch takes any copy");
  }
  [[nodiscard]] Ticket record(StreamId stream, Timing timing = Timing::untimed) {
    Stream& in = of(stream);
    flush(in);
    const std::uint64_t number = ++in.last;
    Mark& mark = in.mark(number);
    mark = {};
    mark.timing = timing;
    if (number > events_kept) retire(in, number - events_kept);
    mark.event = event(in, timing);
    if (mark.event != nullptr) (void)succeeds(cudaEventRecord(mark.event, in.handle), "cuda: recording an event");
    return {stream, number};
  }
  void wait(StreamId stream, const Ticket& ticket) {
    Stream& waits = of(stream);
    flush(waits);
    CUevent_st* const event = pending(ticket);
    if (event != nullptr) (void)succeeds(cudaStreamWaitEvent(waits.handle, event, 0), "cuda: waiting for an event");
  }
  [[nodiscard]] bool done(const Ticket& ticket) {
    CUevent_st* const event = pending(ticket);
    if (event == nullptr) return true;
    const cudaError_t error = cudaEventQuery(event);
    if (error == cudaErrorNotReady) return false;
    if (succeeds(error, "cuda: asking whether work is done")) came_to(ticket);
    return true;
  }
  /// After an error: waits for everything that the stream was given, whose memory may be freed next. A lost device does
  /// no more work, and returns at once.
  void synchronize(const Ticket& ticket) {
    if (!status_) {
      (void)cudaStreamSynchronize(of(ticket.stream).handle);
      return;
    }
    CUevent_st* const event = pending(ticket);
    if (event == nullptr) return;
    if (succeeds(cudaEventSynchronize(event), "cuda: waiting for work")) came_to(ticket);
  }
  /// DeviceClock states the precision. A ticket whose time is forgotten gets the earliest time known.
  [[nodiscard]] Time time(const Ticket& ticket) {
    Stream& stream = of(ticket.stream);
    if (ticket.number == 0 || ticket.number + times_kept <= stream.last) return {};
    Mark& mark = stream.mark(ticket.number);
    SLUICE_ASSERT(mark.timing == Timing::timed, "only a timed ticket has a time");
    if (!mark.knows_time) find_time(mark);
    return mark.time;
  }
  /// Yields the processor, and sleeps only after a while without progress: a batch's copies take tens of microseconds,
  /// as long as the shortest sleep.
  void rest() {
    const Time now = std::chrono::steady_clock::now();
    if (now - came_to_something_ < busy_for)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds{20});
  }

  /// From now on the kernel makes copies between the arenas of fewer bytes than this, if a batch has enough of them.
  void gather_by(const GatherKernel& kernel, const GatherBelow& below) {
    gather_kernel_ = kernel;
    gather_below_ = below;
  }

  /// For launches. Pending copies are given to the stream first.
  [[nodiscard]] cudaStream_t stream(StreamId stream) {
    flush(of(stream));
    return of(stream).handle;
  }
  /// Whether batches still go to the driver in one call: it has not refused one.
  [[nodiscard]] bool batches() const { return batches_; }
  /// From now on each copy is a call of its own; for comparison in a benchmark.
  void copy_one_by_one() { batches_ = false; }

 private:
  static constexpr std::uint64_t events_kept = 1024;
  static constexpr std::uint64_t times_kept = 1 << 16;
  static constexpr std::chrono::microseconds busy_for{500};

  struct Mark {
    cudaEvent_t event = nullptr; ///< null: another ticket has it
    Time time{};
    Timing timing = Timing::untimed;
    bool knows_time = false;
  };
  struct Stream {
    cudaStream_t handle = nullptr;
    std::uint64_t last = 0; ///< ticket
    std::uint64_t done = 0; ///< the last ticket known to be done; all before it are done too
    std::vector<Mark> marks = std::vector<Mark>(times_kept); ///< by ticket
    std::array<std::vector<cudaEvent_t>, 2> spare;           ///< by timing
    CopyBatch batch;                                         ///< not yet given to the stream

    Mark& mark(std::uint64_t number) { return marks[number % times_kept]; }
    std::vector<cudaEvent_t>& spare_of(Timing timing) { return spare[static_cast<std::size_t>(timing)]; }
  };

  template <class Memory>
  struct Reserved {
    Memory memory; ///< as large as the largest reservation
    std::byte* begin = nullptr;
    bool is_new = false;
    [[nodiscard]] bool holds(const void* address) const { return memory.holds(address); }
  };

  CudaMemory() = default;
  [[nodiscard]] Status renew_all(Bytes blocks, Bytes beside, Bytes host) {
    // The part beside the blocks first: it is smaller, so an error tells how much the blocks might have.
    Status status = renew(beside_arena_, beside, device_bytes, "buffers and the weights outside of layers");
    if (status) status = renew(device_arena_, blocks, device_bytes, "KV and layers' weights");
    if (status) status = renew(host_arena_, host, pinned_bytes, "KV on the host");
    if (beside_arena_.is_new) weights_.outer = Bytes{0};
    if (device_arena_.is_new) weights_.layers.clear();
    return status;
  }
  template <class Memory, class Allocate>
  [[nodiscard]] Status renew(Reserved<Memory>& reserved, Bytes wanted, const Allocate& allocate, const char* what) {
    const auto bytes = static_cast<std::size_t>(wanted.count());
    std::optional<std::size_t> begin = begin_in(reserved.memory.size(), bytes);
    reserved.is_new = !begin;
    if (!begin) {
      reserved.memory = {}; // before there is other memory
      Expected<Memory> memory = allocate(bytes, what);
      if (!memory) return memory.error();
      reserved.memory = *std::move(memory);
      begin = 0;
    }
    reserved.begin = reserved.memory.data() + *begin;
    return {};
  }
  Stream& of(StreamId stream) { return streams_[static_cast<std::size_t>(stream)]; }

  /// The ticket's event; null if the ticket is done.
  [[nodiscard]] cudaEvent_t pending(const Ticket& ticket) {
    Stream& stream = of(ticket.stream);
    if (!status_ || ticket.number <= stream.done) return nullptr;
    SLUICE_ASSERT(ticket.number <= stream.last, "a ticket that was taken");
    return stream.mark(ticket.number).event;
  }
  void came_to(const Ticket& ticket) {
    of(ticket.stream).done = ticket.number;
    came_to_something_ = std::chrono::steady_clock::now();
  }
  void find_time(Mark& mark) {
    if (mark.event == nullptr || !status_ ||
        !succeeds(clock_.time(mark.event, mark.time), "cuda: the time of an event"))
      mark.time = std::chrono::steady_clock::now();
    mark.knows_time = true;
  }
  /// Takes an old ticket's event for a new one.
  void retire(Stream& stream, std::uint64_t number) {
    Mark& mark = stream.mark(number);
    if (mark.event == nullptr) return;
    synchronize({static_cast<StreamId>(&stream - streams_.data()), number});
    if (mark.timing == Timing::timed && !mark.knows_time) find_time(mark);
    stream.spare_of(mark.timing).push_back(std::exchange(mark.event, nullptr));
  }
  [[nodiscard]] cudaEvent_t event(Stream& stream, Timing timing) {
    if (!status_) return nullptr;
    cudaEvent_t event = nullptr;
    const unsigned flags = timing == Timing::timed ? cudaEventDefault : cudaEventDisableTiming;
    if (std::vector<cudaEvent_t>& spare = stream.spare_of(timing); !spare.empty()) {
      event = spare.back();
      spare.pop_back();
    } else if (!succeeds(cudaEventCreateWithFlags(&event, flags), "cuda: an event")) {
      return nullptr;
    }
    return event;
  }

  void flush(Stream& stream) {
    CopyBatch& batch = stream.batch;
    if (batch.empty()) return;
    if (status_ && gather_kernel_) gather(stream); // any copy of a batch may be the first
    if (status_)
      batch.take_out([](const Copy& copy) { return copy.rows > 1; }, [&](const Copy& copy) { give(stream, copy); });
    if (status_ && !(batches_ && batch.copies().size() > 1 && give_at_once(stream)))
      for (const Copy& copy : batch.copies()) give(stream, copy);
    batch.clear();
  }
  void give(Stream& stream, const Copy& copy) {
    if (!status_) return;
    const auto bytes = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    if (copy.rows == 1)
      (void)succeeds(cudaMemcpyAsync(copy.to, copy.from, bytes(copy.bytes), cudaMemcpyDefault, stream.handle),
                     "cuda: a copy");
    else
      (void)succeeds(cudaMemcpy2DAsync(copy.to, bytes(copy.to_stride), copy.from, bytes(copy.from_stride),
                                       bytes(copy.bytes), bytes(copy.rows), cudaMemcpyDefault, stream.handle),
                     "cuda: a copy of rows");
  }
  /// Gives the small copies of the batch to the kernel, and leaves the rest. Pinned memory has one address for both
  /// processors (CUDA's unified addressing, which every system with this driver has).
  void gather(Stream& stream) {
    const auto small = [this](const Copy& copy) {
      const std::int64_t strides = copy.rows == 1 ? 0 : copy.from_stride | copy.to_stride;
      const bool whole =
          ((reinterpret_cast<std::uintptr_t>(copy.to) | reinterpret_cast<std::uintptr_t>(copy.from)) % 16 |
           static_cast<std::uintptr_t>(copy.bytes | strides) % 16) == 0;
      const bool fetch = host_arena_.holds(copy.from) && device_arena_.holds(copy.to);
      const bool send = device_arena_.holds(copy.from) && host_arena_.holds(copy.to);
      return whole && (fetch || send) && copy.total() < (fetch ? gather_below_.to_device : gather_below_.to_host);
    };
    CopyBatch& batch = stream.batch;
    const auto all = batch.copies();
    if (static_cast<std::size_t>(std::count_if(all.begin(), all.end(), small)) < GatherKernel::least) return;
    std::array<Copy, CopyBatch::most> copies;
    std::size_t count = 0;
    batch.take_out(small, [&](const Copy& copy) { copies[count++] = copy; });
    for (std::size_t at = 0; at < count && status_; at += GatherKernel::most)
      (void)succeeds(
          gather_kernel_.launch({copies.data() + at, std::min(count - at, GatherKernel::most)}, stream.handle));
  }
  /// The driver reads sources in stream order. Rejected: cudaMemcpySrcAccessOrderAny, with which a source may be read
  /// before the work that the stream waited for: the layer that writes a block that is sent, or the send that brought a
  /// fetched block to the host. Returns false if the driver refuses such batches, or this one; the single copies then
  /// report why.
  [[nodiscard]] bool give_at_once(Stream& stream) {
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
    std::size_t first = 0, count = 0;
    std::array<void*, CopyBatch::most> to;
    std::array<const void*, CopyBatch::most> from;
    std::array<std::size_t, CopyBatch::most> bytes;
    for (const Copy& copy : stream.batch.copies()) {
      to[count] = copy.to;
      from[count] = copy.from;
      bytes[count++] = static_cast<std::size_t>(copy.bytes);
    }
    const cudaError_t error =
        cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), count, &attributes, &first, 1, stream.handle);
    if (error == cudaSuccess) return true;
    batches_ = false;
    if (!ends_context(error)) (void)cudaGetLastError(); // clears the refusal
    return false;
  }

  Status status_;
  bool batches_ = true;
  GatherKernel gather_kernel_;
  GatherBelow gather_below_;
  Time came_to_something_{};
  Reserved<DeviceBytes> beside_arena_, device_arena_;
  Reserved<PinnedBytes> host_arena_;
  DeviceWeights weights_;
  bool in_use_ = false; ///< by a machine
  DeviceClock clock_;
  std::array<Stream, stream_count> streams_;
};

static_assert(MemoryDevice<CudaMemory>);

} // namespace sluice
