// SPDX-License-Identifier: Apache-2.0
// read_checkpoint: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/model/checkpoint/layer_layout.hpp"
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

namespace sluice::detail {

/// All tensors of a checkpoint's files, by name.
class TensorIndex {
 public:
  struct Found {
    std::size_t file = 0;
    StoredTensor tensor;
  };

  /// Maps `path` and adds its tensors; an error if one of them exists already.
  Status add(const std::string& path) {
    Expected<MappedFile> file = MappedFile::open(path);
    if (!file) return file.error();
    Expected<std::vector<StoredTensor>> tensors = read_safetensors_header(file->bytes(), path);
    if (!tensors) return tensors.error();
    for (StoredTensor& tensor : *tensors) {
      const auto [twin, added] = found_.emplace(tensor.name, Found{files_.size(), tensor});
      if (!added) {
        return Error{ErrorCode::bad_input, path,
                     tensor_text(tensor.name) + " is in " + paths_[twin->second.file] + " too", "it in one file"};
      }
    }
    paths_.push_back(path);
    files_.push_back(std::move(*file));
    return {};
  }

  [[nodiscard]] const Found* find(const std::string& name) const {
    const auto at = found_.find(name);
    return at == found_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] const std::string& path_of(std::size_t file) const { return paths_[file]; }
  [[nodiscard]] std::span<const std::byte> bytes(const Found& found) const {
    return files_[found.file].bytes().subspan(static_cast<std::size_t>(found.tensor.begin),
                                              static_cast<std::size_t>(found.tensor.bytes));
  }
  /// Releases the mappings to the caller; their addresses stay valid.
  [[nodiscard]] std::vector<MappedFile> take_files() { return std::move(files_); }

 private:
  std::vector<std::string> paths_;
  std::vector<MappedFile> files_;
  std::unordered_map<std::string, Found> found_;
};

/// The shards that model.safetensors.index.json names, each with the tensors that it must contain.
inline Expected<std::map<std::string, std::vector<std::string>>> read_shard_index(const std::string& path) {
  const Expected<nlohmann::json> index = read_json_object(path);
  if (!index) return index.error();
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object() || map->empty()) {
    return Error{ErrorCode::bad_input, path, "weight_map is missing or empty",
                 "an object with the file of every tensor"};
  }
  std::map<std::string, std::vector<std::string>> shards;
  for (auto entry = map->begin(); entry != map->end(); ++entry) {
    const std::string file = entry.value().is_string() ? entry.value().get<std::string>() : std::string{};
    if (file.empty() || file.find('/') != std::string::npos || file.find('\0') != std::string::npos) {
      return Error{ErrorCode::bad_input, path,
                   "the file of " + tensor_text(entry.key()) + " is '" + excerpt(file) + "'",
                   "the name of a file beside the index"};
    }
    shards[file].push_back(entry.key());
  }
  return shards;
}

/// Maps model.safetensors, or all shards that model.safetensors.index.json names.
inline Expected<TensorIndex> map_checkpoint(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  TensorIndex tensors;
  const fs::path single = fs::path(folder) / "model.safetensors";
  const fs::path index = fs::path(folder) / "model.safetensors.index.json";
  if (fs::exists(single, ignored)) {
    if (Status status = tensors.add(single.string()); !status) return status.error();
    return tensors;
  }
  if (!fs::exists(index, ignored)) {
    return Error{ErrorCode::not_found, folder,
                 "the folder has no model.safetensors and no model.safetensors.index.json", "weights in safetensors"};
  }
  const auto shards = read_shard_index(index.string());
  if (!shards) return shards.error();
  for (const auto& [file, names] : *shards) {
    const std::string path = (fs::path(folder) / file).string();
    if (!fs::exists(path, ignored)) {
      return Error{ErrorCode::not_found, index.string(), "its file '" + excerpt(file, 100) + "' is not in the folder",
                   "all files of the index"};
    }
    if (Status status = tensors.add(path); !status) return status.error();
    for (const std::string& name : names) {
      const TensorIndex::Found* found = tensors.find(name);
      if (found != nullptr && tensors.path_of(found->file) == path) continue;
      return Error{ErrorCode::bad_input, path, "there is no " + tensor_text(name), "it here, as the index says"};
    }
  }
  return tensors;
}

inline std::optional<ElementType> element_type(std::string_view dtype) {
  if (dtype == "F32") return ElementType::f32;
  if (dtype == "F16") return ElementType::f16;
  if (dtype == "BF16") return ElementType::bf16;
  return std::nullopt;
}

/// Finds the tensors of a config in a checkpoint's files and checks each one.
class CheckpointReader {
 public:
  CheckpointReader(TensorIndex tensors, std::string folder)
      : tensors_(std::move(tensors)), folder_(std::move(folder)) {}

  Expected<ModelWeights> read(DecoderConfig config) {
    ModelWeights weights;
    const OuterTensorNames names = outer_tensor_names(config);
    // Some checkpoints contain the model without its head, and names without the prefix.
    prefix_ = tensors_.find("model." + names.embedding) == nullptr && tensors_.find(names.embedding) != nullptr
                  ? ""
                  : "model.";
    const ModelShape& shape = config.shape;
    const std::int64_t hidden = shape.hidden;
    outer(weights.embedding, prefix_ + names.embedding, shape.vocabulary, hidden, false);
    if (config.position == PositionKind::learned) {
      outer(weights.positions, prefix_ + names.positions, std::int64_t{config.max_positions} + config.position_offset,
            hidden, false);
    }
    outer(weights.final_norm, prefix_ + names.final_norm, 1, hidden, true);
    if (config.norm == NormKind::layer)
      outer(weights.final_norm_bias, prefix_ + names.final_norm_bias, 1, hidden, true);
    if (shape.tied_embeddings) {
      weights.head = weights.embedding;
    } else {
      outer(weights.head, names.head, shape.vocabulary, hidden, false);
    }
    read_layers(config, weights);
    if (!status_) return status_.error();

    for (const LayersOfKind& of_kind : layers_by_kind(config))
      for (const TensorPlace& place : weights.layout_of_kind(of_kind.kind).places)
        if (place.tensor == LayerTensor::query) config.shape.weight_element_bytes = bytes_of(place.type);
    weights.config = std::move(config);
    mapped_->files = tensors_.take_files();
    const std::shared_ptr<const MappedCheckpoint> mapped = mapped_;
    weights.owner = mapped;
    weights.forget = [mapped](int layer) {
      for (const std::span<const std::byte> bytes : mapped->layers[static_cast<std::size_t>(layer)])
        forget_pages(bytes);
    };
    return weights;
  }

 private:
  /// The tensor of that name, if it exists with that shape and a supported type.
  const TensorIndex::Found* find(const std::string& name, const std::vector<std::int64_t>& shape) {
    if (!status_) return nullptr;
    const TensorIndex::Found* found = tensors_.find(name);
    if (found == nullptr) {
      status_ =
          Error{ErrorCode::bad_input, folder_, "there is no " + tensor_text(name), "it, of shape " + shape_text(shape)};
      return nullptr;
    }
    const StoredTensor& tensor = found->tensor;
    if (tensor.shape != shape) {
      refuse(*found, "has the shape " + shape_text(tensor.shape), shape_text(shape) + ", by config.json");
    } else if (!element_type(tensor.dtype)) {
      refuse(*found, "is of dtype " + tensor.dtype, "F32, F16 or BF16");
    }
    return status_ ? found : nullptr;
  }
  void refuse(const TensorIndex::Found& found, const std::string& what, const std::string& expected) {
    status_ = Error{ErrorCode::bad_input, tensors_.path_of(found.file), tensor_text(found.tensor.name) + " " + what,
                    expected};
  }

  /// A matrix that is used in place. The format recommends alignment but does not require it; an unaligned tensor is
  /// copied, and its pages are dropped: it is still in memory only once.
  void outer(Matrix& matrix, const std::string& name, std::int64_t rows, std::int64_t columns, bool vector) {
    using Shape = std::vector<std::int64_t>;
    const TensorIndex::Found* found = find(name, vector ? Shape{columns} : Shape{rows, columns});
    if (found == nullptr) return;
    const ElementType type = *element_type(found->tensor.dtype);
    std::span<const std::byte> bytes = tensors_.bytes(*found);
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % static_cast<std::uintptr_t>(bytes_of(type)) != 0) {
      mapped_->realigned.emplace_back(bytes.begin(), bytes.end());
      forget_pages(bytes);
      bytes = mapped_->realigned.back();
    }
    matrix = Matrix::whole(bytes.data(), rows, columns, type);
  }

  /// Layers need no alignment: backends copy their bytes to a slot first.
  void read_layers(const DecoderConfig& config, ModelWeights& weights) {
    const auto packed = [&](int layer, LayerTensor tensor, int expert) {
      std::optional<PackedExperts> of = packed_experts(config, layer, tensor, expert);
      return of && tensors_.find(prefix_ + of->name) != nullptr ? std::move(of) : std::nullopt;
    };
    const auto name_of = [&](int layer, LayerTensor tensor, int expert) {
      const std::optional<PackedExperts> of = packed(layer, tensor, expert);
      return prefix_ + (of ? of->name : layer_tensor_name(config, layer, tensor, expert));
    };
    // The types of a kind's first layer are those of all its layers: each must fit every slot.
    const auto first_like = [&](LayerKind kind) {
      int layer = 0;
      while (config.kind(layer) != kind) ++layer;
      return layer;
    };
    weights.lay_out_layers(config, [&](LayerKind kind) {
      const int first = first_like(kind);
      const auto type_of = [&](LayerTensor tensor, int expert) {
        const TensorIndex::Found* found = tensors_.find(name_of(first, tensor, expert));
        const auto type = found == nullptr ? std::nullopt : element_type(found->tensor.dtype);
        return type.value_or(ElementType::f32); // an absent tensor is reported below
      };
      return sluice::layout_of(config, type_of, kind);
    });
    for (int layer = 0; layer < config.shape.layers && status_; ++layer) {
      std::vector<const std::byte*> tensors;
      std::vector<std::span<const std::byte>> ranges;
      const LayerKind kind = config.kind(layer);
      for (const TensorPlace& place : weights.layout_of_kind(kind).places) {
        const std::optional<PackedExperts> of = packed(layer, place.tensor, place.expert);
        const TensorIndex::Found* found =
            find(name_of(layer, place.tensor, place.expert), of ? of->shape : stored_shape(place));
        if (found == nullptr) return;
        if (*element_type(found->tensor.dtype) != place.type) {
          const std::string first = name_of(first_like(kind), place.tensor, place.expert);
          return refuse(*found, "is of dtype " + found->tensor.dtype,
                        tensors_.find(first)->tensor.dtype + ", the type of " + tensor_text(first));
        }
        const auto bytes = static_cast<std::size_t>(place.bytes());
        ranges.push_back(tensors_.bytes(*found).subspan(of ? static_cast<std::size_t>(of->matrix) * bytes : 0, bytes));
        tensors.push_back(ranges.back().data());
      }
      weights.layers.push_back(std::move(tensors));
      mapped_->layers.push_back(merged(std::move(ranges)));
    }
  }

  /// Merges adjacent ranges, so that the pages where one ends and the next begins can be dropped too.
  static std::vector<std::span<const std::byte>> merged(std::vector<std::span<const std::byte>> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.data() < b.data(); });
    std::vector<std::span<const std::byte>> whole;
    for (const std::span<const std::byte> range : ranges) {
      if (!whole.empty() && whole.back().data() + whole.back().size() == range.data()) {
        whole.back() = {whole.back().data(), whole.back().size() + range.size()};
      } else {
        whole.push_back(range);
      }
    }
    return whole;
  }

  TensorIndex tensors_;
  std::string folder_;
  std::string prefix_;
  std::shared_ptr<MappedCheckpoint> mapped_ = std::make_shared<MappedCheckpoint>();
  Status status_;
};

} // namespace sluice::detail

namespace sluice {

SLUICE_MODEL_INLINE Expected<ModelWeights> read_checkpoint(const std::string& folder) {
  Expected<DecoderConfig> config = read_decoder_config(folder);
  if (!config) return config.error();
  Expected<detail::TensorIndex> tensors = detail::map_checkpoint(folder);
  if (!tensors) return tensors.error();
  return detail::CheckpointReader(std::move(*tensors), folder).read(std::move(*config));
}

} // namespace sluice
