// SPDX-License-Identifier: Apache-2.0
// IntervalRecord: its grid, its answers between and beyond its points, the paper's pattern, and its file.
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/random.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/weights/interval_record.hpp"
#include "sluice/policy/weights/interval_source.hpp"
#include "sluice/policy/weights/nlohmann/interval_record_json.hpp"

#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

using namespace sluice;

namespace {

IntervalRecord random_record(Random& random) {
  const auto below = [&](std::uint64_t most) { return static_cast<std::int64_t>(random.below(most)); };
  IntervalGrid grid;
  grid.max_batch = std::int64_t{1} << below(6);
  grid.least_length = Tokens{std::int64_t{1} << below(8)};
  grid.max_length = grid.least_length * (std::int64_t{1} << below(5));
  grid.slo_step = Seconds{1e-4 + 1e-2 * random.uniform()};
  grid.slo_steps = 1 + below(600);
  const int layers = 2 + static_cast<int>(random.below(80));
  IntervalRecord record{{"a \"model\"", "a\tdevice", "made up", layers, Bytes{1 + below(1 << 30)}}, grid};
  for (const InferencePhase phase : {InferencePhase::prefill, InferencePhase::decode})
    for (int b = 0; b < grid.batches(); ++b)
      for (int l = 0; l < grid.lengths(); ++l) {
        IntervalPoint& point = record.at(phase, b, l);
        point.resident = grid.slo_step * (1e-3 + random.uniform());
        std::int64_t steps = below(40);
        for (int interval = layers; interval >= 1; interval -= 1 + static_cast<int>(below(9))) {
          steps += 1 + below(30);
          if (steps > grid.slo_steps) break;
          point.intervals.push_back({steps, interval});
        }
      }
  return record;
}

/// By the definition: the nearest of the points with at least this batch and length, and in its list the last entry
/// whose SLO is at most this one.
int answer_by_words(const IntervalRecord& record, InferencePhase phase, std::int64_t batch, Tokens length,
                    Seconds slo) {
  const IntervalGrid& grid = record.grid();
  for (int b = 0; b < grid.batches(); ++b)
    for (int l = 0; l < grid.lengths(); ++l) {
      if (IntervalGrid::batch(b) < batch || grid.length(l) < length) continue;
      int interval = 0;
      for (const IntervalPoint::From& from : record.at(phase, b, l).intervals)
        if (grid.slo_step * static_cast<double>(from.slo_steps) <= slo * (1 + 1e-9)) interval = from.interval;
      return interval;
    }
  return 0;
}

bool same(const IntervalRecord& a, const IntervalRecord& b) {
  const IntervalGrid& grid = a.grid();
  bool equal = a.heading() == b.heading() && grid.slo_step == b.grid().slo_step &&
               grid.slo_steps == b.grid().slo_steps && grid.max_batch == b.grid().max_batch &&
               grid.least_length == b.grid().least_length && grid.max_length == b.grid().max_length;
  for (const InferencePhase phase : {InferencePhase::prefill, InferencePhase::decode})
    for (int i = 0; equal && i < grid.batches(); ++i)
      for (int l = 0; equal && l < grid.lengths(); ++l) equal = a.at(phase, i, l) == b.at(phase, i, l);
  return equal;
}

Expected<IntervalRecord> read(const std::string& text) {
  const Expected<nlohmann::json> object = parse_json_object(text, "record.json");
  if (!object) return object.error();
  return read_interval_record(*object, "record.json");
}

} // namespace

TEST_CASE("a question between the points is answered from the nearest larger batch, greater length and tighter SLO") {
  Random random{91};
  int found = 0, beyond = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const IntervalRecord record = random_record(random);
    const IntervalGrid& grid = record.grid();
    for (int i = 0; i < 100; ++i) {
      const auto phase = static_cast<InferencePhase>(random.below(2));
      const auto batch = static_cast<std::int64_t>(random.below(2 * static_cast<std::uint64_t>(grid.max_batch)));
      const Tokens length{
          static_cast<std::int64_t>(random.below(2 * static_cast<std::uint64_t>(grid.max_length.count())))};
      Seconds slo = grid.slo_step * (1.2 * random.uniform() * static_cast<double>(grid.slo_steps));
      if (random.below(3) == 0) slo = grid.slo_step * std::floor(slo / grid.slo_step);
      const IntervalAnswer answer = record.look_up(phase, batch, length, slo);
      CHECK(answer.interval == answer_by_words(record, phase, batch, length, slo));
      if (!answer.recorded) {
        CHECK((batch > grid.max_batch || length > grid.max_length));
        CHECK(answer.interval == 0);
        ++beyond;
        continue;
      }
      CHECK(answer.batch >= batch);
      CHECK((answer.batch == 1 || answer.batch < 2 * batch));
      CHECK(answer.length >= length);
      CHECK((answer.length == grid.least_length || answer.length < length * 2));
      CHECK(answer.slo <= slo * (1 + 1e-9));
      CHECK((answer.slo > slo - grid.slo_step * (1 + 1e-9) ||
             answer.slo >= grid.slo_step * (static_cast<double>(grid.slo_steps) * (1 - 1e-9))));
      found += answer.interval > 0 ? 1 : 0;
    }
    const Seconds endless{std::numeric_limits<double>::infinity()};
    const IntervalAnswer longest = record.look_up(InferencePhase::decode, 1, Tokens{1}, endless);
    CHECK(longest.slo == grid.slo_step * static_cast<double>(grid.slo_steps));
    CHECK(record.look_up(InferencePhase::decode, 1, Tokens{1}, Seconds{0}).interval == 0);
    CHECK(
        !record.look_up(InferencePhase::decode, std::numeric_limits<std::int64_t>::max(), Tokens{1}, endless).recorded);
    CHECK(
        !record.look_up(InferencePhase::decode, 1, Tokens{std::numeric_limits<std::int64_t>::max()}, endless).recorded);
  }
  CHECK(found > 2000);
  CHECK(beyond > 2000);
}

TEST_CASE("the tightest SLO recorded for an interval is the smallest at which the answer is no longer") {
  Random random{92};
  for (int trial = 0; trial < 100; ++trial) {
    const IntervalRecord record = random_record(random);
    const IntervalPoint& point = record.at(InferencePhase::decode, 0, 0);
    for (int most = 1; most <= record.heading().layers; ++most) {
      std::int64_t least = 0;
      for (std::int64_t steps = record.grid().slo_steps; steps >= 1; --steps)
        if (const int interval = IntervalRecord::interval_at(point, steps); interval > 0 && interval <= most)
          least = steps;
      const Seconds tightest = record.tightest(point, most);
      if (least == 0)
        CHECK(!std::isfinite(tightest.count()));
      else
        CHECK(tightest == record.grid().slo_step * static_cast<double>(least));
    }
  }
}

TEST_CASE("Select-N's Table 1: an SLO that is a multiple of the batch's time gives intervals that fall to 1 with batch "
          "and length; an SLO that is a fixed time does not") {
  const ModelShape model = qwen1_5_7b();
  const Roofline cost{model, a10()};
  const Geometry geometry{model.layers, model.layer_block_bytes(Tokens{16}), model.layer_weight_bytes(), Bytes{0}};
  const IntervalGrid grid{.max_batch = 64,
                          .least_length = Tokens{128},
                          .max_length = Tokens{1024},
                          .slo_step = Seconds{1e-5},
                          .slo_steps = 100'000'000};
  const IntervalRecord record = record_intervals(cost, geometry, {}, grid, [](std::int64_t, std::int64_t) {});
  const auto interval = [&](int b, int l, double slack) {
    const IntervalPoint& point = record.at(InferencePhase::prefill, b, l);
    const IntervalAnswer answer =
        record.look_up(InferencePhase::prefill, IntervalGrid::batch(b), grid.length(l), point.resident * (1 + slack));
    CHECK(answer.recorded);
    return answer.interval == 0 ? 1'000 : answer.interval;
  };
  for (const double slack : {0.01, 0.2, 0.5, 1.0}) {
    for (int b = 0; b < grid.batches(); ++b)
      for (int l = 0; l < grid.lengths(); ++l) {
        CAPTURE(b);
        CAPTURE(l);
        if (b > 0) CHECK(interval(b, l, slack) <= interval(b - 1, l, slack));
        if (l > 0) CHECK(interval(b, l, slack) <= interval(b, l - 1, slack));
        if (b > 0 && l > 0)
          CHECK(std::abs(interval(b, l - 1, slack) - interval(b - 1, l, slack)) <= 1); // their product
      }
    CHECK(interval(grid.batches() - 1, grid.lengths() - 1, slack) == 1);
    CHECK(interval(0, 0, slack) > 3);
  }
  // By the paper's own count, n t_transfer <= L t_compute (1 + delta) = SLO: with one SLO in seconds every batch may
  // offload equally many layers, and its table would have one number in it.
  for (const double slo_s : {0.2, 0.4, 0.8})
    for (int b = 1; b < grid.batches(); ++b)
      for (int l = 0; l < grid.lengths(); ++l) {
        const int wider =
            record.look_up(InferencePhase::prefill, IntervalGrid::batch(b), grid.length(l), Seconds{slo_s}).interval;
        const int narrower =
            record.look_up(InferencePhase::prefill, IntervalGrid::batch(b - 1), grid.length(l), Seconds{slo_s})
                .interval;
        if (wider > 0) CHECK(narrower <= wider);
        if (wider > 0) CHECK(narrower > 0);
      }
}

TEST_CASE("a record survives a round trip through its file") {
  Random random{93};
  for (int trial = 0; trial < 50; ++trial) {
    const IntervalRecord record = random_record(random);
    const Expected<IntervalRecord> again = read(interval_record_text(record));
    REQUIRE_MESSAGE(again.has_value(), again.error().line());
    CHECK(same(record, *again));
  }
}

TEST_CASE("an error in a record's file is reported in one line") {
  const std::string good = R"({"interval_record": 1, "model": "m", "device": "d", "times": "t", "layers": 8,
    "layer_weight_bytes": 1000, "slo_step_s": 0.002, "slo_steps": 50, "max_batch": 1, "least_length": 16,
    "max_length": 32, "prefill": [{"batch": 1, "length": 16, "resident_s": 0.01, "intervals": [[6, 4], [9, 1]]},
    {"batch": 1, "length": 32, "resident_s": 0.01, "intervals": []}], "decode": [
    {"batch": 1, "length": 32, "resident_s": 0.02, "intervals": [[10, 2]]},
    {"batch": 1, "length": 16, "resident_s": 0.01, "intervals": [[5, 8]]}]})";
  const Expected<IntervalRecord> record = read(good);
  REQUIRE_MESSAGE(record.has_value(), record.error().line());
  CHECK(record->look_up(InferencePhase::prefill, 1, Tokens{16}, Seconds{0.0179}).interval == 4);
  CHECK(record->look_up(InferencePhase::prefill, 1, Tokens{16}, Seconds{0.018}).interval == 1);
  CHECK(record->look_up(InferencePhase::decode, 1, Tokens{17}, Seconds{0.02}).interval == 2);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    const Expected<IntervalRecord> wrong = read(text.replace(at, from.size(), to));
    REQUIRE(!wrong.has_value());
    return wrong.error().line();
  };
  const auto says = [](const std::string& line, const std::string& part) {
    return line.find(part) != std::string::npos;
  };
  CHECK(says(with("\"interval_record\": 1", "\"interval_record\": 2"),
             "interval_record is 2; expected a whole number from 1 to 1"));
  CHECK(says(with("\"layers\": 8", "\"layers\": 1000"), "layers is 1000"));
  CHECK(says(with("\"max_batch\": 1", "\"max_batch\": 3"), "powers of two"));
  CHECK(says(with("\"max_length\": 32", "\"max_length\": 8"), "its lengths go from 16 to 8"));
  CHECK(says(with("\"max_length\": 32", "\"max_length\": 64"), "prefill has 2 points; expected a list of 3 points"));
  CHECK(says(with("\"length\": 32", "\"length\": 16"), "prefill[1]: the point of 1 x 16 tokens is there twice"));
  CHECK(says(with("\"length\": 32", "\"length\": 20"), "there is no point of 1 x 20 tokens"));
  CHECK(says(with("\"resident_s\": 0.02", "\"resident_s\": -1"), "decode[0]: resident_s is -1"));
  CHECK(says(with("\"resident_s\": 0.02", "\"resident_s\": 0.03"), "resident_s the shortest of all"));
  CHECK(says(with("[6, 4]", "[6, 9]"), "prefill[0]: intervals has [6,9]"));
  CHECK(says(with("[9, 1]", "[6, 1]"), "intervals has [6,1]"));
  CHECK(says(with("[9, 1]", "[9, 4]"), "intervals has [9,4]"));
  CHECK(says(with("[9, 1]", "[9.5, 1]"), "intervals has [9.5,1]"));
  CHECK(says(with("\"times\": \"t\"", "\"tims\": \"t\""), "there is no field 'tims'"));
  CHECK(says(with("\"decode\"", "\"decoded\""), "there is no field 'decoded'"));
}

TEST_CASE("sluice-profile records the cost model's predictions, and shows them again" *
          sluice_test::needs_program("sluice-profile")) {
  const sluice_test::TemporaryFolder folder;
  const std::string file = (folder.path / "record.json").string();
  const sluice_test::Ran made = sluice_test::run_program(
      "sluice-profile",
      "--record --model opt-6.7b --device a10 --max-batch 8 --least-length 64 --max-length 256 --slo-max "
      "0.3 --slo 0.1 --quiet --out '" +
          file + "'");
  CHECK(made.code == 0);
  const Expected<IntervalRecord> record = read_interval_record(file);
  REQUIRE_MESSAGE(record.has_value(), record.error().line());
  const ModelShape model = opt_6_7b();
  const Geometry geometry{model.layers, model.layer_block_bytes(Tokens{16}), model.layer_weight_bytes(), Bytes{0}};
  const IntervalGrid grid{.max_batch = 8,
                          .least_length = Tokens{64},
                          .max_length = Tokens{256},
                          .slo_step = Seconds{0.002},
                          .slo_steps = 150};
  const IntervalRecord expected =
      record_intervals(Roofline{model, a10()}, geometry, record->heading(), grid, [](std::int64_t, std::int64_t) {});
  CHECK(interval_record_text(*record) == interval_record_text(expected));
  CHECK(record->heading().device == "a10");
  const sluice_test::Ran shown = sluice_test::run_program("sluice-profile", "--slo 0.1 --show '" + file + "'");
  CHECK(shown.code == 0);
  CHECK(made.out.find(shown.out) == 0); // followed by the folder that was written
}
