// SPDX-License-Identifier: Apache-2.0
// Subject: the hardware that sluice-profile --measure measures, this machine's processor or a GPU, behind one
// interface.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/local/rates.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/real/token_world.hpp"

#include "profile/link.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace profiled {

inline constexpr sluice::Tokens block_tokens{16};

/// The batches to measure. The lists are ascending; the first value of each, and a middle or the last one, are measured
/// however long it takes.
struct Grid {
  int most_decodes = 16, most_rows = 256;
  std::vector<int> contexts{15, 63, 255, 1023};
  std::vector<int> chunks{2, 16, 64, 256}, pasts{0, 64, 256, 1024};
  /// Whether chunks together with decodes are measured: a GPU computes them at once. A decoder that computes one
  /// sequence after another takes the sum of their times.
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
  /// Whether the program's own threads compute: then their share of processor time shows how busy the machine was.
  [[nodiscard]] virtual bool computes_here() const = 0;
  [[nodiscard]] virtual int kv_element_bytes() const = 0;
  /// The memory for device.json.
  [[nodiscard]] virtual sluice::Bytes memory() const = 0;

  /// The weights, with the subject's element types.
  [[nodiscard]] virtual const sluice::ModelWeights& weights() const = 0;
  [[nodiscard]] virtual sluice::BatchTimer& timer() = 0;
  /// Makes the machine with all weights on the device and room for `kv` beside them. Call it once.
  virtual sluice::Expected<std::shared_ptr<sluice::TokenWorld>> make_machine(sluice::MachineSetup setup,
                                                                             sluice::LayerBlocks kv) = 0;
  /// `block`: bytes of a KV block. `seconds`: most time to repeat measurements that spread.
  virtual sluice::Expected<LinkTimes> link(std::int64_t block, double seconds) = 0;
  /// The rate of attention on the host; by default there is none.
  virtual sluice::HostAttentionRate host_attention() { return {}; }
  /// An error if the measurements are invalid.
  [[nodiscard]] virtual sluice::Status status() { return {}; }
};

/// This machine's processor, with the decoder of sluice-run. `link`: limit of the copy engine in bytes per second; 0:
/// no limit. Errors: too little memory for a second image of the timed weights.
sluice::Expected<std::unique_ptr<Subject>> measure_processor(sluice::ModelWeights weights, int threads, double link);

/// Errors: this program has no CUDA, there is no driver, there is no GPU. Checked before a model is read, which takes
/// long.
sluice::Status find_gpu();
/// The first GPU, with the kernels and copies of a machine on it. Errors: no kernels for this model, too little memory.
sluice::Expected<std::unique_ptr<Subject>> measure_gpu(const sluice::ModelWeights& weights, sluice::Products products);

} // namespace profiled
