// SPDX-License-Identifier: Apache-2.0
// check_model, prepare_kernels: whether there are kernels for a model, and whether this GPU can run them.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/kinds.hpp"

namespace sluice::kernels {

/// The first reason why the kernels cannot compute the model.
[[nodiscard]] Status check_model(const DecoderConfig& config, ElementType element);

/// Prepares the kernels that a runner launches, so that missing features of this GPU are found here and not at the
/// first launch.
[[nodiscard]] Status prepare_kernels(const DecoderConfig& config, ElementType element);

} // namespace sluice::kernels
