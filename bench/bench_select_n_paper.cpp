// SPDX-License-Identifier: Apache-2.0
// Select-N's comparison on the paper's setup (sections 4.4 and 5), one engine at a time. Prints the tables of
// docs/reproductions.md.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/weights/interval_source.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace sluice;

constexpr Tokens block_tokens{16};

/// The paper's A10: in its Fig. 2b a layer's transfer takes 13.8 times its compute in a decode.
Device a10_of_paper() {
  Device device = a10();
  device.bandwidth_fraction = 0.553;
  return device;
}
constexpr Seconds never{std::numeric_limits<double>::infinity()};

/// Exact intervals, to compare only the mechanism. The record's rounding is a separate column.
using Exact = With<SelectN, SloInterval>;

/// A batch of requests of one length, served from time 0 until all end.
struct Batch {
  std::int64_t size;
  Tokens prompt, output;
  Slo slo;
};

/// A batch's decode iterations, once the slots are full.
struct Served {
  std::int64_t refused = 0;
  Seconds mean{0};
  Seconds longest{0};
  int streamed = 0; ///< layers at the end
  double share = 1; ///< of each
  int widest = 0;   ///< requests that ran at once
  double tokens_per_s = 0;
};

template <class System, class Tune>
Served serve_batch(const ModelShape& model, const Device& device, const Batch& batch, Tune&& tune, int limit = 256,
                   double memory = 0.9) {
  using E = With<System, Roofline, BasicSimulated<Roofline>>;
  const Server server{model,
                      device,
                      kv_blocks_beside_weights(model, device, block_tokens, memory),
                      {.batch = limit, .batch_tokens = Tokens{1 << 20}, .block_tokens = block_tokens}};
  typename E::Config config = configure<E>(server, Roofline{model, device});
  tune(config.weights);
  Expected<E> made = E::make(std::move(config));
  if (!made) return {.refused = batch.size};
  E& engine = *made;
  Served served;
  for (std::int64_t i = 0; i < batch.size; ++i)
    served.refused += engine.submit({Seconds{0}, batch.prompt, batch.output, batch.slo}) ? 0 : 1;
  std::int64_t decodes = 0;
  int settled = -3;
  const auto everybody = [&](Tokens tokens) { // whether every request has generated so many tokens and decodes
    const View view = engine.view();
    bool all = true;
    for (const Slot slot : view.running)
      all = all && view.row(slot).pending() == Tokens{1} && view.row(slot).generated >= tokens;
    return all;
  };
  for (;;) {
    const Seconds before = engine.now();
    const LayerSet streamed = engine.plan().weights.streamed;
    const bool decoding = !engine.view().running.empty() && everybody(Tokens{1});
    if (engine.step() != Stepped::ran) break;
    if (!decoding || !everybody(Tokens{2}) || !(streamed == engine.plan().weights.streamed)) settled = -3;
    const auto running = static_cast<int>(engine.view().running.size());
    served.widest = std::max(served.widest, running);
    if (++settled <= 0) continue;
    const Seconds took = engine.now() - before;
    served.mean += took;
    served.longest = std::max(served.longest, took);
    served.streamed = engine.plan().weights.streamed.count();
    served.share = engine.plan().weights.share;
    ++decodes;
  }
  if (decodes > 0) served.mean = served.mean / static_cast<double>(decodes);
  if (engine.now() > Seconds{0})
    served.tokens_per_s =
        static_cast<double>((batch.size - served.refused) * batch.output.count()) / engine.now().count();
  return served;
}

constexpr auto as_it_is = [](auto&) {};

/// FlexGen's estimate: the data sheet's rates.
auto peak_of(const ModelShape& model, Device device) {
  device.compute_fraction = device.bandwidth_fraction = 1;
  return [=](auto& weights) { weights.peak.emplace(model, device); };
}

Work decode_work(std::int64_t batch, Tokens context) {
  Work work;
  work.decodes = work.samples = batch;
  work.decode_context = context * batch;
  return work;
}

Geometry geometry_of(const ModelShape& model) {
  return {model.layers, model.layer_block_bytes(block_tokens), model.layer_weight_bytes(), Bytes{0}};
}

/// Runs one batch's prompts after another's on a prefill instance; returns the time of each batch but the first.
template <class System, class Tune>
Seconds longest_prefill(const ModelShape& model, const Device& device, std::int64_t batch, Tokens prompt, Seconds ttft,
                        int& streamed, Tune&& tune) {
  using E = With<System, Roofline, BasicSimulated<Roofline>>;
  const Server server{model,
                      device,
                      kv_blocks_beside_weights(model, device, block_tokens),
                      {.batch = 256, .batch_tokens = Tokens{1 << 20}, .block_tokens = block_tokens}};
  typename E::Config config = configure<E>(server, Roofline{model, device});
  tune(config.weights);
  E engine = *E::make(std::move(config));
  Seconds longest{0};
  for (int round = 0; round < 8; ++round) {
    const Seconds begin = engine.now();
    for (std::int64_t i = 0; i < batch; ++i) (void)engine.submit({begin, prompt, Tokens{1}, {ttft, never}});
    while (engine.step() == Stepped::ran) {
    }
    if (round > 1) longest = std::max(longest, engine.now() - begin);
    streamed = engine.plan().weights.streamed.count();
  }
  return longest;
}

void slo_table() {
  fmt::print("\nFig. 9: longest iteration over its SLO, SLOs above what the batch takes with nothing streamed "
             "(decode: 128 requests, prefill: 32, of 64 tokens each)\n\n");
  fmt::print("| model | SLO | decode, SelectN | by a 2 ms record | layers | DeepSpeed | FlexGen | prefill, SelectN | "
             "layers | DeepSpeed |\n"
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const ModelShape& model : {opt_6_7b(), qwen1_5_7b()}) {
    const Device device = a10_of_paper();
    const Roofline cost{model, device};
    for (const double slack : {0.2, 0.3, 0.4, 0.5}) {
      // The setup of `sluice-compare --preset select-n`: memory for all 128, the SLO of a batch halfway through.
      const Tokens prompt{64};
      const Tokens output{64};
      const Seconds tbt = cost.step(decode_work(128, Tokens{96})).total(model.layers) * (1 + slack);
      const Batch batch{128, prompt, output, {never, tbt}};
      const double memory = 0.96;
      const Served exact = serve_batch<Exact>(model, device, batch, as_it_is, 128, memory);
      const Served recorded = serve_batch<SelectN>(model, device, batch, as_it_is, 128, memory);
      const Served deepspeed = serve_batch<DeepSpeedWeights>(model, device, batch, as_it_is, 128, memory);
      const Served flexgen = serve_batch<FlexGenWeights>(model, device, batch, peak_of(model, device), 128, memory);
      RecordedWork prompts;
      const Seconds ttft = cost.step(prompts.of(InferencePhase::prefill, 32, prompt)).total(model.layers) * (1 + slack);
      int layers = 0, all = 0;
      const Seconds prefill = longest_prefill<Exact>(model, device, 32, prompt, ttft, layers,
                                                     [](auto& weights) { weights.phase = InferencePhase::prefill; });
      const Seconds late = longest_prefill<DeepSpeedWeights>(model, device, 32, prompt, ttft, all, as_it_is);
      fmt::print("| {} | +{:.0f} % | {:.2f} | {:.2f} | {} of {} | {:.2f} | {:.2f} | {:.2f} | {} | {:.2f} |\n",
                 model.name, 100 * slack, exact.longest / tbt, recorded.longest / tbt, exact.streamed, model.layers,
                 deepspeed.longest / tbt, flexgen.longest / tbt, prefill / ttft, layers, late / ttft);
    }
  }
}

/// Weights that FlexGen's estimate keeps on the host, in layers.
double flexgen_layers(const ModelShape& model, const Roofline& estimate, const Work& work, Seconds slo) {
  std::vector<RequestRow> rows(1);
  rows[0].spec.slo.tbt = slo;
  View view;
  view.geometry = geometry_of(model);
  view.rows = rows;
  const std::vector<Claim> claims{Claim{Slot{0}, Tokens{1}, Tokens{0}, true}};
  StreamedShare share;
  share.peak.emplace(estimate);
  StreamedShare::State state;
  std::vector<WeightsLevel> levels;
  share.offer(WeightsTask<Roofline>{view, estimate, claims, LayerBlocks{0}, LayerBlocks{0}, work}, state, levels);
  return levels.empty() ? 0 : model.layers * levels.front().plan.share;
}

void host_memory_table() {
  fmt::print(
      "\nFig. 5, 10: weights on the host, GB, OPT-13B, contexts of 128 tokens, by how much of its peak bandwidth "
      "and FLOPs the device reaches; FlexGen estimates by all of it. Its SLO: as long as Select-N's; or as far "
      "above what it estimates without offloading\n\n");
  fmt::print("| reached | SLO | batch | SelectN | FlexGen, as long | ratio | FlexGen, as far above | ratio |\n"
             "|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  const ModelShape model = opt_13b();
  const Geometry geometry = geometry_of(model);
  const double layer = static_cast<double>(geometry.layer_weight_bytes.count()) / 1e9;
  for (const double reached : {0.92, 0.6, 0.42})
    for (const double slack : {0.0, 0.2, 0.5})
      for (const std::int64_t size : {4, 32}) {
        Device device = a10();
        Device peak = device;
        device.compute_fraction = device.bandwidth_fraction = reached;
        peak.compute_fraction = peak.bandwidth_fraction = 1;
        const Roofline cost{model, device};
        const Roofline estimate{model, peak};
        const Work work = decode_work(size, Tokens{128});
        const Seconds slo = cost.step(work).total(model.layers) * (1 + slack);
        EvaluatedInterval::State state;
        const int interval = EvaluatedInterval{}.smallest(
            IntervalQuestion<Roofline>{cost, geometry, InferencePhase::decode, work, size, Tokens{128}}, state, slo);
        const double ours = interval == 0 ? 0 : interval_level(geometry, interval).plan.streamed.count();
        const double as_long = flexgen_layers(model, estimate, work, slo);
        const double as_far =
            flexgen_layers(model, estimate, work, estimate.step(work).total(model.layers) * (1 + slack));
        fmt::print("| {:.0f} % | +{:.0f} % | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", 100 * reached,
                   100 * slack, size, layer * ours, layer * as_long, ours / as_long, layer * as_far, ours / as_far);
      }
}

void throughput_table() {
  fmt::print("\nFig. 3, 10 (b): 512 requests of 256 and 256 tokens, all at 0, an A10\n\n");
  fmt::print("| model | SLO, ms | system | at once | tokens/s | over FlexGen |\n"
             "|---|--:|---|--:|--:|--:|\n");
  for (const ModelShape& model : {opt_6_7b(), qwen1_5_7b()})
    for (const double slo_s : {0.06, 0.1}) {
      const Device device = a10_of_paper();
      const Batch batch{512, Tokens{256}, Tokens{256}, {never, Seconds{slo_s}}};
      const Served flexgen = serve_batch<FlexGenWeights>(model, device, batch, peak_of(model, device), 512);
      const auto row = [&](const char* name, const Served& served) {
        fmt::print("| {} | {:.0f} | {} | {} | {:.0f} | {:.2f} |\n", model.name, 1e3 * slo_s, name, served.widest,
                   served.tokens_per_s, served.tokens_per_s / flexgen.tokens_per_s);
      };
      row("VllmRecompute", serve_batch<VllmRecompute>(model, device, batch, as_it_is, 512));
      row("DeepSpeedWeights", serve_batch<DeepSpeedWeights>(model, device, batch, as_it_is, 512));
      row("FlexGenWeights", flexgen);
      row("SelectN", serve_batch<SelectN>(model, device, batch, as_it_is, 512));
    }
}

void larger_models_table() {
  fmt::print("\nFig. 13: models larger than an A10 can hold, 64 and 64 tokens; the longest decode once the slots are "
             "full, by how much of the device's memory is for weights and KV\n\n");
  fmt::print("| model | memory | SLO, ms | batch | SelectN, ms | at once | layers streamed | refused "
             "|\n|---|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const ModelShape& model : {opt_13b(), llama2_13b()})
    for (const double memory : {0.9, 1.0})
      for (const double slo_s : {0.1, 0.2})
        for (const std::int64_t size : {8, 32}) {
          const Served served = serve_batch<Exact>(
              model, a10_of_paper(), {size, Tokens{64}, Tokens{64}, {never, Seconds{slo_s}}}, as_it_is, 256, memory);
          fmt::print("| {} | {:.0f} % | {:.0f} | {} | {:.1f} | {} | {} of {} | {} |\n", model.name, 100 * memory,
                     1e3 * slo_s, size, 1e3 * served.longest.count(), served.widest, served.streamed, model.layers,
                     served.refused);
        }
}

void max_length_table() {
  const ModelShape model = qwen1_5_7b();
  const Device device = a10_of_paper();
  const Geometry geometry = geometry_of(model);
  const LayerBlocks own = across_layers(kv_blocks_beside_weights(model, device, block_tokens), model.layers);
  const auto tokens = [&](LayerBlocks blocks) { return blocks.count() / model.layers * block_tokens.count(); };
  fmt::print("\nFig. 14: tokens of KV (batch x (sequence + output)) by interval, {} on an A10; naive {}\n\n",
             model.name, tokens(own));
  fmt::print("| interval | layers on the host | tokens | over naive |\n|--:|--:|--:|--:|\n");
  for (const int interval : {1, 2, 3, 4, 5, 6, 8, 10, 16}) {
    const WeightsPlan plan = interval_level(geometry, interval).plan;
    fmt::print("| {} | {} | {} | {:.2f} |\n", interval, plan.streamed.count(), tokens(own + plan.freed),
               static_cast<double>(tokens(own + plan.freed)) / static_cast<double>(tokens(own)));
  }
}

void accuracy_table() {
  const ModelShape model = opt_6_7b();
  const Device device = a10_of_paper();
  const Roofline cost{model, device};
  const Geometry geometry = geometry_of(model);
  fmt::print(
      "\nFig. 11: {}, SLO +50 %: iteration over SLO by interval (prefill: 16 requests of 64 tokens, decode: 128, 64 "
      "tokens and half of 64 more there)\n\n",
      model.name);
  fmt::print("| interval | prefill | decode | weights on the device, GB |\n|--:|--:|--:|--:|\n");
  StreamedStep step;
  RecordedWork prompts;
  const Work decode = decode_work(128, Tokens{96}); // as in `--preset select-n-interval`
  const Work prefill = prompts.of(InferencePhase::prefill, 16, Tokens{64});
  const auto over = [&](const Work& work, int interval) {
    const Seconds slo = cost.step(work).total(model.layers) * 1.5;
    return step.of(cost, geometry, work, interval_level(geometry, interval).plan) / slo;
  };
  for (int interval = 1; interval <= 12; ++interval) {
    const WeightsPlan plan = interval_level(geometry, interval).plan;
    fmt::print("| {} | {:.2f} | {:.2f} | {:.1f} |\n", interval, over(prefill, interval), over(decode, interval),
               (static_cast<double>(model.weight_bytes().count()) -
                plan.level * static_cast<double>(geometry.layer_weight_bytes.count())) /
                   1e9);
  }
}

} // namespace

int main() {
  slo_table();
  accuracy_table();
  host_memory_table();
  throughput_table();
  larger_models_table();
  max_length_table();
  return 0;
}
