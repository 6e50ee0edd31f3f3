// SPDX-License-Identifier: Apache-2.0
// Prompts whose tokens are scored, and logits with rules, on a real machine whose memory is short.
#include "identity/eigen/real_run.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

namespace sluice::testing {

namespace {

/// Each prompt with the answer that it gets behind it, to be scored instead of generated.
RealTrial with_answers(const RealTrial& trial, const std::vector<RealOutput>& answers) {
  RealTrial scored = trial;
  scored.scores = true;
  for (std::size_t i = 0; i < trial.prompts.size(); ++i) {
    scored.prompts[i].insert(scored.prompts[i].end(), answers[i].tokens.begin(), answers[i].tokens.end());
    scored.outputs[i] = 12; // long enough to be preempted
  }
  return scored;
}

/// The logits of the answer's tokens are those that they were generated from, and each token is scored once, in order.
void check_scores(const RealTrial& trial, const RealTrial& scored, const std::vector<RealOutput>& answers,
                  const RealResult& result) {
  for (std::size_t i = 0; i < scored.prompts.size(); ++i) {
    CAPTURE(i);
    const RealOutput& output = result.outputs[i];
    if (output.refused) continue;
    const std::vector<std::int32_t>& prompt = scored.prompts[i];
    CHECK(std::equal(prompt.begin() + 1, prompt.end(), output.scored.begin(), output.scored.end()));
    const std::size_t vocabulary = output.scored_logits.size() / std::max<std::size_t>(1, output.scored.size());
    const std::size_t before = (trial.prompts[i].size() - 1) * vocabulary;
    REQUIRE(before <= output.scored_logits.size());
    CHECK_MESSAGE(std::equal(output.scored_logits.begin() + static_cast<std::ptrdiff_t>(before),
                             output.scored_logits.end(), answers[i].logits.begin(), answers[i].logits.end()),
                  "bit-identical logits");
  }
}

} // namespace

TEST_CASE(
    "a scored prompt has the logits that its tokens would be generated from, whatever is moved or computed again") {
  Random random(21);
  std::int64_t preempted = 0;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    const RealTrial trial = at_once(random_real_trial(random));
    const std::vector<RealOutput> answers = alone(trial);
    RealTrial scored = with_answers(trial, answers);
    check_scores(trial, scored, answers, run_real<Engine<>>(scored, scored.all()));
    const RealResult moved = run_real<Chaos>(scored, scored.largest() + 2 * scored.layers());
    check_scores(trial, scored, answers, moved);
    preempted += moved.preempted;
    scored.scores = false;
    const RealResult unscored = run_real<Engine<>>(scored, scored.all());
    for (std::size_t i = 0; i < scored.prompts.size(); ++i) {
      CHECK(unscored.outputs[i].scored.empty());
      if (!moved.outputs[i].refused) CHECK(unscored.outputs[i].tokens == moved.outputs[i].tokens);
    }
  }
  CHECK(preempted > 0);
}

TEST_CASE("rules change tokens, not logits of the first, and the same way in every engine") {
  Random random(22);
  std::int64_t preempted = 0, other = 0;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    RealTrial trial = at_once(random_real_trial(random));
    const std::vector<RealOutput> plain = alone(trial);
    LogitRules rules;
    rules.repetition = 1.3;
    rules.frequency = 0.5;
    rules.presence = 0.25;
    for (const RealOutput& output : plain) rules.bad_words.push_back({output.tokens.front()});
    trial.rules = std::make_shared<const LogitRules>(rules);
    const std::vector<RealOutput> expected = alone(trial);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t first = plain[i].logits.size() / plain[i].tokens.size();
      CHECK(std::equal(plain[i].logits.begin(), plain[i].logits.begin() + static_cast<std::ptrdiff_t>(first),
                       expected[i].logits.begin()));
      for (const std::int32_t token : expected[i].tokens)
        for (const std::vector<std::int32_t>& word : rules.bad_words) CHECK(token != word.front());
      other += expected[i].tokens != plain[i].tokens;
    }
    const RealResult moved = run_real<Chaos>(trial, trial.largest() + 2 * trial.layers());
    check_identity(moved, expected);
    preempted += moved.preempted;
  }
  CHECK(preempted > 0);
  CHECK(other > 0);
}

} // namespace sluice::testing
