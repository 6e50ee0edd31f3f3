// SPDX-License-Identifier: Apache-2.0
// sluice-train: trains a small Llama on a plain text.
//
// The problem: a random model's text is meaningless, and a published model is neither small nor ours to redistribute.
// Goals of this program: turn one text into a model folder that every program here reads, in a quarter of an hour on
// one core; produce the same folder from the same seed; and measure what the model learned, as bits per byte of
// paragraphs that it has not seen.
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_json.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include "corpus.hpp"
#include "model_folder.hpp"
#include "shared/flags.hpp"
#include "shared/progress.hpp"
#include "shared/whole_output.hpp"
#include "trainer.hpp"
#include "windows.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace {

using namespace training;
using sluice::Error;
using sluice::ErrorCode;
using sluice::Expected;
using sluice::Status;

struct Options {
  std::string text, out;
  LlamaShape shape;
  Recipe recipe;
  int positions = 2048;
  int threads = 1;
};

std::optional<int> parse(int argc, char** argv, Options& options) {
  Flags flags("sluice-train", "Trains a small Llama on a plain text and writes a model folder.");
  LlamaShape& shape = options.shape;
  Recipe& recipe = options.recipe;
  flags.app().add_option("--text", options.text, "UTF-8, blank lines between paragraphs");
  flags.app().add_option("--out", options.out, "the folder to write, created if it does not exist");
  flags.whole("--vocabulary", shape.vocabulary, 512, 4096, "tokens (default: 2048)");
  flags.whole("--hidden", shape.hidden, 16, 1024, "size of the residual stream (default: 128)");
  flags.whole("--layers", shape.layers, 1, 64, "(default: 6)");
  flags.whole("--heads", shape.heads, 1, 64, "query heads (default: 4)");
  flags.whole("--kv-heads", shape.kv_heads, 1, 64, "key and value heads (default: 2)");
  flags.whole("--head-size", shape.head_dim, 2, 256, "(default: 32)");
  flags.whole("--mlp", shape.mlp, 16, 8192, "size between gate and down (default: 352)");
  flags.whole("--window", shape.context, 8, 4096, "tokens per training window (default: 256)");
  flags.whole("--positions", options.positions, 8, 1 << 20, "longest text that config.json allows (default: 2048)");
  flags.whole("--steps", recipe.steps, 1, 1 << 24, "(default: 2200)");
  flags.whole("--batch", recipe.batch, 1, 1 << 12, "windows per step (default: 8)");
  flags.number("--rate", recipe.rate, 0, false, "the highest learning rate (default: 0.004)");
  flags.whole("--seed", recipe.seed, 0, std::int64_t{1} << 62,
              "seed of the initial weights and of the order (default: 1)");
  flags.whole("--threads", options.threads, 1, 2, "threads; the result does not depend on them (default: 1)");
  return flags.parse(argc, argv);
}

Expected<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::not_found, "--text", "there is no file '" + path + "'", "a plain text"};
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

Status check(const Options& options) {
  // Checked here and not by the parser, which would report missing flags before misspelt ones.
  if (options.text.empty()) return Error{ErrorCode::bad_input, "--text", "is missing", "a plain text"};
  if (options.out.empty()) return Error{ErrorCode::bad_input, "--out", "is missing", "a folder to write"};
  const LlamaShape& shape = options.shape;
  if (shape.heads % shape.kv_heads != 0)
    return Error{ErrorCode::bad_input, "--kv-heads",
                 std::to_string(shape.heads) + " heads cannot share " + std::to_string(shape.kv_heads),
                 "a divisor of --heads"};
  if (shape.head_dim % 2 != 0)
    return Error{ErrorCode::bad_input, "--head-size", "it is odd", "an even one: halves rotate against each other"};
  return {};
}

/// Training and held-out text, as tokens.
struct Streams {
  std::vector<std::uint16_t> learned, held_out;
  std::size_t held_out_bytes = 0;
};

class Encoder {
 public:
  explicit Encoder(const sluice::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  Status add(const std::string& text, std::vector<std::uint16_t>& stream) const {
    const Expected<std::vector<std::int32_t>> tokens = tokenizer_.encode(text, sluice::AddSpecial::no);
    if (!tokens) return tokens.error();
    for (const std::int32_t token : *tokens) stream.push_back(static_cast<std::uint16_t>(token));
    return {};
  }

 private:
  const sluice::Tokenizer& tokenizer_;
};

/// One paragraph per line, then every conversation in ChatML; `<|endoftext|>` separates unrelated texts.
Expected<Streams> encode(const Corpus& corpus, const sluice::Tokenizer& tokenizer) {
  const Encoder encoder(tokenizer);
  Streams streams;
  for (const std::string& paragraph : corpus.paragraphs)
    if (Status status = encoder.add(paragraph + "\n", streams.learned); !status) return status.error();
  for (const Conversation& conversation : corpus.conversations) {
    std::string text = special_tokens[0];
    for (std::size_t turn = 0; turn < conversation.size(); ++turn)
      text += std::string{"<|im_start|>"} + (turn % 2 == 0 ? "user\n" : "assistant\n") + conversation[turn] +
              "<|im_end|>\n";
    if (Status status = encoder.add(text, streams.learned); !status) return status.error();
  }
  for (const std::string& paragraph : corpus.held_out) {
    if (Status status = encoder.add(paragraph + "\n", streams.held_out); !status) return status.error();
    streams.held_out_bytes += paragraph.size() + 1;
  }
  return streams;
}

/// All tokens of a stream except the first, each once.
std::vector<Window> windows_of(const std::vector<std::uint16_t>& stream, std::size_t length) {
  std::vector<Window> windows;
  for (std::size_t begin = 0; begin + 1 < stream.size(); begin += length)
    windows.push_back(Window(stream).subspan(begin, std::min(length + 1, stream.size() - begin)));
  return windows;
}

Status write_model(const Options& options, const Trainer& trainer, sluice::ElementType type) {
  if (Status status = write_config(options.out, options.shape, options.positions, type); !status) return status;
  return write_weights(options.out, trainer.places(), trainer.weights(), type);
}

Status train(Options options) {
  if (Status status = check(options); !status) return status;
  const Expected<std::string> text = read_text(options.text);
  if (!text) return text.error();
  const Corpus corpus = make_corpus(*text);
  std::error_code failed;
  std::filesystem::create_directories(options.out, failed);
  if (failed) return Error{ErrorCode::bad_input, "--out", failed.message(), "a folder that can be made"};

  LlamaShape& shape = options.shape;
  const Expected<BytePairs> pairs =
      learn_byte_pairs(corpus.paragraphs, static_cast<std::size_t>(shape.vocabulary) - special_tokens.size());
  if (!pairs) return pairs.error();
  shape.vocabulary = static_cast<int>(pairs->tokens.size() + special_tokens.size()); // a short text has fewer pairs
  if (Status status = write_tokenizer(options.out, *pairs, options.positions); !status) return status;
  const Expected<std::unique_ptr<sluice::Tokenizer>> tokenizer = sluice::read_tokenizer(options.out);
  if (!tokenizer) return tokenizer.error();
  const Expected<Streams> streams = encode(corpus, **tokenizer);
  if (!streams) return streams.error();
  const auto length = static_cast<std::size_t>(shape.context);
  if (streams->learned.size() <= 2 * length || streams->held_out.size() < 2)
    return Error{ErrorCode::bad_input, "--text",
                 "it has " + std::to_string(corpus.paragraphs.size() + corpus.held_out.size()) + " paragraphs",
                 "more than 512, so that some are held out"};

  Trainer trainer(shape, options.recipe, options.threads);
  fmt::print("{} paragraphs and {} conversations, {} tokens; held out: {} paragraphs, {} tokens, {} bytes\n"
             "{} parameters\n",
             corpus.paragraphs.size(), corpus.conversations.size(), streams->learned.size(), corpus.held_out.size(),
             streams->held_out.size(), streams->held_out_bytes, trainer.places().count);
  std::fflush(stdout);
  const std::vector<Window> held_out = windows_of(streams->held_out, length);
  const auto bits_a_byte = [&] {
    return trainer.loss(held_out) / std::numbers::ln2 / static_cast<double>(streams->held_out_bytes);
  };

  Windows windows(streams->learned, length, options.recipe.seed);
  std::vector<Window> batch(static_cast<std::size_t>(options.recipe.batch));
  sluice::Progress progress(static_cast<double>(options.recipe.steps));
  constexpr std::int64_t look_every = 500;
  double smooth = 0, bits = 0;
  for (std::int64_t step = 0; step < options.recipe.steps; ++step) {
    for (Window& window : batch) window = windows.next();
    const double nats = trainer.step(step, batch);
    smooth = step == 0 ? nats : 0.98 * smooth + 0.02 * nats;
    if (step > 0 && step % look_every == 0) {
      bits = bits_a_byte();
      if (Status status = write_model(options, trainer, sluice::ElementType::bf16); !status) return status;
    }
    progress.update(static_cast<double>(step + 1),
                    fmt::format("step {}, {:.3f} nats per token{}", step + 1, smooth,
                                bits > 0 ? fmt::format(", held out {:.3f} bits per byte", bits) : ""));
  }
  progress.finish();
  const double exact = bits_a_byte();
  trainer.round_to_bf16();
  fmt::print("held out: {:.4f} bits per byte, {:.4f} as bf16\n", exact, bits_a_byte());
  return write_model(options, trainer, sluice::ElementType::bf16);
}

int program(int argc, char** argv) {
  Options options;
  if (const std::optional<int> status = parse(argc, argv, options)) return *status;
  const Status status = train(options);
  if (status) return 0;
  std::fprintf(stderr, "sluice-train: %s\n", status.error().line().c_str());
  return 2;
}

} // namespace

int main(int argc, char** argv) {
  return with_whole_output("sluice-train", [&] { return program(argc, argv); });
}
