// SPDX-License-Identifier: Apache-2.0
// read_messages: the conversation of a chat request, with tool calls and their results.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/serve/nlohmann/openai_fields.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace sluice::detail {

[[nodiscard]] std::optional<ApiError> read_message(const nlohmann::json& message, const std::string& param,
                                                   UnknownFields unknown, std::vector<ChatMessage>& into);

} // namespace sluice::detail

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/nlohmann/openai_messages.inl.hpp"
#endif
