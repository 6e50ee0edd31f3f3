// SPDX-License-Identifier: Apache-2.0
// What clients say of their KV, in every format that has a place for it, and from generated sessions.
#include "sluice/workload/nlohmann/jsonl_reader.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"
#include "sluice/workload/nlohmann/whole_trace.hpp"
#include "sluice/workload/session_generator.hpp"

#include "workload/trace_text.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using sluice_test::lines_of;

namespace {

/// The hints of a trace's one request, or its error.
struct ReadHints {
  SessionHints hints;
  std::string error;

  template <class Reader>
  explicit ReadHints(Expected<Reader> reader) {
    if (!reader) {
      error = reader.error().line();
      return;
    }
    const Expected<std::vector<RequestSpec>> all = read_all(*reader);
    if (all)
      hints = all->front().hints;
    else
      error = all.error().line();
  }
};

std::string line(const std::string& fields, const std::string& hints) {
  return "{" + fields + (hints.empty() ? "" : R"(, "kv_hints": )" + hints) + "}\n";
}
ReadHints mooncake(const std::string& hints) {
  return ReadHints(Expected<MooncakeReader>{
      MooncakeReader{lines_of(line(R"("timestamp": 0, "input_length": 5, "output_length": 2)", hints), "trace")}});
}
ReadHints tokens(const std::string& hints) {
  return ReadHints(read_token_ids(lines_of(
      line(R"("arrival_time_ns": 0, "input_toks": 1, "output_toks": 2, "input_tok_ids": [3])", hints), "trace")));
}
ReadHints aiperf(const std::string& hints) {
  return ReadHints(read_aiperf_sessions(
      lines_of(line(R"("session_id": "a", "timestamp": 5, "input_length": 5, "output_length": 2)", hints), "trace")));
}
ReadHints bailian(const std::string& hints) {
  return ReadHints(read_bailian(
      lines_of(line(R"("timestamp": 5, "input_length": 5, "output_length": 2, "chat_id": 1)", hints), "trace")));
}
ReadHints vllm(const std::string& hints, bool in_session) {
  return ReadHints(Expected<VllmRunReader>{VllmRunReader{lines_of(
      line(std::string{R"("input_toks": 5, "output_toks": 2, "queued_ts": 1, "scheduled_ts": 1, )"} +
               R"("first_token_ts": 2, "last_token_ts": 3)" + (in_session ? R"(, "session": 4, "turn": 0)" : ""),
           hints),
      "trace")}});
}

} // namespace

TEST_CASE("hints: lines of JSON may have them, those without sessions all but prefetch") {
  for (const auto& read : {mooncake, tokens, aiperf, bailian}) {
    CHECK(read("").hints == SessionHints{});
    CHECK(read("null").hints == SessionHints{});
    CHECK(read(R"({"ttl": 30.5, "keep": 64})").hints == SessionHints{.ttl = Seconds{30.5}, .keep = 64});
    CHECK(read(R"({"release": true})").hints == SessionHints{.release = true});
    CHECK(read(R"({"release": false})").hints == SessionHints{});
    for (const auto& [wrong, says] : std::vector<std::pair<std::string, std::string>>{
             {"3", "kv_hints is a JSON number; expected an object"},
             {R"({"ttl": 0})", "ttl is 0"},
             {R"({"ttl": "long"})", "ttl"},
             {R"({"ttl": 3601})", "seconds, 0.001 to 3600"},
             {R"({"keep": 1.5})", "keep"},
             {R"({"keep": 0})", "keep is 0"},
             {R"({"release": 1})", "kv_hints.release is 1; expected true or false"},
             {R"({"pin": 1})", "kv_hints has 'pin'; expected ttl, keep, release or prefetch"},
             {R"({"release": true, "ttl": 3})", "release and a time at which the session comes back"}}) {
      const std::string error = read(wrong).error;
      CAPTURE(error);
      CHECK(error.starts_with("trace:1: "));
      CHECK(error.find(says) != std::string::npos);
      CHECK(error.find('\n') == std::string::npos);
    }
  }
  const std::string announced = R"({"prefetch": 12})";
  for (const ReadHints& read : {aiperf(announced), bailian(announced), vllm(announced, true)})
    CHECK(read.hints == SessionHints{.prefetch = Seconds{12}});
  for (const ReadHints& read : {mooncake(announced), tokens(announced), vllm(announced, false)})
    CHECK(read.error == "trace:1: kv_hints.prefetch is of a request without a session; expected a format with "
                        "sessions, or ttl");
}

TEST_CASE("hints: a scaled rate scales the times after which the trace brings the next request, and no other delays") {
  const std::string said = R"({"ttl": 30, "prefetch": 12})";
  const auto run = [&](double scale) {
    const std::string one = R"("input_toks": 5, "output_toks": 2, "queued_ts": 1, "scheduled_ts": 1, )"
                            R"("first_token_ts": 2, "last_token_ts": 3, "session": 4, "turn": 0)";
    Shaped<VllmRunReader> reader(VllmRunReader{lines_of(line(one, said), "trace")}, {.rate_scale = scale});
    const auto request = reader.next();
    REQUIRE((request && *request));
    return (*request)->hints;
  };
  CHECK(run(2) == SessionHints{.ttl = Seconds{15}, .prefetch = Seconds{6}});
  CHECK(run(0.01) == SessionHints{.ttl = Seconds{3000}, .prefetch = Seconds{1200}});
  CHECK(run(0.001) == SessionHints{.ttl = longest_hint, .prefetch = longest_hint});
  CHECK(run(20'000) == SessionHints{.ttl = Seconds{30} / 20'000.0});
  const SessionSpec spec = *parse_sessions("chat:sessions=5,turns=3,user=20,hints=all");
  for (const auto& [options, seconds] : {std::pair{ReadOptions{.rate_scale = 4}, 20},
                                         {ReadOptions{.rate_scale = 4, .open_sessions = true}, 5},
                                         {ReadOptions{.rate_scale = 4, .opened_later = true}, 5}}) {
    const auto all = read_all(Shaped<SessionGenerator>{SessionGenerator{spec, 5}, options});
    REQUIRE(all);
    for (const RequestSpec& request : *all)
      if (!request.hints.release) CHECK(request.hints.prefetch == Seconds{static_cast<double>(seconds)});
  }
}

TEST_CASE("hints: a generated delay below what readers take is not said") {
  SessionGenerator generator(*parse_sessions("chat:sessions=3,turns=2,user=0.0004,hints=all"), 5);
  const auto all = read_all(generator);
  REQUIRE(all);
  for (const RequestSpec& request : *all)
    CHECK((request.hints.said() - HintSet{.keep = true, .release = true}) == HintSet{});
}

TEST_CASE("hints: generated sessions say what is true, and are otherwise the same") {
  const std::string text = "agents:sessions=20,rate=1,turns=lognormal(6,0.5),compact=0.2";
  const auto generate = [](const std::string& of, std::vector<std::vector<ContentPiece>>& content) {
    SessionGenerator generator(*parse_sessions(of), 5);
    std::vector<RequestSpec> all;
    for (;;) {
      const Expected<std::optional<RequestSpec>> next = generator.next();
      REQUIRE(next);
      if (!*next) return all;
      all.push_back(**next);
      content.emplace_back(generator.content().begin(), generator.content().end());
    }
  };
  std::vector<std::vector<ContentPiece>> plain_content, said_content, one_content;
  const std::vector<RequestSpec> plain = generate(text, plain_content),
                                 said = generate(text + ",hints=all", said_content),
                                 one = generate(text + ",hints=release", one_content);
  REQUIRE(plain.size() == said.size());
  CHECK(plain_content == said_content);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    RequestSpec same = said[i];
    same.hints = {};
    CHECK(same == plain[i]);
    CHECK_FALSE(plain[i].hints.said().any());
    const SessionHints& hints = said[i].hints;
    CHECK(one[i].hints == SessionHints{.release = hints.release});
    const bool last = i + 1 == plain.size() || plain[i + 1].session != plain[i].session;
    CHECK(hints.release == last);
    if (last) continue;
    const Seconds delay = plain[i + 1].delay;
    CHECK(hints.prefetch == std::min(delay, longest_hint));
    CHECK(hints.ttl == std::min(2 * delay, longest_hint));
    // The next prompt begins with all of this one, or with as much of it as is said.
    const std::vector<ContentPiece>&now = plain_content[i], &next = plain_content[i + 1];
    CHECK((hints.keep > 0) == (now[1].id != next[1].id));
    if (hints.keep > 0) CHECK(Tokens{hints.keep} == now[0].tokens);
    kept += hints.keep > 0 ? 1 : 0;
  }
  CHECK(kept > 0);
  CHECK(parse_sessions("chat:hints=none")->hints == HintSet{});
  CHECK(parse_sessions("chat:hints=ttl+prefetch")->hints == HintSet{.ttl = true, .prefetch = true});
  CHECK(parse_sessions("chat:hints=forever")
            .error()
            .line()
            .find("hints is 'forever'; expected all, none, or some of ttl+keep+release+prefetch") != std::string::npos);
}
