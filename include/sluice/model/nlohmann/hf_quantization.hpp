// SPDX-License-Identifier: Apache-2.0
// HfQuantization: which weights of a checkpoint are stored in which format.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/description.hpp"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// A checkpoint's quantisation, from `quantization_config` of its config.json and from `hf_quant_config.json` beside it
/// (ModelOpt). Methods: fp8, fbgemm_fp8, modelopt, mxfp4, awq, gptq and compressed-tensors.
///
/// Three rules decide, for each matrix: a format for this module by name (`quantized_layers`, or a target of
/// compressed-tensors); no format, where an exclude matches; else the checkpoint's one format, for the classes of
/// module that the method quantises. Norms, other vectors, embeddings and routers keep the config's data type, unless
/// they are named.
class HfQuantization {
 public:
  /// Reads both sources; either may be null. `where` and `side_where` open an error's line.
  static Expected<HfQuantization> read(const nlohmann::json* config, const std::string& where,
                                       const nlohmann::json* side, const std::string& side_where);

  /// Whether any weight may be quantised.
  [[nodiscard]] bool any() const { return any_; }
  /// Bytes of an element of KV, where the checkpoint says so.
  [[nodiscard]] std::optional<int> kv_element_bytes() const { return kv_element_bytes_; }

  /// Scales that the config calls powers of two (`scale_fmt`) take a byte. DeepSeek-V4 stores them so; V3.2, whose
  /// config says the same, stores f32.
  void store_exponents() {
    if (exponents_ && base_) base_->scale_bits = 8;
  }

  /// Sets the formats of `model`'s modules. Refuses an exclude, or a module with a format, that names nothing in the
  /// model: the names then differ from what this reader expects, and the bytes would be wrong.
  Status apply(ModelDescription& model) const;

 private:
  struct Named {
    std::string pattern; ///< a name, a glob, or "re:" and a ModuleExpression
    WeightFormat format;
  };

  Status read_config(const nlohmann::json& object, const std::string& where);
  Status read_modelopt(const nlohmann::json& object, const std::string& where);
  Status read_compressed_tensors(const nlohmann::json& object, const std::string& where);
  Status add_layer_formats(const nlohmann::json& layers, const std::string& where);

  bool any_ = false;
  bool exponents_ = false;    ///< scales are powers of two
  bool head_ = false;         ///< the output head is quantised too, unless it is excluded
  bool routed_only_ = false;  ///< the method quantises experts alone
  bool excludes_base_ = true; ///< excludes concern `base_`; false: only formats by name
  std::optional<WeightFormat> base_;
  std::vector<std::string> excludes_;
  std::vector<Named> targets_;                ///< patterns, the first that matches decides
  std::map<std::string, WeightFormat> named_; ///< exact names, or the names of modules above
  std::optional<int> kv_element_bytes_;
  std::string where_;
};

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/model/nlohmann/hf_quantization.inl.hpp"
#endif
