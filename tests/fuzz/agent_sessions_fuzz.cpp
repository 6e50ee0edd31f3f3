// SPDX-License-Identifier: Apache-2.0
// A session of a coding agent; the content of its requests is never longer than prompt and answer.
#include "sluice/workload/nlohmann/agent_sessions.hpp"

#include "fuzz/fuzz_support.hpp"

SLUICE_FUZZ_TARGET(agent_sessions) {
  const std::string text = sluice_test::text_of(data, size);
  auto reader = sluice::AgentSessionsReader::from_text(text, "session.json");
  if (!reader) {
    sluice_test::require_one_line(reader.error());
    return 0;
  }
  sluice_test::drain(*reader);
  auto again = sluice::AgentSessionsReader::from_text(text, "session.json");
  for (bool first = true;; first = false) {
    const auto request = again->next();
    if (!request || !*request) break;
    const sluice::RequestSpec& spec = **request;
    sluice_test::require(spec.follows == !first, "every request but the first follows the one before it");
    sluice_test::require(spec.delay >= sluice::Seconds{0} && spec.delay <= sluice::AgentSessionsReader::longest_delay,
                         "a delay in range");
    sluice::Tokens known{0};
    for (const sluice::ContentPiece& piece : again->content()) {
      sluice_test::require(piece.tokens.count() > 0, "no piece is empty");
      known += piece.tokens;
    }
    sluice_test::require(known <= spec.prompt + spec.output, "the content is at most prompt and answer");
  }
  return 0;
}
