// SPDX-License-Identifier: Apache-2.0
// sluice-profile on an emulated GPU: measures this project's kernels and a link of streams into a bundle with the same
// files and fields as for a processor; the simulator reads it.
#include "sluice/model/device/nlohmann/device_json.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/world/stream/measure_runner.hpp"

#include "emulated/eigen/gpu.hpp"
#include "emulated/kernel_runners.hpp"
#include "profile/measure.hpp"
#include "support/program.hpp"
#include "support/small_models.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::testing {

namespace {

class EmulatedSubject final : public profiled::Subject {
 public:
  explicit EmulatedSubject(ElementType element)
      : element_(element), weights_(small_weights(SmallModel::llama, element)) {
    MachineSetup setup;
    setup.limits.batch_tokens = Tokens{64};
    TimerRoom room;
    room.element_bytes = bytes_of(element);
    room.rows = 24;
    room.samples = 5;
    room.kv = Bytes{1 << 18};
    auto gpu = std::make_shared<EmulatedGpu>(1);
    auto runner = make_kernel_runner(element, gpu, weights_, setup);
    auto timer = RunnerTimer<EmulatedGpu>::make(gpu, std::move(runner), weights_, room);
    REQUIRE(timer);
    CHECK((*timer)->layers() == weights_.config.shape.layers); // a small model is resident as a whole
    timer_ = *std::move(timer);
  }
  [[nodiscard]] std::string name() const override { return "emulated"; }
  [[nodiscard]] profiled::Grid grid() const override {
    return {
        .most_decodes = 4, .most_rows = 20, .contexts = {3, 20}, .chunks = {2, 16}, .pasts = {0, 16}, .mixes = true};
  }
  [[nodiscard]] bool computes_here() const override { return false; }
  [[nodiscard]] int kv_element_bytes() const override { return bytes_of(element_); }
  [[nodiscard]] Bytes memory() const override { return Bytes{1 << 30}; }
  [[nodiscard]] const ModelWeights& weights() const override { return weights_; }
  [[nodiscard]] BatchTimer& timer() override { return *timer_; }
  Expected<std::shared_ptr<TokenWorld>> make_machine(MachineSetup setup, LayerBlocks kv) override {
    auto gpu = std::make_shared<EmulatedGpu>(2);
    setup.device_memory = device_memory_for(kv.count(), element_, weights_, setup);
    auto machine = GpuMachine::make(weights_, make_kernel_runner(element_, gpu, weights_, setup), setup, {}, gpu,
                                    std::int64_t{bytes_of(element_)});
    if (!machine) return machine.error();
    return std::shared_ptr<TokenWorld>{*std::move(machine)};
  }
  Expected<profiled::LinkTimes> link(std::int64_t block, double seconds) override {
    auto copies = StreamCopyTimer<EmulatedGpu>::make(std::make_shared<EmulatedGpu>(3), Bytes{64 << 10});
    REQUIRE(copies);
    return profiled::measure_link(**copies, block, seconds);
  }

 private:
  ElementType element_;
  ModelWeights weights_;
  std::unique_ptr<BatchTimer> timer_;
};

} // namespace

TEST_CASE("a GPU's profile has the files of a processor's, and the simulator reads them") {
  const sluice_test::TemporaryFolder folder;
  for (const ElementType element : {ElementType::f32, ElementType::bf16}) {
    const std::string out = (folder.path / (element == ElementType::f32 ? "f32" : "bf16")).string();
    EmulatedSubject subject(element);
    profiled::MeasureOptions options;
    options.out = out;
    options.seconds = 0.05;
    options.quiet = true;
    options.cuda = true;
    Expected<profiled::Bundle> bundle = profiled::Bundle::open(out);
    REQUIRE(bundle);
    const Status measured =
        profiled::measure(options, subject, profiled::config_of(subject.weights().config.shape), *bundle);
    REQUIRE_MESSAGE(measured.ok(), measured.error().line());

    const Expected<ModelShape> shape = read_hf_config(out);
    REQUIRE_MESSAGE(shape.has_value(), shape.error().line());
    CHECK(shape->kv_element_bytes == bytes_of(element));
    CHECK(shape->layer_block_bytes(Tokens{16}).count() ==
          kv_block_floats(subject.weights().config.shape, Tokens{16}) * bytes_of(element));
    const Expected<Device> device = find_or_read_device(out + "/device.json");
    REQUIRE_MESSAGE(device.has_value(), device.error().line());
    CHECK(device->name == "emulated");
    CHECK(device->lanes == Lanes::each_way);
    CHECK(device->copies == Copies::batched);
    CHECK(device->host_to_device.count() > 0);
    CHECK(device->device_to_host.count() > 0);
    const Expected<TableProfile> profile = read_table_profile(out, device_link(*device));
    REQUIRE_MESSAGE(profile.has_value(), profile.error().line());
    Work work;
    work.decodes = work.samples = 4;
    work.decode_context = Tokens{4 * 20};
    CHECK(profile->step(work).total(shape->layers) > Seconds{0});
    // The first row of each file, the names of columns, equals the processor's.
    for (const auto& [file, header] : {std::pair{"dense.csv", "layer,tokens,time_us"},
                                       {"per_sequence.csv", "layer,sequences,time_us"},
                                       {"attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"},
                                       {"link.csv", "bytes,time_us"}}) {
      const std::string text = sluice_test::content(out + "/" + file);
      CHECK(text.substr(0, text.find('\n')) == header);
    }
    const std::string dense = sluice_test::content(out + "/dense.csv");
    for (const char* kernel :
         {"whole_layer,1,", "whole_layer,4,", "embedding,1,", "iteration,1,", "iteration,20,", "kv_proj,16,"})
      CHECK_MESSAGE(dense.find(kernel) != std::string::npos, kernel);
  }
}

TEST_CASE("layers are not timed at their first launch or at a graph capture") {
  const ModelWeights weights = small_weights(SmallModel::llama, ElementType::bf16);
  const std::int64_t layers = weights.config.shape.layers;
  TimerRoom room;
  room.rows = 8;
  room.samples = 2;
  room.kv = Bytes{1 << 18};
  const TimedBatch decodes{.decodes = 3, .context = 7};
  for (const bool graphs : {true, false}) {
    MachineSetup setup;
    setup.limits.batch_tokens = Tokens{64};
    setup.graphs = graphs;
    auto gpu = std::make_shared<EmulatedGpu>(1);
    auto runner = make_kernel_runner(ElementType::bf16, gpu, weights, setup);
    const ModelRunner& asked = *runner;
    auto made = RunnerTimer<EmulatedGpu>::make(gpu, std::move(runner), weights, room);
    REQUIRE(made);
    const std::int64_t once = graphs ? layers + 1 : 0; // and the samples behind them
    for (int times = 1; times <= 3; ++times) {
      CHECK((*made)->time(decodes).layer > Seconds{0});
      CHECK(asked.graphs().value().launched == once); // the first pass
      CHECK(asked.graphs()->made == once);            // the second
      CHECK(asked.graphs()->replayed == (1 + times) * once);
    }
  }
}

/// An emulated GPU that records how its streams receive copies.
class LookedAtGpu : public EmulatedGpu {
 public:
  using EmulatedGpu::EmulatedGpu;
  struct Way {
    std::int64_t copies = 0, most_copies = 0; ///< of the batch; of any
    std::int64_t bytes = 0;                   ///< of the batch
    std::size_t most_under_way = 0;           ///< batches
    std::vector<Ticket> under_way;
    bool late = true; ///< no batch continued after a batch's bytes
    std::int64_t all = 0;
  };
  void copy_async(StreamId stream, const Copy& copy) {
    Way& way = of(stream);
    way.late = way.late && way.bytes < LinkBatches::bytes;
    way.bytes += copy.bytes;
    way.most_copies = std::max(way.most_copies, ++way.copies);
    ++way.all;
    EmulatedGpu::copy_async(stream, copy);
  }
  Ticket record(StreamId stream, Timing timing = Timing::untimed) {
    const Ticket ticket = EmulatedGpu::record(stream, timing);
    Way& way = of(stream);
    if (way.copies > 0) way.under_way.push_back(ticket);
    way.most_under_way = std::max(way.most_under_way, way.under_way.size());
    way.copies = way.bytes = 0;
    return ticket;
  }
  bool done(const Ticket& ticket) {
    const bool done = EmulatedGpu::done(ticket);
    auto& under_way = of(ticket.stream).under_way;
    if (done) under_way.erase(std::remove(under_way.begin(), under_way.end(), ticket), under_way.end());
    return done;
  }
  Way& of(StreamId stream) { return ways_[static_cast<std::size_t>(stream)]; }

 private:
  std::array<Way, stream_count> ways_;
};

TEST_CASE("copies are timed as a machine's link issues them: in its batches, as many under way") {
  for (const std::int64_t bytes : {96, 40'000, 600'000, 2'000'000}) {
    CAPTURE(bytes);
    auto gpu = std::make_shared<LookedAtGpu>(5);
    auto copies = StreamCopyTimer<LookedAtGpu>::make(gpu, Bytes{4 << 20});
    REQUIRE(copies);
    const std::int64_t expected = std::clamp<std::int64_t>((4 << 20) / bytes, 4, 1024);
    const std::int64_t a_batch =
        std::min({expected, std::int64_t{LinkBatches::copies}, (LinkBatches::bytes + bytes - 1) / bytes});
    const auto batches = static_cast<std::size_t>((expected + a_batch - 1) / a_batch);
    for (const bool both : {false, true}) {
      for (const StreamId stream : {StreamId::to_device, StreamId::to_host}) gpu->of(stream) = {};
      const CopySeconds seconds = (*copies)->time(bytes, true, both);
      CHECK(seconds.to_device > 0);
      CHECK((seconds.to_host > 0) == both);
      CHECK(gpu->of(StreamId::to_host).all == (both ? expected : 0));
      const LookedAtGpu::Way& in = gpu->of(StreamId::to_device);
      CHECK(in.all == expected);
      CHECK(in.most_under_way == std::min(LinkBatches::most, batches));
      CHECK(in.under_way.empty());
      CHECK(in.late);
      CHECK(in.most_copies == a_batch);
    }
  }
}

TEST_CASE("a batch fits if its rows, positions and blocks do") {
  EmulatedSubject subject(ElementType::bf16);
  BatchTimer& timer = subject.timer();
  CHECK(timer.fits({.chunk = 24}));
  CHECK_FALSE(timer.fits({.chunk = 25}));
  CHECK_FALSE(timer.fits({.decodes = 1, .context = subject.weights().config.max_positions}));
  CHECK_FALSE(timer.fits({.decodes = 24, .context = subject.weights().config.max_positions - 1}));
  const BatchTimes times = timer.time({.chunk = 3, .past = 5, .decodes = 2, .context = 7});
  CHECK(times.layer > Seconds{0});
  CHECK(times.head > Seconds{0});
  CHECK(times.begin > Seconds{0});
}

} // namespace sluice::testing
