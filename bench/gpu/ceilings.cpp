// SPDX-License-Identifier: Apache-2.0
// The maximum rates of the device and its link, with which every other row is compared: a device copy, and pinned
// copies each way and both ways. (cuBLAS's rate is gpu_gemm's, a program of its own: if the library is missing, the
// rest still runs.)
#include "bench.hpp"

#include <cstring>

namespace gpu_bench {
namespace {

using Memory = Device::Memory;

/// Compares two whole memories.
Refcheck same(Device& device, const Memory& of_device, const Memory& of_host) {
  std::int64_t wrong = 0;
  const std::size_t piece = 1U << 22U, size = of_host.size();
  for (std::size_t at = 0; at < size; at += piece) {
    const std::size_t bytes = std::min(piece, size - at);
    const auto got = downloaded<std::byte>(device, of_device, at, bytes);
    if (std::memcmp(got.data(), of_host.data() + at, bytes) != 0) ++wrong;
  }
  return {static_cast<double>(wrong), 0, static_cast<std::int64_t>(size)};
}

void fill(const Memory& memory, std::uint64_t seed) {
  const Numbers numbers{seed};
  for (std::size_t i = 0; i + 1 < memory.size(); i += 2) {
    const Bf16 one = numbers.stored(i);
    std::memcpy(memory.data() + i, &one, 2);
  }
}

} // namespace

void ceilings(Bench& bench) {
  Device& device = bench.device;
  const auto big = static_cast<std::uint64_t>(bench.size(1 << 29, 1 << 12)); // numbers: a gigabyte
  const auto bytes = static_cast<std::size_t>(bench.size(1 << 28, 1 << 12));
  bench.row("device copy", std::to_string(big * 2) + " bytes, read and written counted", [&](Row& row) {
    const Numbers numbers{41};
    const Memory from = filled(device, numbers, big), to = poisoned(device, big * 2);
    row.samples = device.repeat(bench.repetitions, 1, [&] { device.copy(to.data(), from.data(), to.size()); });
    row.unit = "GB/s";
    row.amount = static_cast<double>(big) * 4e-9;
    std::int64_t wrong = 0;
    const auto last = downloaded<Bf16>(device, to, big - 1024, 1024);
    for (std::uint64_t i = 0; i < 1024; ++i) wrong += last[i].bits == numbers.stored(big - 1024 + i).bits ? 0 : 1;
    row.checks = true;
    row.check = {static_cast<double>(wrong), 0, 1024};
  });
  const std::string text = std::to_string(bytes) + " bytes in one copy, pinned";
  bench.row("to the device", text, [&](Row& row) {
    const Memory host = device.pinned(bytes), there = poisoned(device, bytes);
    fill(host, 42);
    row.samples = device.repeat(bench.repetitions, 1, [&] { device.copy(there.data(), host.data(), bytes); });
    row.unit = "GB/s";
    row.amount = static_cast<double>(bytes) * 1e-9;
    row.checks = true;
    row.check = same(device, there, host);
  });
  bench.row("to the host", text, [&](Row& row) {
    const Memory host = device.pinned(bytes), there = filled(device, Numbers{43}, bytes / 2);
    std::memset(host.data(), 0xff, bytes);
    row.samples = device.repeat(bench.repetitions, 1, [&] { device.copy(host.data(), there.data(), bytes); });
    row.unit = "GB/s";
    row.amount = static_cast<double>(bytes) * 1e-9;
    row.checks = true;
    row.check = same(device, there, host);
  });
  bench.row("both ways", text + ", each way", [&](Row& row) {
    Device other;
    const Memory up = device.pinned(bytes), down = device.pinned(bytes);
    const Memory to = poisoned(device, bytes), from = filled(device, Numbers{44}, bytes / 2);
    fill(up, 45);
    std::memset(down.data(), 0xff, bytes);
    row.samples = device.repeat_both(
        other, bench.repetitions, [&] { device.copy(to.data(), up.data(), bytes); },
        [&] { other.copy(down.data(), from.data(), bytes); });
    row.unit = "GB/s";
    row.amount = static_cast<double>(bytes) * 2e-9;
    row.against = "ceilings/to the device"; // one direction's rate; both directions should reach 1.7 times as much
    const Refcheck one = same(device, to, up), two = same(device, from, down);
    row.checks = true;
    row.check = {one.error + two.error, 0, one.cases + two.cases};
  });
}

} // namespace gpu_bench
