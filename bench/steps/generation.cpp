#include "warptape/bench/steps/generation.h"

#include <algorithm>
#include <chrono>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/mode.h"
#include "warptape/core/random.h"
#include "warptape/core/suggest.h"
#include "warptape/nn/generate.h"
#include "warptape/nn/init.h"
#include "warptape/nn/models.h"

namespace wt::bench {
namespace {

using Texts = std::vector<std::vector<i64>>;

DType text_dtype(const std::string& precision) {
  const std::vector<std::string> known{"f32", "f16", "bf16"};
  const DType types[] = {DType::f32, DType::f16, DType::bf16};
  const auto at = std::find(known.begin(), known.end(), precision);
  if (at == known.end())
    throw UsageError(
        str("no precision is called '", precision, "'", did_you_mean(precision, known)));
  return types[at - known.begin()];
}

models::Gpt2 make_model(const std::string& name) {
  const std::vector<std::string>& names = generation_models();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw UsageError(
        str("no model that writes text is called '", name, "'", did_you_mean(name, names)));
  return name == "gpt2" ? models::gpt2() : models::gpt2_medium();
}

// Blocks that add more than the table has put in, for a beginning repeats its last token for ever,
// and biases that are not 0: what is wrong with a block or left out of it is seen in the text.
void draw_numbers(const nn::ModuleBase& net) {
  const NoGrad no_grad;
  for (nn::NamedTensor& p : net.named_parameters()) {
    if (p.name.ends_with("bias"))
      nn::init::normal_(p.tensor, 0, 0.02);
    else if (p.tensor.ndim() == 2 && p.name.find(".h.") != std::string::npos)
      p.tensor.mul_(3);
  }
}

i64 bytes_of(const nn::ModuleBase& net) {
  i64 bytes = 0;
  for (const nn::NamedTensor& p : net.named_parameters())
    bytes += p.tensor.numel() * item_size(p.tensor.dtype());
  return bytes;
}

Texts prompts_of(const GenerationOptions& o, i64 vocabulary) {
  Texts all(size_t(o.batch));
  i64 n = 0;
  for (std::vector<i64>& row : all)
    for (i64 k = 0; k < o.prompt; ++k) row.push_back((7 + 7919 * n++) % vocabulary);
  return all;
}

struct Window {
  double prompt_us = 0, step_us = 0;
  Texts texts;
};

Window run_window(const models::Decoder& net, const Texts& prompts, const GenerationOptions& o) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point first;
  i64 seen = 0;
  const auto count = [&](i64, i64) {
    if (++seen == o.batch) first = Clock::now();
    return true;
  };
  Window w;
  const auto start = Clock::now();
  w.texts = models::generate(net, prompts, {.max_new_tokens = o.tokens, .on_token = count});
  const auto micros = [](auto time) { return std::chrono::duration<double>(time).count() * 1e6; };
  w.step_us = micros(Clock::now() - first) / double(o.tokens - 1);
  w.prompt_us = micros(first - start);
  return w;
}

std::string new_tokens(const Texts& texts, i64 prompt) {
  std::string all;
  for (const std::vector<i64>& row : texts)
    for (size_t k = size_t(prompt); k < row.size(); ++k) all += str(all.empty() ? "" : " ", row[k]);
  return all;
}

}  // namespace

const std::vector<std::string>& generation_models() {
  static const std::vector<std::string> kNames{"gpt2", "gpt2_medium"};
  return kNames;
}

Row generation(const GenerationOptions& o) {
  const DType dtype = text_dtype(o.precision);
  if (o.tokens < 2) throw UsageError("a token's time needs two of them: the first is the prompt's");
  manual_seed(1);
  models::Gpt2 net = make_model(o.model);
  if (o.weights.empty())
    draw_numbers(net);
  else
    models::load_weights(net, o.model, o.weights);
  if (!o.save.empty()) models::save(net, o.save);
  net.to(dtype).to(o.device);
  memory::reset_peak(o.device);
  const models::Decoder decoder = models::decoder_of(net);
  const Texts prompts = prompts_of(o, decoder.vocabulary);
  const Window warm = run_window(decoder, prompts, o);
  std::vector<double> steps, begins;
  for (int i = 0; i < o.windows; ++i) {
    const Window w = run_window(decoder, prompts, o);
    if (w.texts != warm.texts) throw InternalError("the same text came out otherwise");
    steps.push_back(w.step_us);
    begins.push_back(w.prompt_us);
  }
  const models::KvCacheSize& s = decoder.size;
  const i64 places = std::min(s.context, o.prompt + o.tokens);
  const i64 cache = 2 * s.layers * o.batch * s.heads * places * s.channels * item_size(dtype);
  Row r{.bench = o.model, .impl = "warptape generate"};
  r.shape = str(o.batch, "x", o.prompt, "+", o.tokens);
  r.dtype = o.precision;
  r.time = summarize(steps);
  r.bytes = double(bytes_of(net));
  r.peak_bytes = memory::stats(o.device).peak;
  const Timing begin = summarize(begins);
  const double a_second = 1e6 * double(o.batch);
  r.more = {{"prompt_us", begin.median_us},
            {"min_prompt_us", begin.min_us},
            {"tokens_per_s", a_second / r.time.median_us},
            {"best_tokens_per_s", a_second / r.time.min_us},
            {"weight_bytes", r.bytes},
            {"cache_bytes", double(cache)}};
  r.words = {{"new_tokens", new_tokens(warm.texts, o.prompt)}};
  return r;
}

}  // namespace wt::bench
