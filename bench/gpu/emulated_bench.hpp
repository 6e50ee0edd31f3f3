// SPDX-License-Identifier: Apache-2.0
// EmulatedBench: rehearses the measurements on the emulator (bench_device.hpp). Its times say nothing about a GPU.
#pragma once

#include "sluice/world/link/copy.hpp"

#include "bench_device.hpp"
#include "drawn.hpp"
#include "emulate/launch.hpp"
#include "kernels/families.hpp"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpu_bench {

class EmulatedBench {
 public:
  static constexpr bool real = false;

  class Memory {
   public:
    Memory() = default;
    explicit Memory(std::size_t bytes)
        : at_(static_cast<std::byte*>(::operator new(bytes + 1, alignment))),
          size_(bytes) {} // an empty memory has an address too
    [[nodiscard]] std::byte* data() const { return at_.get(); }
    [[nodiscard]] std::size_t size() const { return size_; }

   private:
    static constexpr std::align_val_t alignment{256}; // as CUDA's allocations have
    struct Free {
      void operator()(std::byte* at) const { ::operator delete(at, alignment); }
    };
    std::unique_ptr<std::byte, Free> at_;
    std::size_t size_ = 0;
  };

  [[nodiscard]] std::string name() const { return "emulated"; }
  [[nodiscard]] Memory memory(std::size_t bytes) const { return Memory{bytes}; }
  [[nodiscard]] Memory pinned(std::size_t bytes) const { return Memory{bytes}; }
  void up(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
  void down(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
  template <class T>
  void fill(T* to, std::uint64_t count, const Numbers& numbers) const {
    for (std::uint64_t i = 0; i < count; ++i) to[i] = numbers.stored<T>(i);
  }
  void poison(const Memory& memory) const { std::memset(memory.data(), 0xff, memory.size()); }

  template <auto config, class Params>
  void launch(const Params& params) {
    launch_kernel<
        typename sluice::kernels::KernelFamily<std::remove_const_t<decltype(config)>>::template Kernel<config>>(params);
  }
  template <class K>
  void launch_kernel(const typename K::Params& params) {
    const sluice::kernels::Grid grid = K::grid(params);
    if (grid.x == 0 || grid.y == 0) return;
    const sluice::emulate::Report report = sluice::emulate::launch<K>(grid, params, ++seed_);
    if (!report.ok()) throw Failed(report.errors.front());
  }
  void finish() const {}
  [[nodiscard]] bool alive() const { return true; }
  [[nodiscard]] double cache_bytes() const { return 0; }
  void be_brief() {}

  template <class Enqueue>
  [[nodiscard]] std::vector<double> time(int repetitions, int /*calls*/, Enqueue&& enqueue) {
    std::vector<double> seconds;
    for (int i = 0; i < repetitions; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      enqueue(0);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return seconds;
  }
  template <class Enqueue>
  [[nodiscard]] std::vector<double> repeat(int repetitions, int calls, Enqueue&& enqueue) {
    return time(repetitions, calls, [&](int) { enqueue(); });
  }
  template <class One, class Other>
  [[nodiscard]] std::vector<double> repeat_both(EmulatedBench& /*other*/, int repetitions, One&& one, Other&& two) {
    return time(repetitions, 1, [&](int) { one(), two(); });
  }
  void copy(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
  void copy_batch(std::vector<void*>& to, std::vector<const void*>& from, std::vector<std::size_t>& bytes) const {
    for (std::size_t i = 0; i < to.size(); ++i) copy(to[i], from[i], bytes[i]);
  }
  class MachineLink {
   public:
    MachineLink(const EmulatedBench& /*bench*/, std::size_t bytes) : host_(bytes), device_(bytes) {}
    [[nodiscard]] std::byte* host() const { return host_.data(); }
    [[nodiscard]] std::byte* device() const { return device_.data(); }
    [[nodiscard]] std::vector<double> repeat(int repetitions, std::span<const sluice::Copy> copies,
                                             bool /*to_device*/) const {
      return EmulatedBench{}.time(repetitions, 1, [&](int) {
        for (const sluice::Copy& one : copies) std::memcpy(one.to, one.from, static_cast<std::size_t>(one.bytes));
      });
    }

   private:
    Memory host_, device_;
  };

 private:
  std::uint64_t seed_ = 0;
};

} // namespace gpu_bench
