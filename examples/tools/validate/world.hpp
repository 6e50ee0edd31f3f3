// SPDX-License-Identifier: Apache-2.0
// World: how long a recorded server's iterations take, from a profile of its GPU's kernels.
#pragma once

#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/expert_parallel.hpp"
#include "sluice/policy/cost/read_served_tables.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"
#include "sluice/policy/cost/tensor_parallel.hpp"

#include "shared/bundle_meta.hpp"
#include "validate/known_devices.hpp"
#include "validate/mechanisms.hpp"
#include "validate/server.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace recorded {

using World = sluice::TensorParallel<sluice::ServedProfile>;

/// Inputs of a replay that neither the recording nor the profile has.
struct Stated {
  std::string all_reduce;    ///< file of measured all-reduces
  double link_rate = 0;      ///< of a ring between the devices, bytes per second; 0: none stated
  double link_latency_s = 0; ///< of each collective
  int multiprocessors = 0;   ///< 0: by the profile's name of the GPU
  Input::Source link_source = Input::Source::stated;
  std::string link_from = "given on the command line";
};

struct BuiltWorld {
  World rank;                                  ///< an engine's iteration, without experts that it shares
  std::optional<sluice::ExpertParallel> group; ///< of engines that share experts
  sluice::ModelShape shape;                    ///< of a device's share
  std::vector<Input> inputs;
};

/// How the devices of a group exchange `bytes`: a measured table or the stated link. An error if neither is there.
inline sluice::Expected<sluice::AllReduce> exchange_of(const std::filesystem::path& folder, int devices,
                                                       const Stated& stated, std::vector<Input>& inputs) {
  using namespace sluice;
  std::string table = stated.all_reduce;
  std::error_code ignored;
  if (table.empty() && stated.link_rate <= 0 && std::filesystem::exists(folder / "all_reduce.csv", ignored))
    table = (folder / "all_reduce.csv").string();
  if (!table.empty()) {
    const char* const from = stated.all_reduce.empty() ? "the profile's all_reduce.csv" : "given on the command line";
    Expected<MeasuredLine> line = read_all_reduce(table);
    if (!line) return line.error();
    inputs.push_back({fmt::format("all-reduces of {} devices", devices), Input::Source::stated, from});
    return AllReduce(std::move(*line), PeerPath::own, devices);
  }
  if (stated.link_rate <= 0)
    return unsupported(folder.string(), "the profile has no measured communication between devices",
                       "all_reduce.csv in it, --all-reduce FILE or --peer-link RATE");
  inputs.push_back({fmt::format("a link of {:.0f} GB/s and {:.0f} us per collective", stated.link_rate * 1e-9,
                                stated.link_latency_s * 1e6),
                    stated.link_source, stated.link_from});
  PeerLink link;
  link.rate = BytesPerSecond{stated.link_rate};
  link.launch = Seconds{stated.link_latency_s};
  link.path = PeerPath::own;
  return AllReduce(link, devices);
}

/// The part of `Serving` that graphs are.
inline sluice::Status add_graphs(const std::filesystem::path& folder, const BundleMeta& meta, const Server& server,
                                 const Mechanisms& mechanisms, sluice::Serving& serving, std::vector<Input>& inputs) {
  using namespace sluice;
  if (server.graph_sizes.empty() || (!mechanisms.padded && !mechanisms.saving)) return {};
  CudaGraphs::Saving saving;
  const std::filesystem::path steps = folder / "step.csv";
  std::error_code ignored;
  if (meta.timed_in_graphs) {
    // nothing to save
  } else if (std::filesystem::exists(steps, ignored)) {
    Expected<CudaGraphs::Saving> measured = read_graph_saving(LineReader::open(steps.string()));
    if (!measured) return measured.error();
    saving = std::move(*measured);
  } else {
    saving.per_launch = Seconds{saved_per_launch_us * 1e-6};
    if (mechanisms.saving)
      inputs.push_back({fmt::format("{} us saved by each launch in a graph", saved_per_launch_us),
                        Input::Source::stated, "pairs of steps measured on an RTX PRO 6000"});
  }
  serving.graphs = CudaGraphs(server.graph_sizes, std::move(saving));
  serving.pads = mechanisms.padded;
  serving.saves = mechanisms.saving;
  return {};
}

inline sluice::Status add_unequal_decodes(const std::filesystem::path& folder, const std::string& gpu,
                                          const Stated& stated, const sluice::ModelShape& shape,
                                          const sluice::AttentionGrid& attention, const Mechanisms& mechanisms,
                                          sluice::Serving& serving, std::vector<Input>& inputs) {
  using namespace sluice;
  if (mechanisms.skew) {
    Expected<SkewTable> table = read_skew_table(LineReader::open((folder / "skew.csv").string()));
    if (!table) return table.error();
    serving.skew = std::move(*table);
    return {};
  }
  if (!mechanisms.tail) return {};
  const auto* const known = std::find_if(known_devices.begin(), known_devices.end(),
                                         [&](const KnownDevice& device) { return device.gpu == gpu; });
  const int multiprocessors = stated.multiprocessors > 0     ? stated.multiprocessors
                              : known == known_devices.end() ? 0
                                                             : known->multiprocessors;
  if (multiprocessors == 0) {
    inputs.push_back({"no tail of the longest sequence", Input::Source::stated,
                      "the GPU's multiprocessors are not known (--multiprocessors N)"});
    return {};
  }
  if (known != known_devices.end() && known->splits_evenly) {
    inputs.push_back({"no tail of the longest sequence", Input::Source::stated,
                      "FlashAttention 3 distributes its blocks by their length"});
    return {};
  }
  if (attention.block_rate() <= 0 || attention.memory_rate() <= 0) {
    inputs.push_back({"no tail of the longest sequence", Input::Source::stated,
                      "the profile's attention does not take longer with its context"});
    return {};
  }
  inputs.push_back({fmt::format("{} multiprocessors", multiprocessors), Input::Source::stated,
                    stated.multiprocessors > 0 ? "given on the command line" : "data sheet"});
  serving.tail = DecodeTail({multiprocessors, shape.kv_heads, shape.heads},
                            {attention.block_rate(), attention.memory_rate() * shape.kv_heads});
  return {};
}

/// The experts of each of `server`'s engines, which hold the same number each.
inline sluice::Expected<sluice::ExpertShare> expert_share(const std::string& profile, const sluice::ModelShape& model,
                                                          const Server& server) {
  using namespace sluice;
  if (model.experts % server.data_parallel != 0)
    return unsupported(
        profile, fmt::format("data_parallel_size {} does not divide {} experts", server.data_parallel, model.experts),
        "engines with as many experts each");
  return ExpertShare{model.experts, model.experts / server.data_parallel, model.experts_per_token};
}

/// Builds a recorded server's world from the bundle in `profile`.
inline sluice::Expected<BuiltWorld> build_world(const std::string& profile, const Server& server,
                                                const Mechanisms& mechanisms, const Stated& stated) {
  using namespace sluice;
  std::vector<Input> inputs;
  const Expected<ModelShape> whole = read_hf_config(profile);
  if (!whole) return whole.error();
  const Expected<ModelShape> shape = tensor_shard(*whole, server.tensor_parallel, profile);
  if (!shape) return shape.error();
  const bool has_experts = whole->experts > 0;
  const std::filesystem::path folder = bundle_folder(profile, server.tensor_parallel);
  if (server.tensor_parallel > 1 && folder == std::filesystem::path(profile))
    return unsupported(profile,
                       "the profile has no times of one of " + std::to_string(server.tensor_parallel) + " devices",
                       "its folder tp" + std::to_string(server.tensor_parallel));
  if (has_experts && server.tensor_parallel > 1)
    return unsupported(profile, "experts with tensor_parallel_size above 1", "a dense model, or data_parallel_size");
  ExpertShare experts;
  if (has_experts) {
    const Expected<ExpertShare> share = expert_share(profile, *whole, server);
    if (!share) return share.error();
    experts = *share;
  }
  const Expected<TableProfile> kernels = read_table_profile(profile, LinkCost{}, server.tensor_parallel, has_experts);
  if (!kernels) return kernels.error();
  const Expected<BundleMeta> meta = read_bundle_meta(profile);
  if (!meta) return meta.error();

  Serving serving;
  if (Status status = add_graphs(folder, *meta, server, mechanisms, serving, inputs); !status) return status.error();
  if (Status status = add_unequal_decodes(folder, meta->gpu, stated, *shape, kernels->times().attention, mechanisms,
                                          serving, inputs);
      !status)
    return status.error();
  AllReduce reduce;
  if (server.tensor_parallel > 1) {
    Expected<AllReduce> measured = exchange_of(folder, server.tensor_parallel, stated, inputs);
    if (!measured) return measured.error();
    reduce = std::move(*measured);
  }
  std::optional<ExpertParallel> group;
  if (has_experts) {
    Expected<ExpertTable> table = read_expert_table(LineReader::open((folder / "moe.csv").string()), experts);
    if (!table) return table.error();
    inputs.push_back({"a router that chooses uniformly", Input::Source::stated, "no recording has its choices"});
    if (server.data_parallel > 1) {
      Expected<AllReduce> exchange = exchange_of(folder, server.data_parallel, stated, inputs);
      if (!exchange) return exchange.error();
      inputs.push_back({"the engine of each request", Input::Source::inferred, "vLLM's rule: the least loaded"});
      group.emplace(ServedProfile(*kernels, serving, whole->layers), std::move(*table), std::move(*exchange),
                    static_cast<double>(whole->hidden_bytes_per_token().count()));
    } else {
      serving.experts = std::move(*table);
    }
  } else if (server.data_parallel > 1) {
    return unsupported(profile, "data_parallel_size is " + std::to_string(server.data_parallel),
                       "1 for a dense model: its engines share nothing");
  }
  return BuiltWorld{World(ServedProfile(*kernels, std::move(serving), whole->layers), *whole, std::move(reduce)),
                    std::move(group), *shape, std::move(inputs)};
}

} // namespace recorded
