// SPDX-License-Identifier: Apache-2.0
// import_llmservingsim: a bundle of LLMServingSim 2.0's profiler (casys-kaist, MIT), checked and without its machine's
// paths.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/device/nlohmann/device_json.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/read_served_tables.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"

#include "validate/import/bundle_files.hpp"
#include "validate/import/peak.hpp"
#include "validate/import/products.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace imported {

struct LlmServingSimOptions {
  std::string bundle; ///< profiler/perf/HARDWARE/MODEL/VARIANT: meta.yaml and tpN
  std::string config; ///< the model's config.json (configs/model of that repository)
  std::string device; ///< by name or a JSON file: whose peak the products must keep
};

namespace detail {

/// dense.csv without the rows of products that are faster than the device.
inline sluice::Expected<std::string> possible_rows(const std::string& dense, const std::string& where,
                                                   const sluice::ModelShape& shard, Peak& peak) {
  const auto known = product_kernels(shard);
  std::string kept;
  for (std::size_t begin = 0; begin < dense.size();) {
    const std::size_t end = std::min(dense.find('\n', begin), dense.size());
    const std::string_view row = std::string_view(dense).substr(begin, end - begin);
    begin = end + 1;
    const std::size_t first = std::min(row.find(','), row.size());
    const auto* const product =
        std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.name == row.substr(0, first); });
    if (product != known.end()) { // the file's reader has accepted the row
      double tokens = 0, microseconds = 0;
      const auto [comma, ignored] = std::from_chars(row.data() + first + 1, row.data() + row.size(), tokens);
      std::from_chars(comma + 1, row.data() + row.size(), microseconds);
      const double flops = 2.0 * tokens * static_cast<double>(product->n) * static_cast<double>(product->k);
      if (!peak.holds(flops, microseconds)) continue;
    }
    kept.append(row).push_back('\n');
  }
  if (sluice::Status status = peak.status(where); !status) return status.error();
  return kept;
}

/// Reads what a server's replay reads beside the kernels, so that a wrong file is refused now.
inline sluice::Status check_beside(const std::filesystem::path& file, const sluice::ModelShape& shape) {
  using namespace sluice;
  const std::string name = file.filename().string();
  const auto lines = [&] { return LineReader::open(file.string()); };
  const auto status_of = [](const auto& read) { return read ? Status{} : Status{read.error()}; };
  if (name == "skew.csv") return status_of(read_skew_table(lines()));
  if (name == "step.csv") return status_of(read_graph_saving(lines()));
  if (name == "all_reduce.csv") return status_of(read_all_reduce(lines()));
  if (name == "moe.csv" && shape.experts == 0)
    return Error{ErrorCode::bad_input, file.string(), "the model of --config has no experts",
                 "the config.json of the profiled model"};
  if (name == "moe.csv")
    return status_of(read_expert_table(lines(), {shape.experts, shape.experts, shape.experts_per_token}));
  return {};
}

} // namespace detail

/// Checks and copies the tables of every `tpN`. Each measured point is kept, except products that are faster than the
/// device; skew_fit.csv, which is a fit and no measurement, is left out.
inline sluice::Expected<BundleFiles> import_llmservingsim(const LlmServingSimOptions& options) {
  using namespace sluice;
  namespace fs = std::filesystem;
  const Expected<ModelShape> shape = read_hf_config(options.config);
  if (!shape) return shape.error();
  Expected<Device> device = find_or_read_device(options.device);
  if (!device) {
    Error error = device.error();
    if (error.where == "device") error.where = "--device";
    return error;
  }
  const Expected<std::string> meta = read_bytes_of(fs::path(options.bundle) / "meta.yaml");
  if (!meta) return meta.error();

  BundleFiles bundle;
  for (std::size_t begin = 0; begin < meta->size();) { // its own facts; not the engine's settings, which have paths
    const std::size_t end = std::min(meta->find('\n', begin), meta->size());
    const std::string row = meta->substr(begin, end - begin);
    begin = end + 1;
    for (const char* name : {"profiler_version: ", "vllm_version: ", "cuda_version: ", "gpu: ", "profiled_at: ",
                             "architecture: ", "model: ", "variant: "})
      if (row.starts_with(name)) bundle.meta.push_back(row);
  }
  Peak peak(device->half_precision_peak.count());
  int parts = 0;
  for (int devices = 1; devices <= 64; ++devices) {
    const std::string part = "tp" + std::to_string(devices);
    const fs::path folder = fs::path(options.bundle) / part;
    std::error_code ignored;
    if (!fs::exists(folder / "dense.csv", ignored)) continue;
    ++parts;
    const Expected<ModelShape> shard = tensor_shard(*shape, devices, folder.string());
    if (!shard) return shard.error();
    const Expected<TableProfile> kernels = read_table_profile(options.bundle, LinkCost{}, devices, shape->experts > 0);
    if (!kernels) return kernels.error();
    for (const char* name :
         {"dense.csv", "per_sequence.csv", "attention.csv", "skew.csv", "step.csv", "moe.csv", "all_reduce.csv"}) {
      if (!fs::exists(folder / name, ignored)) continue;
      Expected<std::string> text = read_bytes_of(folder / name);
      if (!text) return text.error();
      if (Status status = detail::check_beside(folder / name, *shape); !status) return status.error();
      if (std::string_view{name} == "dense.csv") {
        text = detail::possible_rows(*text, (folder / name).string(), *shard, peak);
        if (!text) return text.error();
      }
      bundle.texts[part + "/" + name] = std::move(*text);
    }
  }
  if (parts == 0)
    return Error{ErrorCode::bad_input, options.bundle, "it has no tp1/dense.csv and no other tpN",
                 "a folder of the profiler, with meta.yaml"};
  Expected<std::string> copied = read_bytes_of(options.config);
  if (!copied) return copied.error();
  bundle.texts["config.json"] = std::move(*copied);
  bundle.meta.emplace_back("source: casys-kaist/LLMServingSim, MIT");
  bundle.meta.push_back(fmt::format("products_beyond_peak: {} left out ({:.0f} TFLOP/s of {})", peak.beyond(),
                                    device->half_precision_peak.count() * 1e-12, device->name));
  return bundle;
}

} // namespace imported
