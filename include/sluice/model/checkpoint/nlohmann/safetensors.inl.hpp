// SPDX-License-Identifier: Apache-2.0
// read_safetensors_header: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace sluice::detail {

SLUICE_MODEL_INLINE std::string tensor_text(std::string_view name) { return "tensor '" + excerpt(name, 100) + "'"; }

SLUICE_MODEL_INLINE std::string shape_text(const std::vector<std::int64_t>& shape) {
  constexpr std::size_t longest = 8;
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(shape.size(), longest); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() > longest ? ", ...]" : "]");
}

/// Bytes per element, for all types of the format that fill whole bytes; 0 for any other text.
inline std::int64_t stored_element_bytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, int>, 17> known{{{"BOOL", 1},
                                                                    {"U8", 1},
                                                                    {"I8", 1},
                                                                    {"F8_E4M3", 1},
                                                                    {"F8_E5M2", 1},
                                                                    {"F8_E8M0", 1},
                                                                    {"U16", 2},
                                                                    {"I16", 2},
                                                                    {"F16", 2},
                                                                    {"BF16", 2},
                                                                    {"U32", 4},
                                                                    {"I32", 4},
                                                                    {"F32", 4},
                                                                    {"U64", 8},
                                                                    {"I64", 8},
                                                                    {"F64", 8},
                                                                    {"C64", 8}}};
  for (const auto& [name, bytes] : known)
    if (name == dtype) return bytes;
  return 0;
}

/// An array of whole numbers of at least 0; nothing if the field is anything else.
inline std::optional<std::vector<std::int64_t>> whole_numbers(const nlohmann::json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_array()) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const nlohmann::json& value : *field) {
    if (!value.is_number_unsigned()) return std::nullopt;
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    numbers.push_back(static_cast<std::int64_t>(number));
  }
  return numbers;
}

/// One entry of the header; offsets count from `data`, and the file ends at `size`.
inline Expected<StoredTensor> stored_tensor(const std::string& name, const nlohmann::json& entry, std::int64_t data,
                                            std::int64_t size, const std::string& where) {
  const auto wrong = [&](const std::string& what, const std::string& expected) {
    return Error{ErrorCode::bad_input, where, tensor_text(name) + " " + what, expected};
  };
  if (!entry.is_object()) return wrong("is no JSON object", "an object with dtype, shape and data_offsets");
  StoredTensor tensor;
  tensor.name = name;
  const auto dtype = entry.find("dtype");
  const std::string types = "F32, F16 or BF16";
  if (dtype == entry.end() || !dtype->is_string()) return wrong("has no dtype", types);
  tensor.dtype = dtype->get<std::string>();
  const std::int64_t element = stored_element_bytes(tensor.dtype);
  if (element == 0) return wrong("has the unknown dtype '" + excerpt(tensor.dtype) + "'", types);
  auto shape = whole_numbers(entry, "shape");
  if (!shape) return wrong("has no shape", "an array of whole numbers of at least 0");
  tensor.shape = std::move(*shape);
  const auto offsets = whole_numbers(entry, "data_offsets");
  if (!offsets || offsets->size() != 2) return wrong("has no data_offsets", "two whole numbers, begin and end");
  const std::int64_t begin = (*offsets)[0];
  const std::int64_t end = (*offsets)[1];
  const std::string told = std::to_string(begin) + " to " + std::to_string(end);
  if (begin > end) return wrong("lies from byte " + told, "a begin that is not behind the end");
  if (end > size - data) {
    return wrong("ends at byte " + std::to_string(end) + " of the data, of which the file has " +
                     std::to_string(size - data),
                 "a file that was not cut short");
  }
  std::int64_t bytes = element;
  for (const std::int64_t extent : tensor.shape) {
    // Everything that fits the file is far below the largest number.
    if (extent != 0 && bytes > std::numeric_limits<std::int64_t>::max() / extent)
      return wrong("has the shape " + shape_text(tensor.shape), "one whose bytes can be counted");
    bytes *= extent;
  }
  if (end - begin != bytes) {
    return wrong("lies from byte " + told + ", " + std::to_string(end - begin) + " bytes",
                 std::to_string(bytes) + ", by its shape " + shape_text(tensor.shape) + " of " + tensor.dtype);
  }
  tensor.begin = data + begin;
  tensor.bytes = bytes;
  return tensor;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_MODEL_INLINE Expected<std::vector<StoredTensor>> read_safetensors_header(std::span<const std::byte> file,
                                                                                const std::string& where) {
  constexpr std::int64_t prefix = 8;
  const auto size = static_cast<std::int64_t>(file.size());
  if (size < prefix) {
    return Error{ErrorCode::bad_input, where, "the file has " + std::to_string(size) + " bytes",
                 "a safetensors file, which begins with the 8 bytes of its header's length"};
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < prefix; ++i) length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  if (length > static_cast<std::uint64_t>(std::min(size - prefix, longest_safetensors_header))) {
    return Error{ErrorCode::bad_input, where,
                 "the header is said to have " + std::to_string(length) + " bytes, the file has " +
                     std::to_string(size),
                 "a header within the file and of at most 100 MB"};
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + prefix, static_cast<std::size_t>(length));
  const Expected<nlohmann::json> header = parse_json_object(text, where + " (header)");
  if (!header) return header.error();

  const std::int64_t data = prefix + static_cast<std::int64_t>(length);
  std::vector<StoredTensor> tensors;
  for (auto entry = header->begin(); entry != header->end(); ++entry) {
    if (entry.key() == "__metadata__") continue; // texts for people
    Expected<StoredTensor> tensor = detail::stored_tensor(entry.key(), entry.value(), data, size, where);
    if (!tensor) return tensor.error();
    tensors.push_back(std::move(*tensor));
  }
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tuple{a.begin, a.bytes} < std::tuple{b.begin, b.bytes};
  });
  std::int64_t end = data;
  const StoredTensor* before = nullptr;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin < end) {
      return Error{ErrorCode::bad_input, where,
                   detail::tensor_text(tensor.name) + " overlaps " + detail::tensor_text(before->name),
                   "tensors behind one another"};
    }
    if (tensor.begin > end) break;
    end = tensor.end();
    before = &tensor;
  }
  if (end < size) {
    return Error{ErrorCode::bad_input, where,
                 "the bytes from " + std::to_string(end) + " on belong to no tensor; the file has " +
                     std::to_string(size),
                 "tensors that fill the file"};
  }
  return tensors;
}

} // namespace sluice
