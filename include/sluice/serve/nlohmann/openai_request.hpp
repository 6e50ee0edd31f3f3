// SPDX-License-Identifier: Apache-2.0
// read_completion: parses the bodies of /v1/chat/completions and /v1/completions. read_response_request: parses those
// of /v1/responses, which express a chat with other fields.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/nlohmann/openai_fields.hpp"
#include "sluice/serve/openai_reply.hpp"
#include "sluice/workload/request.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {

void read_messages(CompletionFields& fields, UnknownFields unknown, std::vector<ChatMessage>& into);

void read_prompts(CompletionFields& fields, std::vector<CompletionPrompt>& into);

void read_slo(CompletionFields& fields, Slo& into);

void read_kv_hints(CompletionFields& fields, SessionHints& into);

} // namespace detail

/// Parses the body of a request. Refuses deep nesting first, because copying and comparing JSON values is recursive.
[[nodiscard]] Expected<nlohmann::json> parse_body(std::string_view body);

/// Reads a body of `/v1/chat/completions` (`chat`) or `/v1/completions` into `into`. Returns the error for the client,
/// if any. An unsupported field causes an error that names it (see `refuse_fields`). `effort`: the `reasoning_effort`
/// that a chat has in any case (`fixed_effort`).
[[nodiscard]] std::optional<ApiError> read_completion(std::string_view body, bool chat, Completion& into,
                                                      UnknownFields unknown = UnknownFields::refused,
                                                      std::string_view effort = "none");

/// Reads a body of `/v1/responses` into `into`, like read_completion for a chat.
[[nodiscard]] std::optional<ApiError> read_response_request(std::string_view body, Completion& into,
                                                            UnknownFields unknown, std::string_view effort = "none");

// Reads a request's headers: content type, SLO.

/// Returns whether the content type is JSON, or is absent in a request that does not come from a web page. A page of
/// any origin can make a browser post plain text or a body without a type, without a CORS preflight, and so use a
/// server that the page's reader can reach.
[[nodiscard]] bool says_json(const HttpHeaders& headers);

/// Reads x-slo-ttft-ms and x-slo-tbt-ms, which override the body's SLO.
[[nodiscard]] std::optional<ApiError> read_slo_headers(const HttpHeaders& headers, Slo& slo);

} // namespace sluice

// read_messages: the conversation of a chat request, with tool calls and their results.
namespace sluice::detail {

[[nodiscard]] std::optional<ApiError> read_message(const nlohmann::json& message, const std::string& param,
                                                   UnknownFields unknown, std::vector<ChatMessage>& into);

} // namespace sluice::detail

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/nlohmann/openai_request.inl.hpp"
#include "sluice/serve/nlohmann/responses_request.inl.hpp"
#endif
