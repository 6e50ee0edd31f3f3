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
Reuse loaded(const auto& policy, std::int64_t device, std::int64_t below, const Device& on = a100_80()) {
  return policy.reuse(view_of(), RequestRow{}, FoundPrefix{Tokens{device}, Tokens{below}}, Roofline(shape, on));
}

} // namespace

TEST_CASE("LMCache writes and loads whole chunks of prompts, HiCache loads all from 10 tokens on") {
  RequestRow row;
  row.spec.prompt = Tokens{1000};
  row.generated = Tokens{60};
  CHECK(LmcacheRule{}.write(view_of(), row) == Tokens{768});
  CHECK(HiCacheRule{}.write(view_of(), row) == Tokens{1060});
  CHECK(loaded(LmcacheRule{}, 0, 1000) == Reuse{Tokens{768}, false});
  CHECK(loaded(LmcacheRule{}, 300, 700) == Reuse{Tokens{468}, false}); // to the end of the third chunk
  CHECK(loaded(LmcacheRule{}, 0, 255) == Reuse{Tokens{0}, false});
  CHECK(loaded(HiCacheRule{}, 320, 16) == Reuse{Tokens{16}, true});
  CHECK(loaded(HiCacheRule{}, 320, 9) == Reuse{Tokens{0}, true});
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
