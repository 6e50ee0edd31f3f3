// SPDX-License-Identifier: Apache-2.0
// bench_long_run: cost of simulating a day of Llama-3-70B on a tensor-parallel group of eight.
//
//   bench_long_run [DEVICE [RATE]]        (a device by name, default a100-80; requests per second, default 0.4)
//
// Simulates a tenth of the day and then the day for each system: ShareGPT-like requests, 1,500 token blocks of KV, 32
// at once. At a rate beyond the group's capacity, waiting requests fill memory. Prints CPU seconds, so that other load
// does not count, and the process's peak memory so far: if the day needs no more than its tenth, memory does not grow
// with the run. No observer watches: `Summary` keeps 16 bytes an iteration for its exact quantiles.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/orbitflow_baselines.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/cost/tensor_parallel.hpp"
#include "sluice/workload/generator.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace sluice;

constexpr int devices = 8;

struct Usage {
  double cpu_s = 0;
  long peak_kb = 0;
};
Usage used() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss};
}

int fail(const Error& error) {
  std::fprintf(stderr, "bench_long_run: %s\n", error.line().c_str());
  return 2;
}

template <class System>
Status run(std::string_view name, const Device& device, double rate, double hours) {
  using Cost = TensorParallel<Roofline>;
  using E = With<System, Cost, BasicSimulated<Cost>>;
  const ModelShape whole = llama3_70b();
  const Expected<ModelShape> shard = tensor_shard(whole, devices, "model");
  if (!shard) return shard.error();
  const Expected<Device> member = group_member(device, devices, 1, "device");
  if (!member) return member.error();
  const Server server{.model = *shard,
                      .device = *member,
                      .kv_blocks = TokenBlocks{1500},
                      .limits = {.batch = 32, .max_context = Tokens{32768}}};
  Expected<GeneratorSpec> spec =
      parse_generator(fmt::format("sharegpt:rate={},requests={:.0f}", rate, rate * 3600 * hours));
  if (!spec) return spec.error();
  Expected<E> engine =
      E::make(configure<E>(server, Cost{Roofline{*shard, *member}, whole, AllReduce{*device.peer, devices}}));
  if (!engine) return engine.error();
  Generator reader{*spec, 1};
  const Usage before = used();
  if (Status status = simulate(*engine, reader); !status) return status;
  const Usage after = used();
  const auto millions = 1e-6 * static_cast<double>(engine->steps());
  fmt::print("{:<18} {:>8} {:>9.2f} {:>11.2f} {:>8.2f} {:>17.2f} {:>14.1f}\n", name, spec->requests,
             engine->now().count() / 3600, millions, after.cpu_s - before.cpu_s,
             (after.cpu_s - before.cpu_s) / millions, static_cast<double>(after.peak_kb) / 1024);
  std::fflush(stdout);
  return {};
}

} // namespace

int main(int argc, char** argv) {
  const Expected<Device> device = find_device(argc > 1 ? argv[1] : "a100-80");
  if (!device) return fail(device.error());
  const double rate = argc > 2 ? std::strtod(argv[2], nullptr) : 0.4;
  if (!(rate >= 0.01 && rate <= 100))
    return fail({ErrorCode::bad_input, "RATE", "it is '" + std::string{argv[2]} + "'", "0.01 to 100 a second"});
  fmt::print("llama3-70b on {} x {}, {} requests/s\n", devices, device->name, rate);
  fmt::print("{:<18} {:>8} {:>9} {:>11} {:>8} {:>17} {:>14}\n", "system", "requests", "hours", "iterations M", "CPU s",
             "s per M iterations", "peak MiB so far");
  const auto both = [&]<class System>(std::string_view name) {
    for (const double hours : {2.4, 24.0})
      if (Status status = run<System>(name, *device, rate, hours); !status) return status;
    return Status{};
  };
  if (Status status = both.operator()<VllmSwap>("VllmSwap"); !status) return fail(status.error());
  if (Status status = both.operator()<VllmRecompute>("VllmRecompute"); !status) return fail(status.error());
  if (Status status = both.operator()<DynamicHeuristic>("DynamicHeuristic"); !status) return fail(status.error());
  return 0;
}
