// SPDX-License-Identifier: Apache-2.0
// What sluice-plan says of its input: --help's table of fields, and a problem to begin with. docs/planner.md says more.
#pragma once

namespace planned {

inline constexpr const char* fields =
    R"(A problem is a JSON object. Blocks are layer blocks: the KV of block_tokens tokens in one layer.
  layers             how many, 1 to 128
  layer_compute_s    seconds of one layer: a number, or one for each
  link_blocks_per_s  of the link to the host
  device_blocks      that KV may take on the device, in flight ones too
  requests           a list of {"id", "tokens" or "blocks_per_layer", "deposit"}
and, where they are not what stands here,
  before_s 0, after_s 0      computed before the first layer and after the last
  link_per_layer_s 0         of the link, on top of a layer's blocks
  block_tokens 16            tokens of a block
  transfer "deadline-pool"   or next-layer, fair-share, earliest-deadline-first
  space "distance"           the layers that may be offloaded together; or even, free
  buffer "held"              how blocks in flight are counted; or paper
  iterations 1               run back to back
  slo_s none, alpha 1, paused 0, window [1, 1]   what a plan must hold
  deadline_us none           take the best found by then
  weights none               {"layers": [...], "blocks": b, "slots": s}, streamed whatever the plan
  placement none             {"id": [layers from 1]}: evaluate this one, seek none
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
