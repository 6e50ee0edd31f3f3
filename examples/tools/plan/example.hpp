// SPDX-License-Identifier: Apache-2.0
// sluice-plan's description of its input: --help's table of fields, and an example problem. docs/planner.md has
// details.
#pragma once

namespace planned {

inline constexpr const char* fields =
    R"(A problem is a JSON object. Blocks are layer blocks: the KV of block_tokens tokens in one layer.
  layers             number of layers, 1 to 128
  layer_compute_s    seconds per layer: one number, or a list
  link_blocks_per_s  rate of the link to the host
  device_blocks      device memory for KV, including blocks in flight
  requests           a list of {"id", "tokens" or "blocks_per_layer", "deposit"}
and optionally, with their defaults,
  before_s 0, after_s 0      compute time before the first layer and after the last
  link_per_layer_s 0         link time per layer in addition to its blocks
  block_tokens 16            tokens per block
  transfer "deadline-pool"   or next-layer, fair-share, earliest-deadline-first
  space "distance"           which sets of layers may be offloaded; or even, free
  buffer "held"              how memory of blocks in flight is counted; or paper
  iterations 1               number of iterations, back to back
  slo_s none, alpha 1, paused 0, window [1, 1]   what a plan must meet
  deadline_us none           time limit of the search, which returns the best plan found
  weights none               {"layers": [...], "blocks": b, "slots": s}, streamed with every plan
  placement none             {"id": [layers from 1]}: evaluate this placement instead of searching
--example writes a problem; docs/planner.md explains problem and answer.)";

inline constexpr const char* example = R"({
  "layers": 8,
  "layer_compute_s": 0.001,
  "link_blocks_per_s": 8000,
  "device_blocks": 500,
  "slo_s": 0.02,
  "requests": [
    {"id": "long", "tokens": 640},
    {"id": "short", "tokens": 320, "deposit": 4},
    {"id": "new", "tokens": 160}
  ]
}
)";

} // namespace planned
