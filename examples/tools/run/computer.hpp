// SPDX-License-Identifier: Apache-2.0
// Computer: the hardware that computes a model, this machine's processor or a GPU, behind one interface, so that
// programs without CUDA have the same code.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/local/rates.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/machine/token_requests.hpp"
#include "sluice/world/real/token_world.hpp"

#include "kernels/machine/cuda_machine.hpp"
#include "run/options.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace running {

/// A GPU that a process keeps between runs of one model, with the memory of the last run and the weights in it.
struct KeptGpu {
  std::optional<sluice::CudaDevice> device;
  std::optional<std::int64_t> gather_below; ///< with which it was opened
  std::optional<sluice::LocalRates> rates;  ///< measured before its memory was reserved
  sluice::MachineSetup rated;               ///< the setup that they were measured with
};

class Computer {
 public:
  /// Opens the hardware of `--backend`, or takes the kept GPU unless it has failed or was opened with another
  /// `--gather-below`. `replays`: a run's record replaces the computation, so the hardware only determines how memory
  /// is divided; a GPU need not exist. Errors for a GPU: this program has no CUDA, there is no driver, there is no GPU.
  static sluice::Expected<Computer> open(const Options& options, bool replays, KeptGpu kept = {});

  /// Takes the model: from then on the machine computes with `weights`. `again`: they come from an earlier call for the
  /// same backend. Errors: the GPU has no kernels for the model, or the system has too little memory.
  sluice::Status take(sluice::ModelWeights& weights, const sluice::MachineSetup& setup, bool again = false);

  /// The sizes of copies that a GPU kernel makes, as text; empty for the processor.
  [[nodiscard]] std::string gathered() const;

  // Call these after take():
  [[nodiscard]] sluice::MemoryNeeds needs(const sluice::MachineSetup& setup) const;
  /// Not for a replay; neither is make_machine(). A kept GPU's rates are not measured again for the same limits and
  /// kernels. `host_attends`: with the rate of attention on the host, which a GPU's machine has none of.
  sluice::Expected<sluice::LocalRates> rates(const sluice::MachineSetup& setup, bool host_attends);
  /// Call it once.
  sluice::Expected<std::shared_ptr<sluice::TokenWorld>> make_machine(const sluice::MachineSetup& setup,
                                                                     sluice::TokenListener listener);

  /// The GPU, for the next run.
  [[nodiscard]] const KeptGpu& gpu() const { return kept_; }
  /// The GPU's name; empty for this machine's processor.
  [[nodiscard]] std::string gpu_name() const { return kept_.device ? kept_.device->name : std::string{}; }

 private:
  Computer(int threads, bool cuda) : threads_(threads), cuda_(cuda) {}

  int threads_;
  bool cuda_;
  KeptGpu kept_;                             ///< no device: the processor computes, or nothing does
  std::unique_ptr<sluice::Decoder> decoder_; ///< for the processor
  sluice::ModelWeights weights_;
};

} // namespace running
