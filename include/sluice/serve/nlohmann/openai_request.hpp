// SPDX-License-Identifier: Apache-2.0
// read_completion: parses the bodies of /v1/chat/completions and /v1/completions.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/completion.hpp"
#include "sluice/serve/nlohmann/openai_fields.hpp"
#include "sluice/serve/nlohmann/openai_sampling.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {

void read_messages(CompletionFields& fields, UnknownFields unknown, std::vector<ChatMessage>& into);

void read_prompts(CompletionFields& fields, std::vector<CompletionPrompt>& into);

void read_slo(CompletionFields& fields, Slo& into);

} // namespace detail

/// Parses the body of a request. Refuses deep nesting first, because copying and comparing JSON values is recursive.
[[nodiscard]] Expected<nlohmann::json> parse_body(std::string_view body);

/// Reads a body of `/v1/chat/completions` (`chat`) or `/v1/completions` into `into`. Returns the error for the client,
/// if any. An unsupported field causes an error that names it (see `refuse_fields`).
[[nodiscard]] std::optional<ApiError> read_completion(std::string_view body, bool chat, Completion& into,
                                                      UnknownFields unknown = UnknownFields::refused);

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/nlohmann/openai_request.inl.hpp"
#endif
