// SPDX-License-Identifier: Apache-2.0
// A performance record as sluice-compare reads it; a record that was read answers, and is the same when read again.
#include "sluice/policy/weights/nlohmann/interval_record_json.hpp"

#include "fuzz/fuzz_support.hpp"

#include <limits>

SLUICE_FUZZ_TARGET(interval_record) {
  using namespace sluice;
  const auto object = parse_json_object(sluice_test::text_of(data, size), "record.json");
  if (!object) {
    sluice_test::require_one_line(object.error());
    return 0;
  }
  const auto record = read_interval_record(*object, "record.json");
  if (!record) {
    sluice_test::require_one_line(record.error());
    return 0;
  }
  const std::string text = interval_record_text(*record);
  const auto parsed = parse_json_object(text, "again.json");
  sluice_test::require(parsed.has_value(), "a record is written as JSON");
  const auto again = read_interval_record(*parsed, "again.json");
  sluice_test::require(again && interval_record_text(*again) == text, "a record is read as it was written");
  for (const InferencePhase phase : {InferencePhase::prefill, InferencePhase::decode})
    for (const std::int64_t batch : {std::int64_t{1}, record->grid().max_batch, record->grid().max_batch + 1})
      for (const double slo_s : {0.0, 0.03, std::numeric_limits<double>::infinity()}) {
        const IntervalAnswer answer = record->look_up(phase, batch, record->grid().max_length, Seconds{slo_s});
        sluice_test::require(answer.interval >= 0 && answer.interval <= record->heading().layers,
                             "an interval of the model");
        sluice_test::require(answer.recorded == (batch <= record->grid().max_batch), "the record names where it ends");
        sluice_test::require(answer.interval == 0 || answer.resident <= Seconds{slo_s} * (1 + 1e-9),
                             "no SLO below the best is met");
      }
  return 0;
}
