// SPDX-License-Identifier: Apache-2.0
// responses_json, ResponseEvents: answers of /v1/responses, whole and streamed.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/openai_reply.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {
/// Writes the body of a response that is not streamed. An answer that reached its length limit is incomplete.
[[nodiscard]] std::string responses_json(const ReplyHead& head, const std::string& text, FinishReason reason,
                                         const TokenUsage& usage);

/// Writes the events of a streamed response, which are numbered.
class ResponseEvents {
 public:
  explicit ResponseEvents(ReplyHead head) : head_(std::move(head)) {}

  void begin(std::string& out);
  void text(std::string& out, std::string_view piece);
  void finish(std::string& out, FinishReason reason, const TokenUsage& usage);
  /// Writes an error in the middle of the stream.
  void fail(std::string& out, const ApiError& error);

 private:
  void place(JsonWriter& json) const;
  template <class Write>
  void event(std::string& out, std::string_view type, const Write& write) {
    out += "event: ";
    out += type;
    out += "\ndata: ";
    JsonWriter json(out);
    json.begin_object().key("type").value(type).key("sequence_number").value(number_++);
    write(json);
    json.end_object();
    out += "\n\n";
  }

  ReplyHead head_;
  std::string text_;
  std::int64_t number_ = 0;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/responses_reply.inl.hpp"
#endif
