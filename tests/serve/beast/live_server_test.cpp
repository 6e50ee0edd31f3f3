// SPDX-License-Identifier: Apache-2.0
#include "sluice/device/named.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/model/named.hpp"
#include "sluice/serve/beast/live_server.hpp"
#include "sluice/serve/drawn_tokens.hpp"
#include "sluice/serve/forecast_slo.hpp"
#include "sluice/serve/nlohmann/openai_setup.hpp"
#include "sluice/serve/what_if_engines.hpp"
#include "sluice/systems/one_at_a_time.hpp"
#include "sluice/systems/vllm.hpp"
#include "sluice/tokenizer/bytes.hpp"

#include "serve/beast/test_app.hpp"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>

using namespace sluice;
using sluice_test::soon;
namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

using E = With<VllmSwap, GenerationFeed>;

/// Refuses whoever asks for more tokens than that.
struct AnswerLimit {
  using role = roles::Gate;
  std::int64_t most = 1'000;

  GateAnswer answer(const Generation& newcomer, const auto& /*engine*/) const {
    GateAnswer answer;
    answer.admit = newcomer.max_tokens <= most;
    answer.error.message = "too much is asked";
    return answer;
  }
};

/// Says what it was made of, and that it heard of an engine.
class Oracle {
 public:
  using role = roles::WhatIf;
  struct Setup {
    std::string says;
  };
  explicit Oracle(Setup setup) : setup_(std::move(setup)) {}
  void hear(const auto& engine_thread) { heard_ = !engine_thread.ready(); }
  [[nodiscard]] std::string json() const { return fmt::format(R"({{"said":"{}","heard":{}}})", setup_.says, heard_); }
  void stop() {}

 private:
  Setup setup_;
  bool heard_ = false;
};

struct Both {
  using parts = Parts<QueueLimit, AnswerLimit>;
};

// The order of parts says nothing but which gate is asked first, and a bundle is its parts.
using Whole = LiveServer<E, OpenAi, QueueLimit, AnswerLimit, Oracle>;
static_assert(std::same_as<Whole, LiveServer<E, Oracle, Both, OpenAi>>);
static_assert(std::same_as<LiveServer<E, OpenAi>::connection_type, PlainHttp>);
static_assert(
    !std::same_as<LiveServer<E, OpenAi, QueueLimit, AnswerLimit>, LiveServer<E, OpenAi, AnswerLimit, QueueLimit>>);
static_assert(explain_server<E, OpenAi>());

/// A machine on which a token takes 25 ms.
const Server machine{llama3_8b(), a5000(), TokenBlocks{500}, {.batch = 2, .max_context = Tokens{4'096}}};
const ByteTokenizer tokenizer;

template <class S>
typename S::Config config() {
  return {.engine = configure<E>(machine),
          .tokens = std::make_shared<DrawnTokens>(*tokenizer.encode("letters", AddSpecial::no)),
          .api = openai_setup("llama3-8b", tokenizer, 4'096),
          .address = {.port = 0}};
}

/// A server on a thread of its own.
template <class S>
struct RunningLive {
  explicit RunningLive(typename S::Config wanted = config<S>()) : server(*S::make(std::move(wanted))) {
    thread = std::thread([this] { ended = server->run(); });
    for (int i = 0; i < 24000 && !server->ready(); ++i) std::this_thread::sleep_for(5ms);
    CHECK(server->ready()); // it answers 503 until then
  }
  ~RunningLive() {
    server->stop();
    if (thread.joinable()) thread.join();
  }
  /// The whole answer, head and body.
  std::string ask(const std::string& method, const std::string& target, const std::string& body = "") {
    asio::io_context context;
    asio::ip::tcp::socket socket(context);
    socket.connect({asio::ip::make_address("127.0.0.1"), server->port()});
    asio::write(socket, asio::buffer(fmt::format("{} {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: "
                                                 "{}\r\n\r\n{}",
                                                 method, target, body.size(), body)));
    std::string text;
    boost::system::error_code end;
    asio::read(socket, asio::dynamic_buffer(text), end);
    return text;
  }

  /// Whether /metrics say that one request runs.
  bool runs_one() {
    return ask("GET", "/metrics").find("vllm:num_requests_running{model_name=\"llama3-8b\",engine=\"0\"} 1\n") !=
           std::string::npos;
  }

  std::unique_ptr<S> server;
  std::thread thread;
  Status ended;
};

} // namespace

TEST_CASE("LiveServer serves its engine behind its API, gates and what-if") {
  Whole::Config wanted = config<Whole>();
  wanted.gates = {QueueLimit{64}, AnswerLimit{5}};
  wanted.what_if = {"all is well"};
  RunningLive<Whole> running(std::move(wanted));
  const std::string answer = running.ask("POST", "/v1/completions", R"({"prompt":"ab","max_tokens":3})");
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.find(R"("completion_tokens":3)") != std::string::npos);
  const std::string refused = running.ask("POST", "/v1/completions", R"({"prompt":"ab","max_tokens":6})");
  CHECK(refused.starts_with("HTTP/1.1 400 "));
  CHECK(refused.find("too much is asked") != std::string::npos);
  CHECK(running.ask("GET", "/whatif").ends_with(R"({"said":"all is well","heard":true})"));
  CHECK(running.ask("GET", "/metrics").find("sluice:ended_total{model_name=\"llama3-8b\",engine=\"0\"} 1\n") !=
        std::string::npos);
}

TEST_CASE(
    "LiveServer with a forecast and a what-if refuses what cannot be kept, and says what another would have done") {
  using S = LiveServer<E, OpenAi, QueueLimit, ForecastSlo, WhatIf<OneAtATime>>;
  S::Config wanted = config<S>();
  wanted.gates = {QueueLimit{64}, ForecastSlo{.promises = Promises::hard}};
  wanted.what_if = {machine, what_if_system<E>(machine, "VllmSwap")};
  RunningLive<S> running(std::move(wanted));
  const auto asked = [&](const char* ttft_ms) {
    return running.ask("POST", "/v1/completions",
                       fmt::format(R"({{"prompt":"ab","max_tokens":3,"slo":{{"ttft_ms":{}}}}})", ttft_ms));
  };
  CHECK(asked("60000").starts_with("HTTP/1.1 200 OK\r\n"));
  const std::string refused = asked("0.01");
  CHECK(refused.starts_with("HTTP/1.1 429 "));
  CHECK(refused.find("predicted") != std::string::npos);
  CHECK(soon([&] {
    const std::string answer = running.ask("GET", "/whatif");
    return answer.find(R"("system":"VllmSwap")") != std::string::npos &&
           answer.find(R"("state":"done")") != std::string::npos;
  }));
}

TEST_CASE("LiveServer: a drain lets streams under way end, and run with them") {
  using S = LiveServer<E, OpenAi>;
  RunningLive<S> running;
  std::string stream;
  std::thread client(
      [&] { stream = running.ask("POST", "/v1/completions", R"({"prompt":"ab","max_tokens":40,"stream":true})"); });
  CHECK(soon([&] { return running.runs_one(); }));
  running.server->drain();
  running.thread.join(); // by itself
  client.join();
  CHECK(stream.find("data: [DONE]\n\n") != std::string::npos);
  CHECK(running.ended.ok());
}

TEST_CASE("LiveServer: TERM drains it, and its bound ends what does not end") {
  using S = LiveServer<E, OpenAi>;
  S::Config wanted = config<S>();
  wanted.drain_s = 0.05;
  RunningLive<S> running(std::move(wanted));
  std::string stream;
  std::thread client(
      [&] { stream = running.ask("POST", "/v1/completions", R"({"prompt":"ab","max_tokens":4000,"stream":true})"); });
  CHECK(soon([&] { return running.runs_one(); }));
  ::raise(SIGTERM);
  running.thread.join();
  client.join();
  CHECK(stream.find("[DONE]") == std::string::npos);
}

TEST_CASE("LiveServer says what is wrong with its configuration") {
  using S = LiveServer<E, OpenAi>;
  const RunningLive<S> running;
  const auto error_of = [&](auto change) {
    S::Config wanted = config<S>();
    change(wanted);
    const auto made = S::make(std::move(wanted));
    REQUIRE(!made);
    return made.error().line();
  };
  CHECK(error_of([](S::Config& c) { c.tokens = nullptr; }).starts_with("tokens: there is no source of tokens"));
  CHECK(error_of([&](S::Config& c) { c.address.port = running.server->port(); }).starts_with("--port: 127.0.0.1:"));
  CHECK(error_of([](S::Config& c) { c.engine.limits.batch = 0; }).find("batch") != std::string::npos);
}
