// SPDX-License-Identifier: Apache-2.0
// a_cache_policy: which KV outlives its request in host memory, by a policy of your own.
//
// The problem: the turns of a chat repeat the whole conversation, but between two turns other users take the device's
// memory. Goals of this program: write a Caching policy in thirty lines, and compare it with caching nothing below the
// device and with HiCache, on generated chats in a closed loop.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/workload/session_generator.hpp"
#include "sluice/world/cpu/cpu.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace {

using namespace sluice;

/// Chats that have come back once come back again: a session's KV goes to the host from its second turn on. First
/// turns, most of which never return, write nothing, so the host keeps the others longer. A prefix found on the host is
/// loaded if it is long enough to pay for the transfer.
struct ReturningChats {
  using role = roles::Caching;
  static constexpr bool caches = true;
  static constexpr Writes writes = Writes::behind; // they cross while the link is idle
  static constexpr Feed feed = Feed::written;      // there is no lower tier

  Tokens least{256}; ///< fewer tokens are computed sooner than loaded

  /// How many of the oldest tokens the host should have.
  Tokens write(const View& /*view*/, const RequestRow& row) const {
    return row.spec.turn > 0 ? row.context() : Tokens{0};
  }
  /// What to load of the tokens that only the host has: all or nothing, each layer just in time.
  template <class Cost>
  Reuse reuse(const View& /*view*/, const RequestRow& /*row*/, const FoundPrefix& found, const Cost& /*cost*/) const {
    return {found.below < least ? Tokens{0} : found.below, LoadMode::layerwise};
  }
  /// For a tier with Replacement::least_worth: long sessions are worth more.
  template <class Cost>
  Worth worth(const View& /*view*/, const RequestRow& row, const Cost& /*cost*/) const {
    return {static_cast<double>(row.spec.turn)};
  }
};

static_assert(explain<ReturningChats>());

using MyEngine = With<VllmPrefixCaching, ReturningChats>;
/// It runs on a real machine as it is.
static_assert(requires { typename With<MyEngine, Cpu>::Config; });

template <class E>
bool row(const char* name, const Server& server) {
  const auto chats = parse_sessions("sessions:rate=0.3,sessions=200,turns=bins(0.8:1-1;0.2:4-8),system=512,"
                                    "first=lognormal(4000,1),growth=800,output=200,user=60,longest=32768");
  const Expected<Metrics> metrics = serve<E>(server, SessionGenerator{*chats, 1});
  if (!metrics) {
    fmt::print(stderr, "a_cache_policy: {}\n", metrics.error().line());
    return false;
  }
  fmt::print("{:<18} {:>6.1f} % {:>8.1f} % {:>12.3f} s {:>12.1f} GB\n", name, 100 * metrics->found_share,
             100 * metrics->loaded_share, metrics->mean_ttft_later_turns_s,
             static_cast<double>(metrics->bytes_to_host) / 1e9);
  return true;
}

} // namespace

int main() {
  Server server{.model = llama3_8b(), .device = a100_80(), .kv_blocks = TokenBlocks{4000}};
  server.device.host_memory = Bytes{24'000'000'000};
  fmt::print("{} on {} with 24 GB of host memory, 200 chats of which a fifth return\n\n", server.model.name,
             server.device.name);
  fmt::print("{:<18} {:>8} {:>10} {:>14} {:>15}\n", "", "found", "on host", "TTFT, returns", "to the host");
  const bool served = row<VllmPrefixCaching>("VllmPrefixCaching", server) && row<HiCache>("HiCache", server) &&
                      row<MyEngine>("MyEngine", server);
  if (std::fflush(stdout) != 0) return std::perror("a_cache_policy: standard output"), 2;
  return served ? 0 : 2;
}
