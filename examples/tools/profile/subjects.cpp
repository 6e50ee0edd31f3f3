// SPDX-License-Identifier: Apache-2.0
// Turns sluice-profile --measure's flags into a subject: the model and the hardware.
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/model/checkpoint/tiny.hpp"

#include "profile/measure.hpp"
#include "shared/random_model.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace profiled {

using namespace sluice;

namespace {

namespace fs = std::filesystem;

/// The model, and its config: a folder's own.
struct Model {
  ModelWeights weights;
  nlohmann::json config;
};
Expected<Model> model_of(const std::string& name, std::optional<std::uint64_t> random) {
  std::error_code wrong;
  Model model;
  const bool folder = fs::is_directory(name, wrong);
  if (name == "tiny") {
    model.weights = tiny_llama(random.value_or(tiny_llama_seed));
  } else if (random || !folder) {
    Expected<ModelWeights> drawn =
        random_model(name, random.value_or(1)); // timings do not depend on the weights' values
    if (!drawn) return drawn.error();
    model.weights = *std::move(drawn);
  } else {
    Expected<ModelWeights> read = read_checkpoint(name);
    if (!read) return read.error();
    model.weights = std::move(*read);
  }
  if (name == "tiny" || !folder) {
    model.config = config_of(model.weights.config.shape);
    return model;
  }
  Expected<nlohmann::json> own = read_json_object((fs::path(name) / "config.json").string());
  if (!own) return own.error();
  model.config = std::move(*own);
  model.config.erase("dtype");
  return model;
}

} // namespace

Status measure(const MeasureOptions& options) {
  if (options.cuda)
    if (Status status = find_gpu(); !status) return status;
  if (Status status = check_out(options.out, options.model); !status) return status.error();
  Expected<Model> model = model_of(options.model, options.random_weights);
  if (!model) return model.error();
  if (model->weights.config.shape.has_latents())
    return Error{ErrorCode::unsupported, "--model", "its KV is one latent per token (multi-head latent attention)",
                 "K and V of several heads, which profiles describe"};
  if (model->weights.config.shape.has_states())
    return Error{ErrorCode::unsupported, "--model", "some of its layers keep a state instead of K and V (delta rule)",
                 "layers that are alike, which profiles describe"};
  Expected<Bundle> bundle = Bundle::open(options.out);
  if (!bundle) return bundle.error();
  const Expected<std::unique_ptr<Subject>> subject =
      options.cuda ? measure_gpu(model->weights, options.products)
                   : measure_processor(std::move(model->weights), options.threads, options.link);
  if (!subject) return subject.error();
  model->weights = {}; // the subject has its own
  return measure(options, **subject, model->config, *bundle);
}

} // namespace profiled
