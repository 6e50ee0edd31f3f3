// SPDX-License-Identifier: Apache-2.0
// bench_host: what a machine's host costs a decode step, on a device whose every call is free.
//
//   bench_host [--benchmark_filter=REGEX] [--benchmark_repetitions=N]
//
// The real Machine runs on a null device: copies and layers take no time, and a runner computes nothing. What is left
// is the host's work: settling what changed, the link's schedule, tickets and block tables.
//
//   resident   all KV is on the device; a step appends one token to each sequence
//   unkept     resident, under a Caching policy that writes everything, on a machine without a host tier: as resident
//   fourth     every fourth layer's KV is on the host and crosses the link in every step
//   streamed   every layer's KV is on the host, and four layers' worth fits on the device (DeepSpeed-Inference)
//   modelled   the same over a link of 55 GB/s of which each call takes 10 us of the host, beside layers that take as
//              long as their transfers: `x_ideal` is the step / max(compute, link), in virtual time that the host's own
//              processor time advances too
//
// A block is 64 KiB, as Llama-3-8B's in bf16, which has 32 layers. (`modelled` runs for 40 steps, so that blocks which
// sequences append on the way count.) Times are processor time of the one thread. Counters, per step:
//
//   step_us        the step
//   before_us      host time before the first layer's launch
//   cells          (block, layer) pairs of the batch
//   ns_per_cell    step / cells
//   ns_per_block   step / blocks that cross the link
//   copies         copies that the link was given; one copy may have several neighbouring blocks
//   timed, untimed (modelled) tickets: a GPU's events, with and without a time
//   visits         needs that the schedule looked at per copy (deterministic)
//   x_by_hand      step / the same step of a plain loop without any account: it writes each sequence's changed table
//                  entry, and gives the null device the same copies and one ticket per layer and batch
#include "sluice/engine/caching.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"
#include "sluice/policy/replan/once.hpp"
#include "sluice/policy/transfer/next_layer.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/machine/machine.hpp"
#include "sluice/world/stream/stream_device.hpp"
#include "sluice/world/stream/stream_memory.hpp"

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

/// Processor time of this thread, seconds: other programs on the machine do not count.
double now() {
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A MemoryDevice whose every call returns at once, and whose bytes nobody touches: only their addresses count.
class NullMemory {
 public:
  using Time = std::chrono::steady_clock::time_point;

  [[nodiscard]] Status reserve(Bytes blocks, Bytes beside, Bytes host) {
    arenas_ = {map(blocks), map(beside), map(host)};
    return {};
  }
  [[nodiscard]] std::byte* device_arena() const { return arenas_[0]; }
  [[nodiscard]] std::byte* beside_arena() const { return arenas_[1]; }
  [[nodiscard]] std::byte* host_arena() const { return arenas_[2]; }
  void copy_async(StreamId /*stream*/, const Copy& copy) {
    benchmark::DoNotOptimize(copy.to);
    ++copies;
    bytes += copy.total();
  }
  [[nodiscard]] Ticket record(StreamId stream, Timing timing = Timing::untimed) {
    ++(timing == Timing::timed ? timed : untimed);
    return {stream, ++last_[static_cast<std::size_t>(stream)]};
  }
  [[nodiscard]] std::uint64_t last(StreamId stream) const { return last_[static_cast<std::size_t>(stream)]; }
  void wait(StreamId /*stream*/, const Ticket& /*ticket*/) {}
  [[nodiscard]] bool done(const Ticket& /*ticket*/) const { return true; }
  void synchronize(const Ticket& /*ticket*/) {}
  [[nodiscard]] Time time(const Ticket& /*ticket*/) const { return {}; }
  void rest() {}

  std::int64_t copies = 0, bytes = 0;
  std::int64_t timed = 0, untimed = 0; ///< tickets

 private:
  /// Reserves addresses. No page is ever touched.
  static std::byte* map(Bytes bytes) {
    void* at = mmap(nullptr, static_cast<std::size_t>(bytes.count()) + 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) std::perror("bench_host: mmap"), std::exit(1);
    return static_cast<std::byte*>(at);
  }

  std::array<std::byte*, 3> arenas_{};
  std::array<std::uint64_t, stream_count> last_{};
};
static_assert(MemoryDevice<NullMemory>);

/// A MemoryDevice in virtual time: streams take the time of their copies and layers, calls and the host's own work that
/// of the host.
class ModelledMemory : public NullMemory {
 public:
  static constexpr double bytes_per_s = 55e9, call_s = 10e-6;

  void copy_async(StreamId stream, const Copy& copy) {
    NullMemory::copy_async(stream, copy);
    skipped_ += call_s;
    take(stream, static_cast<double>(copy.total()) / bytes_per_s);
  }
  void take(StreamId stream, double seconds) { until(stream) = std::max(until(stream), time_s()) + seconds; }
  [[nodiscard]] Ticket record(StreamId stream, Timing timing = Timing::untimed) {
    const Ticket ticket = NullMemory::record(stream, timing);
    until(stream) = std::max(until(stream), time_s());
    at(ticket) = until(stream);
    return ticket;
  }
  void wait(StreamId stream, const Ticket& ticket) { until(stream) = std::max(until(stream), at(ticket)); }
  [[nodiscard]] bool done(const Ticket& ticket) { return at(ticket) <= time_s(); }
  void synchronize(const Ticket& ticket) { skip_to(at(ticket)); }
  [[nodiscard]] Time time(const Ticket& ticket) {
    return Time{} + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(at(ticket)));
  }
  /// Until the first of the tickets that are not done.
  void rest() {
    double first = std::numeric_limits<double>::infinity();
    for (const StreamId stream : all_streams)
      for (std::uint64_t number = last(stream); number > 0 && last(stream) - number < remembered; --number) {
        const double when = at({stream, number});
        if (when <= time_s()) break;
        first = std::min(first, when);
      }
    if (first < std::numeric_limits<double>::infinity()) skip_to(first);
  }
  [[nodiscard]] double time_s() const { return now() + skipped_; }

 private:
  static constexpr std::size_t remembered = 1 << 14;
  double& until(StreamId stream) { return until_[static_cast<std::size_t>(stream)]; }
  double& at(const Ticket& ticket) {
    return times_[static_cast<std::size_t>(ticket.stream)][ticket.number % remembered];
  }
  void skip_to(double when) { skipped_ += std::max(0.0, when - time_s()); }

  double skipped_ = 0;
  std::array<double, stream_count> until_{};
  std::array<std::array<double, remembered>, stream_count> times_{};
};
static_assert(MemoryDevice<ModelledMemory>);

/// Computes nothing: each layer is launched at once, each token is 1.
class NullRunner final : public ModelRunner {
 public:
  explicit NullRunner(DecoderConfig config) : config_(std::move(config)) {}
  [[nodiscard]] Bytes workspace(std::int64_t /*rows*/, std::int64_t /*samples*/) const override { return Bytes{4096}; }
  void begin(std::span<const std::int32_t> /*tokens*/, std::span<const std::int32_t> /*positions*/) override {}
  void restore(std::span<const HiddenRows> /*rows*/) override {}
  void launch_layer(int layer, const LayerWeights& /*weights*/, std::span<const SequenceRows> sequences, int /*rows*/,
                    int /*stored*/, std::span<const HiddenRows> /*kept*/) override {
    if (layer == 0) first_launch = now();
    if (device != nullptr) device->take(StreamId::compute, layer_s);
    benchmark::DoNotOptimize(sequences.data());
  }
  void launch_samples(std::span<const SampleRow> rows) override { tokens_.assign(rows.size(), 1); }
  [[nodiscard]] std::span<const std::int32_t> tokens() override { return tokens_; }
  [[nodiscard]] std::span<const float> logits(std::size_t /*sample*/) override { return {}; }
  [[nodiscard]] const DecoderConfig& config() const override { return config_; }

  double first_launch = 0;
  ModelledMemory* device = nullptr; ///< whose compute stream a layer takes
  double layer_s = 0;

 private:
  DecoderConfig config_;
  std::vector<std::int32_t> tokens_;
};

constexpr std::int64_t block_bytes = 65536;

DecoderConfig llama_blocks(int layers) {
  DecoderConfig config; // narrow, for weights play no part here
  config.shape = {.name = "llama-blocks",
                  .layers = layers,
                  .hidden = 64,
                  .heads = 8,
                  .kv_heads = 8,
                  .head_dim = 128,
                  .mlp = 64,
                  .gated_mlp = true,
                  .vocabulary = 64};
  config.max_positions = 1 << 20;
  return config;
}

/// The same step by hand.
class ByHand {
 public:
  ByHand(std::int64_t requests, std::int64_t blocks, int layers, std::int64_t copies)
      : tables_(static_cast<std::size_t>(requests * layers), std::vector<std::byte*>(static_cast<std::size_t>(blocks))),
        layers_(layers),
        copies_(copies) {
    (void)memory_.reserve(Bytes{block_bytes}, Bytes{1}, Bytes{block_bytes});
  }
  double step_s(int turns) {
    const double begun = now();
    for (int turn = 0; turn < turns; ++turn) {
      const std::size_t each = tables_.size() / static_cast<std::size_t>(layers_);
      std::int64_t copied = 0;
      for (int layer = 0; layer < layers_; ++layer) {
        for (; copied * layers_ < copies_ * (layer + 1); ++copied) {
          Copy copy;
          copy.from = memory_.host_arena() + copied;
          copy.to = memory_.device_arena() + copied;
          copy.bytes = block_bytes;
          memory_.copy_async(StreamId::to_device, copy);
          if (copied % 64 == 63) benchmark::DoNotOptimize(memory_.record(StreamId::to_device));
        }
        for (std::size_t i = 0; i < each; ++i) {
          std::vector<std::byte*>& table = tables_[static_cast<std::size_t>(layer) * each + i];
          table.back() = memory_.device_arena() + i;
          benchmark::DoNotOptimize(table.data());
        }
        benchmark::DoNotOptimize(memory_.record(StreamId::compute));
      }
    }
    return (now() - begun) / turns;
  }

 private:
  NullMemory memory_;
  std::vector<std::vector<std::byte*>> tables_;
  int layers_;
  std::int64_t copies_;
};

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "bench_host: %s\n", why.c_str());
  std::exit(1);
}

/// A machine in which `requests` x `context` tokens decode.
template <class System, class Memory>
struct Scene {
  static constexpr std::int64_t most_steps = 4096;
  using E = With<System, Roofline, Cpu>;

  std::int64_t requests, context;
  int layers;
  std::shared_ptr<Memory> memory = std::make_shared<Memory>();
  std::shared_ptr<Machine<StreamDevice<Memory>>> machine;
  NullRunner* runner = nullptr;
  std::optional<E> engine;

  /// `on_host`: of how many layers' KV, one in so many, is on the host; 0: none. `room`: device blocks in addition to
  /// those of the resident layers, in layers of KV.
  Scene(std::int64_t how_many, std::int64_t tokens, int of_layers, int on_host, int room)
      : requests(how_many), context(tokens), layers(of_layers) {
    const ModelWeights weights = random_weights(llama_blocks(layers), 1, ElementType::bf16);
    MachineSetup setup;
    setup.limits.batch = static_cast<int>(requests);
    setup.limits.batch_tokens = Tokens{requests * context};
    setup.limits.max_context = Tokens{context + most_steps};
    setup.link.each_way = true;
    const std::int64_t layer_blocks = requests * ((context + most_steps) / setup.limits.block_tokens.count() + 1);
    const std::int64_t away = on_host == 0 ? 0 : layers / on_host;
    const LayerBlocks device{layer_blocks * (layers - away + room)};
    setup.host_blocks = LayerBlocks{layer_blocks * away + 1};
    auto own = std::make_unique<NullRunner>(weights.config);
    runner = own.get();
    setup.device_memory = Bytes{0};
    setup.device_memory = Bytes{block_bytes} * (device - stream_kv_blocks(weights, Bytes{4096}, 2, setup)).count();
    auto made =
        Machine<StreamDevice<Memory>>::make(weights, std::move(own), setup, TokenListener{}, memory, std::int64_t{2});
    if (!made) refuse(made.error().line());
    machine = *made;
    const Geometry geometry{layers, Bytes{block_bytes}, weights.layout.bytes, Bytes{64 * 2 * 16}};
    auto configured = E::make({.limits = setup.limits,
                               .geometry = geometry,
                               .device_blocks = device,
                               .host_blocks = setup.host_blocks,
                               .cost = Roofline(weights.config.shape, *find_device("h100")),
                               .backend = Cpu{machine}});
    if (!configured) refuse(configured.error().line());
    engine.emplace(std::move(*configured));
    for (std::int64_t i = 0; i < requests; ++i) {
      RequestSpec spec;
      spec.prompt = Tokens{context};
      spec.output = Tokens{most_steps};
      spec.slo = {Seconds{1e9}, Seconds{1e9}};
      const Expected<RequestId> id = engine->submit(spec);
      if (!id) refuse(id.error().line());
      TokenRequest request;
      request.tokens.assign(static_cast<std::size_t>(context), 1);
      request.ends = false;
      machine->enter(*id, std::move(request));
    }
    for (int i = 0; i < 5; ++i) step();
    if (engine->view().running.size() != static_cast<std::size_t>(requests)) refuse("a request does not run");
  }
  void step() {
    if (engine->step() != Stepped::ran) refuse("more steps than the requests have tokens: ask for fewer");
  }
  [[nodiscard]] std::int64_t blocks() const { return context / 16 + 1; }
};

template <class System>
void decode(benchmark::State& state, int on_host, int room) {
  Scene<System, NullMemory> scene(state.range(0), state.range(1), static_cast<int>(state.range(2)), on_host, room);
  const std::int64_t copies = scene.memory->copies, bytes = scene.memory->bytes;
  const ScheduleLooks looks = scene.machine->schedule_looks();
  double before = 0, took = 0;
  for (auto _ : state) {
    const double begun = now();
    scene.step();
    took += now() - begun;
    before += scene.runner->first_launch - begun;
  }
  const auto steps = static_cast<double>(state.iterations());
  const double blocks = static_cast<double>(scene.memory->bytes - bytes) / block_bytes / steps;
  const double cells = static_cast<double>(scene.requests * scene.blocks() * scene.layers);
  state.counters["step_us"] = 1e6 * took / steps;
  state.counters["before_us"] = 1e6 * before / steps;
  state.counters["cells"] = cells;
  state.counters["ns_per_cell"] = 1e9 * took / steps / cells;
  if (blocks > 0) {
    state.counters["ns_per_block"] = 1e9 * took / steps / blocks;
    state.counters["copies"] = static_cast<double>(scene.memory->copies - copies) / steps;
    const ScheduleLooks then = scene.machine->schedule_looks();
    state.counters["visits"] =
        static_cast<double>(then.needs - looks.needs) / static_cast<double>(then.copies - looks.copies);
  }
  ByHand twin(scene.requests, scene.blocks(), scene.layers, static_cast<std::int64_t>(blocks));
  (void)twin.step_s(1);
  state.counters["x_by_hand"] = took / steps / twin.step_s(5);
}

template <int distance>
using Offloads = Engine<FcfsPrefillFirst, FixedDistance<distance>, NextLayer, Once>;

/// All KV crosses a modelled link while layers compute as long as it takes.
void modelled(benchmark::State& state) {
  Scene<Offloads<1>, ModelledMemory> scene(state.range(0), state.range(1), static_cast<int>(state.range(2)), 1, 4);
  const auto step_bytes = static_cast<double>(scene.requests * scene.blocks() * scene.layers * block_bytes);
  scene.runner->device = scene.memory.get();
  scene.runner->layer_s = step_bytes / ModelledMemory::bytes_per_s / scene.layers;
  for (int i = 0; i < 3; ++i) scene.step();
  const double begun = scene.memory->time_s();
  const std::int64_t bytes = scene.memory->bytes, timed = scene.memory->timed, untimed = scene.memory->untimed;
  for (auto _ : state) scene.step();
  const auto steps = static_cast<double>(state.iterations());
  const double link = static_cast<double>(scene.memory->bytes - bytes) / steps / ModelledMemory::bytes_per_s;
  const double took = (scene.memory->time_s() - begun) / steps;
  state.counters["step_us"] = 1e6 * took;
  state.counters["link_us"] = 1e6 * link;
  state.counters["timed"] = static_cast<double>(scene.memory->timed - timed) / steps;
  state.counters["untimed"] = static_cast<double>(scene.memory->untimed - untimed) / steps;
  state.counters["x_ideal"] = took / std::max(link, scene.runner->layer_s * scene.layers);
}

void resident(benchmark::State& state) { decode<Engine<>>(state, 0, 0); }
void unkept(benchmark::State& state) { decode<With<Engine<>, WriteThrough>>(state, 0, 0); }
void fourth(benchmark::State& state) { decode<Offloads<4>>(state, 4, 4); }
void streamed(benchmark::State& state) { decode<Offloads<1>>(state, 1, 4); }

} // namespace

BENCHMARK(resident)
    ->ArgNames({"requests", "context", "layers"})
    ->Args({8, 1024, 32})
    ->Args({32, 4096, 32})
    ->Args({64, 8192, 8})
    ->Args({64, 8192, 32})
    ->Args({64, 8192, 80})
    ->Iterations(200)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(unkept)
    ->ArgNames({"requests", "context", "layers"})
    ->Args({64, 8192, 8})
    ->Args({64, 8192, 32})
    ->Iterations(200)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(fourth)
    ->ArgNames({"requests", "context", "layers"})
    ->Args({8, 1024, 32})
    ->Args({64, 8192, 8})
    ->Args({64, 8192, 32})
    ->Iterations(20)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(streamed)
    ->ArgNames({"requests", "context", "layers"})
    ->Args({4, 1024, 32})
    ->Args({16, 1024, 32})
    ->Args({64, 1024, 32})
    ->Args({256, 1024, 32})
    ->Args({16, 1024, 8})
    ->Args({16, 1024, 80})
    ->Iterations(5)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(modelled)
    ->ArgNames({"requests", "context", "layers"})
    ->Args({8, 1024, 32})
    ->Args({32, 4096, 32})
    ->Iterations(40)
    ->Unit(benchmark::kMicrosecond);

BENCHMARK_MAIN();
