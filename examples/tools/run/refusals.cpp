// SPDX-License-Identifier: Apache-2.0
// The needs of refused requests, and the text of refusals.
#include "run/refusals.hpp"

#include "run/need.hpp"
#include "shared/sizes.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

namespace running {

using namespace sluice;

namespace {

std::int64_t length_of(const RequestSpec& request) { return (request.prompt + request.output).count(); }

} // namespace

/// Searches the longest request first: its need is the largest, so it is enough for all. Then, for up to a second,
/// requests half way between two known lengths: each takes a search, and a trace may have thousands of lengths.
void Refusals::search(const Workload& workload, const Results& results) {
  std::map<std::int64_t, std::size_t, std::greater<>> lengths;
  for (std::size_t i = 0; i < results.requests.size(); ++i)
    if (!results.requests[i].done) lengths.emplace(length_of(workload.requests[i]), i);
  std::vector<std::size_t> refused;
  for (const auto& [length, request] : lengths) refused.push_back(request);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(1);
  for (std::size_t step = std::max<std::size_t>(refused.size(), 1); step > 0; step /= 2)
    for (std::size_t i = 0; i < refused.size(); i += step) {
      const RequestSpec& request = workload.requests[refused[i]];
      if (needs_.count(length_of(request)) > 0) continue;
      if (!needs_.empty() && Clock::now() >= end) return;
      Need need;
      need.device = least_blocks(system_, setup_, request);
      if (!need.device) need.host = least_host_blocks(system_, setup_, request);
      needs_.emplace(length_of(request), need);
    }
}

/// Empty if the request was not refused for lack of memory. `longer`: the length that this need belongs to, if the
/// request's own need is not known.
std::string Refusals::reason(const Need& need, std::optional<std::int64_t> longer) const {
  const char* bound = longer ? "most" : "least";
  const std::string whose = longer ? fmt::format(" (which {} tokens need)", *longer) : "";
  if (need.device && *need.device > memory_.kv)
    return fmt::format("alone it needs at {} {} of device memory, of which {} layer blocks of KV{}; there are {}",
                       bound, exact_bytes(memory_.with(*need.device).count()), need.device->count(), whose,
                       exact_bytes(memory_.device.count()));
  if (need.host && *need.host > memory_.host)
    return fmt::format("alone it needs at {} {} of host memory, {} layer blocks of KV{}; there are {}", bound,
                       exact_bytes(memory_.of(*need.host).count()), need.host->count(), whose,
                       exact_bytes(memory_.of(memory_.host).count()));
  return {};
}

std::optional<Error> Refusals::explain(const Workload& workload, const Status& ran, Results& results) {
  search(workload, results);
  std::optional<std::pair<std::size_t, LayerBlocks>> device,
      host; // the largest need, and the first request that has it
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < results.requests.size(); ++i) {
    Result& one = results.requests[i];
    if (one.done) continue;
    if (!first) first = i;
    if (!ran) one.reason = memory_.kv.count() < setup_.geometry.layers ? no_kv().line() : ran.error().line();
    const std::int64_t length = length_of(workload.requests[i]);
    const auto known =
        needs_.lower_bound(length); // its own need, or the next longer one's: longer requests need no less
    if (known == needs_.end()) continue;
    const bool own = known->first == length;
    const Need& need = known->second;
    const std::string why = reason(need, own ? std::nullopt : std::optional{known->first});
    if (why.empty()) continue;
    one.reason = why;
    if (!own) continue;
    if (need.device && (!device || device->second < *need.device)) device = {i, *need.device};
    if (need.host && (!host || host->second < *need.host)) host = {i, *need.host};
  }
  if (results.done() > 0 || !first) return std::nullopt;
  if (device) return too_little_device(device->first, device->second);
  if (host) return too_little_host(host->first, host->second);
  return Error{ErrorCode::infeasible, "request " + std::to_string(*first),
               "nothing could run: " + results.requests[*first].reason, ""};
}

Error Refusals::too_little_device(std::size_t who, LayerBlocks blocks) const {
  const std::int64_t kv = memory_.of(blocks).count();
  const std::string parts =
      kv >= 0 ? fmt::format("{} of weights, {} of buffers and {} of KV ({} layer blocks)", memory_.weights.count(),
                            memory_.buffers.count(), kv, blocks.count())
              : fmt::format("{} of weights that stay, slots for the others and KV, and {} of buffers",
                            memory_.with(blocks).count() - memory_.buffers.count(), memory_.buffers.count());
  const bool by_kv = options_.kv_memory.has_value();
  return {ErrorCode::out_of_memory, by_kv ? "--kv-memory" : "--device-memory",
          fmt::format("{} is too little for {} to run request {} alone",
                      exact_bytes(by_kv ? *options_.kv_memory : memory_.device.count()), system_.name, who),
          by_kv ? "at least " + exact_bytes(std::max<std::int64_t>(kv, 0))
                : fmt::format("at least {}: {}", exact_bytes(memory_.with(blocks).count()), parts)};
}

Error Refusals::too_little_host(std::size_t who, LayerBlocks blocks) const {
  return {ErrorCode::out_of_memory, "--host-memory",
          fmt::format("{} is too little for {} to run request {} alone",
                      exact_bytes(options_.host_memory.value_or(memory_.of(memory_.host).count())), system_.name, who),
          fmt::format("at least {}: {} layer blocks of KV", exact_bytes(memory_.of(blocks).count()), blocks.count())};
}

/// The error if no engine can be made with so little KV, whatever the requests.
Error Refusals::no_kv() const {
  const bool by_kv = options_.kv_memory.has_value();
  const LayerBlocks least{setup_.geometry.layers};
  return {ErrorCode::out_of_memory, by_kv ? "--kv-memory" : "--device-memory",
          exact_bytes(by_kv ? *options_.kv_memory : memory_.device.count()) + " leaves no block of KV for each layer",
          "at least " + exact_bytes((by_kv ? memory_.of(least) : memory_.with(least)).count())};
}

} // namespace running
