// SPDX-License-Identifier: Apache-2.0
// MIRAGE's Fig. 5: attention on the host's processor, and the device's decode, beside the loading of remapped weights,
// for OPT-13B by batch size. Prints tables of docs/reproductions.md.
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/cost/sub_batches.hpp"
#include "sluice/workload/generator.hpp"

#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace sluice;

/// Links of section 2.2 and Fig. 3, in bytes per second to the device.
constexpr BytesPerSecond gh200_link{450e9}, h100_link{64e9};
/// The Grace's data sheet: LPDDR5X of at most 512 GB/s. The text gives neither this nor the processor's rate; no
/// processor attends faster than its memory.
constexpr BytesPerSecond host_memory{512e9};

/// The mean context of a decode: requests are weighted by how many tokens they generate.
double mean_context(Generator requests) {
  double tokens = 0, contexts = 0;
  for (;;) {
    const Expected<std::optional<RequestSpec>> next = requests.next();
    if (!next || !*next) return contexts / tokens;
    const auto prompt = static_cast<double>((*next)->prompt.count());
    const auto output = static_cast<double>((*next)->output.count());
    tokens += output;
    contexts += output * (prompt + 0.5 * output);
  }
}

/// What an iteration of `batch` decodes takes, each of `context` tokens.
struct Decode {
  ModelShape model;
  Device device;
  double context;

  [[nodiscard]] Tokens tokens(std::int64_t batch) const {
    return Tokens{static_cast<std::int64_t>(context * static_cast<double>(batch))};
  }
  /// All layers' attention on the host, in seconds, with `launch` for each.
  [[nodiscard]] double host_s(std::int64_t batch, Seconds launch) const {
    Device host = device;
    host.host_attention_rate = host_memory;
    host.host_attention_launch = launch;
    host.host_attention_batches = 1;
    const Roofline cost(model, host);
    Work work;
    work.hosted.token_bytes = model.kv_bytes_per_token_per_layer();
    return model.layers * SubBatchTimes(cost, work).of({{batch, 0}, {tokens(batch), Tokens{0}}}).hosted_s[0];
  }
  /// The same decodes on the device alone, in seconds, at this share of its data sheet's bandwidth.
  [[nodiscard]] double device_s(std::int64_t batch, double bandwidth) const {
    Work work;
    work.decodes = work.samples = batch;
    work.decode_context = tokens(batch);
    return Roofline(model, device, {.bandwidth = bandwidth}).step(work).total(model.layers).count();
  }
  /// Seconds to load this share of all layers' weights.
  [[nodiscard]] double loading_s(double share, BytesPerSecond link) const {
    return share * model.layers * (model.layer_weight_bytes() / link).count();
  }
};

/// The smallest batch whose attention takes the host longer than `seconds`.
std::string least_batch(const Decode& decode, double seconds, Seconds launch) {
  std::int64_t batch = 1;
  while (decode.host_s(batch, launch) <= seconds) ++batch;
  return std::to_string(batch);
}

void print_host(const Decode& decode) {
  const Seconds neo = decode.device.host_attention_launch;
  fmt::print(
      "Fig. 5a: loading this share of the weights, and the smallest batch whose attention takes the host "
      "longer\n\n"
      "| share remapped | GH200: loading, ms | batch | with launches | H100: loading, ms | batch | with launches "
      "|\n|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const double share : {0.1, 0.3, 0.5, 1.0}) {
    fmt::print("| {:.0f} % |", 100 * share);
    for (const BytesPerSecond link : {gh200_link, h100_link}) {
      const double loading_s = decode.loading_s(share, link);
      fmt::print(" {:.1f} | {} | {} |", 1e3 * loading_s, least_batch(decode, loading_s, Seconds{0}),
                 least_batch(decode, loading_s, neo));
    }
    fmt::print("\n");
  }
}

void print_batches(const Decode& decode) {
  const double step = RooflineEfficiency{}.bandwidth, slow = 0.45;
  fmt::print("\nFig. 5a and 5b by batch: the share of the weights that a decode hides on a GH200, by the roofline and "
             "on the machine with the paper's step time ({:.0f} % of the bandwidth)\n\n"
             "| requests | KV, GB | host attends, ms | with launches | device decodes, ms | hides | paper's step, ms | "
             "hides |\n|--:|--:|--:|--:|--:|--:|--:|--:|\n",
             100 * slow);
  for (const std::int64_t batch : {1, 8, 16, 32, 64, 128, 256}) {
    const double kv = static_cast<double>(decode.model.kv_bytes_per_token_per_layer().count()) * decode.model.layers *
                      static_cast<double>(decode.tokens(batch).count());
    fmt::print("| {} | {:.2f} | {:.1f} | {:.1f} |", batch, kv / 1e9, 1e3 * decode.host_s(batch, Seconds{0}),
               1e3 * decode.host_s(batch, decode.device.host_attention_launch));
    for (const double bandwidth : {step, slow}) {
      const double seconds = decode.device_s(batch, bandwidth);
      fmt::print(" {:.1f} | {:.0f} % |", 1e3 * seconds, 100 * seconds / decode.loading_s(1, gh200_link));
    }
    fmt::print("\n");
  }
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"MIRAGE's Fig. 5: attention on the host beside the loading of remapped weights, OPT-13B"};
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;
  // The lengths of preset `mirage`.
  const Expected<GeneratorSpec> lengths =
      parse_generator("poisson:rate=1,requests=10000,prompt=lognormal(161,1.0),output=lognormal(338,1.0),longest=1024");
  if (!lengths) {
    fmt::print(stderr, "bench_mirage_paper: {}\n", lengths.error().line());
    return 2;
  }
  const Decode decode{opt_13b(), gh200_96(), mean_context(Generator{*lengths, 1})};
  fmt::print(
      "OPT-13B, ShareGPT's lengths, {:.0f} tokens of context in a decode; the host reads KV at {:.0f} GB/s, with "
      "launches of {:g} ms in each layer or without\n\n",
      decode.context, host_memory.count() / 1e9, 1e3 * decode.device.host_attention_launch.count());
  print_host(decode);
  print_batches(decode);
  return 0;
}
