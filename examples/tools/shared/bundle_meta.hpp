// SPDX-License-Identifier: Apache-2.0
// BundleMeta: what a folder of kernel times says about its measurement.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/workload/line_reader.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

/// What a bundle's meta.yaml says.
struct BundleMeta {
  std::string gpu;              ///< as its driver names it; empty if it does not say
  std::string device;           ///< this machine's processor, of sluice-profile; empty if a GPU was measured
  bool timed_in_graphs = false; ///< the kernels were timed within CUDA graphs, so a graph saves nothing on them
};

inline sluice::Expected<BundleMeta> read_bundle_meta(const std::string& bundle) {
  using namespace sluice;
  BundleMeta meta;
  const std::string path = (std::filesystem::path(bundle) / "meta.yaml").string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return meta;
  Expected<LineReader> lines = LineReader::open(path);
  if (!lines) return lines.error();
  for (;;) {
    const Expected<std::optional<std::string_view>> line = lines->next();
    if (!line) return line.error();
    if (!*line) return meta;
    constexpr std::string_view gpu = "gpu: ", device = "device: ";
    if ((*line)->starts_with(gpu)) meta.gpu = (*line)->substr(gpu.size());
    if ((*line)->starts_with(device)) meta.device = (*line)->substr(device.size());
    if (**line == "timed_in_graphs: true") meta.timed_in_graphs = true;
  }
}
