// SPDX-License-Identifier: Apache-2.0
// WriteThrough and IfFaster: what they write and load.
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/caching/if_faster.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/policy/cost/roofline.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace sluice;

namespace {

const ModelShape shape = llama3_8b();

View view_of() {
  View view;
  view.geometry = {shape.layers, shape.layer_block_bytes(Tokens{16}), shape.layer_weight_bytes()};
  return view;
}
Reuse loaded(const auto& policy, std::int64_t device, std::int64_t below, const Device& on = a100_80(),
             std::int64_t lower = 0) {
  return policy.reuse(view_of(), RequestRow{}, FoundPrefix{Tokens{device}, Tokens{below}, Tokens{lower}},
                      Roofline(shape, on));
}

} // namespace

TEST_CASE("LMCache writes and loads whole chunks of prompts, HiCache loads all from 10 tokens on") {
  RequestRow row;
  row.spec.prompt = Tokens{1000};
  row.generated = Tokens{60};
  CHECK(LmcacheRule{}.write(view_of(), row) == Tokens{768});
  CHECK(HiCacheRule{}.write(view_of(), row) == Tokens{1060});
  CHECK(loaded(LmcacheRule{}, 0, 1000) == Reuse{Tokens{768}, LoadMode::whole});
  CHECK(loaded(LmcacheRule{}, 300, 700) == Reuse{Tokens{468}, LoadMode::whole}); // to the end of the third chunk
  CHECK(loaded(LmcacheRule{}, 0, 255) == Reuse{Tokens{0}, LoadMode::whole});
  CHECK(loaded(HiCacheRule{}, 320, 16) == Reuse{Tokens{16}, LoadMode::layerwise});
  CHECK(loaded(HiCacheRule{}, 320, 9) == Reuse{Tokens{0}, LoadMode::layerwise});
}

TEST_CASE("vLLM's connector loads all and waits; HiCache fetches 256 tokens or more, for 1 s and 0.25 s per 1,024") {
  CHECK(loaded(VllmOffloadRule{}, 320, 16) == Reuse{Tokens{16}, LoadMode::ahead});
  CHECK(loaded(VllmOffloadRule{}, 320, 16, a100_80(), 64).fetched == Tokens{64});
  CHECK(loaded(HiCacheRule{}, 320, 16, a100_80(), 255).fetched == Tokens{0});
  const Reuse reuse = loaded(HiCacheRule{}, 320, 16, a100_80(), 2048);
  CHECK(reuse.fetched == Tokens{2048});
  CHECK(reuse.patience.count() == doctest::Approx(1.5));
}

TEST_CASE("MeetInTheMiddle computes as many blocks of the beginning as take no longer than the load of the rest") {
  const MeetInTheMiddle<WriteThrough> policy;
  Device device = a100_80();
  for (const double gb_per_s : {1.0, 5.0, 25.0}) {
    CAPTURE(gb_per_s);
    device.host_to_device = device.device_to_host = BytesPerSecond{gb_per_s * 1e9};
    const Roofline cost(shape, device);
    const Reuse reuse = loaded(policy, 512, 8192, device);
    CHECK(reuse.mode == LoadMode::beside);
    CHECK(reuse.skipped + reuse.tokens == Tokens{8192});
    CHECK(compute_time_of(view_of(), cost, reuse.skipped, Tokens{512}) <= load_time(view_of(), cost, reuse.tokens));
    const Tokens more = reuse.skipped + Tokens{16};
    CHECK(compute_time_of(view_of(), cost, more, Tokens{512}) > load_time(view_of(), cost, Tokens{8192} - more));
  }
}

TEST_CASE("IfFaster loads above B*, the bytes of KV per token times the prompt tokens per second, and not below") {
  const IfFaster<HiCacheRule> policy;
  Device device = a100_80();
  constexpr std::int64_t tokens = 4096;
  const ChunkWork chunk[] = {{Tokens{tokens}, Tokens{0}}};
  Work work;
  work.chunks = chunk;
  const double computed_s = compute_time(Roofline(shape, device), work, shape.layers).count();
  const double bytes = static_cast<double>(shape.token_block_bytes(Tokens{16}).count()) * tokens / 16;
  const double worth = bytes / computed_s;
  for (const double factor : {0.3, 0.9, 1.1, 3.0}) {
    device.host_to_device = device.device_to_host = BytesPerSecond{worth * factor};
    CHECK(loaded(policy, 0, tokens, device).tokens == Tokens{factor > 1 ? tokens : 0});
    CHECK(loaded(HiCacheRule{}, 0, tokens, device).tokens == Tokens{tokens});
  }
}
