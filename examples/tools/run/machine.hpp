// SPDX-License-Identifier: Apache-2.0
// What computes: the decoder and the machine it runs on, behind calls, so that they are compiled once.
#pragma once

#include "sluice/backend/cpu/machine.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/decoder/decoder.hpp"
#include "sluice/decoder/weights.hpp"
#include "sluice/device/device.hpp"

#include <memory>

namespace running {

std::unique_ptr<sluice::Decoder> make_decoder(const sluice::ModelWeights& weights, sluice::Tokens block_tokens,
                                              int threads);

/// What this machine reaches with a model, in at most about 0.3 s.
struct Rates {
  sluice::BytesPerSecond reading{0};   ///< weights, by one row at a time
  sluice::FlopsPerSecond computing{0}; ///< matrix products, by many rows
  sluice::BytesPerSecond copying{0};   ///< between the two memories, unthrottled
  sluice::Seconds took{0};
};
Rates measure_rates(const sluice::ModelWeights& weights, sluice::Decoder& decoder, const sluice::Limits& limits);

sluice::Expected<std::shared_ptr<sluice::CpuMachine>> make_machine(sluice::ModelWeights weights,
                                                                   std::unique_ptr<sluice::Decoder> decoder,
                                                                   const sluice::CpuSetup& setup,
                                                                   sluice::CpuListener listener);

} // namespace running
