// SPDX-License-Identifier: Apache-2.0
// Computer: what computes a model, this machine's processor or a GPU, behind calls, so that a program without CUDA is
// the same.
#pragma once

#include "sluice/backend/machine/machine_setup.hpp"
#include "sluice/backend/machine/token_requests.hpp"
#include "sluice/backend/machine/token_world.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/decoder/decoder.hpp"
#include "sluice/decoder/weights.hpp"
#include "sluice/local/memory.hpp"
#include "sluice/local/rates.hpp"

#include "kernels/machine/cuda_machine.hpp"
#include "run/options.hpp"

#include <memory>
#include <optional>

namespace running {

class Computer {
 public:
  /// By `--backend`. Errors of a GPU: this program has no CUDA, there is no driver, no GPU.
  static sluice::Expected<Computer> open(const Options& options);

  /// Takes the model: from then on `weights` are what the machine computes with. Error: a GPU has no kernels for the
  /// model, or the system no memory.
  sluice::Status take(sluice::ModelWeights& weights, const sluice::MachineSetup& setup);

  // After that:
  sluice::Expected<sluice::LocalRates> rates(const sluice::MachineSetup& setup);
  [[nodiscard]] sluice::MemoryNeeds needs(const sluice::MachineSetup& setup) const;
  /// Once.
  sluice::Expected<std::shared_ptr<sluice::TokenWorld>> make_machine(const sluice::MachineSetup& setup,
                                                                     sluice::TokenListener listener);

 private:
  explicit Computer(int threads) : threads_(threads) {}

  int threads_;
  std::optional<sluice::CudaDevice> gpu_;    ///< none: the processor computes
  std::unique_ptr<sluice::Decoder> decoder_; ///< of the processor
  sluice::ModelWeights weights_;
};

} // namespace running
