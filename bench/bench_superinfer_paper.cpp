// SPDX-License-Identifier: Apache-2.0
// SuperInfer's Fig. 25: vLLM whose KV cache is in a GH200's unified memory, which attention reads over the link in
// place. Prints a table of docs/reproductions.md.
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/simulation.hpp"

#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

namespace {

using namespace sluice;

/// The roofline of a device whose attention reads KV beyond `near` tokens over the link, where it lies, at `link`.
/// Every decode of an iteration reads its whole context, so that only the sum decides which share lies beyond.
class InPlace {
 public:
  using role = roles::Cost;
  struct State {};

  InPlace(const ModelShape& shape, const Device& device, Tokens near, BytesPerSecond link)
      : roofline_(shape, device),
        near_(static_cast<double>(near.count())),
        token_s_(static_cast<double>(shape.kv_bytes_per_token_per_layer().count()) *
                 std::max(0.0, 1 / link.count() - 1 / device.memory_rate(RooflineEfficiency{}.bandwidth).count())) {}

  [[nodiscard]] StepTime step(const Work& work) const {
    StepTime time = roofline_.step(work);
    const double read = LayerWork::attention(work, work.tokens()).kv_tokens;
    time.layer += Seconds{token_s_ * std::max(0.0, read - near_)};
    return time;
  }
  [[nodiscard]] LinkCost link() const { return roofline_.link(); }
  [[nodiscard]] const InPlace& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}

 private:
  Roofline roofline_;
  double near_;
  double token_s_; ///< how much longer reading a token's K and V in a layer takes than from the device's memory
};
static_assert(explain<InPlace>());

/// Where vLLM's KV lies.
struct Place {
  const char* name;
  TokenBlocks blocks{0}; ///< in all
  Tokens near{0};        ///< in the device's memory
  BytesPerSecond link{0};
};

Status print_rate(const Server& server, int rate, std::span<const Place> places) {
  const Expected<GeneratorSpec> spec = parse_generator(fmt::format(
      "poisson:rate={},requests=3000,prompt=lognormal(161,1.0),output=lognormal(338,1.0)", rate)); // preset superinfer
  if (!spec) return spec.error();
  for (const Place& place : places) {
    Server at = server;
    at.kv_blocks = place.blocks;
    const Shaped<Generator> requests{Generator{*spec, 1}, {.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.1}}}};
    const Expected<Metrics> m = serve<VllmRecompute>(at, Shaped<Generator>{requests},
                                                     InPlace{server.model, server.device, place.near, place.link});
    if (!m) return m.error();
    fmt::print("| {}/s | {} | {:.1f} | {:.1f} | {:.1f} | {:.0f} | {:.2f} | {:.0f} |\n", rate, place.name,
               100 * m->ttft_attainment, 100 * m->tbt_attainment, 1e3 * m->p50_tbt_s, 1e3 * m->p99_tbt_s, m->p99_ttft_s,
               m->throughput_tokens_per_s);
  }
  return {};
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"SuperInfer's Fig. 25: vLLM with its KV cache in unified memory, Qwen2.5-32B on a GH200"};
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;
  Server server{qwen2_5_32b(), gh200_144(), TokenBlocks{0}, {.batch = 1024, .batch_tokens = Tokens{2048}}};
  const Tokens block = server.limits.block_tokens;
  const TokenBlocks device = kv_blocks_beside_weights(server.model, server.device, block);
  const TokenBlocks host{server.device.host_memory / server.model.token_block_bytes(block)};
  const Tokens near{device.count() * block.count()};
  const Place places[] = {{"the device's memory", device, near, server.device.host_to_device},
                          {"both, the device's first", device + host, near, server.device.host_to_device},
                          {"the host's, 254.5 GB/s", host, Tokens{0}, server.device.host_to_device},
                          {"the host's, 450 GB/s", host, Tokens{0}, BytesPerSecond{450e9}}};
  fmt::print("Fig. 25: vLLM on a GH200 of 144 GB, Qwen2.5-32B, ShareGPT's lengths, 3,000 requests; {} and {} token "
             "blocks of KV in the device's and the host's memory\n\n"
             "| requests | KV in | TTFT | TBT | P50 TBT, ms | P99 TBT, ms | P99 TTFT, s | tokens/s |\n"
             "|--:|---|--:|--:|--:|--:|--:|--:|\n",
             device.count(), host.count());
  for (const int rate : {5, 10, 15, 20}) {
    if (const Status status = print_rate(server, rate, places); !status) {
      fmt::print(stderr, "bench_superinfer_paper: {}\n", status.error().line());
      return 2;
    }
  }
  return 0;
}
