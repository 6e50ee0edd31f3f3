// SPDX-License-Identifier: Apache-2.0
// Prompts: the bodies of requests, their prompts as long as a workload has them.
#pragma once

#include "sluice/core/expected.hpp"

#include "load/options.hpp"
#include "load/workload.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loading {

/// The text that prompts are pieces of: the file's, or common words. At least a word.
sluice::Expected<std::string> prompt_text(const Options& options);

/// As much of a text as one `/tokenize` is asked for.
[[nodiscard]] std::string_view tokenized_part(std::string_view text);

class Prompts {
 public:
  /// `tokens`: of `tokenized_part(text)`, by the server's tokenizer; none where the server has none to ask.
  Prompts(const Options& options, std::string model, std::string text, std::vector<std::int32_t> tokens);

  struct Request {
    std::string body;
    std::optional<std::int64_t> prompt_tokens; ///< where they are known before the server has counted them
  };
  /// Each begins at another place of the text, so that no two share a beginning but by chance.
  [[nodiscard]] Request request(std::size_t index, const Planned& planned) const;

 private:
  [[nodiscard]] std::string text_of(std::size_t index, std::int64_t tokens) const;

  const Options* options_;
  std::string model_, text_;
  std::vector<std::int32_t> tokens_;
  double bytes_per_token_ = 5; ///< of English and of vocabularies of tens of thousands, roughly
};

} // namespace loading
