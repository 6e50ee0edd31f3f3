// SPDX-License-Identifier: Apache-2.0
// Copies of many blocks between scattered places of pinned and of device memory: by size, count and method. A backend
// chooses its threshold between copy engines and the kernel from such figures; DuplexKV's case is among them.
#include "bench.hpp"
#include "kernels/copy/copy_segments.hpp"

#include <cstring>
#include <optional>

namespace gpu_bench {
namespace {

using namespace sluice::kernels;
using Memory = Device::Memory;

enum class Way { single, batch, machine, kernel };
constexpr const char* name_of(Way way) {
  switch (way) {
  case Way::single:
    return "a copy each";
  case Way::batch:
    return "cudaMemcpyBatchAsync";
  case Way::machine:
    return "as the machine does";
  default:
    return "CopySegments";
  }
}

/// Block i of the source goes to block place(i) of the target: no two neighbours stay neighbours.
struct Blocks {
  std::size_t bytes;
  std::size_t count;
  [[nodiscard]] std::size_t from(std::size_t i) const { return i * 7 % count; }
  [[nodiscard]] std::size_t to(std::size_t i) const { return (i * 11 + 3) % count; }
};

void copy_blocks(Bench& bench, Way way, const Blocks& blocks, bool up) {
  Device& device = bench.device;
  const std::string size = blocks.bytes >= 1 << 20 ? std::to_string(blocks.bytes >> 20U) + " MiB"
                           : blocks.bytes >= 1024  ? std::to_string(blocks.bytes >> 10U) + " KiB"
                                                   : std::to_string(blocks.bytes) + " bytes";
  bench.row(std::string{name_of(way)} + (up ? ", to the device" : ", to the host"),
            std::to_string(blocks.count) + " blocks of " + size + ", scattered", [&](Row& row) {
              const std::size_t all = blocks.bytes * blocks.count;
              std::optional<Device::MachineLink> machine;
              Memory pinned, poisonous;
              if (way == Way::machine) {
                machine.emplace(device, all);
                const std::vector<std::byte> noise(all, std::byte{0xff});
                device.up(machine->device(), noise.data(), all);
              } else {
                pinned = device.pinned(all);
                poisonous = poisoned(device, all);
              }
              std::byte* const host = machine ? machine->host() : pinned.data();
              std::byte* const there = machine ? machine->device() : poisonous.data();
              std::vector<std::byte> pattern(all);
              const Numbers numbers{51};
              for (std::size_t i = 0; i + 1 < all; i += 2) {
                const Bf16 one = numbers.stored(i);
                std::memcpy(&pattern[i], &one, 2);
              }
              if (up) {
                std::memcpy(host, pattern.data(), all);
              } else {
                device.up(there, pattern.data(), all);
                std::memset(host, 0xff, all);
              }
              std::byte* const source = up ? host : there;
              std::byte* const target = up ? there : host;
              std::vector<void*> to;
              std::vector<const void*> from;
              std::vector<std::size_t> bytes(blocks.count, blocks.bytes);
              std::vector<CopySegment> segments;
              for (std::size_t i = 0; i < blocks.count; ++i) {
                from.push_back(source + blocks.from(i) * blocks.bytes);
                to.push_back(target + blocks.to(i) * blocks.bytes);
              }
              for (std::size_t i = 0; i < blocks.count; ++i)
                segments.push_back({from[i], to[i], static_cast<std::int64_t>(blocks.bytes)});
              const Memory list = uploaded(device, segments);
              CopySegmentsParams params;
              params.segments = reinterpret_cast<const CopySegment*>(list.data());
              params.longest = static_cast<std::int64_t>(blocks.bytes);
              params.count = static_cast<int>(blocks.count);
              params.ctas = bench.size(32, 3);
              const auto enqueue = [&] {
                switch (way) {
                case Way::single:
                  for (std::size_t i = 0; i < blocks.count; ++i) device.copy(to[i], from[i], blocks.bytes);
                  break;
                case Way::batch:
                  device.copy_batch(to, from, bytes);
                  break;
                case Way::machine:
                  break;
                case Way::kernel:
                  device.launch<CopySegmentsConfig{}>(params);
                  break;
                }
              };
              if (machine) {
                std::vector<sluice::Copy> copies(blocks.count);
                for (std::size_t i = 0; i < blocks.count; ++i) {
                  copies[i].from = static_cast<const std::byte*>(from[i]);
                  copies[i].to = static_cast<std::byte*>(to[i]);
                  copies[i].bytes = static_cast<std::int64_t>(blocks.bytes);
                }
                row.samples = machine->repeat(bench.repetitions, copies, up);
              } else {
                row.samples = device.repeat(bench.repetitions, 1, enqueue);
              }
              device.finish();
              row.unit = "GB/s";
              row.amount = static_cast<double>(all) * 1e-9;
              row.against = up ? "ceilings/to the device" : "ceilings/to the host";
              std::vector<std::byte> got(all);
              if (up)
                device.down(got.data(), there, all);
              else
                std::memcpy(got.data(), host, all);
              std::int64_t wrong = 0;
              for (std::size_t i = 0; i < blocks.count; ++i)
                wrong += std::memcmp(&got[blocks.to(i) * blocks.bytes], &pattern[blocks.from(i) * blocks.bytes],
                                     blocks.bytes) == 0
                             ? 0
                             : 1;
              row.checks = true;
              row.check = {static_cast<double>(wrong), 0, static_cast<std::int64_t>(blocks.count)};
            });
}

} // namespace

void copies(Bench& bench) {
  const std::size_t tiny[] = {16, 48, 1040, 4096, 32768},
                    full[] = {4U << 10U, 16U << 10U, 64U << 10U, 256U << 10U, 1U << 20U};
  const auto with = [&](Way way) {
    for (const std::size_t bytes : bench.tiny ? tiny : full) {
      const std::size_t count = bench.tiny            ? 9
                                : bytes >= 1U << 20U  ? 100
                                : bytes >= 16U << 10U ? 1024
                                                      : 4096; // coprime to both steps of Blocks
      for (const bool up : {true, false}) copy_blocks(bench, way, {bytes, count}, up);
    }
  };
  for (const Way way : {Way::single, Way::batch, Way::machine, Way::kernel}) with(way);
}

} // namespace gpu_bench
