// SPDX-License-Identifier: Apache-2.0
// pinned_weights: a model's weights in pinned host memory, in one element type.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/checkpoint/element.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/cuda/cudart/driver.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {

inline void convert(std::byte* to, ElementType to_type, const std::byte* from, ElementType from_type,
                    std::int64_t elements) {
  if (to_type == from_type) {
    std::memcpy(to, from, static_cast<std::size_t>(elements * bytes_of(to_type)));
    return;
  }
  for (std::int64_t i = 0; i < elements; ++i, to += bytes_of(to_type), from += bytes_of(from_type))
    store_element(to, to_type, load_element(from, from_type));
}

} // namespace detail

/// A copy of `weights` with every number converted to `element` (rounded if it was longer), as kernels want them.
/// Streamed weights cross the link again and again, at full rate only from pinned memory, and resident ones may have to
/// leave and come back. So the host needs room for all of them once, besides what the system caches of the file.
///
/// Rejected: pinning the mapped file (cudaHostRegister), which not every system allows for pages of a file, and which
/// converts nothing. Error: the system refuses the memory.
[[nodiscard]] inline Expected<ModelWeights> pinned_weights(const ModelWeights& weights, ElementType element) {
  ModelWeights pinned = retyped(weights, element);
  const std::int64_t layer_bytes = pinned.layout.bytes.count();
  const auto layers = static_cast<std::int64_t>(weights.layers.size());
  const OuterWeights outer = pinned;
  constexpr std::int64_t alignment = 256;
  const std::int64_t outer_bytes = outer.lay_out(alignment, [](Matrix OuterWeights::*, std::int64_t) {});
  Expected<PinnedBytes> memory =
      pinned_bytes(static_cast<std::size_t>(layers * layer_bytes + outer_bytes), "the model's weights");
  if (!memory) return memory.error();
  auto owner = std::make_shared<PinnedBytes>(std::move(*memory));
  std::byte* const start = owner->data();

  std::byte* const outer_start = start + layers * layer_bytes;
  outer.lay_out(alignment, [&](Matrix OuterWeights::*member, std::int64_t at) {
    const Matrix& from = weights.*member;
    detail::convert(outer_start + at, element, from.row(0), from.type, from.rows * from.columns);
  });
  static_cast<OuterWeights&>(pinned) = outer.moved_to(outer_start, alignment);

  const auto pin_layer = [&](std::int64_t layer) {
    const auto l = static_cast<std::size_t>(layer);
    for (std::size_t i = 0; i < pinned.layout.places.size(); ++i) {
      const TensorPlace& to = pinned.layout.places[i];
      detail::convert(start + layer * layer_bytes + to.offset, element, weights.layers[l][i],
                      weights.layout.places[i].type, to.rows * to.columns);
    }
    weights.forget(static_cast<int>(layer));
  };
  std::atomic<std::int64_t> next{0};
  const auto pin_layers = [&] {
    for (std::int64_t layer = next++; layer < layers; layer = next++) pin_layer(layer);
  };
  {
    const std::int64_t threads =
        std::clamp<std::int64_t>(std::thread::hardware_concurrency(), 1, std::min<std::int64_t>(layers, 16));
    std::vector<std::jthread> others; // joined here
    for (std::int64_t i = 1; i < threads; ++i) others.emplace_back(pin_layers);
    pin_layers();
  }
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::vector<const std::byte*>& tensors = pinned.layers.emplace_back();
    for (const TensorPlace& place : pinned.layout.places) tensors.push_back(start + layer * layer_bytes + place.offset);
  }
  pinned.owner = std::move(owner);
  return pinned;
}

} // namespace sluice
