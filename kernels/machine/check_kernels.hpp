// SPDX-License-Identifier: Apache-2.0
// check_model, prepare_kernels: whether there are kernels for a model, and whether this GPU can run them.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/kinds.hpp"

namespace sluice::kernels {

/// The first line that speaks against the model.
[[nodiscard]] Status check_model(const DecoderConfig& config, ElementType element);

/// Readies the kernels that a runner launches: here, and not at the first launch, what this GPU has not is found.
[[nodiscard]] Status prepare_kernels(const DecoderConfig& config, ElementType element);

} // namespace sluice::kernels
