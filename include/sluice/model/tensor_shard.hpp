// SPDX-License-Identifier: Apache-2.0
// tensor_shard: the part of a model that one device of a tensor-parallel group stores and computes.
#pragma once

#include "sluice/model/shape.hpp"

#include <algorithm>
#include <string>

namespace sluice {

/// The model as one of `degree` devices sees it: heads, MLP (each expert's too) and vocabulary are divided, so the
/// shape's weights, KV and FLOPs are that device's part. `where` opens the error's line: a flag.
///
/// - With fewer KV heads than devices, KV heads are replicated: each device keeps one whole, and the group keeps degree
///   / kv_heads copies of all KV. The shard's bytes include that.
/// - The residual stream, and with it `hidden_bytes_per_token`, is whole on every device; so is the router.
/// - If the degree does not divide the vocabulary, the vocabulary is padded, as in serving engines.
inline Expected<ModelShape> tensor_shard(const ModelShape& whole, int degree, const std::string& where) {
  const auto refuse = [&](const std::string& what, const char* expected) {
    return Error{ErrorCode::bad_input, where, what, expected};
  };
  const std::string of = " of " + whole.name + " do not divide among " + std::to_string(degree) + " devices";
  if (degree < 1) return refuse("there are " + std::to_string(degree) + " devices", "at least 1");
  if (whole.heads % degree != 0)
    return refuse("the " + std::to_string(whole.heads) + " heads" + of, "a number that divides the heads");
  if (whole.kv_heads % degree != 0 && degree % whole.kv_heads != 0)
    return refuse("the " + std::to_string(whole.kv_heads) + " KV heads" + of,
                  "a number that divides the KV heads, or that they divide");
  const int mlp = whole.experts > 0 ? whole.moe_intermediate : whole.mlp;
  if (mlp % degree != 0)
    return refuse("the " + std::to_string(mlp) + " columns of the MLP" + of, "a number that divides them");
  ModelShape shard = whole;
  shard.heads = whole.heads / degree;
  shard.kv_heads = std::max(1, whole.kv_heads / degree);
  (whole.experts > 0 ? shard.moe_intermediate : shard.mlp) = mlp / degree;
  shard.vocabulary = (whole.vocabulary + degree - 1) / degree;
  return shard;
}

} // namespace sluice
