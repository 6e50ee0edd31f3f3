// SPDX-License-Identifier: Apache-2.0
// bench_cpu: compares the Eigen decoder with this machine's memory bandwidth and with Eigen's own products.
//
//   bench_cpu [--benchmark_filter=REGEX] [--benchmark_repetitions=N]
//
// Each benchmark runs in turn with a raw twin: the fastest of several loops that sum the same bytes (from how many
// places at once, with a prefetch or without, is measured first), or Eigen's product of the same matrices. `of_raw` is
// the median over the turns of the twin's time over ours: 1 is as fast as the twin. With one thread, times are
// processor time, so that other load on the machine disturbs them less; with two threads, wall time.
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/eigen/make_decoder.hpp"
#include "sluice/model/decoder/eigen/paged_attention.hpp"
#include "sluice/model/decoder/eigen/projection.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/cpu/cpu_memory.hpp"

#include <Eigen/Core>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr int block_tokens = 16;

double seconds(int threads) {
#ifdef CLOCK_THREAD_CPUTIME_ID
  if (threads == 1) {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
#endif
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// Times `ours` and `raw` in turns. `work`: amount that ours does in a turn; `unit`: name of the rate (1e9 per second).
template <class Ours, class Raw>
void in_turns(benchmark::State& state, int threads, double work, const char* unit, const Ours& ours, const Raw& raw) {
  std::vector<double> rates;
  std::vector<double> raw_rates;
  std::vector<double> ratios;
  for (auto _ : state) {
    const double start = seconds(threads);
    raw();
    const double between = seconds(threads);
    ours();
    const double end = seconds(threads);
    state.SetIterationTime(end - between);
    rates.push_back(work / (end - between) * 1e-9);
    raw_rates.push_back(work / (between - start) * 1e-9);
    ratios.push_back((between - start) / (end - between));
  }
  state.counters[unit] = median(rates);
  state.counters[std::string{"raw_"} + unit] = median(raw_rates);
  state.counters["of_raw"] = median(ratios);
}

/// Sums memory as floats in parts of 1 MiB, each from `places` positions at once, with a prefetch `ahead` bytes behind
/// each of them (0: none).
template <int places, int ahead>
void read_from(ThreadPool& pool, std::span<const float> floats) {
  constexpr std::int64_t part_floats = 1 << 18;
  const auto count = static_cast<std::int64_t>(floats.size());
  pool.run(static_cast<int>(count / part_floats), [&](int part, int /*thread*/) {
    const float* from = floats.data() + part * part_floats;
    Lanes16 sums[std::size_t{places}];
    detail::unrolled<places>([&](auto place) { sums[place] = Lanes16::zero(); });
    for (std::int64_t i = 0; i < part_floats / places; i += Lanes16::count)
      detail::unrolled<places>([&](auto place) __attribute__((always_inline)) {
        const float* const at = from + place * (part_floats / places) + i;
        if constexpr (ahead > 0) __builtin_prefetch(reinterpret_cast<const std::byte*>(at) + ahead);
        sums[place] = sums[place] + Lanes16::load(at);
      });
    detail::unrolled<places>([&](auto place) { benchmark::DoNotOptimize(sum(sums[place])); });
  });
}

/// The ways to read memory among which `read_all` takes the fastest.
struct Reader {
  const char* name;
  void (*read)(ThreadPool& pool, std::span<const float> floats);
};
constexpr Reader readers[] = {
    {"one place", read_from<1, 0>},
    {"one place, 4 KiB ahead", read_from<1, 4096>},
    {"two places", read_from<2, 0>},
    {"four places", read_from<4, 0>},
    {"four places, 4 KiB ahead", read_from<4, 4096>},
    {"eight places", read_from<8, 0>},
    {"sixteen places", read_from<16, 0>},
    {"sixteen places, 1 KiB ahead", read_from<16, 1024>},
};

/// The fastest reader of memory for this many threads, by the median of five turns over 256 MiB.
const Reader& fastest_reader(int threads) {
  static const Reader* found[3] = {};
  const Reader*& best = found[threads];
  if (best != nullptr) return *best;
  Expected<VirtualMemory> memory = VirtualMemory::reserve(Bytes{256 << 20});
  if (!memory) std::fprintf(stderr, "bench_cpu: %s\n", memory.error().line().c_str()), std::exit(1);
  memory->prefer_huge_pages();
  std::memset(memory->data(), 1, 256 << 20);
  const std::span<const float> floats{reinterpret_cast<const float*>(memory->data()), std::size_t{1} << 26};
  ThreadPool pool{threads};
  std::vector<double> took[std::size(readers)];
  for (int turn = 0; turn < 5; ++turn)
    for (std::size_t i = 0; i < std::size(readers); ++i) {
      const double start = seconds(threads);
      readers[i].read(pool, floats);
      took[i].push_back(seconds(threads) - start);
    }
  double least = 0;
  for (std::size_t i = 0; i < std::size(readers); ++i)
    if (const double one = median(took[i]); best == nullptr || one < least) best = &readers[i], least = one;
  std::fprintf(stderr, "%d thread%s read fastest from %s: %.1f GB/s\n", threads, threads == 1 ? "" : "s", best->name,
               1e-9 * static_cast<double>(floats.size() * sizeof(float)) / least);
  return *best;
}
void read_all(ThreadPool& pool, int threads, std::span<const float> floats) {
  fastest_reader(threads).read(pool, floats);
}

/// A Llama of 1.5 GB in f32: no cache holds one of its layers.
DecoderConfig llama() {
  DecoderConfig config;
  config.shape.name = "llama of 8 layers";
  config.shape.layers = 8;
  config.shape.hidden = 2048;
  config.shape.heads = 16;
  config.shape.kv_heads = 4;
  config.shape.head_dim = 128;
  config.shape.mlp = 5632;
  config.shape.vocabulary = 4096;
  return config;
}

const ModelWeights& model(ElementType type) {
  static const ModelWeights f32 = random_weights(llama(), 1, ElementType::f32);
  static const ModelWeights bf16 = random_weights(llama(), 1, ElementType::bf16);
  return type == ElementType::f32 ? f32 : bf16;
}

const std::byte* image_of(const ModelWeights& weights, int layer) {
  return weights.layers[static_cast<std::size_t>(layer)][0] - weights.layout.places[0].offset;
}
LayerWeights layer_of(const ModelWeights& weights, int layer) {
  return {weights.layout, image_of(weights, layer), nullptr, weights.layout.bytes.count()};
}

constexpr std::size_t page_floats = 4096 / sizeof(float);

/// The part of `room` that starts on a page boundary: all but one page's floats.
std::span<float> on_a_page(std::vector<float>& room) {
  return {aligned(room.data(), page_floats * sizeof(float)), room.size() - page_floats};
}

/// K and V of one sequence in one layer: blocks in one allocation, in arbitrary order. It starts on a page boundary, as
/// the backend's memory does; otherwise a vector load would touch two cache lines.
struct Context {
  Context(const ModelShape& shape, int tokens)
      : block_floats(kv_block_floats(shape, Tokens{block_tokens})),
        room(static_cast<std::size_t>((tokens + block_tokens - 1) / block_tokens * block_floats) + page_floats),
        memory(on_a_page(room)) {
    const auto count = static_cast<std::int64_t>(memory.size()) / block_floats;
    for (std::int64_t i = 0; i < count; ++i)
      blocks.push_back(reinterpret_cast<std::byte*>(memory.data() + i * 769 % count * block_floats));
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i % 61) * 0.01F - 0.3F;
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() = default;

  std::int64_t block_floats;
  std::vector<float> room;
  std::span<float> memory;
  std::vector<std::byte*> blocks;
};

/// One request that decodes token by token after a context of 512.
class OneRequest {
 public:
  OneRequest(ElementType type, int threads)
      : weights_(model(type)), decoder_(make_decoder(weights_, Tokens{block_tokens}, threads)) {
    for (int layer = 0; layer < weights_.config.shape.layers; ++layer) {
      contexts_.push_back(std::make_unique<Context>(weights_.config.shape, tokens));
      Expected<VirtualMemory> home = VirtualMemory::reserve(weights_.layout.bytes); // as the CPU's machine has them
      if (!home) std::fprintf(stderr, "bench_cpu: %s\n", home.error().line().c_str()), std::exit(1);
      home->prefer_huge_pages();
      std::memcpy(home->data(), image_of(weights_, layer), static_cast<std::size_t>(weights_.layout.bytes.count()));
      layers_.push_back({weights_.layout, home->data(), nullptr, weights_.layout.bytes.count()});
      homes_.push_back(std::move(*home));
    }
    logits_.resize(static_cast<std::size_t>(weights_.config.shape.vocabulary));
  }
  void token() {
    const std::int32_t token = 7;
    const std::int32_t position = tokens - 1;
    decoder_->begin(std::span{&token, 1}, std::span{&position, 1});
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const SequenceRows rows{0, 1, position, contexts_[layer]->blocks.data(), 0};
      decoder_->layer(static_cast<int>(layer), layers_[layer], std::span{&rows, 1}, 1, 0);
    }
    const int row = 0;
    decoder_->logits(std::span{&row, 1}, logits_);
    benchmark::DoNotOptimize(logits_.data());
  }
  /// Reads all memory that a token needs: layers, head, K and V.
  void read(ThreadPool& pool, int threads) const {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      read_all(pool, threads,
               {reinterpret_cast<const float*>(homes_[layer].data()),
                static_cast<std::size_t>(weights_.layout.bytes.count()) / sizeof(float)});
      read_all(pool, threads, contexts_[layer]->memory);
    }
    read_all(pool, threads,
             {reinterpret_cast<const float*>(weights_.head.head),
              static_cast<std::size_t>(weights_.head.rows * weights_.head.row_bytes()) / sizeof(float)});
  }
  [[nodiscard]] double bytes() const {
    std::int64_t bytes = weights_.head.rows * weights_.head.row_bytes();
    for (const auto& context : contexts_)
      bytes += weights_.layout.bytes.count() + static_cast<std::int64_t>(context->memory.size() * sizeof(float));
    return static_cast<double>(bytes);
  }

 private:
  static constexpr int tokens = 512;

  const ModelWeights& weights_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<VirtualMemory> homes_;
  std::vector<LayerWeights> layers_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<float> logits_;
};

void decode(benchmark::State& state, ElementType type) {
  const int threads = static_cast<int>(state.range(0));
  OneRequest request{type, threads};
  ThreadPool pool{threads};
  in_turns(
      state, threads, request.bytes(), "GB/s", [&] { request.token(); }, [&] { request.read(pool, threads); });
}

/// `of_raw`: how many times faster than the same model in f32.
void decode_bf16_beside_f32(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  OneRequest bf16{ElementType::bf16, threads};
  OneRequest f32{ElementType::f32, threads};
  in_turns(
      state, threads, 1e9, "tokens/s", [&] { bf16.token(); }, [&] { f32.token(); });
}

/// 512 tokens through one layer including attention, compared with only Eigen's products of the same matrices.
void prefill(benchmark::State& state, ElementType type) {
  const int rows = 512;
  const ModelWeights& weights = model(type);
  const ModelShape& shape = weights.config.shape;
  const auto decoder = make_decoder(weights, Tokens{block_tokens}, 1);
  const Context context{shape, rows};
  std::vector<std::int32_t> tokens(rows, 7);
  std::vector<std::int32_t> positions(rows);
  std::iota(positions.begin(), positions.end(), 0);
  const LayerWeights layer = layer_of(weights, 0);
  const LayerWeights floats = layer_of(model(ElementType::f32), 0);
  const MlpWeights& mlp = floats.mlps[0];
  double work = 0;
  for (const Matrix* w : {&floats.query, &floats.key, &floats.value, &floats.output, &mlp.gate, &mlp.up, &mlp.down})
    work += 2.0 * rows * static_cast<double>(w->rows * w->columns);
  RowMajor x = RowMajor::Random(rows, std::max(shape.hidden, shape.mlp));
  RowMajor y(rows, std::max(shape.hidden, shape.mlp));
  in_turns(
      state, 1, work, "GFLOP/s",
      [&] {
        decoder->begin(tokens, positions);
        const SequenceRows all{0, rows, 0, context.blocks.data(), 0};
        decoder->layer(0, layer, std::span{&all, 1}, rows, 0);
      },
      [&] {
        for (const Matrix* w :
             {&floats.query, &floats.key, &floats.value, &floats.output, &mlp.gate, &mlp.up, &mlp.down}) {
          const Eigen::Map<const RowMajor> matrix{reinterpret_cast<const float*>(w->head), w->rows, w->columns};
          y.leftCols(w->rows).noalias() = x.leftCols(w->columns) * matrix.transpose();
          benchmark::DoNotOptimize(y.data());
        }
      });
}

/// One token's attention over 32k tokens of one layer, compared with reading them.
void attention(benchmark::State& state) {
  const int tokens = 32768;
  const int threads = static_cast<int>(state.range(0));
  ModelShape shape;
  shape.head_dim = static_cast<int>(state.range(1));
  shape.kv_heads = 4;
  shape.heads = static_cast<int>(state.range(2)) * shape.kv_heads;
  const Context context{shape, tokens};
  ThreadPool pool{threads};
  PagedAttention attention{shape, Tokens{block_tokens}, threads};
  std::vector<float> query_room(static_cast<std::size_t>(shape.heads * shape.head_dim) + page_floats, 0.3F);
  std::vector<float> result_room(query_room.size());
  const std::span<const float> query = on_a_page(query_room);
  const std::span<float> result = on_a_page(result_room);
  const SequenceRows row{0, 1, tokens - 1, context.blocks.data(), 0};
  in_turns(
      state, threads, static_cast<double>(context.memory.size() * sizeof(float)), "GB/s",
      [&] {
        attention.run(pool, std::span{&row, 1}, 1, 0, query.data(), result.data(),
                      static_cast<std::int64_t>(query.size()));
        benchmark::DoNotOptimize(result.data());
      },
      [&] { read_all(pool, threads, context.memory); });
}

/// Cost of the fixed summation order: some rows times 2048 x 2048, compared with Eigen's product, which has its own
/// order.
void product(benchmark::State& state) {
  const auto rows = static_cast<int>(state.range(0));
  const int size = 2048;
  const int copies = rows == 1 ? 8 : 1; // one row is bound by reading: copies make it read memory, not the cache
  const RowMajor w = RowMajor::Random(std::int64_t{size} * copies, size);
  const RowMajor x = RowMajor::Random(rows, size);
  RowMajor y(rows, std::int64_t{size} * copies);
  RowMajor eigen(rows, std::int64_t{size} * copies);
  const Matrix matrix =
      Matrix::whole(reinterpret_cast<const std::byte*>(w.data()), w.rows(), w.cols(), ElementType::f32);
  in_turns(
      state, 1, 2.0 * rows * static_cast<double>(w.size()), "GFLOP/s",
      [&] {
        for (std::int64_t first = 0; first < w.rows(); first += 96)
          project({x.data(), size, rows}, matrix, first, std::min(w.rows(), first + 96), y.data(), y.cols());
        benchmark::DoNotOptimize(y.data());
      },
      [&] {
        eigen.noalias() = x * w.transpose();
        benchmark::DoNotOptimize(eigen.data());
      });
}

BENCHMARK_CAPTURE(decode, f32, ElementType::f32)->ArgName("threads")->Arg(1)->Arg(2)->UseManualTime()->Iterations(21);
BENCHMARK_CAPTURE(decode, bf16, ElementType::bf16)->ArgName("threads")->Arg(1)->Arg(2)->UseManualTime()->Iterations(21);
BENCHMARK(decode_bf16_beside_f32)->ArgName("threads")->Arg(1)->Arg(2)->UseManualTime()->Iterations(9);
BENCHMARK_CAPTURE(prefill, f32, ElementType::f32)->UseManualTime()->Iterations(5)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prefill, bf16, ElementType::bf16)->UseManualTime()->Iterations(5)->Unit(benchmark::kMillisecond);
BENCHMARK(attention)
    ->ArgNames({"threads", "head_dim", "group"})
    ->ArgsProduct({{1, 2}, {64, 128}, {1, 4, 8}})
    ->UseManualTime()
    ->Iterations(21);
BENCHMARK(product)->ArgName("rows")->Arg(1)->Arg(8)->Arg(64)->Arg(512)->UseManualTime()->Iterations(21);

} // namespace

BENCHMARK_MAIN();
