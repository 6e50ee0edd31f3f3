// SPDX-License-Identifier: Apache-2.0
// Checks the operating system's limits by trying.
#include "run/promises.hpp"

#include "sluice/world/cpu/cpu_memory.hpp"

#include "shared/sizes.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace running {

using namespace sluice;

Status check_threads(int threads, bool host_attends) {
  // Two lanes of the link, planning, and the lane that attends on the host; the calling thread computes, too.
  const int others = host_attends ? 4 : 3;
  const int wanted = threads - 1 + others;
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::vector<std::thread> started;
  started.reserve(static_cast<std::size_t>(wanted));
  try {
    while (static_cast<int>(started.size()) < wanted)
      started.emplace_back([&] {
        std::unique_lock lock{mutex};
        changed.wait(lock, [&] { return over; });
      });
  } catch (const std::system_error&) { // only some threads could be started
  } catch (const std::bad_alloc&) {
  }
  {
    const std::lock_guard lock{mutex};
    over = true;
  }
  changed.notify_all();
  for (std::thread& thread : started) thread.join();
  const int got = static_cast<int>(started.size());
  if (got == wanted) return {};
  return flag_error(
      "--threads",
      fmt::format("{} need {} more threads, and the system starts only {} of these {}", threads, others, got, wanted),
      got >= others ? fmt::format("at most {}, or a larger limit (ulimit -u, ulimit -v)", got + 1 - others)
                    : "a larger limit (ulimit -u, ulimit -v)");
}

Status check_address_space(const Options& options, const LocalMemory& memory) {
  const std::int64_t device = memory.device.count(), host = memory.of(memory.host).count();
  const bool sum = device <= std::numeric_limits<std::int64_t>::max() - host;
  if (sum && VirtualMemory::reserve(Bytes{device + host})) return {};
  const bool by_host = host > device, by_kv = !by_host && options.kv_memory.has_value();
  const std::int64_t stated = by_host ? options.host_memory.value_or(host) : by_kv ? *options.kv_memory : device;
  const Bytes useful = by_host || by_kv ? memory.of(memory.all) : memory.with(memory.all);
  return flag_error(by_host ? "--host-memory"
                    : by_kv ? "--kv-memory"
                            : "--device-memory",
                    "the system has no address space for " + exact_bytes(stated),
                    useful.count() < stated ? "less: these requests can use at most " + exact_bytes(useful.count())
                                            : "a larger limit (ulimit -v), or fewer --threads");
}

} // namespace running
