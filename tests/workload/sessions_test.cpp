// SPDX-License-Identifier: Apache-2.0
// Sessions: what a generator draws, and what opening and resampling them keeps.
#include "sluice/workload/reader.hpp"
#include "sluice/workload/resampled.hpp"
#include "sluice/workload/session_generator.hpp"
#include "sluice/workload/session_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

using namespace sluice;

namespace {

struct Drawn {
  std::vector<RequestSpec> requests;
  std::vector<std::vector<ContentPiece>> contents;
};

template <class Reader>
Drawn read(Reader reader) {
  Drawn drawn;
  const Status status = read_all_with_content(reader, drawn.requests, drawn.contents);
  if (!status) FAIL(status.error().line());
  return drawn;
}
Drawn draw(const std::string& text, std::uint64_t seed) {
  const auto spec = parse_sessions(text);
  if (!spec) FAIL(spec.error().line());
  return read(SessionGenerator{*spec, seed});
}
std::string error_in_sessions(const std::string& text) {
  const auto spec = parse_sessions(text);
  return spec ? "" : spec.error().line();
}
std::int64_t median(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

const std::string small = "sessions:rate=2,sessions=60,turns=uniform(1,6),systems=3,system=uniform(20,40),"
                          "first=lognormal(200,1),growth=lognormal(80,1),output=uniform(1,60),tool=lognormal(1,2),"
                          "user=5,tools=0.5,compact=0.2,longest=900";

} // namespace

TEST_CASE("every turn follows the one before it, and its prompt begins with that prompt and answer unless compacted") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Drawn drawn = draw(small, seed);
    std::int64_t sessions = 0, continued = 0, compacted = 0;
    std::set<std::uint64_t> own;
    for (std::size_t i = 0; i < drawn.requests.size(); ++i) {
      const RequestSpec& now = drawn.requests[i];
      const std::vector<ContentPiece>& content = drawn.contents[i];
      REQUIRE(content.size() == 2); // the system prompt, and the session's own tokens
      CHECK(content[0].tokens + content[1].tokens == now.prompt + now.output);
      CHECK(now.prompt > content[0].tokens);
      CHECK(now.prompt + now.output <= Tokens{900});
      if (now.turn == 0) {
        CHECK_FALSE(now.follows);
        CHECK(now.session == ++sessions);
        CHECK(own.insert(content[1].id).second);
        continue;
      }
      const RequestSpec& before = drawn.requests[i - 1];
      CHECK(now.follows);
      CHECK(now.session == before.session);
      CHECK(now.turn == before.turn + 1);
      CHECK((now.arrival - before.arrival).count() == doctest::Approx(now.delay.count()).epsilon(1e-9));
      CHECK(content[0] == drawn.contents[i - 1][0]);
      if (content[1].id == drawn.contents[i - 1][1].id) {
        CHECK(now.prompt > before.prompt + before.output);
        ++continued;
      } else {
        CHECK(own.insert(content[1].id).second);
        ++compacted;
      }
    }
    CHECK(sessions == 60);
    CHECK(continued > 20);
    CHECK(compacted > 5);
  }
}

TEST_CASE("a seed gives the same sessions, whatever the rate, and more sessions change none of the first ones") {
  const Drawn drawn = draw(small, 7);
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  CHECK(draw(small, 7).requests == drawn.requests);
  CHECK(draw(small, 8).requests != drawn.requests);
  const Drawn more = draw(with(small, "sessions=60", "sessions=90"), 7);
  REQUIRE(more.requests.size() > drawn.requests.size());
  CHECK(std::equal(drawn.requests.begin(), drawn.requests.end(), more.requests.begin()));
  const Drawn faster = draw(with(small, "rate=2", "rate=4"), 7);
  REQUIRE(faster.requests.size() == drawn.requests.size());
  for (std::size_t i = 0; i < drawn.requests.size(); ++i) {
    CHECK(faster.requests[i].prompt == drawn.requests[i].prompt);
    CHECK(faster.requests[i].delay == drawn.requests[i].delay);
  }
}

TEST_CASE("the presets have the medians that were measured") {
  const struct {
    const char* text;
    double first, growth, output;
  } rows[] = {{"chat:sessions=4000", 5'933, 474, 350}, {"agents:sessions=600", 24'500, 655, 216}};
  for (const auto& row : rows) {
    const Drawn drawn = draw(row.text, 1);
    std::vector<std::int64_t> first, growth, output;
    for (std::size_t i = 0; i < drawn.requests.size(); ++i) {
      const RequestSpec& now = drawn.requests[i];
      output.push_back(now.output.count());
      if (!now.follows)
        first.push_back(now.prompt.count());
      else
        growth.push_back((now.prompt - drawn.requests[i - 1].prompt).count());
    }
    // Prompts include the system prompt and the last answer, so their medians exceed those of the distributions.
    CHECK(static_cast<double>(median(first)) == doctest::Approx(row.first).epsilon(0.25));
    CHECK(static_cast<double>(median(growth)) == doctest::Approx(row.growth).epsilon(0.4));
    CHECK(static_cast<double>(median(output)) == doctest::Approx(row.output).epsilon(0.1));
  }
}

TEST_CASE("a wrong description of sessions is one line") {
  CHECK(error_in_sessions("sessions:rate=1").find("sessions is missing") != std::string::npos);
  CHECK(error_in_sessions("chat:foo=1").find("there is no key 'foo'") != std::string::npos);
  CHECK(error_in_sessions("chat:rate=1,rate=2").find("rate appears twice") != std::string::npos);
  CHECK(error_in_sessions("chat:sessions=0").find("sessions is 0") != std::string::npos);
  CHECK(error_in_sessions("chat:tool=lognormal(1").find("tool is 'lognormal(1'") != std::string::npos);
  CHECK(error_in_sessions("chat:tool=lognormal(").find("tool is") != std::string::npos);
  CHECK(error_in_sessions("chat:user=-1").find("user has an impossible delay") != std::string::npos);
  CHECK(error_in_sessions("chat:tools=2").find("tools is 2") != std::string::npos);
  CHECK(error_in_sessions("chat:system=200000").find("system") != std::string::npos);
  CHECK(error_in_sessions("chat:longest=3").find("longest is 3") != std::string::npos);
  CHECK(error_in_sessions("chat").empty());
  CHECK(error_in_sessions("agents:rate=0.5,cv=2").empty());
}

TEST_CASE("open sessions are the same requests in the order of their recorded arrivals") {
  const Drawn closed = draw(small, 3);
  SessionGenerator source{*parse_sessions(small), 3};
  OpenSessions open;
  std::multiset<std::pair<std::uint32_t, std::int32_t>> left;
  std::map<std::pair<std::uint32_t, std::int32_t>, std::size_t> place;
  for (std::size_t i = 0; i < closed.requests.size(); ++i)
    place[{closed.requests[i].session, closed.requests[i].turn}] = i;
  Seconds last{0};
  std::size_t count = 0;
  for (;; ++count) {
    const Expected<std::optional<RequestSpec>> request = open.next(source);
    REQUIRE(request);
    if (!*request) break;
    CHECK((*request)->arrival >= last);
    last = (*request)->arrival;
    CHECK_FALSE((*request)->follows);
    const std::size_t at = place.at({(*request)->session, (*request)->turn});
    CHECK((*request)->arrival == closed.requests[at].arrival);
    CHECK(std::equal(open.content().begin(), open.content().end(), closed.contents[at].begin(),
                     closed.contents[at].end()));
  }
  CHECK(count == closed.requests.size());
}

TEST_CASE("sessions are resampled whole, and one that is drawn again shares the system prompt only") {
  const Drawn of =
      draw("sessions:rate=2,sessions=40,turns=uniform(1,5),system=100,first=300,growth=50,output=20,user=1", 5);
  for (const Resampling how : {Resampling{}, Resampling{Resampling::Kind::arrivals}}) {
    Resampled reader{of.requests, how, 9, of.contents};
    const Drawn again = read(std::move(reader));
    std::map<std::uint64_t, std::set<std::uint32_t>> sessions_of; // by the sessions' own content
    std::uint32_t session = 0;
    Seconds start{0};
    for (std::size_t i = 0; i < again.requests.size(); ++i) {
      const RequestSpec& now = again.requests[i];
      CHECK(now.follows == (now.turn > 0));
      if (!now.follows) {
        CHECK(now.session == ++session);
        CHECK(now.arrival >= start);
        start = now.arrival;
        if (i > 0) CHECK((i == again.requests.size() || again.requests[i - 1].session == session - 1));
      } else {
        CHECK(now.session == session);
        CHECK(now.turn == again.requests[i - 1].turn + 1);
        CHECK((now.arrival - start).count() ==
              doctest::Approx((now.arrival - again.requests[i - static_cast<std::size_t>(now.turn)].arrival).count()));
      }
      CHECK(again.contents[i][0] == of.contents[0][0]);
      sessions_of[again.contents[i][1].id].insert(now.session);
    }
    CHECK(session == 40);
    for (const auto& [content, sessions] : sessions_of) CHECK(sessions.size() == 1);
    CHECK(sessions_of.size() == 40);
  }
}

namespace {

/// The sessions of a text, at their recorded arrivals.
struct Opened {
  SessionGenerator source;
  OpenSessions open{};
  Expected<std::optional<RequestSpec>> next() { return open.next(source); }
  [[nodiscard]] std::span<const ContentPiece> content() const { return open.content(); }
};
static_assert(TraceReader<Opened> && KnowsContent<Opened>);

/// A stream of requests that belong to no session.
struct Apart {
  SessionGenerator source;
  Expected<std::optional<RequestSpec>> next() {
    Expected<std::optional<RequestSpec>> request = source.next();
    if (request && *request) (*request)->session = 0;
    return request;
  }
};

/// Checks that three tenants share the requests of `make()` and that a session's go to one of them. Returns how many
/// requests each has.
template <class Make>
std::vector<std::size_t> check_dealt(Make&& make) {
  constexpr std::uint64_t tenants = 3;
  std::multiset<std::tuple<double, std::int64_t, std::int64_t>> all, dealt;
  const auto note = [](auto& set, const RequestSpec& request) {
    set.emplace(request.arrival.count(), request.prompt.count(), request.output.count());
  };
  for (const RequestSpec& request : read(make()).requests) note(all, request);
  std::map<std::uint32_t, std::uint64_t> tenant_of;
  std::vector<std::size_t> counts;
  for (std::uint64_t tenant = 0; tenant < tenants; ++tenant) {
    const Drawn drawn = read(Dealt{make(), tenant, tenants, 5});
    counts.push_back(drawn.requests.size());
    for (const RequestSpec& request : drawn.requests) {
      note(dealt, request);
      if (request.session != 0) CHECK(tenant_of.try_emplace(request.session, tenant).first->second == tenant);
    }
  }
  CHECK(dealt == all);
  return counts;
}

} // namespace

TEST_CASE("a shared stream is dealt without loss, and a session's requests to one tenant, closed or open") {
  const SessionSpec spec = *parse_sessions(small);
  const auto closed = check_dealt([&] { return SessionGenerator{spec, 3}; });
  const auto open = check_dealt([&] { return Opened{SessionGenerator{spec, 3}}; });
  const auto apart = check_dealt([&] { return Apart{SessionGenerator{spec, 3}}; });
  CHECK(open == closed); // arrivals do not change a session's tenant
  for (const auto& counts : {closed, apart}) CHECK(*std::min_element(counts.begin(), counts.end()) > 10);
}
