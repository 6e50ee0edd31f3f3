// SPDX-License-Identifier: Apache-2.0
// The device's own properties. bench/gpu/run adds those of the machine around it.
#include "bench.hpp"

namespace gpu_bench {

void environment(Bench& bench) {
  const auto says = [&](const std::string& name, const std::string& unit, double value) {
    bench.row(name, bench.device.name(), [&](Row& row) {
      row.unit = unit;
      row.samples = {value};
    });
  };
#if defined(SLUICE_BENCH_EMULATED)
  says("multiprocessors", "", 1); // one block runs at a time
  for (const char* way : {"to the device", "to the host"})
    bench.skip(std::string{"copies gathered below, "} + way, 1, "it is chosen by what a link takes");
#else
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  std::size_t free = 0, total = 0;
  require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  int clock = 0, memory_clock = 0, driver = 0, runtime = 0;
  require(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0), "cudaDeviceGetAttribute");
  require(cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, 0), "cudaDeviceGetAttribute");
  require(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  require(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  says("multiprocessors", "", properties.multiProcessorCount);
  says("compute capability", "", properties.major * 10 + properties.minor);
  says("second-level cache", "MB", static_cast<double>(properties.l2CacheSize) * 1e-6);
  says("memory", "GB", static_cast<double>(total) * 1e-9);
  says("free memory", "GB", static_cast<double>(free) * 1e-9);
  says("clock, at most", "MHz", clock * 1e-3);
  says("memory clock, at most", "MHz", memory_clock * 1e-3);
  says("copy engines", "", properties.asyncEngineCount);
  says("CUDA that the driver has", "", driver);
  says("CUDA runtime", "", runtime);
  for (const bool up : {true, false}) {
    bench.row(up ? "copies gathered below, to the device" : "copies gathered below, to the host", bench.device.name(),
              [&](Row& row) {
                row.unit = "bytes";
                const auto& gathered = Device::MachineLink::gathered();
                row.samples = {static_cast<double>(up ? gathered.to_device : gathered.to_host)};
              });
  }
#endif
}

} // namespace gpu_bench
