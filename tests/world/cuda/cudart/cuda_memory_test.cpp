// SPDX-License-Identifier: Apache-2.0
// CudaMemory on a CUDA runtime that is the kernels' emulator: blocks end as if copied one after the other, in any
// order; a refusal of the driver, early or late, is one line and no hang.
#include "sluice/core/random.hpp"
#include "sluice/world/cuda/cudart/cuda_memory.hpp"
#include "sluice/world/cuda/cudart/measure_gather.hpp"
#include "sluice/world/cuda/cudart/pinned_weights.hpp"
#include "sluice/world/cuda/gather.hpp"
#include "sluice/world/stream/stream_lane.hpp"

#include "emulate/streams.hpp"
#include "kernels/machine/cuda_gather.hpp"
#include "support/small_models.hpp"
#include "world/cuda/cudart/runtime.hpp"
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace sluice;
using testing::emulated_runtime;
using testing::restart_runtime;
using Lane = StreamLane<CudaMemory, EveryWait>;

constexpr std::int64_t block_bytes = 64, blocks = 24;

/// CopySegments on the emulator, launched as `cuda_gather` does on a GPU.
Status gather(std::span<const Copy> copies, CUstream_st* stream) {
  using Kernel = kernels::GatherSegments;
  if (testing::runtime_lost()) return status_of(cudaErrorIllegalAddress, "cuda: a kernel that copies");
  const kernels::CopySegmentsParams params = kernels::gather_params(copies);
  testing::runtime_device().launch<Kernel>(testing::stream_number(stream), Kernel::grid(params), params);
  emulated_runtime().gathered += static_cast<std::int64_t>(copies.size());
  return {};
}
constexpr GatherBelow below(std::int64_t bytes) { return {bytes, bytes}; }

/// Blocks of both memories, copied at random by three streams that know each block's tickets; and the same copies made
/// one after the other.
class Copied {
 public:
  explicit Copied(std::uint64_t seed, GatherBelow gathered = {}) : random_(seed) {
    Expected<std::shared_ptr<CudaMemory>> memory = CudaMemory::make();
    REQUIRE(memory);
    memory_ = *memory;
    memory_->gather_by({gather}, gathered);
    REQUIRE(memory_->reserve(Bytes{block_bytes * blocks}, Bytes{256}, Bytes{block_bytes * blocks}));
    for (std::byte* const arena : {memory_->device_arena(), memory_->host_arena()})
      for (std::int64_t i = 0; i < block_bytes * blocks; ++i) arena[i] = static_cast<std::byte>(random_() & 0xff);
    device_.assign(memory_->device_arena(), memory_->device_arena() + block_bytes * blocks);
    host_.assign(memory_->host_arena(), memory_->host_arena() + block_bytes * blocks);
  }

  void run(int steps) {
    EveryWait waits;
    BlockUses device_uses(static_cast<std::size_t>(blocks)), host_uses(static_cast<std::size_t>(blocks));
    std::vector<Lane> lanes;
    for (const StreamId stream : all_streams)
      lanes.emplace_back(*memory_, device_uses, host_uses, block_bytes, stream, waits);
    for (int step = 0; step < steps; ++step) {
      Lane& lane = lanes[random_.below(lanes.size())];
      const std::uint64_t copies = 1 + random_.below(24);
      for (std::uint64_t i = 0; i < copies; ++i) copy(lane);
      const Ticket ticket = lane.launched();
      if (random_.below(8) == 0) memory_->synchronize(ticket);
      if (random_.below(4) == 0) memory_->rest();
      if (random_.below(4) == 0) (void)memory_->done(ticket);
    }
    for (const StreamId stream : all_streams) memory_->synchronize(memory_->record(stream));
  }
  [[nodiscard]] bool as_in_order() const {
    return std::memcmp(memory_->device_arena(), device_.data(), device_.size()) == 0 &&
           std::memcmp(memory_->host_arena(), host_.data(), host_.size()) == 0;
  }
  CudaMemory& memory() { return *memory_; }

 private:
  void copy(Lane& lane) {
    using Content = StreamWait::Content;
    const Content from = random_.below(2) == 0 ? Content::kv : Content::host,
                  to = (random_.below(4) == 0) == (from == Content::kv) ? Content::kv
                                                                        : Content::host; // usually the other memory
    const std::size_t a = random_.below(blocks), b = random_.below(blocks);
    if (from == to && a == b) return;
    Copy copy;
    copy.from = lane.reads({a, 1}, from);
    copy.to = lane.writes({b, 1}, to);
    copy.bytes = block_bytes;
    if (random_.below(4) == 0) { // a part of each row, of whole packets or not
      const bool packets = random_.below(2) == 0;
      copy.rows = packets ? 2 : 4;
      copy.from_stride = copy.to_stride = block_bytes / copy.rows;
      copy.bytes = packets ? 16 : 5;
    } else if (random_.below(2) == 0) { // a part of the block, of whole packets or not
      copy.bytes = random_.below(4) == 0 ? 37 : static_cast<std::int64_t>(16 + 16 * random_.below(3));
    }
    memory_->copy_async(lane.stream(), copy);
    std::vector<std::byte>& source = from == Content::host ? host_ : device_;
    std::vector<std::byte>& target = to == Content::host ? host_ : device_;
    for (std::int64_t row = 0; row < copy.rows; ++row)
      std::memmove(target.data() + static_cast<std::int64_t>(b) * block_bytes + row * copy.to_stride,
                   source.data() + static_cast<std::int64_t>(a) * block_bytes + row * copy.from_stride,
                   static_cast<std::size_t>(copy.bytes));
  }

  Random random_;
  std::shared_ptr<CudaMemory> memory_;
  std::vector<std::byte> device_, host_;
};

} // namespace

TEST_CASE("blocks end as if copied one after the other, in any order of streams and batches") {
  constexpr std::array<std::int64_t, 3> thresholds{0, 50, GatherBelow::all};
  std::array<std::int64_t, 3> gathered{};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    restart_runtime(seed);
    emulated_runtime().batches = seed % 4 != 3;
    {
      Copied copied(seed, below(thresholds[seed % 3]));
      copied.run(200);
      CHECK(copied.as_in_order());
      gathered[seed % 3] += emulated_runtime().gathered;
      CHECK(copied.memory().status().ok());
      CHECK(copied.memory().batches() == emulated_runtime().batches);
      CHECK((emulated_runtime().batched > 0) == emulated_runtime().batches);
    }
    CHECK(emulated_runtime().events == 0);
    CHECK(emulated_runtime().allocations == 0);
  }
  CHECK(gathered[0] == 0);
  CHECK(gathered[1] > 100);
  CHECK(gathered[2] > gathered[1]);
}

TEST_CASE("a lost context is reported in one line, and every call returns") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    restart_runtime(seed);
    {
      Copied copied(seed, below(seed % 2 == 0 ? 0 : GatherBelow::all));
      emulated_runtime().calls = 0;
      emulated_runtime().fails_at = static_cast<std::int64_t>(seed * 7);
      copied.run(100); // returns
      const Ticket ticket = copied.memory().record(StreamId::compute, Timing::timed);
      CHECK(copied.memory().done(ticket));
      CHECK(copied.memory().time(ticket) > CudaMemory::Time{});
      REQUIRE(!copied.memory().check());
      const std::string line = copied.memory().status().error().line();
      CHECK(line.find("cuda: ") == 0);
      CHECK(line.find("cudaErrorIllegalAddress") != std::string::npos);
      CHECK(line.find("a process that begins anew") != std::string::npos);
    }
    CHECK(emulated_runtime().events == 0);
  }
}

TEST_CASE("small copies across the link are gathered if there are several, each way by its threshold") {
  restart_runtime(5);
  Expected<std::shared_ptr<CudaMemory>> made = CudaMemory::make();
  REQUIRE(made);
  CudaMemory& memory = **made;
  REQUIRE(memory.reserve(Bytes{4096}, Bytes{4096}, Bytes{4096}));
  memory.gather_by({gather}, {64, 32}); // to the device if shorter than 64, to the host if shorter than 32
  const auto gathered = [&](std::byte* to, std::byte* from, std::int64_t bytes, std::int64_t count) {
    const std::int64_t before = emulated_runtime().gathered;
    for (std::int64_t i = 0; i < count; ++i) {
      Copy copy;
      copy.to = to + 64 * i;
      copy.from = from + 64 * i;
      copy.bytes = bytes;
      memory.copy_async(StreamId::to_device, copy);
    }
    memory.synchronize(memory.record(StreamId::to_device));
    return emulated_runtime().gathered - before;
  };
  std::byte *const device = memory.device_arena(), *const host = memory.host_arena();
  CHECK(gathered(device, host, 48, 6) == 6);
  CHECK(gathered(device, host, 64, 6) == 0);
  CHECK(gathered(host, device, 16, 6) == 6);
  CHECK(gathered(host, device, 48, 6) == 0);
  CHECK(gathered(device, host, 48, 3) == 0);                // a launch does not pay off
  CHECK(gathered(device, host, 47, 6) == 0);                // not a multiple of a packet
  CHECK(gathered(device + 8, host, 48, 6) == 0);            // not aligned
  CHECK(gathered(device + 2048, device, 48, 6) == 0);       // does not cross the link
  CHECK(gathered(memory.beside_arena(), host, 48, 6) == 0); // the runner's memory
  std::vector<std::byte> elsewhere(4096);                   // which a GPU cannot read
  CHECK(gathered(device, elsewhere.data(), 48, 6) == 0);
  CHECK(memory.status().ok());
}

TEST_CASE("measuring thresholds frees its memory, and a context lost meanwhile is reported in one line") {
  const GatherSweep sweep{16, 64, 256, 8, 2, 3};
  restart_runtime(1);
  const Expected<GatherMeasured> measured = measure_gather({gather}, sweep);
  REQUIRE(measured);
  for (const std::int64_t threshold : {measured->below.to_device, measured->below.to_host}) {
    CHECK(threshold >= 0);
    CHECK(threshold <= 65);
  }
  CHECK(measured->took > Seconds{0});
  CHECK(emulated_runtime().gathered > 0);
  CHECK(emulated_runtime().batched > 0);
  const std::int64_t calls = [] {
    restart_runtime(1);
    emulated_runtime().fails_at = std::int64_t{1} << 40; // never, but calls are counted
    CHECK(measure_gather({gather}, {16, 64, 256, 8, 2, 3}));
    return emulated_runtime().calls;
  }();
  for (std::int64_t at = 0; at < calls; at += 1 + at / 3) {
    CAPTURE(at);
    restart_runtime(2);
    emulated_runtime().fails_at = at;
    const Expected<GatherMeasured> none = measure_gather({gather}, sweep);
    REQUIRE(!none);
    CHECK(none.error().line().find("cuda: ") == 0);
    CHECK(none.error().line().find("cudaErrorIllegalAddress") != std::string::npos);
    CHECK(emulated_runtime().events == 0);
    CHECK(emulated_runtime().allocations == 0);
  }
}

TEST_CASE("times are the host's, in order, and outlive their events") {
  restart_runtime(1);
  Expected<std::shared_ptr<CudaMemory>> memory = CudaMemory::make();
  REQUIRE(memory);
  const auto before = std::chrono::steady_clock::now();
  std::vector<Ticket> tickets;
  const std::int64_t timed = emulated_runtime().timed;
  for (int i = 0; i < 3000; ++i) {
    tickets.push_back((*memory)->record(StreamId::to_host, Timing::timed));
    (void)(*memory)->record(StreamId::to_host); // whose time nobody asks for
  }
  (*memory)->synchronize(tickets.back());
  CHECK(emulated_runtime().timed - timed == 3000);
  CHECK(emulated_runtime().untimed == 3000);
  const auto after = std::chrono::steady_clock::now();
  CHECK(emulated_runtime().events < 1100); // most of 6000 events were used by another ticket before
  auto last = before - std::chrono::microseconds{200};
  for (const Ticket& ticket : tickets) {
    CHECK((*memory)->done(ticket));
    const auto time = (*memory)->time(ticket);
    REQUIRE(time >= last);
    last = time;
  }
  CHECK(last <= after + std::chrono::microseconds{200});
  CHECK((*memory)->done(Ticket{})); // no ticket
}

TEST_CASE("each missing part is reported in one line") {
  restart_runtime(1);
  const auto says = [](const std::string& part) {
    const auto memory = CudaMemory::make();
    REQUIRE(!memory);
    CHECK_MESSAGE(memory.error().line().find(part) == 0, memory.error().line());
  };
  emulated_runtime().driver_version = 0;
  says("cuda: no driver is loaded; expected NVIDIA's, for CUDA 13.0");
  emulated_runtime().driver_version = 12040;
  says("cuda: the driver is for CUDA 12.4, and this program for CUDA 13.0; expected a newer driver");
  emulated_runtime().driver_version = 13000;
  emulated_runtime().devices = 0;
  says("cuda: the driver shows no GPU");
  emulated_runtime().devices = 1;
  const auto memory = CudaMemory::make();
  REQUIRE(memory);
  const Status large = (*memory)->reserve(Bytes{std::int64_t{3} << 30}, Bytes{0}, Bytes{0});
  REQUIRE(!large);
  CHECK(large.error().code == ErrorCode::out_of_memory);
  CHECK_MESSAGE(
      large.error().line().find(
          "cuda: device memory: 3.0 GiB for KV and layers' weights are wanted, and 1.0 GiB of 80.0 GiB are free") == 0,
      large.error().line());
}

TEST_CASE("if the memory that is held leaves too little for another division, all of it is replaced") {
  restart_runtime(1);
  emulated_runtime().free_bytes = 100 << 10;
  const auto made = CudaMemory::make();
  REQUIRE(made);
  CudaMemory& memory = **made;
  const auto reserve = [&](std::int64_t blocks, std::int64_t beside, std::int64_t host) {
    memory.weights().outer = Bytes{256};
    memory.weights().layers.resize(1);
    return memory.reserve(Bytes{blocks << 10}, Bytes{beside << 10}, Bytes{host << 10});
  };
  const auto forgets = [&] { return memory.weights().outer == Bytes{0} && memory.weights().layers.empty(); };
  REQUIRE(reserve(70, 10, 10));
  CHECK(forgets());
  REQUIRE(reserve(60, 10, 10));
  CHECK(!forgets());
  REQUIRE(reserve(40, 40, 10)); // fits only without the 70 KiB of blocks
  CHECK(forgets());
  REQUIRE(reserve(80, 10, 5)); // only without the 40 KiB beside them
  CHECK(forgets());
  REQUIRE(reserve(20, 10, 60)); // only without the 80 KiB of blocks
  CHECK(forgets());
  const Status large = reserve(95, 10, 0);
  REQUIRE(!large);
  CHECK(large.error().code == ErrorCode::out_of_memory);
  CHECK(forgets());
  CHECK(emulated_runtime().allocations == 0);
  CHECK(memory.device_arena() == nullptr);
  REQUIRE(reserve(70, 10, 10));
  memory.weights().layers.resize(1);
  memory.release();
  CHECK(forgets());
  CHECK(emulated_runtime().allocations == 0);
}

TEST_CASE("pinned weights are the model's, converted to the requested element") {
  restart_runtime(1);
  const ModelWeights weights = testing::small_weights(testing::SmallModel::llama, ElementType::f32);
  for (const ElementType element : {ElementType::f32, ElementType::f16, ElementType::bf16}) {
    const Expected<ModelWeights> pinned = pinned_weights(weights, element);
    REQUIRE(pinned);
    const auto same = [&](const std::byte* a, const std::byte* b, std::int64_t numbers) {
      for (std::int64_t i = 0; i < numbers; ++i) {
        std::byte rounded[4];
        store_element(rounded, element, load_element(a + i * 4, ElementType::f32));
        if (std::memcmp(rounded, b + i * bytes_of(element), static_cast<std::size_t>(bytes_of(element))) != 0)
          return false;
      }
      return true;
    };
    for (std::size_t layer = 0; layer < weights.layers.size(); ++layer)
      for (std::size_t i = 0; i < weights.layout.places.size(); ++i) {
        const TensorPlace& place = weights.layout.places[i];
        CHECK(pinned->layout.places[i].type == element);
        CHECK(same(weights.layers[layer][i], pinned->layers[layer][i], place.rows * place.columns));
      }
    for (Matrix OuterWeights::*const member :
         {&OuterWeights::embedding, &OuterWeights::final_norm, &OuterWeights::head}) {
      const Matrix &a = weights.*member, &b = (*pinned).*member;
      CHECK(b.type == element);
      CHECK(same(a.row(0), b.row(0), a.rows * a.columns));
    }
    CHECK(pinned->is_head_tied() == weights.is_head_tied());
  }
}
