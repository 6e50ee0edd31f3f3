// SPDX-License-Identifier: Apache-2.0
// two_on_a_bus: devices that stream weights over one bus, by plain event simulation without the node's code.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace sluice::test {

/// A device that repeats the same iteration from `starts_s` on.
struct StreamingDevice {
  double starts_s = 0;
  double layer_s = 1;         ///< each layer's computation
  std::vector<bool> streamed; ///< by layer
  int slots = 1;
  double layer_bytes = 1;
  double lane = 1; ///< bytes per second, alone on the bus
  int iterations = 1;
};

/// The end of each device's iterations. Active lanes get equal shares of `bus`, at most their own rate.
inline std::vector<std::vector<double>> run_on_bus(const std::vector<StreamingDevice>& devices, double bus) {
  struct Running {
    int computed = 0; ///< layers of all iterations
    double computes_until = -1;
    int arrived = 0;  ///< streamed layers of all iterations
    double moved = 0; ///< blocks of the one in flight
  };
  const std::size_t count = devices.size();
  std::vector<Running> all(count);
  std::vector<std::vector<double>> ends(count);
  const auto layers = [&](std::size_t i) { return static_cast<int>(devices[i].streamed.size()); };
  const auto is_streamed = [&](std::size_t i, int layer) {
    return static_cast<bool>(devices[i].streamed[static_cast<std::size_t>(layer % layers(i))]);
  };
  /// Streamed layers among the first `computed` layers.
  const auto streamed_in = [&](std::size_t i, int computed) {
    int sum = 0;
    for (int l = 0; l < computed; ++l) sum += is_streamed(i, l) ? 1 : 0;
    return sum;
  };
  const auto done = [&](std::size_t i) { return static_cast<int>(ends[i].size()) == devices[i].iterations; };
  double now = 0;
  for (int guard = 0; guard < 1'000'000; ++guard) {
    bool changed = true;
    while (changed) { // everything that can happen now
      changed = false;
      for (std::size_t i = 0; i < count; ++i) {
        Running& r = all[i];
        if (done(i) || now < devices[i].starts_s - 1e-12) continue;
        if (r.computes_until >= 0 && now >= r.computes_until - 1e-12) {
          r.computes_until = -1;
          ++r.computed;
          if (r.computed % layers(i) == 0) ends[i].push_back(now);
          changed = true;
        } else if (r.computes_until < 0) {
          const bool here = !is_streamed(i, r.computed) || streamed_in(i, r.computed + 1) <= r.arrived;
          if (here) {
            r.computes_until = now + devices[i].layer_s;
            changed = true;
          }
        }
      }
    }
    std::vector<std::size_t> active;
    for (std::size_t i = 0; i < count; ++i)
      if (!done(i) && now >= devices[i].starts_s - 1e-12 && streamed_in(i, layers(i)) > 0 &&
          all[i].arrived < streamed_in(i, all[i].computed) + devices[i].slots)
        active.push_back(i);
    // Equal shares, none above its lane's rate.
    std::vector<double> rate(count, 0);
    std::vector<std::size_t> open = active;
    double left = bus;
    while (!open.empty()) {
      const double each = left / static_cast<double>(open.size());
      const auto slow = std::find_if(open.begin(), open.end(), [&](std::size_t i) { return devices[i].lane <= each; });
      if (slow == open.end()) {
        for (const std::size_t i : open) rate[i] = each;
        break;
      }
      rate[*slow] = devices[*slow].lane;
      left -= devices[*slow].lane;
      open.erase(slow);
    }
    double next = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < count; ++i) {
      if (done(i)) continue;
      if (now < devices[i].starts_s) next = std::min(next, devices[i].starts_s - now);
      if (all[i].computes_until >= 0) next = std::min(next, all[i].computes_until - now);
      if (rate[i] > 0) next = std::min(next, (devices[i].layer_bytes - all[i].moved) / rate[i]);
    }
    if (next == std::numeric_limits<double>::infinity()) break;
    now += next;
    for (const std::size_t i : active) {
      all[i].moved += rate[i] * next;
      if (all[i].moved >= devices[i].layer_bytes * (1 - 1e-12)) {
        all[i].moved = 0;
        ++all[i].arrived;
      }
    }
  }
  return ends;
}

} // namespace sluice::test
