// SPDX-License-Identifier: Apache-2.0
// The decoder and the machine that it runs on, behind functions, so that they are compiled once.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"
#include "sluice/world/local/rates.hpp"

#include <memory>

namespace running {

std::unique_ptr<sluice::Decoder> make_decoder(const sluice::ModelWeights& weights, sluice::Tokens block_tokens,
                                              int threads);

/// `host_attends`: also the rate of the host's attention, which starts a thread of the decoder.
sluice::LocalRates rates_of(const sluice::ModelWeights& weights, sluice::Decoder& decoder, const sluice::Limits& limits,
                            bool host_attends = false);

sluice::Expected<std::shared_ptr<sluice::CpuMachine>> make_machine(sluice::ModelWeights weights,
                                                                   std::unique_ptr<sluice::Decoder> decoder,
                                                                   const sluice::MachineSetup& setup,
                                                                   sluice::TokenListener listener);

} // namespace running
