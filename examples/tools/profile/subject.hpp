// SPDX-License-Identifier: Apache-2.0
// Subject: what sluice-profile --measure measures, this machine's processor or a GPU, behind calls.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/batch_timer.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/machine/token_world.hpp"

#include "profile/link.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace profiled {

inline constexpr sluice::Tokens block_tokens{16};

/// The batches that are measured. The lists are ascending; of each the first, and one in the middle or the last, are
/// measured whatever time there is.
struct Grid {
  int most_decodes = 16, most_rows = 256;
  std::vector<int> contexts{15, 63, 255, 1023};
  std::vector<int> chunks{2, 16, 64, 256}, pasts{0, 64, 256, 1024};
  /// A chunk beside decodes is measured too: a GPU computes them at once. A decoder that computes sequence by sequence
  /// takes the sum.
  bool mixes = false;
};

class Subject {
 public:
  Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  virtual ~Subject() = default;

  /// "this machine, 2 threads", "NVIDIA H100 80GB HBM3".
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual Grid grid() const = 0;
  /// The program's own threads compute: how much of a processor they had tells how busy the machine was.
  [[nodiscard]] virtual bool computes_here() const = 0;
  [[nodiscard]] virtual int kv_element_bytes() const = 0;
  /// Of device.json.
  [[nodiscard]] virtual sluice::Bytes memory() const = 0;

  /// As the subject holds them.
  [[nodiscard]] virtual const sluice::ModelWeights& weights() const = 0;
  [[nodiscard]] virtual sluice::BatchTimer& timer() = 0;
  /// With all weights on the device and room for `kv` beside them. Once.
  virtual sluice::Expected<std::shared_ptr<sluice::TokenWorld>> make_machine(sluice::MachineSetup setup,
                                                                             sluice::LayerBlocks kv) = 0;
  /// `block`: bytes of a block of KV. `seconds`: to repeat for what spreads.
  virtual sluice::Expected<LinkTimes> link(std::int64_t block, double seconds) = 0;
  /// Why what was measured is not to be believed.
  [[nodiscard]] virtual sluice::Status status() { return {}; }
};

/// This machine's processor, by the decoder of sluice-run. `link`: bytes a second that the copy engine is told; 0: as
/// fast as memory is.
std::unique_ptr<Subject> measure_processor(sluice::ModelWeights weights, int threads, double link);

/// Errors: this program has no CUDA, there is no driver, no GPU. Before a model is read, which takes its time.
sluice::Status find_gpu();
/// The first GPU, by the kernels and copies of a machine on it. Errors: there are none for this model, too little
/// memory.
sluice::Expected<std::unique_ptr<Subject>> measure_gpu(const sluice::ModelWeights& weights, sluice::Products products);

} // namespace profiled
