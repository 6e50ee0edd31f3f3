// SPDX-License-Identifier: Apache-2.0
// Corpus: a plain text as paragraphs to train on, held-out paragraphs, and conversations found in the text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace training {

/// Turns of a conversation; the user's is first.
using Conversation = std::vector<std::string>;

struct Corpus {
  std::vector<std::string> paragraphs;
  std::vector<std::string> held_out;
  std::vector<Conversation> conversations; ///< only from `paragraphs`
};

/// Splits a text into paragraphs at blank lines, as in Project Gutenberg's files; puts each on one line and removes the
/// underscores that mark italics. Short paragraphs are dropped: they are titles or chapter numbers.
[[nodiscard]] inline std::vector<std::string> split_paragraphs(std::string_view text) {
  constexpr std::size_t shortest = 30;
  std::vector<std::string> paragraphs;
  std::string paragraph;
  bool blank_line = true;
  const auto end_paragraph = [&] {
    while (!paragraph.empty() && paragraph.back() == ' ') paragraph.pop_back();
    if (paragraph.size() >= shortest) paragraphs.push_back(paragraph);
    paragraph.clear();
  };
  for (const char byte : text) {
    if (byte == '\r' || byte == '_') continue;
    if (byte == '\n' && blank_line) end_paragraph();
    if (byte == '\n') blank_line = true;
    const bool space = byte == '\n' || byte == ' ' || byte == '\t';
    if (!space) {
      blank_line = false;
      paragraph += byte;
    } else if (!paragraph.empty() && paragraph.back() != ' ') {
      paragraph += ' ';
    }
  }
  end_paragraph();
  return paragraphs;
}

/// The text in quotation marks, without the narrator's insertions ("said Emma"). Empty if the paragraph does not begin
/// with speech.
[[nodiscard]] inline std::string speech_of(std::string_view paragraph) {
  if (paragraph.empty() || paragraph.front() != '"') return {};
  std::string speech;
  for (std::size_t at = 0; at < paragraph.size();) {
    const std::size_t begin = paragraph.find('"', at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(paragraph.find('"', begin + 1), paragraph.size());
    if (end > begin + 2) {
      if (!speech.empty()) speech += ' ';
      speech += paragraph.substr(begin + 1, end - begin - 1);
    }
    at = end + 1;
  }
  return speech;
}

/// Neighbouring paragraphs that begin with speech are the alternating turns of two speakers: in such novels a new
/// speaker begins a new paragraph. The number of turns is even, so that the assistant has the last one.
inline void find_conversations(const std::vector<std::string>& neighbours, std::vector<Conversation>& conversations) {
  constexpr std::size_t shortest = 8, longest = 500;
  Conversation open;
  const auto end_conversation = [&] {
    if (open.size() % 2 == 1) open.pop_back();
    if (!open.empty()) conversations.push_back(open);
    open.clear();
  };
  for (const std::string& paragraph : neighbours) {
    std::string speech = speech_of(paragraph);
    if (speech.size() >= shortest && speech.size() <= longest)
      open.push_back(std::move(speech));
    else
      end_conversation();
  }
  end_conversation();
}

/// Holds out one run of `run` paragraphs of every `every` runs, so that each novel is in both sets and few held-out
/// paragraphs have a neighbour in the training set.
[[nodiscard]] inline Corpus make_corpus(std::string_view text, std::size_t run = 16, std::size_t every = 32) {
  Corpus corpus;
  std::vector<std::string> neighbours;
  std::size_t at = 0;
  for (std::string& paragraph : split_paragraphs(text)) {
    const bool held = at++ / run % every == every - 1;
    if (held) {
      find_conversations(neighbours, corpus.conversations);
      neighbours.clear();
      corpus.held_out.push_back(std::move(paragraph));
    } else {
      neighbours.push_back(paragraph);
      corpus.paragraphs.push_back(std::move(paragraph));
    }
  }
  find_conversations(neighbours, corpus.conversations);
  return corpus;
}

} // namespace training
