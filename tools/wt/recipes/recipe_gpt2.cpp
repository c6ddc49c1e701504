// gpt2: models::Gpt2 on the tokens of a text.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/core/safetensors.h"
#include "warptape/data/bpe.h"
#include "warptape/data/bytes.h"
#include "warptape/data/resident.h"
#include "warptape/data/synthetic.h"
#include "warptape/data/tokens.h"
#include "warptape/nn/generate.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/recipes/text_files.h"
#include "warptape/tools/wt/reports/run_output.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;
using data::BpeTokenizer;

constexpr double kTrainedPart = 0.9;
constexpr i64 kMostHeldOut = 512;  // windows, evenly spaced; all of them if there are fewer

// A folder with GPT-2's vocab.json and merges.txt, or a file that BpeTokenizer::save() wrote.
BpeTokenizer read_tokenizer(const std::string& path) {
  std::error_code ec;
  if (!fs::is_directory(path, ec)) return BpeTokenizer::load(path);
  return BpeTokenizer::load_gpt2(path + "/merges.txt", path + "/vocab.json");
}

struct Gpt2Settings {
  models::Gpt2Options model;
  std::optional<BpeTokenizer> tokenizer;
};

Gpt2Settings gpt2_settings(Settings& s) {
  Gpt2Settings g;
  if (const std::string path = s.path("tokenizer"); !path.empty())
    g.tokenizer = read_tokenizer(path);
  const std::string size = s.choice("size", {"small", "124M", "355M"});
  const auto by_size = [&](i64 small, i64 medium, i64 large) {
    return size == "small" ? small : size == "124M" ? medium : large;
  };
  models::Gpt2Options& m = g.model;
  m.layers = s.integer("layers", by_size(4, 12, 24), 1, 96);
  m.heads = s.integer("heads", by_size(4, 12, 16), 1, 128);
  m.channels = s.integer("channels", by_size(128, 768, 1024), 1, 16384);
  m.context = s.integer("context", by_size(64, 1024, 1024), 1, 65536);
  const i64 tokens = g.tokenizer ? g.tokenizer->vocab_size() : 1;
  const i64 standard = g.tokenizer ? tokens : by_size(1024, 50257, 50257);
  // Bytes are tokens: a text has all of them.
  m.vocabulary =
      s.integer("vocabulary", standard, std::max<i64>(g.tokenizer ? 1 : 256, tokens), i64{1} << 20);
  m.dropout = s.real("dropout", 0, 0, 0.9);
  m.pad_vocabulary_to = s.integer("pad", 64, 1, 1024);
  if (m.channels % m.heads != 0)
    throw UsageError(str("--set channels=", m.channels, " is no multiple of heads=", m.heads));
  return g;
}

std::string whole_text(const std::string& data) {
  std::string text;
  for (const std::string& f : text_files(data)) {
    const std::vector<u8> bytes = data::read_bytes(f);
    text += data::text_of(bytes);
  }
  if (text.empty()) throw DataError(printable_path(data) + ": the text is empty");
  return text;
}

Tensor token_tensor(const std::vector<i64>& ids) {
  return tensor(ids, {.device = Device::cpu()}).to(DType::i32);
}

// Of how often tokens are there, in nats: what a model must fall below that looks at the text.
double token_entropy(const std::vector<i64>& ids, i64 vocabulary) {
  std::vector<double> counts(size_t(vocabulary), 0.0);
  for (const i64 id : ids) ++counts[size_t(id)];
  double sum = 0;
  for (const double n : counts)
    if (n > 0) sum -= n / double(ids.size()) * std::log(n / double(ids.size()));
  return sum;
}

class Gpt2Text : public Recipe {
 public:
  explicit Gpt2Text(Settings s) : Gpt2Text(s, gpt2_settings(s)) {}

  nn::ModuleBase& model() override { return net_; }
  Tensor logits(const Tensor& x) override { return net_(x); }

  RecipeData load(const std::string& data) override {
    if (data == kSyntheticData) return synthetic();
    const std::string text = whole_text(data);
    const std::string_view all = text,
                           first = all.substr(0, size_t(kTrainedPart * double(all.size())));
    if (!tokenizer_) {
      tokenizer_ = BpeTokenizer::train(first, {.vocab_size = options().vocabulary});
      trained_here_ = true;
    }
    return make_data(data, tokenizer_->encode(first), tokenizer_->encode(all.substr(first.size())));
  }
  // A token takes four bytes, and stands for about as many.
  i64 dataset_bytes(const std::string& data) const override {
    return data == kSyntheticData ? kSyntheticTokens * 4 : text_bytes(data);
  }
  i64 resident_bytes(const std::string& data) const override {
    return i64(kTrainedPart * double(dataset_bytes(data)));
  }
  data::Batch shape_batch(i64 batch) const override {
    const TensorOptions meta{.dtype = DType::i64, .device = Device::meta()};
    const Shape shape{batch, context()};
    return {empty(shape, meta), empty(shape, meta)};
  }

  RecipeDefaults defaults() const override {
    return {.batch = 16,
            .eval_batch = 32,
            .steps = 400,
            .lr = 2e-3,
            .weight_decay = 0.1,
            .warmup = 40,
            .drop_last = true};
  }
  const char* item() const override { return "tokens"; }
  i64 items_per_sample() const override { return context(); }
  i64 context() const override { return options().context; }
  double bytes_per_token() const override { return bytes_per_token_; }

  std::vector<i64> encode(std::string_view text) const override { return known().encode(text); }
  std::string decode(std::span<const i64> tokens) const override { return known().decode(tokens); }
  // Rows of the table that no token has are never drawn.
  models::Decoder decoder() override {
    models::Decoder d = decoder_of(net_);
    const i64 tokens = known().vocab_size();
    if (tokens == d.vocabulary) return d;
    d.vocabulary = tokens;
    d.logits = [net = net_, tokens](const Tensor& ids, models::KvCache& cache) mutable {
      return slice(net.next_logits(ids, cache), -1, {0, tokens});
    };
    return d;
  }

  nn::Metadata kept() const override {
    if (!tokenizer_) return {};
    return {{kTokenizerKey, tokenizer_->text()}};
  }
  void take_kept(const nn::Metadata& m, const std::string& path) override {
    BpeTokenizer theirs = BpeTokenizer::parse(tokenizer_in(m, path), path);
    if (theirs.vocab_size() > options().vocabulary)
      throw DataError(str(printable_path(path), ": the tokenizer has ", theirs.vocab_size(),
                          " tokens, the model ", options().vocabulary));
    tokenizer_ = std::move(theirs);
  }

  void load_weights(const std::string& path, bool averaged) override {
    const nn::Metadata m = SafetensorsFile::open(path).metadata();
    if (find_value(m, "recipe")) {
      const std::string* theirs = find_value(m, kTokenizerKey);
      if (theirs && tokenizer_ && *theirs != tokenizer_->text())
        throw UsageError(str(printable_path(path), ": the weights are of another tokenizer than ",
                             "the text's\n  Try --set tokenizer=FILE with the one they are of"));
      return Recipe::load_weights(path, averaged);
    }
    if (trained_here_)
      throw UsageError(str(printable_path(path),
                           ": weights from elsewhere are of a tokenizer of their own\n  Try --set "
                           "tokenizer=FOLDER with its vocab.json and merges.txt"));
    load_published(path);
  }

 private:
  static constexpr i64 kSyntheticTokens = 1 << 17;

  Gpt2Text(const Settings& s, Gpt2Settings g) : net_(g.model), tokenizer_(std::move(g.tokenizer)) {
    set_settings(s, "gpt2");
  }

  const models::Gpt2Options& options() const { return net_.options(); }
  const BpeTokenizer& known() const {
    if (!tokenizer_) throw UsageError("gpt2 has no tokenizer before it has read a text");
    return *tokenizer_;
  }

  // Hugging Face's names. A longer context than ours is cut: the first positions stay.
  void load_published(const std::string& path) {
    std::vector<nn::NamedTensor> state = gpt2_state(nn::load_tensors(path).tensors, options());
    for (nn::NamedTensor& t : state)
      if (t.name == "transformer.wpe.weight" && t.tensor.ndim() == 2 &&
          t.tensor.size(0) > context())
        t.tensor = slice(t.tensor, 0, {0, context()});
    try {
      net_.load_state_dict(state);
    } catch (const UsageError& e) {
      throw UsageError(
          str(printable_path(path), ": the weights are not those of this gpt2\n  ", e.what()));
    }
  }

  void need_tokens(const std::string& data, const char* part, size_t tokens) const {
    if (i64(tokens) > context()) return;
    throw DataError(str(data.empty() ? "the text" : printable_path(data), ": the ", part,
                        " part has ", tokens, " tokens, a context of ", context(), " needs ",
                        context() + 1, "\n  Try --set context=", std::max<i64>(1, i64(tokens) - 1),
                        ", or a longer text"));
  }

  RecipeData make_data(const std::string& data, const std::vector<i64>& train,
                       const std::vector<i64>& held) {
    need_tokens(data, "training", train.size());
    need_tokens(data, "held-out", held.size());
    const i64 context = this->context(), windows = i64(held.size() - 1) / context;
    const i64 stride = std::max<i64>(1, windows / kMostHeldOut) * context;
    const Tensor tokens = token_tensor(train);
    const data::TokenWindows held_out(token_tensor(held), {.context = context, .stride = stride});
    if (data != kSyntheticData) count_bytes(held, held_out);
    return {data::TokenWindows(tokens, {.context = context, .stride = 1}), held_out,
            Baseline{"entropy of the held-out tokens by themselves",
                     token_entropy(held, options().vocabulary)},
            [tokens, context](Device d) {
              return data::AnyDataset(data::ResidentTokens(tokens, d, {.context = context}));
            }};
  }

  void count_bytes(const std::vector<i64>& held, const data::TokenWindows& windows) {
    i64 bytes = 0;
    for (i64 i = 0; i < windows.size(); ++i)
      for (i64 k = 1; k <= context(); ++k)
        bytes += i64(known().token(held[size_t(windows.begin(i) + k)]).size());
    bytes_per_token_ = double(bytes) / double(windows.size() * context());
  }

  // Tokens, each drawn by the one before it; where they are shown they are bytes.
  RecipeData synthetic() {
    if (!tokenizer_) tokenizer_ = BpeTokenizer::train("", {.vocab_size = 256});
    constexpr i64 kLength = 256, kChains = kSyntheticTokens / kLength;
    const data::SyntheticTokens chains(
        {.samples = kChains, .context = kLength, .vocabulary = options().vocabulary});
    std::vector<i64> all(static_cast<size_t>(kChains));
    std::iota(all.begin(), all.end(), 0);
    const std::vector<i64> ids = chains.batch(all).x.to_vector<i64>();
    const auto cut = ids.begin() + i64(kTrainedPart * double(ids.size()));
    return make_data(kSyntheticData, {ids.begin(), cut}, {cut, ids.end()});
  }

  models::Gpt2 net_;
  std::optional<BpeTokenizer> tokenizer_;
  bool trained_here_ = false;
  double bytes_per_token_ = 0;
};

}  // namespace

std::unique_ptr<Recipe> make_gpt2(Settings s) { return std::make_unique<Gpt2Text>(std::move(s)); }

}  // namespace wt::tools
