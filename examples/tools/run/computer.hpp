// SPDX-License-Identifier: Apache-2.0
// Computer: what computes a model, this machine's processor or a GPU, behind calls, so that a program without CUDA is
// the same.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/local/rates.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/machine/token_requests.hpp"
#include "sluice/world/machine/token_world.hpp"

#include "kernels/machine/cuda_machine.hpp"
#include "run/options.hpp"

#include <memory>
#include <optional>
#include <string>

namespace running {

class Computer {
 public:
  /// By `--backend`. `replays`: a run's record takes the place of what would compute, which then only says how memory
  /// is divided; a GPU need not be there. Errors of a GPU: this program has no CUDA, there is no driver, no GPU.
  static sluice::Expected<Computer> open(const Options& options, bool replays);

  /// Takes the model: from then on `weights` are what the machine computes with. Error: a GPU has no kernels for the
  /// model, or the system no memory.
  sluice::Status take(sluice::ModelWeights& weights, const sluice::MachineSetup& setup);

  /// Which copies a GPU's kernel makes, for people; nothing of the processor.
  [[nodiscard]] std::string gathered() const;

  // After that:
  [[nodiscard]] sluice::MemoryNeeds needs(const sluice::MachineSetup& setup) const;
  /// Not of a replay, as is the next.
  sluice::Expected<sluice::LocalRates> rates(const sluice::MachineSetup& setup);
  /// Once.
  sluice::Expected<std::shared_ptr<sluice::TokenWorld>> make_machine(const sluice::MachineSetup& setup,
                                                                     sluice::TokenListener listener);

  /// What a GPU is called; empty of this machine's processor.
  [[nodiscard]] std::string gpu_name() const { return gpu_ ? gpu_->name : std::string{}; }

 private:
  Computer(int threads, bool cuda) : threads_(threads), cuda_(cuda) {}

  int threads_;
  bool cuda_;
  std::optional<sluice::CudaDevice> gpu_;    ///< none: the processor computes, or nothing does
  std::unique_ptr<sluice::Decoder> decoder_; ///< of the processor
  sluice::ModelWeights weights_;
};

} // namespace running
