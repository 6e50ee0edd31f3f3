// SPDX-License-Identifier: Apache-2.0
// read_safetensors_header: a safetensors file's tensors and their places, with everything checked.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

namespace detail {

/// A name in an error: longer than an excerpt, because the end of a name distinguishes a weight from a bias.
std::string tensor_text(std::string_view name);
/// "[128, 64]".
std::string shape_text(const std::vector<std::int64_t>& shape);

} // namespace detail

/// A tensor of a safetensors file.
struct StoredTensor {
  std::string name;
  std::string dtype; ///< as the file spells it: "F32", "BF16", …
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0; ///< bytes from the start of the file
  std::int64_t bytes = 0;

  [[nodiscard]] std::int64_t end() const { return begin + bytes; }
};

/// The longest header that is accepted, as in the format's own library.
inline constexpr std::int64_t longest_safetensors_header = 100'000'000;

/// The tensors of a safetensors file, whose bytes are `file`, in file order: an 8-byte little-endian length, a JSON
/// object of that length, the data. Errors, one line each, beginning with `where`: a length beyond the file or 100 MB,
/// invalid JSON, an entry without dtype, shape or offsets, an unknown dtype, offsets beyond the file or not matching
/// the shape, overlapping tensors, bytes that belong to no tensor. (The format requires the last; it also reveals an
/// entry that occurs twice, of which JSON readers see only one.)
[[nodiscard]] Expected<std::vector<StoredTensor>> read_safetensors_header(std::span<const std::byte> file,
                                                                          const std::string& where);

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/checkpoint/nlohmann/safetensors.inl.hpp"
#endif
