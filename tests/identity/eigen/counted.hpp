// SPDX-License-Identifier: Apache-2.0
// Counted: a trial on this machine that counts its rows.
#pragma once

#include "sluice/model/decoder/decoder_runner.hpp"

#include "identity/eigen/real_run.hpp"
#include "support/counting_runner.hpp"

#include <memory>
#include <utility>

namespace sluice::testing {

struct Counted : OnCpu {
  std::shared_ptr<CountedRows> counts = std::make_shared<CountedRows>();
  std::shared_ptr<std::shared_ptr<CpuMachine>> machine = std::make_shared<std::shared_ptr<CpuMachine>>();

  [[nodiscard]] Expected<std::shared_ptr<CpuMachine>> make(const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                                           const MachineSetup& setup, TokenListener listener) const {
    auto runner = std::make_unique<DecoderRunner>(std::move(decoder));
    Expected<std::shared_ptr<CpuMachine>> made = CpuMachine::make(
        trial.weights, std::make_unique<CountingRunner>(std::move(runner), counts), setup, std::move(listener));
    if (made) *machine = *made;
    return made;
  }
};

} // namespace sluice::testing
