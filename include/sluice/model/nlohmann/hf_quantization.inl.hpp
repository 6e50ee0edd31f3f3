// SPDX-License-Identifier: Apache-2.0
// HfQuantization: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/nlohmann/hf_expression.hpp"
#include "sluice/model/nlohmann/hf_fields.hpp"
#include "sluice/model/nlohmann/hf_quantization.hpp"

#include <nlohmann/json.hpp>

#include <cctype>
#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace sluice::detail {

/// A module's name without the prefix that depends on the class around the model.
inline std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix :
       {"model.language_model.", "language_model.model.", "language_model.", "backbone.", "model."})
    if (name.substr(0, prefix.size()) == prefix) return name.substr(prefix.size());
  return name;
}

/// Whether `name` matches a shell pattern, of which `*` is the only special character.
inline bool matches_glob(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

/// Patterns that name modules: "lm_head", "mlp.gate" (whole parts of a name, anywhere), "*.attn.*", "re:.*self_attn.*".
class ModulePattern {
 public:
  explicit ModulePattern(const std::string& text) : text_(without_prefix(text)) {
    if (is_expression(text)) {
      expression_ = ModuleExpression::parse(std::string_view{text}.substr(3));
    } else if (text_.find('*') == std::string::npos) {
      text_ = '.' + text_ + '.';
    } else {
      glob_ = true;
    }
  }
  [[nodiscard]] static bool is_expression(std::string_view text) { return text.substr(0, 3) == "re:"; }
  [[nodiscard]] bool matches(const std::string& name) const {
    if (expression_) {
      // Expressions see the checkpoint's name, whose prefix is unknown here; they match from its beginning.
      for (const char* prefix : {"", "model.", "model.language_model.", "language_model.model.", "language_model."})
        if (expression_->matches(prefix + name)) return true;
      return false;
    }
    if (glob_) return matches_glob(text_, name) || matches_glob(text_ + ".*", name);
    return ('.' + name + '.').find(text_) != std::string::npos;
  }

 private:
  std::string text_;
  std::optional<ModuleExpression> expression_;
  bool glob_ = false;
};

/// Refuses expressions that ModuleExpression cannot match, and lists of them that would take long: each is compared
/// with the name of every module.
inline Status check_expressions(const std::vector<std::string>& patterns, const std::string& where) {
  constexpr std::size_t most = 4 * ModuleExpression::longest;
  std::size_t characters = 0;
  for (const std::string& one : patterns) {
    if (!ModulePattern::is_expression(one)) continue;
    if (!ModuleExpression::parse(std::string_view{one}.substr(3)))
      return Error{ErrorCode::unsupported, where, "'" + excerpt(one) + "' is no expression that is understood",
                   "up to 512 characters of names, \\., .*, \\d+, [0-9]+, (a|b), ^ and $"};
    if (characters += one.size(); characters > most)
      return Error{ErrorCode::unsupported, where, "its regular expressions are longer together than understood",
                   "up to " + std::to_string(most) + " characters"};
  }
  return {};
}

/// Whether a pattern may match no module here: it names parts that are no matrices of the text model's layers.
inline bool names_other_parts(std::string_view pattern, int layers) {
  for (const std::string_view part :
       {"norm", "vision", "visual", "audio", "projector", "mtp", "eh_proj", "shared_head", "conv1d", "correction_bias",
        "embed", "patch_merge", "rotary", "indexers_proj", "multi_modal"})
    if (pattern.find(part) != std::string_view::npos) return true;
  const std::string_view name = without_prefix(pattern);
  // Routers are never quantised, and a tied head is the embedding.
  for (const std::string_view part : {"gate", "router", "lm_head", "shared_expert_gate"})
    if (name == part ||
        (name.size() > part.size() && name.substr(name.size() - part.size() - 1) == '.' + std::string{part}))
      return true;
  if (name.substr(0, 7) != "layers.") return name == "head";
  return std::atoi(std::string{name.substr(7, 4)}.c_str()) >= layers; // layers for multi-token prediction
}

/// The name with the number of every expert replaced by 0.
inline std::string of_first_expert(std::string name) {
  const std::size_t at = name.find("experts.");
  if (at == std::string::npos) return name;
  std::size_t end = at + 8;
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
  if (end > at + 8) name.replace(at + 8, end - at - 8, "0");
  return name;
}

/// ModelOpt's names of formats. None for a name that is unknown.
inline std::optional<WeightFormat> modelopt_format(const std::string& algorithm, int group) {
  if (algorithm == "FP8") return fp8_weights();
  if (algorithm == "NVFP4" || algorithm == "W4A16_NVFP4" || algorithm == "NVFP4_AWQ") return nvfp4_weights(group);
  if (algorithm == "MXFP8") return mx_weights(8);
  if (algorithm == "MXFP4" || algorithm == "W4A8_MXFP4_FP8") return mx_weights(4);
  if (algorithm == "FP8_PB_WO") return fp8_block_weights(128, 128);
  return std::nullopt;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE Expected<HfQuantization> HfQuantization::read(const nlohmann::json* config,
                                                                    const std::string& where,
                                                                    const nlohmann::json* side,
                                                                    const std::string& side_where) {
  HfQuantization found;
  found.where_ = config != nullptr ? where + ": quantization_config" : side_where;
  if (config != nullptr) {
    if (Status status = found.read_config(*config, where + ": quantization_config"); !status) return status.error();
  }
  if (side == nullptr) return found;
  const nlohmann::json* inner = side;
  if (const auto nested = side->find("quantization"); nested != side->end()) inner = &*nested;
  const Error no_object{ErrorCode::bad_input, side_where, "quantization is no JSON object", "an object"};
  if (!inner->is_object()) return no_object;
  HfQuantization beside;
  beside.where_ = side_where;
  if (Status status = beside.read_modelopt(*inner, side_where); !status) return status.error();
  if (config == nullptr) return beside;
  // Both describe one checkpoint. The side file has the type of KV where the config is silent.
  if (!found.kv_element_bytes_) found.kv_element_bytes_ = beside.kv_element_bytes_;
  if (found.kv_element_bytes_ != beside.kv_element_bytes_ && beside.kv_element_bytes_)
    return Error{ErrorCode::bad_input, side_where, "its type of KV differs from that of config.json", "the same type"};
  if (found.named_ != beside.named_ || (found.excludes_base_ && found.base_ != beside.base_))
    return Error{ErrorCode::bad_input, side_where, "its formats differ from those of config.json", "the same formats"};
  return found;
}

SLUICE_READERS_INLINE Status HfQuantization::read_config(const nlohmann::json& object, const std::string& where) {
  if (!object.is_object()) return Error{ErrorCode::bad_input, where, "it is no JSON object", "an object"};
  HfFields fields(object, where);
  std::string method = fields.text("quant_method", "");
  if (!fields.has("quant_method")) // some of ModelOpt's exporters name only themselves
    if (const nlohmann::json* producer = fields.object("producer"))
      if (producer->value("name", nlohmann::json{}) == "modelopt") method = "modelopt";
  if (!fields.status()) return fields.status();
  if (method == "modelopt") {
    const auto nested = object.find("quantization"); // older exporters
    return read_modelopt(nested != object.end() && nested->is_object() ? *nested : object, where);
  }
  if (method == "compressed-tensors") return read_compressed_tensors(object, where);
  any_ = true;
  for (const char* name : {"modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"})
    for (std::string& one : fields.texts(name)) excludes_.push_back(std::move(one));
  if (method == "fp8") {
    const std::vector<int> block = fields.numbers("weight_block_size", 1);
    exponents_ = fields.text("scale_fmt", "") == "ue8m0";
    fields.known({"activation_scheme", "fmt", "producer", "config_groups", "group_size", "moe_quant_algo"});
    if (!block.empty() && block.size() != 2) fields.refuse("weight_block_size is no pair", "rows and columns");
    base_ = block.size() == 2 ? fp8_block_weights(block[0], block[1]) : fp8_weights();
    fields.known({"kv_cache_quant_algo"});
    if (fields.has("kv_cache_quant_algo") && fields.text("kv_cache_quant_algo", "") != "FP8")
      fields.refuse("kv_cache_quant_algo is '" + excerpt(fields.text("kv_cache_quant_algo", "")) + "'", "FP8 or null");
    if (fields.has("kv_cache_quant_algo")) kv_element_bytes_ = 1;
    if (const nlohmann::json* layers = fields.object("quantized_layers")) {
      excludes_base_ = false; // what has no format of its own is FP8, excluded from the other format or not
      fields.known({"quant_algo"});
      if (Status status = add_layer_formats(*layers, where); !status) return status;
    } else if (fields.has("quant_algo")) {
      fields.refuse("quant_algo is set beside quant_method fp8, without quantized_layers", "one of them");
    }
  } else if (method == "fbgemm_fp8") { // an f32 scale per output
    fields.known({"activation_scale_ub"});
    base_ = WeightFormat{.element_bits = 8, .scale_bits = 32};
  } else if (method == "mxfp4") {
    base_ = mx_weights(4);
    routed_only_ = true;
  } else if (method == "awq" || method == "gptq") {
    const int bits = fields.size("bits");
    const Expected<std::int64_t> group = JsonFields(object, where).whole("group_size", -1, 1 << 16);
    fields.known({"group_size",
                  "version",
                  "backend",
                  "damp_percent",
                  "static_groups",
                  "true_sequential",
                  "quantizer",
                  "meta",
                  "checkpoint_format",
                  "model_name_or_path",
                  "model_file_base_name",
                  "do_fuse",
                  "exllama_config",
                  "fuse_max_seq_len",
                  "cache_block_outputs",
                  "batch_size",
                  "dataset",
                  "use_cuda_fp16",
                  "max_input_length",
                  "block_name_to_quantize",
                  "use_exllama",
                  "disable_exllama",
                  "pad_token_id",
                  "desc_act",
                  "sym",
                  "provider",
                  "is_marlin_format",
                  "model_seqlen",
                  "hyb_act"});
    if (!group) return group.error();
    if (*group == 0) fields.refuse("group_size is 0", "a number from 1, or -1: one group for all inputs");
    if (fields.text("pack_dtype", "int32") != "int32") fields.refuse("pack_dtype is not int32", "int32");
    if (bits != 4 && bits != 8)
      fields.refuse("bits is " + std::to_string(bits), "4 or 8"); // others are packed with gaps
    if (fields.flag("lm_head", false)) fields.refuse("lm_head is true", "an output head that is not quantised");
    const bool zeros = method == "gptq" || fields.flag("zero_point", true); // GPTQ stores them even if symmetric
    base_ = WeightFormat{.element_bits = bits,
                         .scale_bits = 16,
                         .zero_bits = zeros ? bits : 0,
                         .block_columns = *group > 0 ? static_cast<int>(*group) : 0,
                         .column_bits = method == "gptq" ? 32 : 0};
  } else {
    return Error{ErrorCode::unsupported, where, "quant_method is '" + excerpt(method) + "'",
                 "fp8, fbgemm_fp8, modelopt, mxfp4, awq, gptq or compressed-tensors"};
  }
  fields.check_all_read();
  return fields.status();
}

SLUICE_READERS_INLINE Status HfQuantization::add_layer_formats(const nlohmann::json& layers, const std::string& where) {
  for (auto layer = layers.begin(); layer != layers.end(); ++layer) {
    if (!layer->is_object()) return Error{ErrorCode::bad_input, where, "quantized_layers holds no object", "objects"};
    HfFields fields(*layer, where);
    const std::string algorithm = fields.text("quant_algo", "");
    const int group = fields.has("group_size") ? fields.size("group_size") : 16;
    const std::optional<WeightFormat> format = detail::modelopt_format(algorithm, group);
    if (!fields.status()) return fields.status();
    if (!format)
      return Error{ErrorCode::unsupported, where, "quant_algo is '" + excerpt(algorithm) + "'", "FP8, NVFP4 or MXFP8"};
    std::string name = detail::of_first_expert(std::string{detail::without_prefix(layer.key())});
    const auto [at, added] = named_.emplace(std::move(name), *format);
    if (!added && at->second != *format)
      return Error{ErrorCode::unsupported, where, "experts of " + excerpt(at->first) + " have several formats",
                   "one format for all experts of a layer"};
  }
  return {};
}

SLUICE_READERS_INLINE Status HfQuantization::read_modelopt(const nlohmann::json& object, const std::string& where) {
  any_ = head_ = true;
  HfFields fields(object, where);
  const std::string algorithm = fields.text("quant_algo", "");
  bool listed = false;
  for (const char* name : {"exclude_modules", "ignore"}) {
    listed = listed || fields.has(name);
    for (std::string& one : fields.texts(name)) excludes_.push_back(std::move(one));
  }
  // Without a list, what ModelOpt leaves out by default; routers are never quantised here.
  if (!listed) excludes_ = {"lm_head"};
  fields.known({"quant_method", "producer", "config_groups", "has_zero_point", "pre_quant_scale"});
  if (fields.has("kv_cache_quant_algo")) {
    const std::string kv = fields.text("kv_cache_quant_algo", "");
    if (kv != "FP8") fields.refuse("kv_cache_quant_algo is '" + excerpt(kv) + "'", "FP8 or null");
    kv_element_bytes_ = 1;
  }
  if (const nlohmann::json* scheme = fields.value("kv_cache_scheme"); scheme != nullptr && *scheme == "FP8") {
    kv_element_bytes_ = 1; // those exporters write the name
  } else if ((scheme = fields.object("kv_cache_scheme")) != nullptr) {
    HfFields kv(*scheme, where + ": kv_cache_scheme");
    if (kv.size("num_bits") != 8 || kv.text("type", "") != "float") kv.refuse("it is no FP8", "num_bits 8, type float");
    if (!kv.status()) return kv.status();
    kv_element_bytes_ = 1;
  }
  const int group = fields.has("group_size") ? fields.size("group_size") : 16;
  if (algorithm == "MIXED_PRECISION") {
    const nlohmann::json* layers = fields.object("quantized_layers");
    if (layers == nullptr) fields.refuse("quant_algo is MIXED_PRECISION without quantized_layers", "a format by layer");
    if (!fields.status()) return fields.status();
    if (Status status = add_layer_formats(*layers, where); !status) return status;
  } else {
    base_ = detail::modelopt_format(algorithm, group);
    if (!base_) fields.refuse("quant_algo is '" + excerpt(algorithm) + "'", "FP8, NVFP4, MXFP8 or MIXED_PRECISION");
  }
  fields.check_all_read();
  return fields.status();
}

SLUICE_READERS_INLINE Status HfQuantization::read_compressed_tensors(const nlohmann::json& object,
                                                                     const std::string& where) {
  any_ = head_ = true;
  HfFields fields(object, where);
  const std::string format = fields.text("format", "");
  excludes_ = fields.texts("ignore");
  fields.known({"quant_method", "quantization_status", "global_compression_ratio", "version", "sparsity_config",
                "transform_config"});
  for (const char* other : {"sparsity_config", "transform_config"})
    if (const nlohmann::json* config = fields.object(other); config != nullptr && !config->empty())
      fields.refuse(std::string{other} + " is set", "none");
  if (const nlohmann::json* scheme = fields.object("kv_cache_scheme")) {
    HfFields kv(*scheme, where + ": kv_cache_scheme");
    if (kv.size("num_bits") != 8) kv.refuse("num_bits is not 8", "8");
    if (!kv.status()) return kv.status();
    kv_element_bytes_ = 1;
  }
  const nlohmann::json* groups = fields.object("config_groups");
  if (groups == nullptr) fields.refuse("config_groups is missing", "groups of targets and their weights");
  fields.check_all_read();
  if (!fields.status()) return fields.status();
  for (const nlohmann::json& one : *groups) {
    if (!one.is_object()) return Error{ErrorCode::bad_input, where, "a group is no JSON object", "an object"};
    HfFields group(one, where);
    const std::string own = group.text("format", format);
    const nlohmann::json* inner = group.object("weights");
    if (!group.status()) return group.status();
    if (inner == nullptr) return Error{ErrorCode::unsupported, where, "a group has no weights", "weights"};
    HfFields weights(*inner, where);
    const int bits = weights.size("num_bits");
    const std::string strategy = weights.text("strategy", "");
    const int size = strategy == "group" || strategy == "tensor_group" ? weights.size("group_size") : 0;
    const bool symmetric = weights.flag("symmetric", true);
    WeightFormat stored{.element_bits = bits, .scale_bits = 16, .zero_bits = symmetric ? 0 : bits};
    if (own == "mxfp4-pack-quantized") {
      stored = mx_weights(4);
    } else if (own == "nvfp4-pack-quantized") {
      stored = nvfp4_weights(size);
    } else if (bits != 4 && bits != 8) {
      weights.refuse("num_bits is " + std::to_string(bits), "4 or 8");
    } else if (strategy == "group") {
      if (weights.text("type", "int") == "float")
        weights.refuse("a float's strategy is 'group'", "tensor, channel or block");
      stored.block_columns = size;
    } else if (strategy == "tensor") {
      stored.block_rows = 0;
    } else if (strategy == "block") {
      const std::vector<int> block = weights.numbers("block_structure", 1);
      if (block.size() != 2) weights.refuse("block_structure is no pair", "rows and columns");
      if (block.size() == 2) stored.block_rows = block[0], stored.block_columns = block[1];
    } else if (strategy != "channel") {
      weights.refuse("strategy is '" + excerpt(strategy) + "'", "tensor, channel, group or block");
    }
    // With "actorder": "group", each input's group is stored; with "weight", inputs are sorted and nothing is.
    if (weights.text("actorder", "") == "group") stored.column_bits = 32;
    const std::vector<std::string> targets = group.texts("targets");
    if (!weights.status()) return weights.status();
    if (!group.status()) return group.status();
    for (const std::string& target : targets) {
      if (target == "Linear") {
        if (base_ && *base_ != stored)
          return Error{ErrorCode::unsupported, where, "two groups have the target Linear", "one"};
        base_ = stored;
      } else {
        targets_.push_back({target, stored});
      }
    }
  }
  return {};
}

SLUICE_READERS_INLINE Status HfQuantization::apply(ModelDescription& model) const {
  if (!any_) return {};
  std::vector<std::string> patterns = excludes_;
  for (const Named& one : targets_) patterns.push_back(one.pattern);
  if (Status status = detail::check_expressions(patterns, where_); !status) return status;
  std::vector<detail::ModulePattern> excludes, targets;
  for (const std::string& one : excludes_) excludes.emplace_back(one);
  for (const Named& one : targets_) targets.emplace_back(one.pattern);
  std::vector<bool> used(excludes.size()), hit(targets.size());
  std::set<std::string> found;
  const auto quantises = [&](const Module& module) {
    switch (module.of) {
    case ModuleClass::attention:
    case ModuleClass::dense_mlp:
    case ModuleClass::shared_experts:
      return !routed_only_;
    case ModuleClass::routed_experts:
      return true;
    case ModuleClass::head:
      return head_;
    default:
      return false;
    }
  };
  for (Module& module : model.modules) {
    bool excluded = false;
    for (std::size_t e = 0; e < excludes.size(); ++e)
      if (excludes[e].matches(module.name)) excluded = used[e] = true;
    if (!module.linear) continue;
    const WeightFormat* format = nullptr;
    for (std::string name = module.name; format == nullptr && !name.empty();) {
      if (const auto at = named_.find(name); at != named_.end()) {
        format = &at->second;
        found.insert(name);
      }
      const std::size_t dot = name.rfind('.');
      name.resize(dot == std::string::npos ? 0 : dot);
    }
    for (std::size_t t = 0; t < targets.size(); ++t)
      if (targets[t].matches(module.name)) {
        hit[t] = true;
        if (format == nullptr && !excluded) format = &targets_[t].format;
      }
    // The config itself may have given a module a format (DeepSeek-V4's experts).
    if (format == nullptr && base_ && module.format == plain_weights(model.element_bytes) && quantises(module) &&
        !(excluded && excludes_base_))
      format = &*base_;
    if (format != nullptr) module.format = *format;
    model.quantised = model.quantised || format != nullptr;
  }
  const int layers = static_cast<int>(model.layers.size());
  const auto unknown = [&](const std::string& name) {
    return Error{ErrorCode::unsupported, where_, "'" + excerpt(name) + "' names no module that is known here",
                 "modules of this type of model"};
  };
  for (std::size_t e = 0; e < excludes.size(); ++e)
    if (!used[e] && !detail::names_other_parts(excludes_[e], layers)) return unknown(excludes_[e]);
  for (std::size_t t = 0; t < targets.size(); ++t)
    if (!hit[t] && !detail::names_other_parts(targets_[t].pattern, layers)) return unknown(targets_[t].pattern);
  for (const auto& [name, format] : named_)
    if (!found.contains(name) && !detail::names_other_parts(name, layers)) return unknown(name);
  if (!model.quantised)
    return Error{ErrorCode::unsupported, where_, "it quantises no module that is known here", "a quantised module"};
  return {};
}

} // namespace sluice
