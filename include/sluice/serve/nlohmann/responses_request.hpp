// SPDX-License-Identifier: Apache-2.0
// read_response_request: parses the bodies of /v1/responses, which express a chat with other fields.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/nlohmann/openai_fields.hpp"
#include "sluice/serve/openai_reply.hpp"

#include <optional>
#include <string_view>

namespace sluice {

/// Reads a body of `/v1/responses` into `into`, like read_completion for a chat.
[[nodiscard]] std::optional<ApiError> read_response_request(std::string_view body, Completion& into,
                                                            UnknownFields unknown);

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/nlohmann/responses_request.inl.hpp"
#endif
