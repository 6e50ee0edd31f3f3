// SPDX-License-Identifier: Apache-2.0
// Norm, RopeAndStore, Activation, Embed, experts and sampling at a model's sizes: GB/s compared with a device copy's,
// and microseconds within a graph for few decoding rows.
#include "bench.hpp"
#include "kernels/decoder/kernel_runner.hpp"
#include "kernels/rows/rope_and_store.hpp"

#include <cmath>
#include <numbers>
#include <numeric>

namespace gpu_bench {
namespace {

using namespace sluice;
using namespace sluice::kernels;

constexpr auto bf16 = ElementType::bf16;
constexpr const char* elsewhere = "the tests of the kernels run it on the emulator";
using Memory = Device::Memory;

/// Times a call over sets of buffers. `bytes`: moved by a call; `of(set)`: makes a set's parameters.
template <auto config, class Make>
void time_bytes(Bench& bench, Row& row, double bytes, bool decoding, Make&& of) {
  using Params = decltype(of(0));
  std::vector<Params> params;
  const int sets = decoding ? 1 : bench.sets(bytes); // decode sizes stay in the L2 cache, as in an iteration
  for (int i = 0; i < sets; ++i) params.push_back(of(i));
  row.samples = bench.device.time(bench.repetitions, bench.tiny ? 1 : Bench::calls, [&](int i) {
    bench.device.launch<config>(params[static_cast<std::size_t>(i % sets)]);
  });
  if (decoding) {
    row.unit = "us";
    for (double& one : row.samples) one *= 1e6;
  } else {
    row.unit = "GB/s";
    row.amount = bytes * 1e-9;
    row.against = "ceilings/device copy";
  }
}

std::string shape(int rows, int features, ElementType element = bf16) {
  return std::to_string(rows) + " rows of " + std::to_string(features) + ", " + name_of(element);
}

template <ElementType element = bf16, NormKind kind = NormKind::rms>
void norm(Bench& bench, const std::string& name, int rows, bool decoding) {
  constexpr bool centred = kind == NormKind::layer;
  using T = ElementOf<element>;
  const int features = bench.size(4096, 264);
  const std::string text = shape(rows, features, element) + (centred ? ", layer" : ", rms") + ", with the residual";
  bench.row(name, text, [&](Row& row) {
    constexpr NormConfig config{element, kind};
    const auto count = static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(features);
    const Numbers x{1}, stream{2, 2}, weight{3, 0.3F, 1};
    const Memory weights = filled<T>(bench.device, weight, static_cast<std::uint64_t>(features));
    std::vector<Memory> xs, residuals, outs;
    const auto of = [&](int) {
      xs.push_back(filled<T>(bench.device, x, count));
      residuals.push_back(filled<T>(bench.device, stream, count));
      outs.push_back(poisoned(bench.device, count * sizeof(T)));
      NormParams params;
      params.x = xs.back().data();
      params.residual = residuals.back().data();
      params.weight = weights.data();
      params.out = outs.back().data();
      params.rows = rows;
      params.features = features;
      return params;
    };
    const NormParams first = of(0);
    bench.device.launch<config>(first);
    bench.device.finish();
    RelativeError error;
    for (const int one : {0, rows / 2, rows - 1}) {
      const auto width = static_cast<std::size_t>(features);
      const std::uint64_t at = static_cast<std::uint64_t>(one) * width;
      const std::vector<T> got = downloaded<T>(bench.device, outs[0], at, width);
      std::vector<double> sums(width);
      double mean = 0, squares = 0;
      for (std::size_t i = 0; i < width; ++i) {
        sums[i] = static_cast<double>(widen(narrow<T>(static_cast<float>(x.at<T>(at + i) + stream.at<T>(at + i)))));
        if (centred) mean += sums[i] / features;
      }
      for (const double sum : sums) squares += (sum - mean) * (sum - mean);
      const double root = std::sqrt(squares / features + 1e-5);
      for (std::size_t i = 0; i < width; ++i)
        error.add(static_cast<double>(widen(got[i])), (sums[i] - mean) / root * weight.at<T>(i));
    }
    row.checks = true;
    row.check = {error.value(), error_limit<T>, error.count()};
    xs.clear(), residuals.clear(), outs.clear();
    time_bytes<config>(bench, row, static_cast<double>(count * 4 * sizeof(T)), decoding, of);
  });
}

double by_definition(ActivationKind kind, double x) {
  switch (kind) {
  case ActivationKind::silu:
    return x / (1 + std::exp(-x));
  case ActivationKind::relu:
    return x > 0 ? x : 0;
  case ActivationKind::gelu:
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  default:
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
}

template <ElementType element = bf16, ActivationKind kind = ActivationKind::silu, bool gated = true>
void activation(Bench& bench, const std::string& name, int rows, bool decoding) {
  using T = ElementOf<element>;
  const int features = bench.size(14336, 136);
  const char* const kinds[] = {", silu", ", relu", ", gelu", ", gelu by tanh"};
  const std::string text =
      shape(rows, features, element) + kinds[static_cast<std::size_t>(kind)] + (gated ? ", gated" : "");
  bench.row(name, text, [&](Row& row) {
    constexpr ActivationConfig config{element, kind, gated};
    constexpr std::uint64_t inputs = gated ? 2 : 1;
    const auto width = static_cast<std::uint64_t>(features), count = static_cast<std::uint64_t>(rows) * width;
    const Numbers product{4, 3};
    std::vector<Memory> products, outs;
    const auto of = [&](int) {
      products.push_back(filled<T>(bench.device, product, inputs * count));
      outs.push_back(poisoned(bench.device, count * sizeof(T)));
      ActivationParams params;
      params.gate = products.back().data();
      if (gated) params.up = products.back().data() + width * sizeof(T);
      params.out = outs.back().data();
      params.gate_stride = params.up_stride = static_cast<std::int64_t>(inputs * width);
      params.rows = rows;
      params.features = features;
      return params;
    };
    const ActivationParams first = of(0);
    bench.device.launch<config>(first);
    bench.device.finish();
    RelativeError error;
    for (const int one : {0, rows / 2, rows - 1}) {
      const auto at = static_cast<std::uint64_t>(one) * width;
      const std::vector<T> got = downloaded<T>(bench.device, outs[0], at, static_cast<std::size_t>(width));
      for (std::uint64_t i = 0; i < width; ++i) {
        const double value = by_definition(kind, product.at<T>(inputs * at + i));
        error.add(static_cast<double>(widen(got[static_cast<std::size_t>(i)])),
                  gated ? value * product.at<T>(inputs * at + width + i) : value);
      }
    }
    row.checks = true;
    row.check = {error.value(), error_limit<T>, error.count()};
    products.clear(), outs.clear();
    time_bytes<config>(bench, row, static_cast<double>(count * (inputs + 1) * sizeof(T)), decoding, of);
  });
}

template <ElementType element = bf16, int dim = 128>
void rope_and_store(Bench& bench, const std::string& name, int rows, bool decoding) {
  using T = ElementOf<element>;
  const int heads = bench.size(32, 4), kv_heads = bench.size(8, 2), block_tokens = 16;
  const std::string text = std::to_string(rows) + " rows, " + std::to_string(heads) + " + 2 x " +
                           std::to_string(kv_heads) + " heads of " + std::to_string(dim) + ", blocks of 16, " +
                           name_of(element);
  bench.row(name, text, [&](Row& row) {
    constexpr RopeAndStoreConfig config{element, dim};
    const auto width = static_cast<std::uint64_t>(heads + 2 * kv_heads) * dim;
    const auto count = static_cast<std::uint64_t>(rows) * width;
    const auto block_bytes = static_cast<std::uint64_t>(2 * kv_heads * block_tokens) * dim * sizeof(T);
    const int blocks = (rows + block_tokens - 1) / block_tokens;
    DecoderConfig decoder;
    decoder.shape.head_dim = dim;
    decoder.rope_theta = 500000;
    const Memory turns = uploaded(bench.device, rope_turns(decoder));
    std::vector<int> place(static_cast<std::size_t>(rows));
    std::iota(place.begin(), place.end(), 0);
    const Memory positions = uploaded(bench.device, place);
    const Memory sequences = uploaded(bench.device, std::vector<int>(static_cast<std::size_t>(rows), 0));
    const Memory first_block = uploaded(bench.device, std::vector<int>{0});
    const Numbers qkv{5};
    std::vector<Memory> inputs, queries, pools, tables;
    const auto of = [&](int) {
      inputs.push_back(filled<T>(bench.device, qkv, count));
      queries.push_back(poisoned(bench.device, static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(heads) *
                                                   dim * sizeof(T)));
      pools.push_back(poisoned(bench.device, static_cast<std::uint64_t>(blocks) * block_bytes));
      std::vector<void*> table;
      for (int b = 0; b < blocks; ++b) // from the pool's end
        table.push_back(pools.back().data() + static_cast<std::uint64_t>(blocks - 1 - b) * block_bytes);
      tables.push_back(uploaded(bench.device, table));
      RopeAndStoreParams params;
      params.qkv = inputs.back().data();
      params.turns = reinterpret_cast<const double*>(turns.data());
      params.positions = reinterpret_cast<const int*>(positions.data());
      params.sequences = reinterpret_cast<const int*>(sequences.data());
      params.first_block = reinterpret_cast<const int*>(first_block.data());
      params.blocks = reinterpret_cast<void* const*>(tables.back().data());
      params.query = queries.back().data();
      params.query_stride = std::int64_t{heads} * dim;
      params.rows = params.query_rows = rows;
      params.heads = heads;
      params.kv_heads = kv_heads;
      params.block_tokens = block_tokens;
      return params;
    };
    const RopeAndStoreParams first = of(0);
    bench.device.launch<config>(first);
    bench.device.finish();
    RelativeError error;
    for (const int one : {0, rows / 2, rows - 1}) {
      const auto at = static_cast<std::uint64_t>(one) * width;
      for (int head = 0; head < heads + 2 * kv_heads; ++head) {
        const bool is_query = head < heads;
        const int of_block = head - heads; // K's heads, then V's
        const std::uint64_t from =
            is_query ? static_cast<std::uint64_t>(one * heads + head) * dim
                     : static_cast<std::uint64_t>(blocks - 1 - one / block_tokens) * (block_bytes / sizeof(T)) +
                           static_cast<std::uint64_t>(of_block * block_tokens + one % block_tokens) * dim;
        const std::vector<T> got = downloaded<T>(bench.device, is_query ? queries[0] : pools[0], from, dim);
        for (int i = 0; i < dim; ++i) {
          const auto of_head = at + static_cast<std::uint64_t>(head * dim);
          double exact = qkv.at<T>(of_head + static_cast<std::uint64_t>(i));
          if (head < heads + kv_heads) {
            const auto angle = static_cast<long double>(one) * rotary_frequency(decoder, i % (dim / 2));
            const double low = qkv.at<T>(of_head + static_cast<std::uint64_t>(i % (dim / 2)));
            const double high = qkv.at<T>(of_head + static_cast<std::uint64_t>(i % (dim / 2) + dim / 2));
            const auto cosine = static_cast<double>(std::cos(angle)), sine = static_cast<double>(std::sin(angle));
            exact = i < dim / 2 ? low * cosine - high * sine : high * cosine + low * sine;
          }
          error.add(static_cast<double>(widen(got[static_cast<std::size_t>(i)])), exact);
        }
      }
    }
    row.checks = true;
    row.check = {error.value(), error_limit<T>, error.count()};
    inputs.clear(), queries.clear(), pools.clear(), tables.clear();
    time_bytes<config>(bench, row, static_cast<double>(count * 2 * sizeof(T)), decoding, of);
  });
}

void embed(Bench& bench, int rows) {
  const int features = bench.size(4096, 264), vocabulary = bench.size(128256, 500);
  bench.row("embed", shape(rows, features), [&](Row& row) {
    constexpr EmbedConfig config{bf16};
    const auto width = static_cast<std::uint64_t>(features);
    const Numbers numbers{6};
    const Memory table = filled(bench.device, numbers, static_cast<std::uint64_t>(vocabulary) * width);
    std::vector<int> drawn;
    for (int i = 0; i < rows; ++i)
      drawn.push_back(
          static_cast<int>((static_cast<std::uint64_t>(i) * 7919 + 13) % static_cast<std::uint64_t>(vocabulary)));
    const Memory tokens = uploaded(bench.device, drawn);
    std::vector<Memory> outs;
    const auto of = [&](int) {
      outs.push_back(poisoned(bench.device, static_cast<std::uint64_t>(rows) * width * 2));
      EmbedParams params;
      params.tokens = reinterpret_cast<const int*>(tokens.data());
      params.table = table.data();
      params.out = outs.back().data();
      params.rows = rows;
      params.features = features;
      return params;
    };
    const EmbedParams first = of(0);
    bench.device.launch<config>(first);
    bench.device.finish();
    std::int64_t wrong = 0, cases = 0;
    for (const int one : {0, rows / 2, rows - 1}) {
      const auto got = downloaded<Bf16>(bench.device, outs[0], static_cast<std::uint64_t>(one) * width,
                                        static_cast<std::size_t>(width));
      for (std::uint64_t i = 0; i < width; ++i, ++cases) {
        const auto token = static_cast<std::uint64_t>(drawn[static_cast<std::size_t>(one)]);
        wrong += got[static_cast<std::size_t>(i)].bits == numbers.stored(token * width + i).bits ? 0 : 1;
      }
    }
    row.checks = true;
    row.check = {static_cast<double>(wrong), 0, cases};
    outs.clear();
    time_bytes<config>(bench, row, static_cast<double>(rows) * static_cast<double>(width) * 4, false, of);
  });
}

void sampling(Bench& bench, const std::string& name, int rows, const Sampling& how) {
  const int vocabulary = bench.size(128256, 5000);
  bench.row(name,
            std::to_string(rows) + " rows of " + std::to_string(vocabulary) +
                (how.temperature > 0 ? " logits, f32, top-k 50, top-p 0.9" : " logits, f32, the largest"),
            [&](Row& row) {
              constexpr SampleConfig config{ElementType::f32};
              const auto width = static_cast<std::size_t>(vocabulary);
              std::vector<float> logits(static_cast<std::size_t>(rows) * width);
              const Numbers numbers{7, 8};
              for (std::size_t i = 0; i < logits.size(); ++i)
                logits[i] = static_cast<float>(numbers.at(i) + numbers.at(i + 99991));
              std::vector<SampleWay> ways;
              for (int i = 0; i < rows; ++i) ways.push_back(sample_way(how, static_cast<std::uint64_t>(i), 9));
              const Memory way = uploaded(bench.device, ways);
              const int parts = sample_parts(rows, vocabulary, 132);
              const Memory best = poisoned(bench.device, static_cast<std::uint64_t>(rows * parts) *
                                                             (1 + sampling_most_listed) * sizeof(std::uint64_t));
              const Memory arrivals = uploaded(bench.device, std::vector<int>(static_cast<std::size_t>(rows), 0));
              std::vector<Memory> inputs, tokens;
              const auto of = [&](int) {
                inputs.push_back(uploaded(bench.device, logits));
                tokens.push_back(poisoned(bench.device, static_cast<std::uint64_t>(rows) * sizeof(int)));
                return SampleParams{inputs.back().data(),
                                    reinterpret_cast<const SampleWay*>(way.data()),
                                    reinterpret_cast<int*>(tokens.back().data()),
                                    rows,
                                    vocabulary,
                                    false,
                                    parts,
                                    reinterpret_cast<std::uint64_t*>(best.data()),
                                    reinterpret_cast<int*>(arrivals.data())};
              };
              const SampleParams first = of(0);
              bench.device.launch<config>(first);
              bench.device.finish();
              const std::vector<int> got = downloaded<int>(bench.device, tokens[0], 0, static_cast<std::size_t>(rows));
              std::int64_t wrong = 0;
              for (int i = 0; i < rows; ++i) {
                const std::span<const float> mine{logits.data() + static_cast<std::size_t>(i) * width, width};
                wrong +=
                    got[static_cast<std::size_t>(i)] == sample(mine, how, static_cast<std::uint64_t>(i), 9) ? 0 : 1;
              }
              row.checks = true;
              row.check = {static_cast<double>(wrong), 0, rows};
              inputs.clear(), tokens.clear();
              time_bytes<config>(bench, row, 0, true, of);
            });
}

/// Route, Place, GatherRows and ScatterRows: Mixtral's eight experts, two per row.
void experts(Bench& bench, int rows) {
  constexpr int all = 8, taken = 2;
  const int features = bench.size(4096, 264);
  const auto count = static_cast<std::size_t>(rows) * taken;
  const auto width = static_cast<std::uint64_t>(features);
  std::vector<float> logits(static_cast<std::size_t>(rows) * all);
  const Numbers drawn{8, 4}, numbers{9};
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(drawn.at(i) + 1e-3 * static_cast<double>(i % all));
  const std::string text = std::to_string(rows) + " rows, 2 of 8 experts";
  const auto ints = [](const Memory& memory) { return reinterpret_cast<int*>(memory.data()); };
  // The host's results, which are each row's inputs or references, so that no row needs another's device memory.
  std::vector<int> chosen_of_host, slots_of_host(count);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
    const float* const mine = &logits[i * all];
    int best = 0, next = -1;
    for (int e = 1; e < all; ++e) best = mine[e] > mine[best] ? e : best;
    for (int e = 0; e < all; ++e)
      if (e != best && (next < 0 || mine[e] > mine[next])) next = e;
    chosen_of_host.insert(chosen_of_host.end(), {best, next});
  }
  int placed = 0;
  for (int e = 0; e < all; ++e)
    for (std::size_t i = 0; i < count; ++i)
      if (chosen_of_host[i] == e) slots_of_host[i] = placed++;
  const auto differing = [](const std::vector<int>& some, const std::vector<int>& others) {
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < some.size(); ++i) wrong += some[i] == others[i] ? 0 : 1;
    return static_cast<double>(wrong);
  };

  bench.row("route", text + ", f32", [&](Row& row) {
    const Memory logit = uploaded(bench.device, logits), chosen = poisoned(bench.device, count * 4),
                 shares = poisoned(bench.device, count * 4);
    const RouteParams params{logit.data(), ints(chosen), reinterpret_cast<float*>(shares.data()), rows, all, taken};
    constexpr RouteConfig config{ElementType::f32};
    bench.device.launch<config>(params);
    bench.device.finish();
    row.checks = true;
    row.check = {differing(downloaded<int>(bench.device, chosen, 0, count), chosen_of_host), 0,
                 static_cast<std::int64_t>(count)};
    time_bytes<config>(bench, row, 0, true, [&](int) { return params; });
  });
  bench.row("place", text, [&](Row& row) {
    const Memory chosen = uploaded(bench.device, chosen_of_host), offsets = poisoned(bench.device, (all + 1) * 4),
                 slots = poisoned(bench.device, count * 4);
    const PlaceParams params{ints(chosen), ints(offsets), ints(slots), static_cast<int>(count), all};
    constexpr PlaceConfig config{};
    bench.device.launch<config>(params);
    bench.device.finish();
    row.checks = true;
    row.check = {differing(downloaded<int>(bench.device, slots, 0, count), slots_of_host), 0,
                 static_cast<std::int64_t>(count)};
    time_bytes<config>(bench, row, 0, true, [&](int) { return params; });
  });
  bench.row("gather rows", text + " of " + std::to_string(features) + ", bf16", [&](Row& row) {
    const Memory slots = uploaded(bench.device, slots_of_host);
    const Memory x = filled(bench.device, numbers, static_cast<std::uint64_t>(rows) * width);
    const Memory gathered = poisoned(bench.device, count * width * 2);
    const GatherRowsParams params{x.data(), ints(slots), gathered.data(), rows, taken, features};
    constexpr GatherRowsConfig config{bf16};
    bench.device.launch<config>(params);
    bench.device.finish();
    std::int64_t wrong = 0, cases = 0;
    for (const std::size_t i : {std::size_t{0}, count / 2, count - 1}) {
      const auto at = static_cast<std::uint64_t>(slots_of_host[i]) * width;
      const auto got = downloaded<Bf16>(bench.device, gathered, at, static_cast<std::size_t>(width));
      for (std::uint64_t f = 0; f < width; ++f, ++cases)
        wrong += got[static_cast<std::size_t>(f)].bits == numbers.stored(i / taken * width + f).bits ? 0 : 1;
    }
    row.checks = true;
    row.check = {static_cast<double>(wrong), 0, cases};
    time_bytes<config>(bench, row, static_cast<double>(rows) * static_cast<double>(width) * 2 * (1 + taken), false,
                       [&](int) { return params; });
  });
  bench.row("scatter rows", text + " of " + std::to_string(features) + ", bf16", [&](Row& row) {
    const Memory slots = uploaded(bench.device, slots_of_host);
    std::vector<float> parts;
    for (int i = 0; i < rows; ++i) {
      const float of_first = 0.5F + static_cast<float>(i % 64) / 128;
      parts.insert(parts.end(), {of_first, 1 - of_first});
    }
    const Memory shares = uploaded(bench.device, parts);
    const Memory x = filled(bench.device, numbers, static_cast<std::uint64_t>(rows) * width);
    const Memory gathered = poisoned(bench.device, count * width * 2);
    bench.device.launch<GatherRowsConfig{bf16}>(
        GatherRowsParams{x.data(), ints(slots), gathered.data(), rows, taken, features});
    const Memory out = poisoned(bench.device, static_cast<std::uint64_t>(rows) * width * 2);
    const ScatterRowsParams params{
        gathered.data(), ints(slots), reinterpret_cast<const float*>(shares.data()), out.data(), rows, taken, features};
    constexpr ScatterRowsConfig config{bf16};
    bench.device.launch<config>(params);
    bench.device.finish();
    RelativeError error; // the experts are the identity, and shares add up to 1
    for (const int one : {0, rows / 2, rows - 1}) {
      const auto at = static_cast<std::uint64_t>(one) * width;
      const auto got = downloaded<Bf16>(bench.device, out, at, static_cast<std::size_t>(width));
      for (std::uint64_t f = 0; f < width; ++f)
        error.add(static_cast<double>(widen(got[static_cast<std::size_t>(f)])), numbers.at(at + f));
    }
    row.checks = true;
    row.check = {error.value(), error_limit<Bf16>, error.count()};
    time_bytes<config>(bench, row, static_cast<double>(rows) * static_cast<double>(width) * 2 * (1 + taken), false,
                       [&](int) { return params; });
  });
}

} // namespace

void row_rates(Bench& bench) {
  const int many = bench.size(8192, 5), few = bench.size(64, 2);
  norm(bench, "norm", many, false);
  norm(bench, "norm, decoding", few, true);
  rope_and_store(bench, "rope and store", many, false);
  rope_and_store(bench, "rope and store, decoding", few, true);
  activation(bench, "activation", bench.size(4096, 5), false);
  activation(bench, "activation, decoding", few, true);
  embed(bench, many);
  experts(bench, bench.size(16384, 9));
  sampling(bench, "sample", few, {.temperature = 0.8, .top_k = 50, .top_p = 0.9, .seed = 5});
  sampling(bench, "sample, greedy", few, {});
}

void row_configurations(Bench& bench) {
  const char *norms = "norm, each configuration", *ropes = "rope and store, each configuration",
             *activations = "activation, each configuration";
  if constexpr (Device::real) {
    const int many = bench.size(8192, 5), some = bench.size(4096, 5);
    each_element([&]<ElementType element>() {
      norm<element, NormKind::rms>(bench, norms, many, false);
      norm<element, NormKind::layer>(bench, norms, many, false);
      rope_and_store<element, 32>(bench, ropes, many, false);
      rope_and_store<element, 64>(bench, ropes, many, false);
      rope_and_store<element, 80>(bench, ropes, many, false);
      rope_and_store<element, 96>(bench, ropes, many, false);
      rope_and_store<element, 128>(bench, ropes, many, false);
      rope_and_store<element, 192>(bench, ropes, many, false);
      rope_and_store<element, 256>(bench, ropes, many, false);
      activation<element, ActivationKind::silu, true>(bench, activations, some, false);
      activation<element, ActivationKind::relu, false>(bench, activations, some, false);
      activation<element, ActivationKind::gelu, false>(bench, activations, some, false);
      activation<element, ActivationKind::gelu_tanh, false>(bench, activations, some, false);
    });
  } else {
    bench.skip(norms, 6, elsewhere);
    bench.skip(ropes, 21, elsewhere);
    bench.skip(activations, 12, elsewhere);
  }
}

} // namespace gpu_bench
