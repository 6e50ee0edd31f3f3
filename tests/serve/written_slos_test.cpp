// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/serve/serve_metrics.hpp"
#include "sluice/workload/request.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace sluice;

namespace {

const Slo slo{Seconds{0.5}, Seconds{0.1}};

std::string text_of(const WrittenSlos& slos) {
  std::string text;
  PrometheusWriter writer(text, {});
  slos.write(writer);
  return text;
}
double metric(const WrittenSlos& slos, const std::string& name) {
  const std::string text = text_of(slos), line = "\n" + name + " ";
  const std::size_t at = text.find(line);
  return at == std::string::npos ? 0 : std::stod(text.substr(at + line.size()));
}
double answers(const WrittenSlos& slos, const char* met) {
  return metric(slos, std::string{R"(sluice:slo_answers_total{ttft="0.5",tbt="0.1",met=")"} + met + R"("})");
}

} // namespace

TEST_CASE("WrittenSlos counts as a client that writes down when its tokens came") {
  Random random(11);
  for (int trial = 0; trial < 50; ++trial) {
    WrittenSlos slos;
    std::int64_t on_time = 0, missed = 0, in_time = 0, late = 0, met = 0;
    for (std::uint64_t id = 0; id < 30; ++id) {
      double now = 3 * random.uniform();
      slos.begin(GenerationId{id}, slo, now);
      const double ttft = 0.6 * random.uniform();
      bool kept = ttft <= 0.5;
      (kept ? in_time : late) += 1;
      now += ttft;
      slos.written(GenerationId{id}, 1, now, now);
      for (std::uint64_t token = random.below(20); token > 0; --token) {
        const double gap = 0.103 * random.uniform();
        const std::int64_t passed = deadlines_missed(Seconds{gap}, slo.tbt, Seconds{now + gap});
        missed += passed;
        on_time += passed == 0 ? 1 : 0;
        kept = kept && passed == 0;
        now += gap;
        slos.written(GenerationId{id}, 1, now - 0.01, now);
      }
      met += kept ? 1 : 0;
      slos.end(GenerationId{id});
      slos.end(GenerationId{id}); // it is over
    }
    CHECK(slos.on_time() == on_time);
    CHECK(slos.missed() == missed);
    CHECK(slos.first_in_time() == in_time);
    CHECK(slos.first_late() == late);
    CHECK(answers(slos, "true") == met);
    CHECK(answers(slos, "false") == 30 - met);
  }
}

TEST_CASE("WrittenSlos: answers that clients leave, that fail, and that have no SLO") {
  WrittenSlos slos;
  for (std::uint64_t id = 0; id < 6; ++id) slos.begin(GenerationId{id}, id == 5 ? Slo{} : slo, 0);
  slos.leave(GenerationId{0}, 0.4); // nothing was due yet
  CHECK(answers(slos, "true") + answers(slos, "false") == 0);
  slos.leave(GenerationId{1}, 0.6); // the first token was late
  CHECK(answers(slos, "false") == 1);
  slos.written(GenerationId{2}, 1, 0.2, 0.2);
  slos.leave(GenerationId{2}, 0.25);
  CHECK(answers(slos, "true") == 1);
  slos.fail(GenerationId{3});
  CHECK(answers(slos, "false") == 2);
  slos.written(GenerationId{4}, 1, 0.2, 0.2);
  slos.leave(GenerationId{4}, 0.45); // two deadlines passed without a token
  CHECK(answers(slos, "false") == 3);
  CHECK(slos.missed() == 2);
  slos.written(GenerationId{5}, 1, 9, 9);
  slos.end(GenerationId{5});
  CHECK(answers(slos, "true") + answers(slos, "false") == 4);
}

TEST_CASE("WrittenSlos: the lead is the P99 of the answers' slowest delivery, first tokens apart") {
  WrittenSlos slos;
  CHECK(slos.lead() == SloLead{});
  CHECK(slos.lead(slo) == unmeasured_lead(slo));
  Random random(7);
  std::vector<double> first, slowest;
  for (std::uint64_t id = 0; id < 200; ++id) {
    const double now = static_cast<double>(id);
    slos.begin(GenerationId{id}, slo, now);
    first.push_back(0.02 * random.uniform());
    slos.written(GenerationId{id}, 1, now, now + first.back());
    slowest.push_back(0);
    for (int token = 1; token < 50; ++token) {
      const double took = 0.005 * random.uniform();
      slowest.back() = std::max(slowest.back(), took);
      slos.written(GenerationId{id}, 1, now + 0.1 * token, now + 0.1 * token + took);
    }
    slos.written(GenerationId{id}, 7, now + 5, now + 9); // all at the end: none of them was due by itself
    slos.end(GenerationId{id});
  }
  std::sort(first.begin(), first.end());
  std::sort(slowest.begin(), slowest.end());
  CHECK(slos.lead().ttft.count() == doctest::Approx(first[197]));
  CHECK(slos.lead().tbt.count() == doctest::Approx(slowest[197]));
  CHECK(slos.lead(slo) == slos.lead());
  CHECK(metric(slos, "sluice:delivery_lead_seconds{of=\"tbt\"}") == doctest::Approx(slowest[197]));
}
