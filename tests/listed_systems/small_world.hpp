// SPDX-License-Identifier: Apache-2.0
// SmallWorld: where every listed system is tried.
#pragma once

#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"

#include "engines/registry.hpp"

namespace sluice::testing {

/// A small model on a small part of a device, where a request's context is a few percent of a decode step, so that it
/// can decide whether a tight SLO is met.
struct SmallWorld {
  ModelShape model = opt_6_7b();
  Device device = a5000();
  engines::Setup setup{.limits = {.batch = 10, .batch_tokens = Tokens{512}, .max_context = Tokens{2048}},
                       .geometry = {},
                       .cost = engines::CostChoice{Roofline{model, device}},
                       .model = model,
                       .device = device};

  SmallWorld() {
    model.layers = setup.model.layers = 8;
    setup.cost = engines::CostChoice{Roofline{model, device}};
    const Tokens block = setup.limits.block_tokens;
    setup.geometry = {model.layers, model.layer_block_bytes(block), model.layer_weight_bytes(),
                      model.layer_hidden_bytes(block)};
    setup.device_blocks = across_layers(TokenBlocks{200}, model.layers);
    setup.host_blocks = across_layers(TokenBlocks{2000}, model.layers);
  }
  [[nodiscard]] Seconds step(Tokens context) const {
    Work work;
    work.decodes = work.samples = 1;
    work.decode_context = context;
    return setup.cost.step(work).total(model.layers);
  }
};

} // namespace sluice::testing
