// SPDX-License-Identifier: Apache-2.0
// read_problem: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/state/plan/nlohmann/problem_json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::detail {

/// Reads fields one after another into variables and keeps the first error.
class ProblemFields {
 public:
  ProblemFields(const nlohmann::json& object, const std::string& where) : object_(&object), fields_(object, where) {}

  [[nodiscard]] bool has(const char* name) const { return fields_.has(name); }
  [[nodiscard]] const nlohmann::json& at(const char* name) const { return *object_->find(name); }
  [[nodiscard]] const Status& status() const { return status_; }
  void fail(const char* name, const std::string& what, const std::string& expected) {
    keep(Error{ErrorCode::bad_input, fields_.where(), std::string{name} + " " + what, expected});
  }
  /// Rejects fields that are not in `known`, and null fields, which would pass for their default.
  void only(std::initializer_list<std::string_view> known) {
    keep(fields_.only(known));
    for (auto field = object_->begin(); field != object_->end(); ++field)
      if (field->is_null())
        keep(Error{ErrorCode::bad_input, fields_.where(), field.key() + " is null", "a value, or no such field"});
  }

  template <class Whole>
  void whole(const char* name, Whole& place, std::int64_t least, std::int64_t most, bool required = false) {
    if (!required && !has(name)) return;
    const Expected<std::int64_t> value = fields_.whole(name, least, most);
    if (value)
      place = Whole{static_cast<Whole>(*value)};
    else
      keep(value.error());
  }
  void number(const char* name, double& place, bool positive, bool required = false) {
    if (!required && !has(name)) return;
    constexpr double smallest = std::numeric_limits<double>::min();
    const Expected<double> value = fields_.number(
        name, positive ? smallest : 0.0, 1e300, positive ? "a finite number above 0" : "a finite number of at least 0");
    if (value)
      place = *value;
    else
      keep(value.error());
  }
  /// Reads one of `names` as the enumerator of the same position.
  template <class Kind, std::size_t N>
  void one_of(const char* name, Kind& place, const std::array<std::string_view, N>& names) {
    if (!has(name)) return;
    std::string expected;
    for (const std::string_view n : names) expected += (expected.empty() ? "" : ", ") + std::string{n};
    const Expected<std::string> text = fields_.text(name, expected);
    if (!text) return keep(text.error());
    const auto found = std::find(names.begin(), names.end(), *text);
    if (found == names.end()) {
      const std::string given = excerpt(*text);
      return fail(name, "is '" + given + "'" + did_you_mean(given, names), expected);
    }
    place = static_cast<Kind>(found - names.begin());
  }
  /// Reads one number per layer, or one for all layers.
  void per_layer(const char* name, std::vector<double>& place, std::size_t layers, bool positive) {
    const std::string expected =
        "a number, or " + std::to_string(layers) + " numbers, " + (positive ? "above 0" : "of at least 0");
    const auto valid = [&](const nlohmann::json& value) {
      if (!value.is_number()) return false;
      const auto number = value.get<double>();
      return std::isfinite(number) && (positive ? number > 0 : number >= 0);
    };
    if (!has(name)) return fail(name, "is missing", expected);
    const nlohmann::json& value = at(name);
    if (valid(value)) {
      place.assign(layers, value.get<double>());
    } else if (value.is_array() && value.size() == layers && std::all_of(value.begin(), value.end(), valid)) {
      place.clear();
      for (const nlohmann::json& entry : value) place.push_back(entry.get<double>());
    } else {
      const std::string size = value.is_array() ? " of " + std::to_string(value.size()) : "";
      fail(name, "is " + (value.is_structured() ? value.type_name() + size : excerpt(value.dump())), expected);
    }
  }

 private:
  void keep(const Status& status) {
    if (status_ && !status) status_ = status;
  }

  const nlohmann::json* object_;
  JsonFields fields_;
  Status status_;
};

inline Expected<std::vector<LayerSet>> read_placement(const nlohmann::json& value, const PlanningProblem& problem,
                                                      const std::string& where) {
  const int layers = problem.instance.layers();
  const std::string expected = "an object of request ids with lists of layers, 1 to " + std::to_string(layers);
  const auto wrong = [&](const std::string& what) {
    return Error{ErrorCode::bad_input, where, "placement " + what, expected};
  };
  if (!value.is_object()) return wrong(std::string{"is "} + value.type_name());
  std::vector<LayerSet> placement(problem.ids.size());
  for (auto entry = value.begin(); entry != value.end(); ++entry) {
    const auto id = std::find(problem.ids.begin(), problem.ids.end(), entry.key());
    if (id == problem.ids.end()) return wrong("names the request '" + excerpt(entry.key()) + "', which is not there");
    if (!entry->is_array()) return wrong("of '" + excerpt(entry.key()) + "' is " + entry->type_name());
    LayerSet& set = placement[static_cast<std::size_t>(id - problem.ids.begin())];
    for (const nlohmann::json& layer : *entry) {
      if (!layer.is_number_integer() || layer < 1 || layer > layers)
        return wrong("of '" + excerpt(entry.key()) + "' has the layer " + excerpt(layer.dump()));
      if (set.contains(layer.get<int>() - 1))
        return wrong("of '" + excerpt(entry.key()) + "' has the layer " + layer.dump() + " twice");
      set.insert(layer.get<int>() - 1);
    }
  }
  return placement;
}

inline Status read_weights(const nlohmann::json& value, int layers, Instance& instance, const std::string& where) {
  if (!value.is_object())
    return Error{ErrorCode::bad_input, where, std::string{"weights is "} + value.type_name(),
                 "an object with layers, blocks and slots"};
  ProblemFields fields{value, where + ": weights"};
  fields.only({"layers", "blocks", "slots"});
  fields.number("blocks", instance.weights.blocks, true, true);
  fields.whole("slots", instance.weights.slots, 1, layers);
  if (!fields.has("layers")) fields.fail("layers", "is missing", "a list of layers, 1 to " + std::to_string(layers));
  if (!fields.status()) return fields.status();
  const nlohmann::json& list = fields.at("layers");
  for (const nlohmann::json& layer : list) {
    if (!list.is_array() || !layer.is_number_integer() || layer < 1 || layer > layers)
      return Error{ErrorCode::bad_input, where + ": weights", "layers has " + excerpt(layer.dump()),
                   "a list of layers, 1 to " + std::to_string(layers)};
    instance.weights.layers.insert(layer.get<int>() - 1);
  }
  return {};
}

SLUICE_READERS_INLINE Status read_requests(const nlohmann::json& list, PlanningProblem& problem, double slo_s,
                                           const std::string& where) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (!list.is_array())
    return Error{ErrorCode::bad_input, where, std::string{"requests is "} + list.type_name(), "a list of objects"};
  for (const nlohmann::json& entry : list) {
    const std::string here = where + ": requests[" + std::to_string(problem.ids.size()) + "]";
    if (!entry.is_object())
      return Error{ErrorCode::bad_input, here, std::string{"this is "} + entry.type_name(), "an object"};
    ProblemFields fields{entry, here};
    fields.only({"id", "blocks_per_layer", "tokens", "deposit"});
    InstanceRequest request;
    std::string id = "r" + std::to_string(problem.ids.size() + 1);
    if (fields.has("id")) {
      if (!fields.at("id").is_string())
        fields.fail("id", "is " + excerpt(fields.at("id").dump()), "a string");
      else
        id = fields.at("id").get<std::string>();
    }
    if (std::find(problem.ids.begin(), problem.ids.end(), id) != problem.ids.end())
      fields.fail("id", "'" + excerpt(id) + "' is there twice", "a different id for every request");
    fields.whole("tokens", request.tokens, 1, most);
    fields.whole("blocks_per_layer", request.blocks, 0, most, !fields.has("tokens"));
    fields.whole("deposit", request.deposit, 0, most);
    if (fields.status() && fields.has("tokens")) {
      const LayerBlocks held{blocks_for(request.tokens, problem.instance.block_tokens).count()};
      if (fields.has("blocks_per_layer") && request.blocks != held)
        fields.fail("blocks_per_layer",
                    "is " + std::to_string(request.blocks.count()) + " where the tokens take " +
                        std::to_string(held.count()),
                    "one of the two fields, or the same from both");
      request.blocks = held;
    }
    if (!fields.status()) return fields.status();
    request.slo_s = slo_s;
    problem.instance.requests.push_back(request);
    problem.ids.push_back(std::move(id));
  }
  return {};
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE Expected<PlanningProblem> read_problem(const nlohmann::json& object, const std::string& where) {
  PlanningProblem problem;
  Instance& instance = problem.instance;
  detail::ProblemFields fields{object, where};
  fields.only({"layers",
               "layer_compute_s",
               "before_s",
               "after_s",
               "link_blocks_per_s",
               "link_per_layer_s",
               "device_blocks",
               "block_tokens",
               "weights",
               "requests",
               "transfer",
               "space",
               "buffer",
               "iterations",
               "slo_s",
               "alpha",
               "paused",
               "window",
               "deadline_us",
               "placement"});
  std::int64_t layers = 1;
  fields.whole("layers", layers, 1, max_layers, true);
  if (!fields.status()) return fields.status().error();
  constexpr int many = 1'000'000;
  fields.per_layer("layer_compute_s", instance.layer_compute_s, static_cast<std::size_t>(layers), true);
  fields.number("before_s", instance.before_s, false);
  fields.number("after_s", instance.after_s, false);
  fields.number("link_blocks_per_s", instance.link_blocks_per_s, true, true);
  fields.number("link_per_layer_s", instance.link_per_layer_s, false);
  fields.whole("device_blocks", instance.device_blocks, 0, std::int64_t{1} << 50, true);
  fields.whole("block_tokens", instance.block_tokens, 1, many);
  if (fields.has("weights"))
    if (const Status status = detail::read_weights(fields.at("weights"), static_cast<int>(layers), instance, where);
        !status)
      return status.error();
  fields.one_of(
      "transfer", problem.transfer,
      std::array<std::string_view, 4>{"next-layer", "fair-share", "earliest-deadline-first", "deadline-pool"});
  fields.one_of("space", problem.space, std::array<std::string_view, 3>{"distance", "even", "free"});
  fields.one_of("buffer", problem.buffer, std::array<std::string_view, 2>{"held", "paper"});
  fields.whole("iterations", instance.iterations, 1, 10'000);
  double slo_s = std::numeric_limits<double>::infinity();
  fields.number("slo_s", slo_s, true);
  fields.number("alpha", instance.alpha, false);
  fields.whole("paused", instance.paused_without_deposit, 0, many);
  if (fields.has("window")) {
    const nlohmann::json& window = fields.at("window");
    const auto whole = [](const nlohmann::json& value) {
      return value.is_number_integer() && value >= 1 && value <= 100'000;
    };
    if (window.is_array() && window.size() == 2 && whole(window[0]) && whole(window[1]) && window[0] <= window[1]) {
      instance.window_min = window[0].get<int>();
      instance.window_max = window[1].get<int>();
    } else {
      fields.fail("window", "is " + excerpt(window.dump()), "[min, max] with 1 <= min <= max <= 100000");
    }
  }
  double deadline_us = 0;
  fields.number("deadline_us", deadline_us, true);
  if (fields.has("deadline_us")) instance.deadline_s = deadline_us * 1e-6;
  if (!fields.has("requests")) fields.fail("requests", "is missing", "a list of requests");
  if (!fields.status()) return fields.status().error();

  if (const Status status = detail::read_requests(fields.at("requests"), problem, slo_s, where); !status)
    return status.error();
  if (Status status = check(instance); !status) {
    Error error = status.error();
    error.where = where + ": " + error.where;
    return error;
  }
  if (fields.has("placement")) {
    Expected<std::vector<LayerSet>> placement = detail::read_placement(fields.at("placement"), problem, where);
    if (!placement) return placement.error();
    problem.placement = std::move(*placement);
  }
  return problem;
}

} // namespace sluice
