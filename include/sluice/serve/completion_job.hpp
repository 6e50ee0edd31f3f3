// SPDX-License-Identifier: Apache-2.0
// CompletionJob: one completion request from its submission to the last byte of its response. responses_json,
// ResponseEvents: answers of /v1/responses, whole and streamed.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/openai_reply.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// StopStrings: ends an answer before a stop string, even if the string is split among pieces.

/// Filters an answer's text piece by piece, and holds back any suffix that may begin a stop string. Drops a stop string
/// and the text after it, or with `include` only the text after it. If one piece completes several stop strings, the
/// one that begins first counts.
class StopStrings {
 public:
  /// Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> stops = {}, bool include = false);

  /// Adds `piece` and returns the text that can be sent now.
  [[nodiscard]] std::string push(std::string_view piece);
  /// Returns the text held back, for an answer that ends without a stop string.
  [[nodiscard]] std::string finish() { return std::exchange(held_, {}); }
  /// Returns whether a stop string has ended the answer.
  [[nodiscard]] bool hit() const { return hit_; }

 private:
  /// Returns the length of the longest suffix of the held text with which `stop` begins.
  [[nodiscard]] std::size_t begun(const std::string& stop) const;

  std::vector<std::string> stops_;
  bool include_ = false;
  std::string held_;
  bool hit_ = false;
};

/// Turns the events of a request's generations into its response, which the exchange gets in pieces. Independent of
/// engine and transport: `to_cancel` returns the generations that the caller must cancel.
class CompletionJob {
 public:
  /// `prompts`: the tokens of each prompt. Each has `request.choices` generations, in this order. `tokenizer` must
  /// outlive the job.
  CompletionJob(ReplyHead head, Completion request, std::vector<std::vector<std::int32_t>> prompts,
                const Tokenizer& tokenizer, std::unique_ptr<Exchange> exchange);

  [[nodiscard]] std::size_t answers() const { return answers_.size(); }
  [[nodiscard]] bool over() const { return over_; }
  /// Returns whether the head of a stream was sent, after which the HTTP status cannot change.
  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] const TokenUsage& usage() const { return usage_; }
  /// Returns whether a stop string or a stop token has ended answer `at`.
  [[nodiscard]] bool stopped(std::size_t at) const { return answers_[at].stopped; }
  [[nodiscard]] Exchange& exchange() { return *exchange_; }

  /// Adds an event to answer `at`; `flush` sends the result.
  void take(std::size_t at, const GenerationEvent& event);

  /// Sends the result of all events since the last call, in one piece.
  void flush();
  /// Whether every answer has ended, so that the next `flush` sends the last byte.
  [[nodiscard]] bool ends() const;
  /// What the client is told besides the answer: in a stream as trailers, otherwise as headers.
  void tell(HttpHeaders outcome) { outcome_ = std::move(outcome); }

  /// Answers whose generations are still running but no longer needed, because a stop string ended them or the request
  /// failed. Each is returned once.
  [[nodiscard]] std::vector<std::size_t> to_cancel() { return std::exchange(cancel_, {}); }

  /// Ends the request with an error, also if some of its answers have ended: an event in a stream, otherwise a status.
  void fail(const GenerationEvent& event);

  /// Ends the job because the client disconnected or the server stops: nothing more is sent.
  void abandon();

 private:
  struct Answer {
    Answer(const Tokenizer& tokenizer, const std::vector<std::string>& stop, bool include);

    TokenStream text;
    StopStrings stops;
    std::vector<ChunkWriter> chunks; ///< one element if the answer is streamed
    std::string echo;
    std::string whole;
    std::vector<TokenLogprob> logprobs; ///< of all tokens, or, in a stream, of those that no chunk has sent yet
    std::vector<std::int32_t> prompt;   ///< kept until its log-probabilities have arrived
    std::int64_t generated = 0;         ///< tokens
    FinishReason reason = FinishReason::stop;
    bool stopped = false; ///< by a stop string or a stop token
    bool ended = false;
    bool told = false; ///< the last chunk was written
  };

  void add(Answer& answer, std::int32_t token, std::span<const TokenChance> chances);
  /// `chances`: the token's own log-probability, then those of the likeliest tokens.
  [[nodiscard]] TokenLogprob logprob_of(std::span<const TokenChance> chances) const;
  [[nodiscard]] TokenLogprob::Likely likely(const TokenChance& chance) const;
  /// Returns the prompt's tokens with their log-probabilities.
  void add_prompt(Answer& answer, std::span<const std::vector<TokenChance>> chances);

  void end(Answer& answer, FinishReason reason);
  /// Returns the text that was held back for the other bytes of a character, or for a stop string.
  void pass_rest(Answer& answer);

  void pass(Answer& answer, std::string_view text);

  /// Sends the head of a stream, once every generation has been accepted.
  void begin();

  void respond_whole();

  ReplyHead head_;
  Completion request_;
  const Tokenizer* tokenizer_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<Answer> answers_;
  std::vector<std::size_t> cancel_;
  std::optional<ResponseEvents> events_; ///< of a streamed answer of /v1/responses
  std::string out_;                      ///< stream events for the next `flush`
  std::string forecast_;
  HttpHeaders outcome_;
  TokenUsage usage_;
  std::size_t accepted_ = 0;
  bool begun_ = false;
  bool over_ = false;
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/completion_job.inl.hpp"
#include "sluice/serve/responses_reply.inl.hpp"
#endif
