// SPDX-License-Identifier: Apache-2.0
// --chat-format: the spelling of a conversation, where the model's own template is not a known one.
#pragma once

#include "sluice/model/tokenizer/chat.hpp"

#include "shared/flags.hpp"

#include <optional>
#include <string>
#include <string_view>

inline void add_chat_format(Flags& flags, std::optional<sluice::ChatFormat>& format) {
  flags.other("--chat-format",
              "how a conversation is spelled: " + sluice::chat_format_names() +
                  " (default: as the model's chat_template spells it, if that is a known one)",
              [&format](std::string_view text) -> std::string {
                const sluice::Expected<sluice::ChatFormat> found = sluice::find_chat_format(text, "--chat-format");
                if (!found) return found.error().expected;
                format = *found;
                return {};
              });
}
