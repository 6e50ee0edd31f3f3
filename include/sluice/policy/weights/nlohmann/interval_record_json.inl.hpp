// SPDX-License-Identifier: Apache-2.0
// read_interval_record: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/policy/weights/nlohmann/interval_record_json.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace sluice::detail {

/// Reads whole fields one after another and keeps the first error.
class RecordFields {
 public:
  RecordFields(const nlohmann::json& object, std::string where) : fields_(object, std::move(where)) {}

  [[nodiscard]] std::int64_t whole(const char* name, std::int64_t least, std::int64_t most) {
    return take(fields_.whole(name, least, most), std::int64_t{0});
  }
  [[nodiscard]] double seconds(const char* name, double least) {
    return take(fields_.number(name, least, 1e9, "a number of seconds above 0"), 0.0);
  }
  [[nodiscard]] std::string text(const char* name) { return take(fields_.text(name, "a string"), std::string{}); }
  void only(std::initializer_list<std::string_view> known) {
    if (Status status = fields_.only(known); status_ && !status) status_ = std::move(status);
  }
  void fail(std::string what, std::string expected) {
    if (status_) status_ = Error{ErrorCode::bad_input, fields_.where(), std::move(what), std::move(expected)};
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  template <class T>
  T take(Expected<T> value, T otherwise) {
    if (value) return *std::move(value);
    if (status_) status_ = value.error();
    return otherwise;
  }

  JsonFields fields_;
  Status status_;
};

/// One point: its SLOs ascend, its intervals descend.
inline Status read_interval_point(const nlohmann::json& value, const std::string& where, InferencePhase phase,
                                  IntervalRecord& record, std::vector<bool>& seen) {
  if (!value.is_object())
    return Error{ErrorCode::bad_input, where, std::string{"this is "} + value.type_name(), "an object"};
  RecordFields fields{value, where};
  const IntervalGrid& grid = record.grid();
  fields.only({"batch", "length", "resident_s", "intervals"});
  const std::int64_t batch = fields.whole("batch", 1, grid.max_batch);
  const Tokens length{fields.whole("length", grid.least_length.count(), grid.max_length.count())};
  IntervalPoint point;
  point.resident = Seconds{fields.seconds("resident_s", std::numeric_limits<double>::min())};
  if (!fields.status()) return fields.status();
  const int b = grid.batch_index(batch);
  const int l = grid.length_index(length);
  if (IntervalGrid::batch(b) != batch || grid.length(l) != length)
    fields.fail("there is no point of " + std::to_string(batch) + " x " + std::to_string(length.count()) + " tokens",
                "powers of two");
  const auto place =
      static_cast<std::size_t>(b) * static_cast<std::size_t>(grid.lengths()) + static_cast<std::size_t>(l);
  if (fields.status() && seen[place])
    fields.fail("the point of " + std::to_string(batch) + " x " + std::to_string(length.count()) +
                    " tokens is there twice",
                "once");
  const std::string expected = "a list of [SLO in steps from 1 to " + std::to_string(grid.slo_steps) +
                               ", interval from 1 to " + std::to_string(record.heading().layers) +
                               "], the SLOs ascending and the intervals descending";
  const auto list = value.find("intervals");
  if (list == value.end() || !list->is_array()) fields.fail("intervals is no list", expected);
  if (!fields.status()) return fields.status();
  seen[place] = true;
  for (const nlohmann::json& from : *list) {
    const bool pair = from.is_array() && from.size() == 2 && from[0].is_number_integer() && from[1].is_number_integer();
    const bool fits =
        pair && from[0] >= 1 && from[0] <= grid.slo_steps && from[1] >= 1 && from[1] <= record.heading().layers;
    IntervalPoint::From next;
    if (fits) next = {from[0].get<std::int64_t>(), from[1].get<int>()};
    if (!fits || (!point.intervals.empty() && (next.slo_steps <= point.intervals.back().slo_steps ||
                                               next.interval >= point.intervals.back().interval))) {
      const std::string shown = from.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      fields.fail("intervals has " + excerpt(shown), expected);
      return fields.status();
    }
    point.intervals.push_back(next);
  }
  if (!point.intervals.empty() && point.intervals.front().slo_steps < grid.steps_for(point.resident)) {
    fields.fail("an SLO of " + std::to_string(point.intervals.front().slo_steps) +
                    " steps is met by an interval, and not with nothing streamed",
                "resident_s the shortest of all");
    return fields.status();
  }
  record.at(phase, b, l) = std::move(point);
  return {};
}

} // namespace sluice::detail

namespace sluice {

SLUICE_READERS_INLINE Expected<IntervalRecord> read_interval_record(const nlohmann::json& object,
                                                                    const std::string& where) {
  detail::RecordFields fields{object, where};
  fields.only({"interval_record", "model", "device", "times", "layers", "layer_weight_bytes", "slo_step_s", "slo_steps",
               "max_batch", "least_length", "max_length", "prefill", "decode", "made_by"});
  constexpr std::int64_t most = std::int64_t{1} << IntervalGrid::doublings;
  (void)fields.whole("interval_record", 1, 1);
  IntervalRecord::Heading heading;
  heading.model = fields.text("model");
  heading.device = fields.text("device");
  heading.times = fields.text("times");
  heading.layers = static_cast<int>(fields.whole("layers", 1, max_layers));
  heading.layer_weight_bytes = Bytes{fields.whole("layer_weight_bytes", 1, std::int64_t{1} << 50)};
  IntervalGrid grid;
  grid.slo_step = Seconds{fields.seconds("slo_step_s", 1e-9)};
  grid.slo_steps = fields.whole("slo_steps", 1, most);
  grid.max_batch = fields.whole("max_batch", 1, most);
  grid.least_length = Tokens{fields.whole("least_length", 1, most)};
  grid.max_length = Tokens{fields.whole("max_length", 1, most)};
  if (!fields.status()) return fields.status().error();
  if (!grid.valid()) {
    fields.fail("its batch sizes end with " + std::to_string(grid.max_batch) + " and its lengths go from " +
                    std::to_string(grid.least_length.count()) + " to " + std::to_string(grid.max_length.count()),
                "powers of two, the lengths ascending");
    return fields.status().error();
  }
  IntervalRecord record{std::move(heading), grid};
  const auto points = static_cast<std::size_t>(grid.batches()) * static_cast<std::size_t>(grid.lengths());
  for (const InferencePhase phase : {InferencePhase::prefill, InferencePhase::decode}) {
    const std::string name{name_of(phase)};
    const auto list = object.find(name);
    if (list == object.end() || !list->is_array() || list->size() != points) {
      fields.fail(name + (list == object.end() ? " is missing"
                          : list->is_array()   ? " has " + std::to_string(list->size()) + " points"
                                               : std::string{" is "} + list->type_name()),
                  "a list of " + std::to_string(points) + " points, one for each batch size and length");
      return fields.status().error();
    }
    std::vector<bool> seen(points); // as many points as the grid has: all of them, if none occurs twice
    for (std::size_t i = 0; i < points; ++i)
      if (const Status status = detail::read_interval_point(
              (*list)[i], where + ": " + name + "[" + std::to_string(i) + "]", phase, record, seen);
          !status)
        return status.error();
  }
  return record;
}

SLUICE_READERS_INLINE Expected<IntervalRecord> read_interval_record(const std::string& path) {
  const Expected<nlohmann::json> object = read_json_object(path);
  if (!object) return object.error();
  return read_interval_record(*object, path);
}

SLUICE_READERS_INLINE std::string interval_record_text(const IntervalRecord& record, const std::string& made_by) {
  using Json = nlohmann::ordered_json;
  const auto dumped = [](const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); };
  const IntervalRecord::Heading& heading = record.heading();
  const IntervalGrid& grid = record.grid();
  std::string text = "{\n";
  const Json fields{{"interval_record", 1},
                    {"model", heading.model},
                    {"device", heading.device},
                    {"times", heading.times},
                    {"layers", heading.layers},
                    {"layer_weight_bytes", heading.layer_weight_bytes.count()},
                    {"slo_step_s", grid.slo_step.count()},
                    {"slo_steps", grid.slo_steps},
                    {"max_batch", grid.max_batch},
                    {"least_length", grid.least_length.count()},
                    {"max_length", grid.max_length.count()}};
  if (!made_by.empty()) text += "  \"made_by\": " + dumped(made_by) + ",\n";
  for (const auto& field : fields.items()) text += "  " + dumped(field.key()) + ": " + dumped(field.value()) + ",\n";
  for (const InferencePhase phase : {InferencePhase::prefill, InferencePhase::decode}) {
    text += "  \"" + std::string{name_of(phase)} + "\": [\n";
    for (int b = 0; b < grid.batches(); ++b)
      for (int l = 0; l < grid.lengths(); ++l) {
        const IntervalPoint& point = record.at(phase, b, l);
        Json intervals = Json::array();
        for (const IntervalPoint::From& from : point.intervals)
          intervals.push_back(Json::array({from.slo_steps, from.interval}));
        const bool last = b + 1 == grid.batches() && l + 1 == grid.lengths();
        text += "    " +
                dumped(Json{{"batch", IntervalGrid::batch(b)},
                            {"length", grid.length(l).count()},
                            {"resident_s", point.resident.count()},
                            {"intervals", std::move(intervals)}}) +
                (last ? "\n" : ",\n");
      }
    text += phase == InferencePhase::decode ? "  ]\n" : "  ],\n";
  }
  return text + "}\n";
}

} // namespace sluice
