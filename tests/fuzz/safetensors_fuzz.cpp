// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file; every tensor that was read lies within the file.
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"

#include "fuzz/fuzz_support.hpp"

#include <span>

SLUICE_FUZZ_TARGET(safetensors) {
  const auto file = std::as_bytes(std::span<const std::uint8_t>(data, size));
  const auto tensors = sluice::read_safetensors_header(file, "model.safetensors");
  if (!tensors) {
    sluice_test::require_one_line(tensors.error());
    return 0;
  }
  std::int64_t end = 8;
  for (const sluice::StoredTensor& tensor : *tensors) {
    sluice_test::require(tensor.begin >= end && tensor.bytes >= 0, "tensors lie one after another");
    end = tensor.end();
  }
  sluice_test::require(end <= static_cast<std::int64_t>(size), "tensors are within the file");
  return 0;
}
