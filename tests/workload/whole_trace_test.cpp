// SPDX-License-Identifier: Apache-2.0
// WholeTrace: sessions of Bailian's, AIPerf's and BurstGPT's files, and what a file is taken for.
#include "sluice/workload/nlohmann/open_trace.hpp"

#include "support/program.hpp"
#include "workload/trace_text.hpp"
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

using namespace sluice;
using sluice_test::lines_of;

namespace {

struct Read {
  std::vector<RequestSpec> requests;
  std::vector<std::vector<ContentPiece>> contents;
  std::string remark;
};

Read read_whole(Expected<WholeTrace> trace) {
  CAPTURE((trace ? std::string{} : trace.error().line()));
  REQUIRE(trace);
  Read read;
  REQUIRE(read_all_with_content(*trace, read.requests, read.contents));
  read.remark = trace->remark;
  return read;
}
std::string refusal_of(const Expected<WholeTrace>& trace) { return trace ? "no error" : trace.error().line(); }

const std::string chats =
    R"({"chat_id": 7, "parent_chat_id": -1, "timestamp": 60.5, "input_length": 40, "output_length": 30, "hash_ids": [1, 2, 3]})"
    "\n"
    R"({"chat_id": 8, "parent_chat_id": 99, "timestamp": 61, "input_length": 5, "output_length": 1, "hash_ids": [9]})"
    "\n"
    R"({"chat_id": 9, "parent_chat_id": 7, "timestamp": 70.5, "input_length": 90, "output_length": 4, "hash_ids": [1, 2, 4, 5, 6, 7]})"
    "\n"
    R"({"chat_id": 10, "parent_chat_id": 9, "timestamp": 100, "input_length": 100, "output_length": 4})"
    "\n";

} // namespace

TEST_CASE("Bailian: seconds, a session per tree of chats, blocks of 16 tokens") {
  const Read read = read_whole(read_bailian(lines_of(chats, "trace")));
  REQUIRE(read.requests.size() == 4);
  const std::vector<RequestSpec>& of = read.requests;
  // One session after the other: chats 7, 9, 10, then 8, whose parent is not in the file.
  CHECK(of[0].arrival == Seconds{0});
  CHECK(of[1].arrival == Seconds{10});
  CHECK(of[3].arrival == Seconds{0.5});
  CHECK(of[3].session != of[0].session);
  CHECK_FALSE(of[3].follows);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(of[i].session == of[0].session);
    CHECK(of[i].turn == static_cast<int>(i));
    CHECK(of[i].follows == (i > 0));
  }
  CHECK(of[1].delay == Seconds{10}); // the file does not say when an answer ended
  CHECK(of[2].delay == Seconds{29.5});
  // The prompt's two whole blocks, then the answer as the next prompt has it, up to 70 tokens.
  REQUIRE(read.contents[0].size() == 5);
  CHECK(read.contents[0][1] == ContentPiece{2, Tokens{16}});
  CHECK(read.contents[0][2] == ContentPiece{4, Tokens{16}});
  CHECK(read.contents[0][4] == ContentPiece{6, Tokens{6}});
  // Blocks of another size.
  CHECK(refusal_of(read_bailian(lines_of(chats, "trace"), Tokens{512})) ==
        "trace:1: hash_ids has 3 numbers for 40 prompt tokens; expected at most one whole number per 512 prompt tokens "
        "(--trace-block N for blocks of another size)");
  CHECK(read_whole(read_bailian(lines_of(chats, "trace"), Tokens{14})).contents[3][0].tokens == Tokens{5});
}

TEST_CASE("AIPerf's sessions: a delay counts from the answer, a timestamp is an arrival; both in milliseconds") {
  const Read read = read_whole(read_aiperf_sessions(
      lines_of(R"({"session_id": "b", "timestamp": 1500, "input_length": 600, "output_length": 2, "hash_ids": [1, 2]})"
               "\n"
               R"({"session_id": "a", "timestamp": 500, "input_length": 7, "output_length": 2})"
               "\n"
               R"({"session_id": "b", "delay": 2000, "input_length": 700, "output_length": 3, "hash_ids": [1, 3]})"
               "\n"
               R"({"session_id": "a", "timestamp": 750, "input_length": 9, "output_length": 3})"
               "\n"
               R"({"timestamp": 900, "input_length": 5, "output_length": 1})"
               "\n",
               "trace")));
  REQUIRE(read.requests.size() == 5);
  const std::vector<RequestSpec>& of = read.requests;
  CHECK(of[0].prompt == Tokens{7}); // the session that starts first
  CHECK(of[1].delay == Seconds{0.25});
  CHECK(of[1].follows);
  CHECK(of[2].prompt == Tokens{5});
  CHECK(of[2].session == 0);
  CHECK(of[3].arrival == Seconds{1});
  CHECK(of[3].session == 2);
  CHECK(of[4].delay == Seconds{2});
  CHECK(of[4].follows);
  CHECK(read.contents[4][0] == ContentPiece{1, Tokens{512}});
}

TEST_CASE("Bailian: lines may be in any order, and a chat still follows its parent") {
  const std::size_t second = chats.find('\n', chats.find('\n') + 1) + 1;
  const Read sorted = read_whole(read_bailian(lines_of(chats, "trace")));
  const Read turned = read_whole(read_bailian(lines_of(chats.substr(second) + chats.substr(0, second), "trace")));
  CHECK(turned.requests == sorted.requests);
  CHECK(turned.contents == sorted.contents);
  // At one instant, whichever line is first.
  const auto line = [](int chat, int parent) {
    return R"({"timestamp": 5, "output_length": 1, "input_length": )" + std::to_string(chat) + R"(, "chat_id": )" +
           std::to_string(chat) + R"(, "parent_chat_id": )" + std::to_string(parent) + "}\n";
  };
  const Read instant = read_whole(read_bailian(lines_of(line(3, 2) + line(2, 1) + line(1, -1), "trace")));
  REQUIRE(instant.requests.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(instant.requests[i].prompt == Tokens{static_cast<std::int64_t>(i) + 1});
    CHECK(instant.requests[i].turn == static_cast<std::int32_t>(i));
    CHECK(instant.requests[i].delay == Seconds{0});
  }
}

TEST_CASE(
    "token ids: a request's content is its prompt, then its answer; requests may be in any order, or without ids") {
  const Read read = read_whole(read_token_ids(lines_of(
      R"({"input_toks": 1, "output_toks": 4, "arrival_time_ns": 3500000000, "input_tok_ids": [7], "output_tok_ids": null})"
      "\n"
      R"({"input_toks": 2, "output_toks": 1, "arrival_time_ns": 2000000000, "input_tok_ids": [7, 8], "output_tok_ids": [9]})"
      "\n"
      R"({"input_toks": 5, "output_toks": 1, "arrival_time_ns": 4000000000})",
      "trace")));
  REQUIRE(read.requests.size() == 3);
  CHECK(read.requests[0].arrival == Seconds{0});
  CHECK(read.contents[0] == std::vector<ContentPiece>{{7, Tokens{1}}, {8, Tokens{1}}, {9, Tokens{1}}});
  CHECK(read.requests[1].arrival == Seconds{1.5});
  CHECK(read.requests[1].output == Tokens{4});
  CHECK(read.contents[1].size() == 1);
  CHECK(read.requests[2].prompt == Tokens{5});
  CHECK(read.contents[2].empty());
}

TEST_CASE("token ids: sub_requests are a session, each after the tool of the one before") {
  const Read read = read_whole(read_token_ids(lines_of(
      R"({"arrival_time_ns": 1000000000, "input_toks": 3, "output_toks": 2})"
      "\n"
      R"({"session_id": "s", "arrival_time_ns": 2000000000, "sub_requests": [)"
      R"({"input_toks": 2, "output_toks": 1, "tool_duration_ns": 500000000, "input_tok_ids": [1, 2], "output_tok_ids": [3]}, )"
      R"({"input_toks": 4, "output_toks": 1, "input_tok_ids": [1, 2, 4, 5]}, {"input_toks": 6, "output_toks": 1}]})",
      "trace")));
  REQUIRE(read.requests.size() == 4);
  CHECK(read.requests[0].session == 0);
  CHECK_FALSE(read.requests[1].follows);
  CHECK(read.requests[1].arrival == Seconds{1});
  CHECK(read.requests[2].follows);
  CHECK(read.requests[2].delay == Seconds{0.5});
  CHECK(read.requests[3].delay == Seconds{0});
  CHECK(read.requests[3].session == read.requests[1].session);
  // The answer is the file's, not what the next prompt has there.
  CHECK(read.contents[1] == std::vector<ContentPiece>{{1, Tokens{1}}, {2, Tokens{1}}, {3, Tokens{1}}});
}

TEST_CASE("token ids: each malformed line is reported in one line with its place") {
  const std::string head = R"({"input_toks": 2, "output_toks": 1, "arrival_time_ns": 5, )";
  const auto refusal = [&](const std::string& rest) {
    return refusal_of(read_token_ids(lines_of(head + rest + "}", "trace")));
  };
  CHECK(refusal(R"("input_tok_ids": 3)") ==
        "trace:1: input_tok_ids is missing or no list; expected a list of 2 token ids");
  CHECK(refusal(R"("input_tok_ids": [1])") == "trace:1: input_tok_ids has 1 ids; expected a list of 2 token ids");
  CHECK(refusal(R"("input_tok_ids": [1, -2])") ==
        "trace:1: input_tok_ids holds something else than whole numbers from 0; expected a list of 2 token ids");
  CHECK(refusal(R"("sub_requests": 3)") == "trace:1: sub_requests is no list; expected a list of requests");
  CHECK(refusal(R"("sub_requests": [3])") ==
        "trace:1: sub_request 1: this is no object; expected input_toks and output_toks");
  CHECK(refusal(R"("sub_requests": [{"input_toks": 2}])") ==
        "trace:1: sub_request 1: output_toks is missing; expected a whole number from 0 to 268435456");
  const std::string session =
      R"({"session_id": "a", "arrival_time_ns": 5, "sub_requests": [{"input_toks": 1, "output_toks": 1}]})";
  CHECK(refusal_of(read_token_ids(lines_of(session + "\n" + session, "trace"))) ==
        "trace:2: session_id a is there twice; expected once, with all its sub_requests");
  CHECK(refusal_of(read_token_ids(lines_of(R"({"arrival_time_ns": 5, "sub_requests": []})", "trace"))) ==
        "trace: the trace holds no request; expected at least one request");
}

TEST_CASE("BurstGPT: failed lines are left out and counted, turns of a session follow each other") {
  const std::string head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";
  const std::string plain = head + "5,ChatGPT,472,18,490,Conversation log\n6,ChatGPT,0,0,0,Conversation log\n"
                                   "7,ChatGPT,9,0.0,9,API log\n45,GPT-4,417,276,693,Conversation log\n";
  const Read read = read_whole(read_burstgpt(lines_of(plain, "trace")));
  REQUIRE(read.requests.size() == 2);
  CHECK(read.remark == "2 failed requests of 0 tokens left out");
  CHECK(read.requests[1].arrival == Seconds{40});
  CHECK(read.requests[1].session == 0);
  CHECK_FALSE(read.requests[1].follows);
  CHECK(read_whole(read_burstgpt(lines_of(plain, "trace"), 1)).requests.size() == 1);
  CHECK(refusal_of(read_burstgpt(lines_of(head + "6,ChatGPT,0,0,0,Conversation log\n", "trace"))) ==
        "trace: the trace holds no request, 1 failed request of 0 tokens left out; expected at least one request");

  const Read turns = read_whole(read_burstgpt(
      lines_of("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
               "5,x,3.5,ChatGPT,10,20,30,Conversation log\n6,y,1,ChatGPT,1,1,2,Conversation log\n"
               "45,x,4,ChatGPT,50,2,52,Conversation log\n",
               "trace"),
      1)); // every line is read: a session's next turn may be the last
  REQUIRE(turns.requests.size() == 3);
  CHECK(turns.requests[1].follows);
  CHECK(turns.requests[1].delay == Seconds{36.5});
  CHECK(turns.requests[2].arrival == Seconds{1});
}

TEST_CASE("a malformed line of a session is reported in one line") {
  const std::string good = R"({"chat_id": 7, "timestamp": 60, "input_length": 4, "output_length": 3})"
                           "\n";
  CHECK(refusal_of(read_bailian(lines_of(good + good, "t"))) == "t:2: chat_id 7 is there twice; expected once");
  CHECK(refusal_of(read_bailian(lines_of(
            good + R"({"chat_id": 8, "parent_chat_id": 7, "timestamp": 59, "input_length": 4, "output_length": 3})",
            "t"))) ==
        "t:2: it arrives before its parent, chat_id 7; expected a timestamp of at least the parent's, in line 1");
  const auto chat = [](const char* ids) {
    return R"({"timestamp": 60, "input_length": 4, "output_length": 3, )" + std::string{ids} + "}\n";
  };
  CHECK(refusal_of(read_bailian(lines_of(good + chat(R"("chat_id": 8, "parent_chat_id": 8)"), "t"))) ==
        "t:2: chat_id 8 is its own parent; expected an earlier chat, or -1");
  CHECK(
      refusal_of(read_bailian(lines_of(
                     chat(R"("chat_id": 8, "parent_chat_id": 9)") + chat(R"("chat_id": 9, "parent_chat_id": 8)"), "t")))
          .find("descends from itself; expected an earlier chat, or -1") != std::string::npos);
  CHECK(refusal_of(read_bailian(lines_of(R"({"chat_id": {}, "timestamp": 1, "input_length": 4, "output_length": 3})",
                                         "t"))) == "t:1: chat_id is a JSON object; expected a number or a text");
  CHECK(refusal_of(read_bailian(lines_of("", "t"))) == "t: the trace holds no request; expected at least one request");
  const std::string first = R"({"session_id": "a", "delay": 3, "input_length": 4, "output_length": 3})";
  CHECK(refusal_of(read_aiperf_sessions(lines_of(first, "t"))) ==
        "t:1: delay belongs to a session's first request; expected timestamp, in milliseconds");
  CHECK(refusal_of(
            read_aiperf_sessions(lines_of(R"({"session_id": "a", "input_length": 4, "output_length": 3})", "t"))) ==
        "t:1: timestamp is missing; expected milliseconds, 0 or more");
}

TEST_CASE("a trace that was recognised says what it was read as, with its first and last arrival") {
  const sluice_test::TemporaryFolder folder;
  const std::string path = (folder.path / "trace").string();
  const auto caption = [&](const std::string& text, const TraceFlags& flags = {}) -> std::string {
    std::ofstream(path) << text;
    const Expected<TraceFile> file = find_trace(path, flags);
    if (!file) return file.error().line();
    Expected<Trace> trace = open_trace(*file, {.rate_scale = 2}, Seconds{1});
    if (!trace) return trace.error().line();
    const Expected<std::vector<RequestSpec>> requests = read_all(*trace);
    if (!requests) return requests.error().line();
    return taken_for_text(trace->workload(), *requests);
  };
  CHECK(caption(chats) ==
        "read as Bailian's usage trace (chat_id), timestamps in seconds: arrivals from 0 to 39.5 s as "
        "recorded, later turns after the answer before");
  const std::string mooncake = R"({"timestamp": 1000, "input_length": 40, "output_length": 3})"
                               "\n"
                               R"({"timestamp": 1500, "input_length": 40, "output_length": 3, "hash_ids": [1, 2, 3]})"
                               "\n";
  CHECK(caption(mooncake).find(":2: hash_ids has 3 numbers for 40 prompt tokens") != std::string::npos);
  CHECK(caption(mooncake, {.block = 16}) == "read as Mooncake's trace (input_length), timestamps in "
                                            "milliseconds: arrivals from 0 to 0.5 s");
  CHECK(caption(mooncake, {.format = "mooncake", .block = 16}).empty()); // the user said so
  // GuideLLM's traces have the same fields, and seconds.
  const std::string halves = R"({"timestamp": 0, "input_length": 40, "output_length": 3})"
                             "\n"
                             R"({"timestamp": 0.5, "input_length": 40, "output_length": 3})"
                             "\n";
  CHECK(caption(halves) == path +
                               ":2: timestamp has a fraction, and whole milliseconds are expected; expected --format "
                               "mooncake --trace-columns unit=s, or another unit");
  CHECK(caption(halves, {.format = "mooncake"}).empty());
  CHECK(caption(halves, {.format = "mooncake", .columns = "unit=s"}).empty());
  CHECK(caption(halves, {.format = "mooncake", .columns = "unit=s,prompt=in"}) ==
        "--trace-columns: the format is 'mooncake'; expected --format csv, or none, or unit= alone with --format "
        "mooncake");
  CHECK(caption(halves, {.format = "mooncake", .columns = "arrival=arrival"}).find("--trace-columns: the format is") ==
        0);
  CHECK(caption(chats, {.format = "mooncake"}) == path + ":1: it has chat_id, which is no field of Mooncake's traces; "
                                                         "expected --format bailian, or a line without it");
  CHECK(caption("arrival,prompt,output\n0,1,1\n", {.block = 16}) ==
        "--trace-block: the format csv has no hashes of blocks, or fixes their size; expected no such flag, or a trace "
        "of bailian, aiperf, mooncake");
  CHECK(caption(chats, {.benchmark = 1}).find("--benchmark: the format is bailian") == 0);
  CHECK(caption(R"({"a": 1, "b": {"chat_id": 3}})")
            .find("is a trace in no known format, and its fields are a, b; expected") != std::string::npos);
}

TEST_CASE("every format has a kind, every kind a sign, and no kind hides another") {
  const sluice_test::TemporaryFolder folder;
  const std::string path = (folder.path / "trace").string();
  for (const TraceKind& kind : trace_kinds()) {
    INFO(kind.name);
    CHECK(find_format(name(kind.format)));
    std::string text = kind.list   ? "[ {\n"
                       : kind.json ? "{\n"
                                   : ""; // also where an object begins on one line and continues on the next
    for (const std::string_view sign : kind.signs)
      if (!sign.empty())
        text += kind.json ? "\"" + std::string{sign} + "\": [{\"chat_id\": 1}],\n" : std::string{sign} + ";";
    std::ofstream(path) << text + (kind.json ? "\"x\": 0}" : "x\n");
    const Expected<const TraceKind*> told = recognise(path);
    REQUIRE(told);
    CHECK(*told == &kind);
  }
}

TEST_CASE("a file of no requests is refused by its name, with what would be right") {
  const sluice_test::TemporaryFolder folder;
  const std::string path = (folder.path / "trace").string();
  const auto refusal = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    const Expected<TraceFile> file = find_trace(path);
    return file ? "no error" : file.error().line();
  };
  const auto line = [&](std::string_view name, std::string_view right) {
    return "--trace: '" + path + "' is a trace in no known format, and it is " + std::string{name} + "; expected " +
           std::string{right};
  };
  for (const OtherKind& kind : other_kinds()) {
    INFO(kind.name);
    std::string fields, columns;
    for (const std::string_view sign : kind.signs) {
      if (sign.empty()) continue;
      if (kind.form == OtherKind::Form::text)
        CHECK(refusal(std::string{sign} + " 3\nx") == line(kind.name, kind.right));
      fields += "\"" + std::string{sign} + "\": Infinity, ";
      columns += std::string{sign} + ",";
    }
    if (kind.form == OtherKind::Form::object) CHECK(refusal("{" + fields + "\"x\": 1}") == line(kind.name, kind.right));
    if (kind.form == OtherKind::Form::list)
      CHECK(refusal("[\n{" + fields + "\"x\": 1}]") == line(kind.name, kind.right));
    if (kind.form == OtherKind::Form::table) CHECK(refusal(columns + "x,y\n1\n") == line(kind.name, kind.right));
  }
  CHECK(refusal("[{\"timestamp\": 0, \"input_length\": 3}]") ==
        line("one JSON list of objects of Mooncake's trace (input_length)", "one object per line (jq -c '.[]')"));
  CHECK(refusal("# a comment\n1,2,3\n").find("and its first line is '# a comment'; expected") != std::string::npos);
}
