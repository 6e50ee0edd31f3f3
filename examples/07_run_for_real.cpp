// SPDX-License-Identifier: Apache-2.0
// run_for_real: the same engine types, computing real tokens and moving real bytes on this machine.
//
// The problem: a simulator shows neither a late copy nor a read of a block that has not arrived. Goals of this program:
// move an engine from the simulated clock to this machine's processor by naming another backend; give it less device
// memory than its KV needs, and a slow link; and see that the tokens are bit-identical whatever moves. Nothing is
// downloaded: the model is a small random one, whose text is meaningless. `read_model(folder)`
// (sluice/world/local/nlohmann) reads a trained model instead; docs/running.md describes the program that does all this
// with flags.
#include "sluice/core/utf8.hpp"
#include "sluice/model/decoder/eigen/make_decoder.hpp"
#include "sluice/simulation.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/local/model.hpp"
#include "sluice/world/local/rates.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

using E = With<OrbitFlow, Cpu, Summary>;

struct Ran {
  std::map<std::uint32_t, std::vector<std::int32_t>> tokens; ///< per request
  Metrics seen;
  CopyTotals moved;
};

/// Makes one run, from an empty machine to the last token; the device has `kv` bytes for KV.
Expected<Ran> run(const LocalModel& model, const std::vector<std::string>& prompts, Bytes kv) {
  constexpr int threads = 1;
  constexpr Tokens output{64};
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<RequestSpec> requests;
  for (const std::string& prompt : prompts) {
    Expected<std::vector<std::int32_t>> encoded = encode_prompt(model, prompt);
    if (!encoded) return encoded.error();
    requests.push_back({.prompt = Tokens{static_cast<std::int64_t>(encoded->size())},
                        .output = output,
                        .slo = {.ttft = Seconds{30}, .tbt = Seconds{1}}});
    tokens.push_back(std::move(*encoded));
  }

  // The machine: a decoder, two memories and a link of 1 GB/s between them.
  MachineSetup setup;
  setup.limits = {.batch = 4, .batch_tokens = Tokens{256}};
  setup.link = {.to_device_bytes_per_s = 1e9, .to_host_bytes_per_s = 1e9};
  std::unique_ptr<Decoder> decoder = make_decoder(model.weights, setup.limits.block_tokens, threads);
  // The planners' cost model: a roofline whose rates are measured now, in a third of a second.
  const LocalRates rates = measure_rates(model.weights, *decoder, setup.limits);
  const Roofline cost{model.weights.config.shape, measured_device(rates, setup.link)};
  const LocalMemory memory = divide_memory(model.weights, *decoder, requests, {.kv = kv}, setup);
  Ran ran;
  TokenListener listener;
  listener.token = [&](RequestId id, std::int32_t token) { ran.tokens[index(id)].push_back(token); };
  const Expected<std::shared_ptr<CpuMachine>> machine =
      make_cpu_machine(model.weights, std::move(decoder), setup, listener);
  if (!machine) return machine.error();

  // The engine, as in a simulation except for its backend. It plans with lengths; the machine knows the tokens.
  Expected<E> engine = E::make(configure_local<E>(model.weights, setup.limits, memory, cost, *machine));
  if (!engine) return engine.error();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Expected<RequestId> id = engine->submit(requests[i]);
    if (!id) return id.error();
    (*machine)->enter(*id, {.tokens = tokens[i], .sequence = i, .ends = false});
  }
  while (engine->step() == Stepped::ran) {
  }
  if (!engine->status()) return engine->status().error();
  ran.seen = measure(engine->observed<Summary>(), engine->now());
  ran.moved = (*machine)->moved();
  fmt::print("{:>10} {:>10} {:>9} {:>7.0f} ms {:>8.1f} % {:>10} {:>10.1f} MB\n", memory.kv.count(), memory.all.count(),
             ran.seen.tokens_delivered, 1e3 * ran.seen.end_s, 100 * ran.seen.stall_share, ran.seen.times_preempted,
             static_cast<double>((ran.moved.to_device.bytes + ran.moved.to_host.bytes).count()) / 1e6);
  return ran;
}

} // namespace

int main() {
  const LocalModel model = tiny_model();
  std::vector<std::string> prompts;
  for (int i = 0; i < 4; ++i)
    prompts.push_back(fmt::format("{}: The water goes where the gate lets it, and waits where the gate is shut.", i));
  fmt::print("{} on this machine, {} prompts of {} bytes\n\n", model.name, prompts.size(), prompts[0].size());
  fmt::print("{:>10} {:>10} {:>9} {:>10} {:>10} {:>10} {:>13}\n", "device KV", "all need", "tokens", "time", "stalled",
             "preempted", "moved");
  const Expected<Ran> roomy = run(model, prompts, Bytes{16 << 20});
  const Expected<Ran> tight = roomy ? run(model, prompts, Bytes{3 << 19}) : roomy;
  if (!tight) {
    fmt::print(stderr, "run_for_real: {}\n", tight.error().line());
    return 2;
  }
  const bool same = roomy->tokens == tight->tokens;
  fmt::print("\nthe tokens are {}; the first request says (of a random model):\n{}\n",
             same ? "the same" : "NOT the same",
             without_controls(replace_broken_utf8(model.tokenizer->decode(tight->tokens.begin()->second))));
  if (std::fflush(stdout) != 0) return std::perror("run_for_real: standard output"), 2;
  return same ? 0 : 1;
}
