// SPDX-License-Identifier: Apache-2.0
// CompletionJob: one completion request from its submission to the last byte of its response.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/token_stream.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/serve/completion.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/openai_reply.hpp"
#include "sluice/serve/responses_reply.hpp"
#include "sluice/serve/stop_strings.hpp"

#include <algorithm>
#include <cmath>
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

/// Turns the events of a request's generations into its response, which the exchange gets in pieces. Independent of
/// engine and transport: `to_cancel` returns the generations that the caller must cancel.
class CompletionJob {
 public:
  /// `prompts`: the tokens of each prompt. Each has `request.choices` generations, in this order. `tokenizer` must
  /// outlive the job.
  CompletionJob(ReplyHead head, Completion request, std::vector<std::vector<std::int32_t>> prompts,
                const Tokenizer& tokenizer, std::unique_ptr<Exchange> exchange)
      : head_(std::move(head)), request_(std::move(request)), tokenizer_(&tokenizer), exchange_(std::move(exchange)) {
    for (std::size_t prompt = 0; prompt < prompts.size(); ++prompt) {
      usage_.prompt += static_cast<std::int64_t>(prompts[prompt].size());
      for (int choice = 0; choice < request_.choices; ++choice) {
        Answer& answer = answers_.emplace_back(tokenizer, request_.stop, request_.include_stop);
        if (!request_.chat) // a completion continues its prompt: the tokenizer keeps the space between them
          for (const std::int32_t token : prompts[prompt]) (void)answer.text.push(token);
        const std::string begun = request_.echo ? tokenizer.decode(prompts[prompt], SkipSpecial::yes) : std::string{};
        answer.echo = replace_broken_utf8(begun);
        if (request_.scores_prompt()) answer.prompt = prompts[prompt];
        if (request_.stream && request_.response) {
          events_.emplace(head_).begin(out_);
        } else if (request_.stream) {
          answer.chunks.emplace_back(head_, static_cast<std::int64_t>(answers_.size()) - 1, request_.include_usage);
        }
      }
    }
    request_.messages = {}; // freed: tokens replace the text, and the answer may take long
    request_.prompts = {};
  }

  [[nodiscard]] std::size_t answers() const { return answers_.size(); }
  [[nodiscard]] bool over() const { return over_; }
  /// Returns whether the head of a stream was sent, after which the HTTP status cannot change.
  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] const TokenUsage& usage() const { return usage_; }
  /// Returns whether a stop string or a stop token has ended answer `at`.
  [[nodiscard]] bool stopped(std::size_t at) const { return answers_[at].stopped; }
  [[nodiscard]] Exchange& exchange() { return *exchange_; }

  /// Adds an event to answer `at`; `flush` sends the result.
  void take(std::size_t at, const GenerationEvent& event) {
    if (over_) return;
    Answer& answer = answers_[at];
    if (answer.ended) return;
    switch (event.kind) {
    case GenerationEvent::Kind::accepted:
      if (!event.forecast.empty()) forecast_ = event.forecast;
      ++accepted_;
      break;
    case GenerationEvent::Kind::refused:
    case GenerationEvent::Kind::failed:
      fail(event);
      break;
    case GenerationEvent::Kind::tokens:
      // Once for each prompt, as its tokens are counted; further choices find what the first has found.
      if (event.cached && at % static_cast<std::size_t>(request_.choices) == 0)
        usage_.cached = usage_.cached.value_or(0) + *event.cached;
      if (!answer.prompt.empty()) add_prompt(answer, event.prompt_chances);
      if (request_.max_tokens == 0) break; // the engine generates at least one token
      for (std::size_t i = 0; i < event.tokens.size() && !answer.ended; ++i)
        add(answer, event.tokens[i],
            i < event.chances.size() ? std::span(event.chances[i]) : std::span<const TokenChance>{});
      break;
    case GenerationEvent::Kind::ended:
      end(answer, event.reason);
      break;
    }
  }

  /// Sends the result of all events since the last call, in one piece.
  void flush() {
    if (over_) return;
    if (request_.stream) {
      if (accepted_ < answers_.size()) return; // a refusal would change the HTTP status
      begin();
      for (Answer& answer : answers_)
        if (answer.ended && !answer.told && events_) {
          events_->finish(out_, answer.reason, usage_);
          answer.told = true;
        } else if (answer.ended && !answer.told) {
          answer.chunks.front().finish(out_, answer.reason, answer.logprobs.empty() ? nullptr : &answer.logprobs);
          answer.told = true;
        }
    }
    const bool all = std::all_of(answers_.begin(), answers_.end(), [](const Answer& answer) { return answer.ended; });
    if (request_.stream) {
      if (all) {
        if (request_.include_usage) out_ += usage_event(head_, usage_);
        if (!events_) out_ += done_event;
      }
      exchange_->send(out_);
      out_.clear();
      if (all) exchange_->finish();
    } else if (all) {
      respond_whole();
    }
    over_ = over_ || all; // `send` may have noticed that the client disconnected
  }

  /// Answers whose generations are still running but no longer needed, because a stop string ended them or the request
  /// failed. Each is returned once.
  [[nodiscard]] std::vector<std::size_t> to_cancel() { return std::exchange(cancel_, {}); }

  /// Ends the request with an error, also if some of its answers have ended: an event in a stream, otherwise a status.
  void fail(const GenerationEvent& event) {
    if (over_) return;
    for (std::size_t at = 0; at < answers_.size(); ++at)
      if (!answers_[at].ended) cancel_.push_back(at);
    over_ = true;
    if (begun_) { // too late for a status: the error becomes an event, and the stream ends without [DONE]
      std::string last;
      if (events_)
        events_->fail(last, event.error);
      else
        last = error_event(event.error);
      exchange_->send(last);
      exchange_->finish();
      return;
    }
    HttpResponse response = error_response(event.error);
    if (event.retry_after_s > 0) {
      const auto seconds = static_cast<std::int64_t>(std::ceil(event.retry_after_s));
      const auto milliseconds = static_cast<std::int64_t>(std::ceil(event.retry_after_s * 1e3));
      response.headers.add("Retry-After", std::to_string(seconds));
      response.headers.add("retry-after-ms", std::to_string(milliseconds));
    }
    exchange_->respond(std::move(response));
  }

  /// Ends the job because the client disconnected or the server stops: nothing more is sent.
  void abandon() {
    over_ = true;
    for (std::size_t at = 0; at < answers_.size(); ++at)
      if (!answers_[at].ended) cancel_.push_back(at);
  }

 private:
  struct Answer {
    Answer(const Tokenizer& tokenizer, const std::vector<std::string>& stop, bool include)
        : text(tokenizer), stops(stop, include) {}

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

  void add(Answer& answer, std::int32_t token, std::span<const TokenChance> chances) {
    ++usage_.completion;
    ++answer.generated;
    if (request_.logprobs >= 0 && !chances.empty()) answer.logprobs.push_back(logprob_of(chances));
    const bool may_stop = answer.generated > request_.rules.min_tokens;
    const bool stops = may_stop && std::find(request_.stop_tokens.begin(), request_.stop_tokens.end(), token) !=
                                       request_.stop_tokens.end();
    if (!stops || request_.include_stop) {
      const std::string text = replace_broken_utf8(answer.text.push(token));
      pass(answer, may_stop ? answer.stops.push(text) : text);
    }
    if (!answer.stops.hit() && !stops) return;
    if (!answer.stops.hit()) pass_rest(answer);
    answer.ended = answer.stopped = true;
    answer.reason = FinishReason::stop;
    cancel_.push_back(static_cast<std::size_t>(&answer - answers_.data()));
  }
  /// `chances`: the token's own log-probability, then those of the likeliest tokens.
  [[nodiscard]] TokenLogprob logprob_of(std::span<const TokenChance> chances) const {
    TokenLogprob one;
    one.chosen = likely(chances.front());
    one.shown = !tokenizer_->vocabulary().is_special(chances.front().token);
    for (const TokenChance& chance : chances.subspan(1)) one.likeliest.push_back(likely(chance));
    return one;
  }
  [[nodiscard]] TokenLogprob::Likely likely(const TokenChance& chance) const {
    return {std::string{tokenizer_->vocabulary().text_of(chance.token)}, chance.logprob};
  }
  /// Returns the prompt's tokens with their log-probabilities.
  void add_prompt(Answer& answer, std::span<const std::vector<TokenChance>> chances) {
    SLUICE_ASSERT(chances.size() + 1 == answer.prompt.size(), "chances of every token of the prompt but the first");
    const TokenChance first{answer.prompt.front(), 0};
    answer.logprobs.push_back(logprob_of(std::span{&first, 1}));
    answer.logprobs.back().known = false;
    for (const std::vector<TokenChance>& one : chances) answer.logprobs.push_back(logprob_of(one));
    answer.prompt = {};
    if (request_.stream) pass(answer, std::exchange(answer.echo, {}));
  }

  void end(Answer& answer, FinishReason reason) {
    pass_rest(answer);
    answer.ended = true;
    answer.stopped = answer.stops.hit();
    answer.reason = answer.stops.hit() ? FinishReason::stop : request_.max_tokens == 0 ? FinishReason::length : reason;
  }
  /// Returns the text that was held back for the other bytes of a character, or for a stop string.
  void pass_rest(Answer& answer) {
    pass(answer, answer.stops.push(replace_broken_utf8(answer.text.finish())));
    if (!answer.stops.hit()) pass(answer, answer.stops.finish());
  }

  void pass(Answer& answer, std::string_view text) {
    if (text.empty()) return;
    if (!request_.stream) {
      answer.whole += text;
      return;
    }
    if (events_) return events_->text(out_, text);
    answer.chunks.front().text(out_, text, request_.logprobs >= 0 ? &answer.logprobs : nullptr);
    answer.logprobs.clear();
  }

  /// Sends the head of a stream, once every generation has been accepted.
  void begin() {
    if (begun_) return;
    begun_ = true;
    HttpResponse head;
    head.type = "text/event-stream; charset=utf-8";
    head.headers.add("Cache-Control", "no-store");
    head.headers.add("X-Accel-Buffering", "no"); // otherwise nginx buffers the stream
    if (!forecast_.empty()) head.headers.add("x-sluice-forecast", forecast_);
    exchange_->begin(std::move(head));
    std::string first;
    for (Answer& answer : answers_) {
      if (events_) break; // its stream began with the job
      if (request_.chat) answer.chunks.front().role(first);
      if (!answer.echo.empty() && !request_.scores_prompt()) answer.chunks.front().text(first, answer.echo);
    }
    out_.insert(0, first);
  }

  void respond_whole() {
    std::vector<Choice> choices;
    for (Answer& answer : answers_)
      choices.push_back({answer.echo + answer.whole, answer.reason, std::move(answer.logprobs), request_.logprobs >= 0,
                         request_.scores_prompt() ? 0 : detail::characters(answer.echo)});
    HttpResponse response;
    response.body = request_.response ? responses_json(head_, choices.front().text, choices.front().reason, usage_)
                                      : completion_json(head_, choices, usage_);
    if (!forecast_.empty()) response.headers.add("x-sluice-forecast", forecast_);
    exchange_->respond(std::move(response));
  }

  ReplyHead head_;
  Completion request_;
  const Tokenizer* tokenizer_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<Answer> answers_;
  std::vector<std::size_t> cancel_;
  std::optional<ResponseEvents> events_; ///< of a streamed answer of /v1/responses
  std::string out_;                      ///< stream events for the next `flush`
  std::string forecast_;
  TokenUsage usage_;
  std::size_t accepted_ = 0;
  bool begun_ = false;
  bool over_ = false;
};

} // namespace sluice
