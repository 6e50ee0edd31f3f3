// SPDX-License-Identifier: Apache-2.0
// tokenizer_steps, MergeList: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_steps.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::detail {

SLUICE_MODEL_INLINE bool absent(const nlohmann::json& object, const char* name) {
  const auto field = object.find(name);
  return field == object.end() || field->is_null();
}

/// The `type` of a step, which must be an object.
[[nodiscard]] inline Expected<std::string> step_type(const nlohmann::json& step, const std::string& where) {
  if (!step.is_object())
    return Error{ErrorCode::bad_input, where, std::string{"this is a JSON "} + step.type_name(), "an object"};
  return JsonFields(step, where).text("type", "a step's name");
}

SLUICE_MODEL_INLINE Error unknown_step(const std::string& type, const std::string& where, const char* known) {
  return {ErrorCode::unsupported, where, "'" + excerpt(type) + "' is not supported", known};
}

/// Calls `read(step, where)` for the step at `name`, or for each step of a Sequence, which may be nested. Stops at the
/// first error. `list` is the field with a Sequence's steps.
template <class Read>
[[nodiscard]] Status each_step(const nlohmann::json& step, const std::string& where, const char* list, Read& read,
                               int depth = 0) {
  const Expected<std::string> type = step_type(step, where);
  if (!type) return type.error();
  if (*type != "Sequence") return read(step, *type, where);
  const auto steps = step.find(list);
  if (depth > 4 || steps == step.end() || !steps->is_array())
    return Error{ErrorCode::bad_input, where, std::string{list} + " of the Sequence is not a list of steps", "a list"};
  for (std::size_t i = 0; i < steps->size(); ++i) {
    const std::string at = where + "." + list + "[" + std::to_string(i) + "]";
    if (Status status = each_step((*steps)[i], at, list, read, depth + 1); !status) return status;
  }
  return {};
}

/// {"String": "x"} or {"Regex": "x"}.
[[nodiscard]] inline Expected<Pattern> read_pattern(const nlohmann::json& step, const std::string& where) {
  const auto field = step.find("pattern");
  if (field != step.end() && field->is_object() && field->size() == 1 && field->begin().value().is_string()) {
    const std::string& text = field->begin().value().get_ref<const std::string&>();
    if (field->begin().key() == "Regex") return Pattern::compile(text, Pattern::Kind::regex, where + ".pattern");
    if (field->begin().key() == "String") return Pattern::compile(text, Pattern::Kind::literal, where + ".pattern");
  }
  return Error{ErrorCode::bad_input, where, "pattern is none", R"({"String": "…"} or {"Regex": "…"})"};
}

SLUICE_MODEL_INLINE Expected<bool> flag_or(const JsonFields& fields, const char* name, bool otherwise) {
  if (!fields.has(name)) return otherwise;
  return fields.flag(name);
}

[[nodiscard]] inline Expected<SplitStep> read_split(const nlohmann::json& step, const std::string& where) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> behaviors{
      {{"Removed", SplitBehavior::removed},
       {"Isolated", SplitBehavior::isolated},
       {"MergedWithPrevious", SplitBehavior::merged_with_previous},
       {"MergedWithNext", SplitBehavior::merged_with_next},
       {"Contiguous", SplitBehavior::contiguous}}};
  const std::string expected = "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous";
  const JsonFields fields(step, where);
  const Expected<std::string> name = fields.text("behavior", expected);
  if (!name) return name.error();
  const Expected<bool> invert = flag_or(fields, "invert", false);
  if (!invert) return invert.error();
  for (const auto& [known, behavior] : behaviors) {
    if (*name != known) continue;
    Expected<Pattern> pattern = read_pattern(step, where);
    if (!pattern) return pattern.error();
    return SplitStep{std::move(*pattern), behavior, *invert};
  }
  return Error{ErrorCode::unsupported, where, "behavior is '" + excerpt(*name) + "'", expected};
}

/// For pre-tokenizers and decoders of that name: older files have add_prefix_space, newer ones prepend_scheme.
[[nodiscard]] inline Expected<MetaspaceStep> read_metaspace(const nlohmann::json& step, const std::string& where) {
  const JsonFields fields(step, where);
  MetaspaceStep read;
  if (fields.has("replacement")) {
    const Expected<std::string> replacement = fields.text("replacement", "one character");
    if (!replacement) return replacement.error();
    const bool one = !replacement->empty() && next_utf8(*replacement).bytes == static_cast<int>(replacement->size());
    if (!one) return Error{ErrorCode::bad_input, where, "replacement is not one character", "one, such as U+2581"};
    read.replacement = *replacement;
  }
  const Expected<bool> prefix = flag_or(fields, "add_prefix_space", true);
  if (!prefix) return prefix.error();
  if (!*prefix) read.prepend = MetaspaceStep::Prepend::never;
  if (fields.has("prepend_scheme")) {
    const Expected<std::string> scheme = fields.text("prepend_scheme", "always, first or never");
    if (!scheme) return scheme.error();
    if (*scheme != "always" && *scheme != "first" && *scheme != "never") {
      return Error{ErrorCode::unsupported, where, "prepend_scheme is '" + excerpt(*scheme) + "'",
                   "always, first or never"};
    }
    read.prepend = *scheme == "always"  ? MetaspaceStep::Prepend::always
                   : *scheme == "first" ? MetaspaceStep::Prepend::first
                                        : MetaspaceStep::Prepend::never;
  }
  const Expected<bool> split = flag_or(fields, "split", true);
  if (!split) return split.error();
  read.split = *split;
  return read;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_MODEL_INLINE Expected<Normalizer> read_normalizer(const nlohmann::json& file, const std::string& where) {
  Normalizer normalizer;
  if (detail::absent(file, "normalizer")) return normalizer;
  auto read = [&](const nlohmann::json& step, const std::string& type, const std::string& at) -> Status {
    const JsonFields fields(step, at);
    if (NormalForm::knows(type)) {
      const Expected<NormalForm> form = NormalForm::named(type);
      if (!form) return form.error();
      normalizer.add(*form);
      return {};
    }
    if (type == "Prepend") {
      const Expected<std::string> prefix = fields.text("prepend", "a text");
      if (!prefix) return prefix.error();
      normalizer.add(PrependText{*prefix});
      return {};
    }
    if (type == "Replace") {
      const Expected<std::string> content = fields.text("content", "a text");
      if (!content) return content.error();
      Expected<Pattern> pattern = detail::read_pattern(step, at);
      if (!pattern) return pattern.error();
      normalizer.add(ReplaceText{std::move(*pattern), *content});
      return {};
    }
    return detail::unknown_step(type, at, "NFC, NFD, NFKC, NFKD, Prepend, Replace or Sequence");
  };
  if (Status status = detail::each_step(file["normalizer"], where + ": normalizer", "normalizers", read); !status)
    return status.error();
  return normalizer;
}

SLUICE_MODEL_INLINE Expected<PreTokenizerRead> read_pre_tokenizer(const nlohmann::json& file,
                                                                  const std::string& where) {
  PreTokenizerRead result;
  if (detail::absent(file, "pre_tokenizer")) return result;
  auto read = [&](const nlohmann::json& step, const std::string& type, const std::string& at) -> Status {
    if (result.byte_level) // it would see characters that represent bytes
      return Error{ErrorCode::unsupported, at, "a step follows ByteLevel", "ByteLevel as the last one"};
    if (type == "ByteLevel") {
      const JsonFields fields(step, at);
      const Expected<bool> prefix = detail::flag_or(fields, "add_prefix_space", true);
      if (!prefix) return prefix.error();
      const Expected<bool> regex = detail::flag_or(fields, "use_regex", true);
      if (!regex) return regex.error();
      if (*prefix) result.steps.add(SpaceBeforeStep{});
      if (*regex) {
        Expected<Pattern> pattern = Pattern::compile(detail::gpt2_pattern, Pattern::Kind::regex, at);
        if (!pattern) return pattern.error();
        result.steps.add(SplitStep{std::move(*pattern), SplitBehavior::isolated, false});
      }
      result.byte_level = true;
      return {};
    }
    if (type == "Split") {
      Expected<SplitStep> split = detail::read_split(step, at);
      if (!split) return split.error();
      result.steps.add(std::move(*split));
      return {};
    }
    if (type == "Metaspace") {
      const Expected<MetaspaceStep> metaspace = detail::read_metaspace(step, at);
      if (!metaspace) return metaspace.error();
      result.steps.add(*metaspace);
      return {};
    }
    return detail::unknown_step(type, at, "ByteLevel, Split, Metaspace or Sequence");
  };
  if (Status status = detail::each_step(file["pre_tokenizer"], where + ": pre_tokenizer", "pretokenizers", read);
      !status)
    return status.error();
  return result;
}

SLUICE_MODEL_INLINE Expected<DecoderRead> read_decoder(const nlohmann::json& file, const std::string& where) {
  DecoderRead result;
  const std::string at = where + ": decoder";
  if (detail::absent(file, "decoder"))
    return Error{ErrorCode::unsupported, at, "there is none", "ByteLevel, Metaspace or a Sequence"};
  bool fused = false;
  auto read = [&](const nlohmann::json& step, const std::string& type, const std::string& here) -> Status {
    const JsonFields fields(step, here);
    if (type == "ByteLevel" || type == "ByteFallback") {
      (type == "ByteLevel" ? result.byte_level : result.byte_fallback) = true;
      return {};
    }
    if (type == "Fuse") {
      fused = true;
      return {};
    }
    if (type == "Metaspace") {
      const Expected<MetaspaceStep> metaspace = detail::read_metaspace(step, here);
      if (!metaspace) return metaspace.error();
      result.replaced.emplace_back(metaspace->replacement, " ");
      if (metaspace->prepend != MetaspaceStep::Prepend::never) result.leading_spaces = 1;
      return {};
    }
    if (type == "Replace") {
      const auto pattern = step.find("pattern");
      const Expected<std::string> content = fields.text("content", "a text");
      if (!content) return content.error();
      if (pattern == step.end() || !pattern->is_object() || !pattern->contains("String") ||
          !(*pattern)["String"].is_string() || (*pattern)["String"].get_ref<const std::string&>().empty())
        return Error{ErrorCode::unsupported, here, "pattern is not a string", R"({"String": "…"})"};
      result.replaced.emplace_back((*pattern)["String"].get<std::string>(), *content);
      return {};
    }
    if (type == "Strip") {
      const Expected<std::string> content = fields.text("content", "a space");
      if (!content) return content.error();
      const Expected<std::int64_t> start = fields.whole("start", 0, 16);
      if (!start) return start.error();
      const Expected<std::int64_t> stop = fields.whole("stop", 0, 0); // a stream does not know where the end is
      if (!stop) return stop.error();
      if (*content != " " || !fused)
        return Error{ErrorCode::unsupported, here, "this Strip is not of spaces of the whole text",
                     "content ' ', after Fuse"};
      result.leading_spaces = static_cast<int>(*start);
      return {};
    }
    return detail::unknown_step(type, here, "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip or Sequence");
  };
  if (Status status = detail::each_step(file["decoder"], at, "decoders", read); !status) return status.error();
  return result;
}

SLUICE_MODEL_INLINE Expected<TemplateRead> read_template(const nlohmann::json& file, const Vocabulary& vocabulary,
                                                         const std::string& where) {
  TemplateRead result;
  if (detail::absent(file, "post_processor")) return result;
  auto read = [&](const nlohmann::json& step, const std::string& type, const std::string& at) -> Status {
    if (type == "ByteLevel") return {}; // of offsets alone
    if (type != "TemplateProcessing")
      return detail::unknown_step(type, at, "TemplateProcessing, ByteLevel or Sequence");
    const auto single = step.find("single");
    const Error wrong{ErrorCode::bad_input, at + ".single", "this is not a template",
                      R"(a list of {"SpecialToken": {"id": "…"}} around one {"Sequence": {"id": "A"}})"};
    if (single == step.end() || !single->is_array()) return wrong;
    bool text_seen = false;
    for (const nlohmann::json& part : *single) {
      if (!part.is_object() || part.size() != 1 || !part.begin().value().is_object()) return wrong;
      if (part.contains("Sequence") && !text_seen) {
        text_seen = true;
        continue;
      }
      const nlohmann::json& token = part.begin().value();
      if (!part.contains("SpecialToken") || !token.contains("id") || !token["id"].is_string()) return wrong;
      const std::string& name = token["id"].get_ref<const std::string&>();
      const auto id = vocabulary.id_of(name);
      if (!id) {
        return Error{ErrorCode::bad_input, at + ".single", "there is no token '" + excerpt(name) + "'",
                     "a token of the vocabulary"};
      }
      (text_seen ? result.after : result.before).push_back(*id);
    }
    if (!text_seen) return wrong;
    return {};
  };
  if (Status status = detail::each_step(file["post_processor"], where + ": post_processor", "processors", read);
      !status)
    return status.error();
  return result;
}

SLUICE_MODEL_INLINE void MergeList::take(const nlohmann::json& entry) {
  if (!wrong_.empty()) return;
  if (entry.is_string()) {
    const std::string_view text = entry.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
      put(text.substr(0, space));
      put(text.substr(space + 1));
    } else {
      wrong_ = "'" + excerpt(text) + "'";
    }
  } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
    put(entry[0].get_ref<const std::string&>());
    put(entry[1].get_ref<const std::string&>());
  } else {
    wrong_ = std::string{"this "} + entry.type_name();
  }
}

SLUICE_MODEL_INLINE MergeList::Pair MergeList::operator[](std::size_t at) const {
  const std::string_view names = names_;
  const std::size_t begin = at == 0 ? 0 : ends_[2 * at - 1], middle = ends_[2 * at], end = ends_[2 * at + 1];
  return {names.substr(begin, middle - begin), names.substr(middle, end - middle)};
}

SLUICE_MODEL_INLINE void MergeList::put(std::string_view name) {
  names_ += name;
  ends_.push_back(static_cast<std::uint32_t>(names_.size())); // a file has at most 64 MiB
}

} // namespace sluice

namespace sluice::detail {

SLUICE_MODEL_INLINE bool TakeMerges::operator()(int depth, nlohmann::json::parse_event_t event,
                                                const nlohmann::json& parsed) {
  using Event = nlohmann::json::parse_event_t;
  if (event == Event::key && depth == 1) in_model_ = parsed == "model";
  if (event == Event::key && depth == 2) at_merges_ = in_model_ && parsed == "merges";
  if (depth == 2 && event == Event::array_start) in_list_ = at_merges_;
  if (depth == 2 && event == Event::array_end) in_list_ = false;
  const bool element = depth == 3 && (event == Event::value || event == Event::array_end || event == Event::object_end);
  if (!in_list_ || !element) return true;
  list_->take(parsed);
  return false;
}

} // namespace sluice::detail
