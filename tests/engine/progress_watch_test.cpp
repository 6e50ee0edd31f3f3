// SPDX-License-Identifier: Apache-2.0
// ProgressWatch: detects an engine without progress, and accepts a slow one.
#include "sluice/engine/progress_watch.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/retention/drop.hpp"
#include "sluice/policy/retention/eager_copy.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

using namespace sluice;

namespace {

struct ListReader {
  std::vector<RequestSpec> requests;
  std::size_t at = 0;
  Expected<std::optional<RequestSpec>> next() {
    if (at == requests.size()) return std::optional<RequestSpec>{};
    return std::optional{requests[at++]};
  }
};

/// Requests that arrive faster than the device can serve them, with prompts of several iterations each.
ListReader crowd(int users) {
  ListReader reader;
  for (int i = 0; i < users; ++i)
    reader.requests.push_back({.arrival = Seconds{0.05 * i},
                               .prompt = Tokens{500 + (i * 7919) % 3000},
                               .output = Tokens{50 + (i * 37) % 200},
                               .slo = {Seconds{2}, Seconds{0.05}}});
  return reader;
}

Server machine(std::int64_t kv_blocks) {
  Limits limits;
  limits.batch = 8;
  return {llama3_8b(), *find_device("a5000"), TokenBlocks{kv_blocks}, limits};
}

/// The part of an engine that a watch reads.
struct Still {
  std::vector<RequestRow> rows = std::vector<RequestRow>(3);
  std::int64_t at = 0, ended = 0;

  [[nodiscard]] std::int64_t steps() const { return at; }
  [[nodiscard]] std::int64_t alive() const {
    std::int64_t alive = 0;
    for (const RequestRow& row : rows) alive += row.phase != Phase::ended ? 1 : 0;
    return alive;
  }
  [[nodiscard]] View view() const {
    View view;
    view.rows = rows;
    view.finished = ended;
    return view;
  }
};

/// Steps until the watch reports, at most `most`.
std::optional<std::int64_t> called_at(Still& engine, ProgressWatch& watch, std::int64_t most) {
  for (; engine.at < most; ++engine.at)
    if (!watch.check(engine)) return engine.at;
  return std::nullopt;
}

} // namespace

TEST_CASE("requests that alternate and keep no KV livelock; the run ends with an error that names the livelock") {
  const auto served = serve<Engine<LargestVirtualLagFirst, Drop>>(machine(400), crowd(30));
  REQUIRE(!served);
  CHECK(served.error().code == ErrorCode::livelocked);
  CHECK(served.error().what.find("livelocked: in ") == 0);
  CHECK(served.error().what.find("26 wait") != std::string::npos);
  const auto kept = serve<Engine<LargestVirtualLagFirst, EagerCopy>>(machine(400), crowd(30));
  REQUIRE(kept);
  CHECK(kept->served == 30);
}

TEST_CASE("a prefill of more iterations than the watch's patience is not a livelock") {
  Server slow = machine(20'000);
  slow.limits.batch_tokens = Tokens{16};
  ListReader one;
  one.requests.push_back({.arrival = Seconds{0}, .prompt = Tokens{200'000}, .output = Tokens{2}, .slo = {}});
  const auto served = serve<Engine<>>(slow, one);
  REQUIRE(served);
  CHECK(served->served == 1);
}

TEST_CASE("ProgressWatch: a token, an end or one request fewer is progress, an arrival is not") {
  for (const int what : {0, 1, 2}) {
    CAPTURE(what);
    Still engine;
    ProgressWatch watch;
    CHECK(!called_at(engine, watch, 4000));
    if (what == 0) engine.rows[1].generated = Tokens{1};
    if (what == 1) ++engine.ended;
    if (what == 2) engine.rows[2].phase = Phase::ended;
    CHECK(!called_at(engine, watch, 4000 + 4096));
    CHECK(called_at(engine, watch, 4000 + 4096 + 2000));
  }
  Still crowded;
  ProgressWatch watch;
  CHECK(!called_at(crowded, watch, 4000));
  crowded.rows.emplace_back();
  CHECK(called_at(crowded, watch, 4096 + 2000));
}
