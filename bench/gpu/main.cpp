// SPDX-License-Identifier: Apache-2.0
// gpu_bench: the stages of bench/gpu/run that use a device. It prints a line of JSON for each row.
#include "bench.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

int main(int count, char** arguments) {
  using namespace gpu_bench;
  const std::map<std::string, std::vector<void (*)(Bench&)>> stages{
      {"environment", {environment}},
      {"primitives", {primitives}},
      {"ceilings", {ceilings}},
      {"rates",
       {row_rates, attention_rates, product_rates, row_configurations, attention_configurations,
        product_configurations}},
      {"copies", {copies}}};
  std::string stage = count > 1 ? arguments[1] : "", program = "gpu_bench";
  bool tiny = !Device::real, known = stages.count(stage) == 1;
  int repetitions = Device::real ? 20 : 1, after = 0;
  for (int i = 1; i < count; ++i) program += std::string{" "} + arguments[i];
  for (int i = 2; i < count; ++i) {
    if (std::strcmp(arguments[i], "--tiny") == 0) {
      tiny = true;
    } else if (std::strcmp(arguments[i], "--repetitions") == 0 && i + 1 < count && std::atoi(arguments[i + 1]) > 0) {
      repetitions = std::atoi(arguments[++i]);
    } else if (std::strcmp(arguments[i], "--after") == 0 && i + 1 < count && std::atoi(arguments[i + 1]) > 0) {
      after = std::atoi(arguments[++i]);
    } else {
      known = false;
    }
  }
  if (!known) {
    std::fputs(
        "usage: gpu_bench environment|primitives|ceilings|rates|copies [--tiny] [--repetitions N] [--after ROWS]\n",
        stderr);
    return 2;
  }
  try {
    Device device;
    Bench bench(device, stage, tiny, repetitions, program, after);
    for (const auto part : stages.at(stage)) part(bench);
    return bench.failed() == 0 ? 0 : 1;
  } catch (const ContextLost&) { // the row has the reason
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_bench %s: %s\n", stage.c_str(), error.what());
    return 2;
  }
}
