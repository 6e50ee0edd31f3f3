// SPDX-License-Identifier: Apache-2.0
// --host-cache and --disk-cache: the demo model answers a second turn of a long chat from the host's memory and, after
// a restart, from the disk, in the same words; another key's owner finds nothing.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using sluice_test::Connection;
using sluice_test::needs_program;
using sluice_test::post;
using sluice_test::Response;
using sluice_test::ServerProcess;
using sluice_test::TemporaryFolder;

constexpr std::int64_t block_tokens = 16;

/// Decorates a test that needs `--disk-cache`.
doctest::skip needs_disk() {
#ifndef SLUICE_HAS_ISAL
  std::fprintf(stderr, "skipped: a test needs a build with ISA-L (Debian: libisal-dev)\n");
  return doctest::skip(true);
#else
  return needs_program("sluice-serve");
#endif
}

json ask(const ServerProcess& server, const json& messages, const std::string& key = {}, int tokens = 40) {
  const json body{{"messages", messages}, {"max_tokens", tokens}, {"temperature", 0}};
  Connection connection(server.port());
  const std::string header = key.empty() ? "" : "Authorization: Bearer " + key + "\r\n";
  connection.send(post("/v1/chat/completions", body.dump(), header + "Connection: close\r\n"));
  const Response response = connection.response();
  REQUIRE(response.status == 200);
  return json::parse(response.body);
}
std::string text_of(const json& answer) { return answer["choices"][0]["message"]["content"]; }
std::int64_t prompt_of(const json& answer) { return answer["usage"]["prompt_tokens"]; }
std::int64_t cached_of(const json& answer) { return answer["usage"]["prompt_tokens_details"]["cached_tokens"]; }
/// Tokens found in a tier.
double found(const ServerProcess& server, const std::string& tier) {
  return server.metric("sluice:tier_found_tokens_total{model_name=\"demo\",engine=\"0\",tier=\"" + tier + "\"}");
}
double of_tier(const ServerProcess& server, const std::string& metric, const std::string& tier) {
  return server.metric("sluice:tier_" + metric + "{model_name=\"demo\",engine=\"0\",tier=\"" + tier + "\"}");
}
double stored(const ServerProcess& server, const std::string& tier = "host") {
  return of_tier(server, "stored_blocks_total", tier);
}
/// Tokens loaded.
double hits(const ServerProcess& server) { return server.metric("vllm:external_prefix_cache_hits_total"); }
/// Bytes of KV over the link.
double crossed(const ServerProcess& server, const std::string& type) {
  return server.metric("vllm:kv_offload_total_bytes_total{model_name=\"demo\",engine=\"0\",transfer_type=\"" + type +
                       "\"}");
}
/// Whole blocks that have KV after this answer, whose last token has none.
std::int64_t blocks_after(const json& answer) {
  return (answer["usage"]["total_tokens"].get<std::int64_t>() - 1) / block_tokens;
}

json long_chat(int sentences = 30) {
  std::string question;
  for (int i = 0; i < sentences; ++i)
    question += "It was a dark night, and number " + std::to_string(i) + " was not at home. ";
  return json::array({{{"role", "user"}, {"content", question}}});
}
json with_answer(json messages, const json& answer) {
  messages.push_back({{"role", "assistant"}, {"content", text_of(answer)}});
  messages.push_back({{"role", "user"}, {"content", "And then?"}});
  return messages;
}

} // namespace

TEST_CASE("a second turn of a long chat comes from the host, and after a restart from the disk" * needs_disk()) {
  const json chat = long_chat();
  json first, second;
  {
    const ServerProcess plain({"--model", "demo"});
    first = ask(plain, chat);
    second = ask(plain, with_answer(chat, first));
    CHECK_FALSE(first["usage"].contains("prompt_tokens_details"));
    CHECK(found(plain, "host") < 0);
  }
  const TemporaryFolder folder;
  const std::vector<std::string> flags{"--model",      "demo", "--host-cache", "64MiB",
                                       "--host-reuse", "all",  "--disk-cache", (folder.path / "kv").string() + ":1GB"};
  std::int64_t cached = 0;
  {
    ServerProcess server(flags);
    const json one = ask(server, chat);
    CHECK(text_of(one) == text_of(first));
    CHECK(cached_of(one) == 0);
    REQUIRE(ServerProcess::eventually([&] { return stored(server) == static_cast<double>(blocks_after(one)); }));
    REQUIRE(ServerProcess::eventually([&] { return stored(server, "disk") == stored(server); }));
    CHECK(of_tier(server, "used_bytes", "disk") > of_tier(server, "used_bytes", "host")); // records have a head
    CHECK(of_tier(server, "capacity_bytes", "disk") == 1e9);
    CHECK(of_tier(server, "waiting_blocks", "disk") == 0);
    CHECK(of_tier(server, "faults_total", "disk") == 0);
    CHECK(of_tier(server, "refused_blocks_total", "host") == 0);
    const double block = crossed(server, "GPU_to_CPU") / static_cast<double>(blocks_after(one)); // bytes
    CHECK(block > 0);
    CHECK(crossed(server, "CPU_to_GPU") == 0);
    const json two = ask(server, with_answer(chat, first));
    CHECK(text_of(two) == text_of(second));
    cached = cached_of(two);
    CHECK(cached % block_tokens == 0);
    CHECK(cached >= prompt_of(one) / block_tokens * block_tokens); // and as much of the answer as is spelt alike
    CHECK(cached < prompt_of(two));
    CHECK(found(server, "host") == static_cast<double>(cached));
    CHECK(found(server, "disk") == 0);
    CHECK(hits(server) == static_cast<double>(cached));
    CHECK(server.metric("vllm:external_prefix_cache_queries_total") ==
          static_cast<double>(prompt_of(one) + prompt_of(two)));
    CHECK(crossed(server, "CPU_to_GPU") == block * static_cast<double>(cached / block_tokens));
    CHECK(server.metric("vllm:kv_offload_load_bytes_total") == crossed(server, "CPU_to_GPU"));
    const json tier = json::parse(sluice_test::get(server.port(), "/live/state"))["engine"]["tier"];
    CHECK(tier["found"] == cached);
    CHECK(tier["loaded"] == cached);
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  }
  const ServerProcess again(flags);
  const json two = ask(again, with_answer(chat, first));
  CHECK(text_of(two) == text_of(second));
  CHECK(cached_of(two) >= cached); // the last turn's own blocks are there, too
  CHECK(cached_of(two) == (prompt_of(two) - 1) / block_tokens * block_tokens);
  CHECK(found(again, "disk") == static_cast<double>(cached_of(two)));
}

TEST_CASE("a hundred follow-ups that come at once after the answer all hit" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "demo", "--host-cache", "64MiB", "--host-reuse", "all"});
  int hits = 0;
  for (int chat = 0; chat < 100; ++chat) {
    const json question = json::array(
        {{{"role", "user"},
          {"content", "It was night, and number " + std::to_string(chat) + " was not at home when we came."}}});
    const json one = ask(server, question, {}, 2);
    if (cached_of(ask(server, with_answer(question, one), {}, 1)) >= blocks_after(one) * block_tokens &&
        blocks_after(one) > 0)
      ++hits;
  }
  CHECK(hits == 100);
}

TEST_CASE("what is not faster to load is computed: the same tokens, and the usage says which" *
          needs_program("sluice-serve")) {
  const json chat = long_chat(6);
  json one, two;
  for (const std::string reuse : {"all", "if-faster", "within-slos"}) {
    CAPTURE(reuse);
    // The slow link has some 30 tokens of KV per second, less than any machine computes.
    const std::string link = reuse == "all" ? "2MB/s" : "100KB/s";
    const ServerProcess server({"--model", "demo", "--host-cache", "64MiB", "--host-reuse", reuse, "--link", link});
    const json first = ask(server, chat);
    REQUIRE(ServerProcess::eventually([&] { return stored(server) == static_cast<double>(blocks_after(first)); }));
    const double block = crossed(server, "GPU_to_CPU") / static_cast<double>(blocks_after(first));
    const json second = ask(server, with_answer(chat, first));
    if (one.is_null()) {
      one = first;
      two = second;
    }
    CHECK(text_of(first) == text_of(one));
    CHECK(text_of(second) == text_of(two));
    CHECK(found(server, "host") == static_cast<double>(cached_of(two)));
    CHECK(cached_of(two) > 0);
    if (reuse != "all") CHECK(cached_of(second) < cached_of(two));
    CHECK(hits(server) == static_cast<double>(cached_of(second)));
    CHECK(crossed(server, "CPU_to_GPU") == block * static_cast<double>(cached_of(second) / block_tokens));
  }
}

TEST_CASE("systems that cache on the device serve: a prompt asked again is found there, and the answer is the same" *
          needs_program("sluice-serve")) {
  const json chat = long_chat();
  const std::string wanted = text_of(ask(ServerProcess({"--model", "demo"}), chat));
  for (const std::string system :
       {"VllmPrefixCaching", "VllmOffload", "Lmcache", "HiCache", "HiCacheBack", "HiCacheIfFaster", "HiCacheWithinSlos",
        "HiCacheHints", "Kvbm", "CachedAttention", "AdaptiveOffload", "Continuum", "InferCept", "KvFlow"}) {
    CAPTURE(system);
    std::vector<std::string> flags{"--model", "demo", "--system", system};
    if (system != "VllmPrefixCaching") flags.insert(flags.end(), {"--host-cache", "64MiB"});
    const ServerProcess server(flags);
    const json first = ask(server, chat), second = ask(server, chat);
    CHECK(text_of(first) == wanted);
    CHECK(text_of(second) == wanted);
    CHECK(first["usage"].value("/prompt_tokens_details/cached_tokens"_json_pointer, 0) == 0);
    CHECK(cached_of(second) == (prompt_of(first) - 1) / block_tokens * block_tokens);
  }
}

TEST_CASE("what a key's owner has asked is found by requests with that key only" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "demo", "--host-cache", "64MiB", "--host-reuse", "all", "--api-key", "alice-1",
                              "--api-key", "bob-2"});
  const json chat = long_chat();
  const json one = ask(server, chat, "alice-1");
  REQUIRE(ServerProcess::eventually([&] { return stored(server) == static_cast<double>(blocks_after(one)); }));
  CHECK(cached_of(ask(server, chat, "bob-2")) == 0);
  CHECK(cached_of(ask(server, chat, "alice-1")) == (prompt_of(one) - 1) / block_tokens * block_tokens);
}

TEST_CASE("kv_hints: release and keep say what reaches the host, ttl what stays there; what is not used is refused" *
          needs_program("sluice-serve")) {
  const auto with = [](const ServerProcess& server, const json& messages, const json& hints) {
    const json body{{"messages", messages}, {"max_tokens", 8}, {"temperature", 0}, {"kv_hints", hints}};
    Connection connection(server.port());
    connection.send(post("/v1/chat/completions", body.dump(), "Connection: close\r\n"));
    return connection.response();
  };
  const auto used = [&](const ServerProcess& server, const json& messages, const json& hints) {
    const Response response = with(server, messages, hints);
    REQUIRE(response.status == 200);
    return json::parse(response.body);
  };
  const auto chat_of = [](int number) {
    return json::array(
        {{{"role", "user"}, {"content", std::to_string(number) + long_chat()[0]["content"].get<std::string>()}}});
  };
  std::int64_t whole = 0; // blocks of such a chat
  {
    const ServerProcess server({"--model", "demo", "--host-cache", "64MiB", "--host-reuse", "all"});
    (void)used(server, chat_of(1), {{"release", true}});
    CHECK(cached_of(ask(server, chat_of(1), {}, 8)) == 0);
    (void)used(server, chat_of(2), {{"keep", 5 * block_tokens + 3}});
    CHECK(cached_of(ask(server, chat_of(2), {}, 8)) == 5 * block_tokens);
    const json one = used(server, chat_of(3), {{"ttl", 600}});
    whole = blocks_after(one);
    CHECK(cached_of(ask(server, chat_of(3), {}, 8)) == (prompt_of(one) - 1) / block_tokens * block_tokens);
    CHECK(of_tier(server, "pinned_bytes", "host") > 0);
    const json refused = json::parse(with(server, chat_of(4), {{"prefetch", 5}}).body);
    CHECK(refused["error"]["message"] == "kv_hints: this server does not use prefetch; expected no other than ttl, "
                                         "keep, release");
  }
  {
    // Room for two such chats: of three, one with a ttl stays although it is the oldest.
    const double block = [&] {
      const ServerProcess server({"--model", "demo", "--host-cache", "64MiB"});
      const auto blocks = static_cast<double>(blocks_after(ask(server, chat_of(0))));
      REQUIRE(ServerProcess::eventually([&] { return stored(server) == blocks; }));
      return of_tier(server, "used_bytes", "host") / blocks;
    }();
    const auto room = static_cast<std::int64_t>(block * static_cast<double>(2 * whole + 8));
    for (const bool hinted : {false, true}) {
      CAPTURE(hinted);
      const ServerProcess server({"--model", "demo", "--host-cache", std::to_string(room), "--host-reuse", "all"});
      (void)used(server, chat_of(5), hinted ? json{{"ttl", 3600}} : json{{"keep", 1'000'000}});
      for (const int other : {6, 7}) (void)ask(server, chat_of(other), {}, 8);
      const std::int64_t cached = cached_of(ask(server, chat_of(5), {}, 8));
      CHECK((cached >= (whole - 2) * block_tokens) == hinted);
    }
  }
  const ServerProcess plain({"--model", "demo"});
  const Response refused = with(plain, chat_of(4), {{"release", true}});
  CHECK(refused.status == 400);
  CHECK(json::parse(refused.body)["error"]["message"] ==
        "kv_hints: this server does not use release; expected no kv_hints, or a server that keeps KV on its host "
        "(--host-cache)");
}

TEST_CASE("--host-cache and --disk-cache that cannot work are one line" * needs_program("sluice-serve")) {
  const TemporaryFolder folder;
  const std::string here = folder.path.string();
  const auto check = [](const std::string& flags, const std::string& part) {
    sluice_test::check_refused("sluice-serve", flags, part);
  };
  check("--disk-cache " + here + ":1GB", "--disk-cache: blocks reach the disk through the host");
  check("--host-cache 1GB --disk-cache " + here, "expected DIR:SIZE");
  check("--host-cache 1GB --disk-cache :1GB", "expected DIR:SIZE");
  check("--host-cache 64", "--host-cache: a block of 16 tokens takes");
  check("--host-cache 1GB --record-clock " + here + "/c.csv", "does not have what earlier requests left");
  check("--host-cache 1GB --disk-cache " + here + ":1GB --tee VllmSwap", "--tee: its machine cannot use");
  check("--host-cache 1GB --simulate a100-80", "--host-cache: with --simulate there is no KV");
}

TEST_CASE("a folder of --disk-cache that cannot be made is one line" * needs_disk()) {
  const TemporaryFolder folder;
  sluice_test::check_refused("sluice-serve",
                             "--host-cache 1GB --disk-cache " + (folder.path / "missing/deep").string() + ":1GB",
                             "the folder cannot be made");
}
