// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/tokenizer/byte_pair_model.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_json.hpp"
#include "sluice/model/tokenizer/icu/normalizer.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include "model/tokenizer/icu/reference_folder.hpp"
#include "model/tokenizer/random_text.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;
using nlohmann::json;

namespace {

std::unique_ptr<Tokenizer> made(const json& file) {
  auto tokenizer = tokenizer_from_json(file, "tokenizer.json");
  if (!tokenizer) FAIL(tokenizer.error().line());
  return std::move(*tokenizer);
}

std::vector<std::int32_t> encoded(const Tokenizer& tokenizer, const std::string& text,
                                  AddSpecial add = AddSpecial::no) {
  const auto tokens = tokenizer.encode(text, add);
  if (!tokens) FAIL(tokens.error().line());
  return *tokens;
}

/// A small file of byte pairs over the bytes' characters, with one merge.
json small() {
  json file{{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
            {"decoder", {{"type", "ByteLevel"}}}};
  json& model = file["model"] = {{"type", "BPE"}, {"merges", {"a b"}}};
  for (int byte = 0; byte < 256; ++byte)
    model["vocab"][byte_level_name(std::string(1, static_cast<char>(static_cast<unsigned char>(byte))))] = byte;
  model["vocab"]["ab"] = 256;
  file["added_tokens"] = {{{"id", 257}, {"content", "<end>"}, {"special", true}}};
  return file;
}

/// A folder that is deleted after the test.
struct Folder {
  std::filesystem::path path;

  Folder() {
    static int number = 0;
    path =
        std::filesystem::temp_directory_path() /
        ("sluice-tokenizer-" + std::to_string(reinterpret_cast<std::uintptr_t>(this)) + "-" + std::to_string(++number));
    std::filesystem::create_directories(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  void write(const char* name, const std::string& text) const { std::ofstream(path / name, std::ios::binary) << text; }
};

} // namespace

TEST_CASE("any bytes survive encoding with byte-level tokens and with byte fallback") {
  Random random(8);
  for (const char* name : {"gpt2.json", "llama3.json", "llama2.json"}) {
    CAPTURE(name);
    const auto tokenizer = made(parsed(name));
    for (int trial = 0; trial < 300; ++trial) {
      const std::string text =
          trial % 2 == 0 ? sluice_test::random_bytes(random, 60) : sluice_test::random_characters(random, 40);
      const std::vector<std::int32_t> tokens = encoded(*tokenizer, text, AddSpecial::yes);
      CHECK(tokenizer->decode(tokens, SkipSpecial::yes) == text);
      TokenStream stream(*tokenizer);
      std::string streamed;
      for (const std::int32_t token : tokens) streamed += stream.push(token);
      CHECK(streamed + stream.finish() == text);
    }
  }
}

TEST_CASE("a prompt's tokens decode to its text, one by one") {
  const Expected<std::unique_ptr<Tokenizer>> tokenizer = read_tokenizer("tests/reference/tokenizers/llama2.json");
  if (!tokenizer) FAIL(tokenizer.error().line()); // where, what is wrong, what would be right
  const Expected<std::vector<std::int32_t>> tokens = (*tokenizer)->encode("The water goes where the gates let it go.");
  if (!tokens) FAIL(tokens.error().line());
  std::string text;
  TokenStream stream(**tokenizer);
  for (const std::int32_t token : *tokens) text += stream.push(token); // never half a character
  CHECK(text + stream.finish() == "The water goes where the gates let it go.");
}

TEST_CASE("encoding with Qwen's tokenizer changes only a text's normal form") {
  Random random(9);
  const auto tokenizer = made(parsed("qwen2.json"));
  const auto form = NormalForm::named("NFC");
  REQUIRE(form);
  std::size_t changed = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::string text = trial % 2 == 0 ? sluice_test::random_bytes(random, 60)
                                            : sluice_test::random_characters(random, 40) + "e\xCC\x81";
    const auto expected = form->apply(text);
    REQUIRE(expected);
    CHECK(tokenizer->decode(encoded(*tokenizer, text)) == *expected);
    changed += *expected != text ? 1U : 0U;
  }
  CHECK(changed > 100);
}

TEST_CASE("tokens after a special token do not depend on the text before it") {
  const auto tokenizer = made(parsed("qwen2.json"));
  const std::int32_t end = tokenizer->id_of("<|im_end|>").value();
  Random random(10);
  for (int trial = 0; trial < 100; ++trial) {
    const std::string left = sluice_test::random_characters(random, 20),
                      right = sluice_test::random_characters(random, 20);
    std::vector<std::int32_t> expected = encoded(*tokenizer, left);
    expected.push_back(end);
    for (const std::int32_t token : encoded(*tokenizer, right)) expected.push_back(token);
    CHECK(encoded(*tokenizer, left + "<|im_end|>" + right) == expected);
  }
}

TEST_CASE("begin and end tokens come from the template, names and tokenizer_config") {
  const auto llama3 = made(parsed("llama3.json"));
  CHECK(llama3->begin_token() == llama3->id_of("<|begin_of_text|>"));
  CHECK(llama3->end_tokens() ==
        std::vector<std::int32_t>{*llama3->id_of("<|end_of_text|>"), *llama3->id_of("<|eot_id|>")});
  const auto qwen2 = made(parsed("qwen2.json"));
  CHECK(qwen2->begin_token() == -1);
  CHECK(qwen2->end_tokens() == std::vector<std::int32_t>{*qwen2->id_of("<|endoftext|>"), *qwen2->id_of("<|im_end|>")});
  const auto told = tokenizer_from_json(parsed("gpt2.json"), "tokenizer.json",
                                        {{"bos_token", {{"content", "<|endoftext|>"}}}, {"eos_token", "a"}});
  REQUIRE(told);
  CHECK((*told)->begin_token() == (*told)->id_of("<|endoftext|>"));
  CHECK((*told)->end_tokens() == std::vector<std::int32_t>{*(*told)->id_of("a"), *(*told)->id_of("<|endoftext|>")});
}

TEST_CASE("an added token is decoded by the decoder's steps, as Hugging Face's tokenizers decode it") {
  // Gemma has runs of spaces as added tokens, and spells a space as U+2581.
  json file{
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xE2\x96\x81"}}},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"}, {"pattern", {{"String", "\xE2\x96\x81"}}}, {"content", " "}},
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}}}}}},
      {"model",
       {{"type", "BPE"}, {"unk_token", "a"}, {"vocab", {{"a", 0}, {"\xE2\x96\x81", 1}}}, {"merges", json::array()}}},
      {"added_tokens",
       {{{"id", 2}, {"content", "\xE2\x96\x81\xE2\x96\x81"}, {"special", false}},
        {{"id", 3}, {"content", "<0x0A>"}, {"special", false}},
        {{"id", 4}, {"content", "<s>"}, {"special", true}}}}};
  CHECK(made(file)->decode(std::vector<std::int32_t>{0, 2, 0, 1, 3, 4}) == "a  a \n<s>");
  // Of byte-level characters, U+0120 is the space; a token with any other character is its own text.
  json bytes = small();
  bytes["added_tokens"].push_back({{"id", 258}, {"content", "\xC4\xA0x"}});
  bytes["added_tokens"].push_back({{"id", 259}, {"content", "y z"}});
  CHECK(made(bytes)->decode(std::vector<std::int32_t>{258, 259}) == " xy z");
}

TEST_CASE("a folder's chat template decides the format, and an unknown one is refused by name") {
  const std::string known = "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
                            "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | "
                            "trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% "
                            "endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ "
                            "'<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";
  const auto format_with = [&](const json& config) {
    const auto tokenizer = tokenizer_from_json(small(), "tokenizer.json", config);
    REQUIRE(tokenizer);
    const Expected<ChatFormat> format = chat_format_of(**tokenizer);
    return format ? std::string{name(*format)} : format.error().line();
  };
  CHECK(format_with({{"chat_template", known}}) == "llama3");
  CHECK(format_with({{"chat_template",
                      {{{"name", "tool_use"}, {"template", "x"}}, {{"name", "default"}, {"template", known}}}}}) ==
        "llama3");
  CHECK(format_with({{"chat_template", "{{ messages }}"}})
            .starts_with("the chat template: the model's chat_template (digest "));
  CHECK(format_with({{"chat_template", "{{ messages }}"}})
            .find("is not a known one; expected --chat-format with the one that writes the same: chatml, qwen2.5") !=
        std::string::npos);
  CHECK(format_with(nullptr).find("the model has no chat_template") != std::string::npos);
  const Folder folder;
  std::ofstream(folder.path / "tokenizer.json") << small().dump();
  std::ofstream(folder.path / "tokenizer_config.json") << json{{"chat_template", "another"}}.dump();
  std::ofstream(folder.path / "chat_template.jinja") << known;
  const auto read = read_tokenizer(folder.path.string());
  REQUIRE(read);
  CHECK(*chat_format_of(**read) == ChatFormat::llama3);
}

TEST_CASE("tags of HTML in a vocabulary are not Llama 2's special tokens") {
  json file = parsed("llama2.json");
  for (json& token : file["added_tokens"]) token["special"] = false;
  CHECK_FALSE(find_chat_format(*made(file)).has_value());
}

TEST_CASE("without a template the tokens suggest the chat format") {
  CHECK(find_chat_format(*made(parsed("llama3.json"))) == ChatFormat::llama3);
  CHECK(find_chat_format(*made(parsed("qwen2.json"))) == ChatFormat::chatml);
  CHECK(find_chat_format(*made(parsed("llama2.json"))) == ChatFormat::llama2);
  CHECK_FALSE(find_chat_format(*made(parsed("gpt2.json"))).has_value());
  const auto qwen2 = made(parsed("qwen2.json"));
  const auto text = chat_text(ChatFormat::chatml, std::vector<ChatMessage>{{"user", "hi"}});
  REQUIRE(text);
  const std::vector<std::int32_t> tokens = encoded(*qwen2, *text);
  CHECK(tokens.front() == qwen2->id_of("<|im_start|>"));
  CHECK(qwen2->decode(tokens, SkipSpecial::yes) == "user\nhi\nassistant\n");
}

TEST_CASE("long runs of any character are encoded, and a pattern's failure is an error") {
  const auto tokenizer = made(parsed("llama3.json"));
  for (const char* part : {" ", "\n", "a", "1", ".", "\xE6\xB0\xB4", "\xFF"}) {
    std::string text;
    for (int i = 0; i < 40000; ++i) text += part;
    CHECK(tokenizer->decode(encoded(*tokenizer, text)) == text);
  }
  json file = small();
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"}, {"pattern", {{"Regex", "(?:a|b)+$"}}}, {"behavior", "Isolated"}},
                             {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const auto slow = made(file);
  CHECK(encoded(*slow, "abba").size() == 3); // ab, b, a
  const auto failed = slow->encode(std::string(1000000, 'a') + "c");
  REQUIRE_FALSE(failed);
  CHECK(failed.error().line().rfind("text: the tokenizer's pattern failed on it (U_REGEX_", 0) == 0);
}

TEST_CASE("each fault of a file is reported by name in one line") {
  const struct {
    const char* patch;
    const char* line;
  } cases[]{
      {R"({"model": null})", "tokenizer.json: model is missing or no object; expected a model of type BPE"},
      {R"({"model": {"type": "WordPiece"}})", "tokenizer.json: model.type: 'WordPiece' is not supported; expected BPE"},
      {R"({"model": {"type": "Unigram"}})", "tokenizer.json: model.type: 'Unigram' is not supported; expected BPE"},
      {R"({"model": {"vocab": null}})", "tokenizer.json: model: vocab is missing or no object"},
      {R"({"model": {"vocab": {"b": 97}}})",
       "tokenizer.json: model.vocab: token 'b' has the number 97, as another has"},
      {R"({"model": {"vocab": {"x": -1}}})", "tokenizer.json: model.vocab: token 'x' has the number -1"},
      {R"({"model": {"vocab": {"x": 2147483648}}})",
       "tokenizer.json: model.vocab: token 'x' has the number 2147483648"},
      {R"({"model": {"vocab": {"x": 18446744073709551615}}})",
       "tokenizer.json: model.vocab: token 'x' has the number 9"},
      {R"({"model": {"vocab": {"x": "7"}}})", "tokenizer.json: model.vocab: token 'x' has no whole number but string"},
      {R"({"model": {"vocab": {"x": null}}})", "tokenizer.json: model.vocab: there is neither the token 'x' nor"},
      {R"({"model": {"merges": null}})", "tokenizer.json: model: merges is missing or no list"},
      {R"({"model": {"merges": ["a b", "b c"]}})", "tokenizer.json: model.merges[1]: 'bc', its result, is not in the"},
      {R"({"model": {"merges": ["a zz"]}})", "tokenizer.json: model.merges[0]: 'zz' is not in the vocabulary"},
      {R"({"model": {"merges": ["ab"]}})", "tokenizer.json: model.merges[0]: 'ab' is no pair"},
      {R"({"model": {"merges": ["a b c"]}})", "tokenizer.json: model.merges[0]: 'a b c' is no pair"},
      {R"({"model": {"merges": [["a"]]}})", "tokenizer.json: model.merges[0]: this array is no pair"},
      {R"({"model": {"merges": [["a", 1]]}})", "tokenizer.json: model.merges[0]: this array is no pair"},
      {R"({"model": {"unk_token": "<unk>"}})", "tokenizer.json: model: unk_token '<unk>' is not in the vocabulary"},
      {R"({"model": {"dropout": 0.1}})", "tokenizer.json: model: dropout is set"},
      {R"({"model": {"end_of_word_suffix": "</w>"}})", "tokenizer.json: model: end_of_word_suffix is set"},
      {R"({"model": {"byte_fallback": 1}})", "tokenizer.json: model: byte_fallback is 1; expected true or false"},
      {R"({"normalizer": {"type": "Lowercase"}})",
       "tokenizer.json: normalizer: 'Lowercase' is not supported; expected"},
      {R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Nmt"}]}})",
       "tokenizer.json: normalizer.normalizers[1]: 'Nmt' is not supported"},
      {R"({"normalizer": {"type": "Sequence"}})", "tokenizer.json: normalizer: normalizers of the Sequence is not"},
      {R"({"normalizer": {"type": "Replace", "content": "x"}})", "tokenizer.json: normalizer: pattern is none"},
      {R"({"normalizer": "NFC"})", "tokenizer.json: normalizer: this is a JSON string; expected an object"},
      {R"({"pre_tokenizer": {"type": "Whitespace"}})", "tokenizer.json: pre_tokenizer: 'Whitespace' is not supported"},
      {R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "ByteLevel"}]}})",
       "tokenizer.json: pre_tokenizer.pretokenizers[1]: a step follows ByteLevel"},
      {R"({"pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "(a"}}})",
       "tokenizer.json: pre_tokenizer.pattern: the pattern '(a' cannot be read (U_REGEX_MISMATCHED_PAREN)"},
      {R"({"pre_tokenizer": {"type": "Split", "behavior": "Kept", "pattern": {"Regex": "a"}}})",
       "tokenizer.json: pre_tokenizer: behavior is 'Kept'"},
      {R"({"pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "last"}})",
       "tokenizer.json: pre_tokenizer: prepend_scheme is 'last'"},
      {R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "ab"}})",
       "tokenizer.json: pre_tokenizer: replacement is not one character"},
      {R"({"pre_tokenizer": null})", "tokenizer.json: decoder: it is not that of the pre_tokenizer"},
      {R"({"pre_tokenizer": null, "decoder": {"type": "Fuse"}})",
       "tokenizer.json: model.vocab: there is neither byte_fallback nor an unk_token"},
      {R"({"decoder": null})", "tokenizer.json: decoder: there is none"},
      {R"({"decoder": {"type": "CTC"}})", "tokenizer.json: decoder: 'CTC' is not supported"},
      {R"({"decoder": {"type": "Strip", "content": " ", "start": 1, "stop": 0}})",
       "tokenizer.json: decoder: this Strip is not of spaces of the whole text"},
      {R"({"post_processor": {"type": "BertProcessing"}})", "tokenizer.json: post_processor: 'BertProcessing' is not"},
      {R"({"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}]}})",
       "tokenizer.json: post_processor.single: there is no token '<s>'"},
      {R"({"post_processor": {"type": "TemplateProcessing", "single": []}})",
       "tokenizer.json: post_processor.single: this is not a template"},
      {R"({"added_tokens": [{"id": 5, "content": "a"}]})",
       "tokenizer.json: added_tokens[0]: 'a' has the number 5, and 97 elsewhere in the file; expected one number"},
      {R"({"added_tokens": [{"id": 5, "content": "<x>"}]})",
       "tokenizer.json: added_tokens[0]: token '<x>' has the number 5, as another has"},
      {R"({"added_tokens": [{"id": 300, "content": ""}]})", "tokenizer.json: added_tokens[0]: content is empty"},
      {R"({"added_tokens": [{"id": 300, "content": "x", "single_word": true}]})",
       "tokenizer.json: added_tokens[0]: single_word is true; expected false"},
      {R"({"added_tokens": [7]})", "tokenizer.json: added_tokens[0]: this is no object"},
      {R"({"added_tokens": {}})", "tokenizer.json: added_tokens is no list"},
  };
  CHECK(made(small()) != nullptr);
  for (const auto& each : cases) {
    CAPTURE(each.patch);
    json file = small();
    file.merge_patch(json::parse(each.patch));
    const auto tokenizer = tokenizer_from_json(file, "tokenizer.json");
    REQUIRE_FALSE(tokenizer);
    const std::string line = tokenizer.error().line();
    CHECK_MESSAGE(line.rfind(each.line, 0) == 0, line);
    CHECK(line.find('\n') == std::string::npos);
    const auto of_text = tokenizer_from_text(file.dump(), "tokenizer.json");
    REQUIRE_FALSE(of_text);
    CHECK(of_text.error().line() == line);
  }
}

TEST_CASE("both spellings of merges are equivalent, and the last of equal pairs wins") {
  json file = small();
  file["model"]["vocab"]["abab"] = 300;
  file["model"]["merges"] = {"a b", "ab ab"};
  json paired = file;
  paired["model"]["merges"] = json::parse(R"([["a", "b"], ["ab", "ab"]])");
  CHECK(encoded(*made(file), "abab") == std::vector<std::int32_t>{300});
  CHECK(encoded(*made(paired), "abab") == std::vector<std::int32_t>{300});
  file["model"]["vocab"]["ba"] = 301;
  file["model"]["merges"] = {"a b", "b a"};
  CHECK(encoded(*made(file), "bab") == std::vector<std::int32_t>{'b', 256});
  file["model"]["merges"] = {"a b", "b a", "a b"};
  CHECK(encoded(*made(file), "bab") == std::vector<std::int32_t>{301, 'b'});
}

TEST_CASE("a folder's tokenizer comes from its files, or is the byte tokenizer") {
  const Folder here;
  const auto bytes = read_tokenizer(here.path.string());
  REQUIRE(bytes);
  CHECK((*bytes)->vocabulary().size() == ByteTokenizer::tokens);

  here.write("tokenizer.model", "x");
  const auto binary = read_tokenizer(here.path.string());
  REQUIRE_FALSE(binary);
  CHECK(binary.error().what == "the folder has a tokenizer.model and no tokenizer.json");

  for (const auto& [file, fault] :
       {std::pair{"vocab.json", "the folder has a vocab.json and no merges.txt and no tokenizer.json"},
        std::pair{"merges.txt", "the folder has a merges.txt and no vocab.json and no tokenizer.json"},
        std::pair{"tekken.json", "the folder has a tekken.json and no tokenizer.json"},
        std::pair{"tokenizer_config.json", "the folder has a tokenizer_config.json and no tokenizer.json"}}) {
    const Folder part;
    part.write(file, "{}");
    const auto bytes_of_part = read_tokenizer(part.path.string());
    REQUIRE_FALSE(bytes_of_part);
    CHECK(bytes_of_part.error().where == part.path.string());
    CHECK(bytes_of_part.error().what == fault);
  }

  // OPT has vocab.json and merges.txt, and puts its end token before a text.
  json gpt2 = parsed("gpt2.json");
  json vocab = gpt2["model"]["vocab"];
  vocab["</s>"] = 900;
  std::string merges = "#version: 0.2\n";
  for (const json& merge : gpt2["model"]["merges"]) merges += merge.get<std::string>() + "\n";
  here.write("vocab.json", vocab.dump());
  here.write("merges.txt", merges);
  here.write("tokenizer_config.json",
             R"({"add_bos_token": true, "bos_token": {"content": "</s>"}, "eos_token": "</s>"})");
  const auto opt = read_tokenizer(here.path.string());
  if (!opt) FAIL(opt.error().line());
  CHECK((*opt)->begin_token() == 900);
  const std::string text = "The water doesn't wait.</s> \xF0\x9F\x98\x80";
  std::vector<std::int32_t> expected = encoded(*made(gpt2), "The water doesn't wait.");
  expected.insert(expected.begin(), 900);
  expected.push_back(900);
  for (const std::int32_t token : encoded(*made(gpt2), " \xF0\x9F\x98\x80")) expected.push_back(token);
  CHECK(encoded(**opt, text, AddSpecial::yes) == expected);

  std::filesystem::copy_file(reference_folder + "qwen2.json",
                             here.path / "tokenizer.json"); // takes precedence over the others
  const auto qwen2 = read_tokenizer(here.path.string());
  REQUIRE(qwen2);
  CHECK((*qwen2)->id_of("<|im_end|>").has_value());
  const auto named = read_tokenizer(reference_folder + "llama2.json");
  REQUIRE(named);
  CHECK((*named)->id_of("<s>") == 1);

  here.write("tokenizer.json", "{\"model\": ");
  const auto cut = read_tokenizer(here.path.string());
  REQUIRE_FALSE(cut);
  CHECK(cut.error().line().find("tokenizer.json:1: the JSON ends too early") != std::string::npos);
  CHECK_FALSE(read_tokenizer((here.path / "absent.json").string()));
}
