// SPDX-License-Identifier: Apache-2.0
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"

#include <csignal>
#include <string>

using namespace sluice_test;

namespace {

std::string complete(const ServerProcess& server, const std::string& body) {
  return asked(server.port(), "/v1/completions", body).response().body;
}

} // namespace

TEST_CASE("your_first_server: serves, uses its own gate, and ends after SIGTERM" * needs_program("your_first_server")) {
  ServerProcess server("your_first_server", {"0"});
  CHECK(complete(server, R"({"prompt":"ab","max_tokens":3})").find(R"("completion_tokens":3)") != std::string::npos);
  const std::string stream = complete(server, R"({"prompt":"ab","max_tokens":3,"stream":true})");
  CHECK(stream.find("data: [DONE]\n\n") != std::string::npos);
  CHECK(complete(server, R"({"prompt":")" + std::string(3'000, 'x') + R"("})")
            .find("the prompt has 3001 tokens; expected at most 2000") != std::string::npos);
  CHECK(server.metric("sluice:ended_total") == 2);
  CHECK(get(server.port(), "/whatif").find(R"("systems":["this server","VllmSwap","SuperInfer"])") !=
        std::string::npos);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("your_first_server: an invalid port is refused in a sentence" * needs_program("your_first_server")) {
  for (const char* port : {"70000", "-1", "80x", "''"})
    sluice_test::check_refused("your_first_server", port, "; expected a whole number from 0 to 65535");
}
