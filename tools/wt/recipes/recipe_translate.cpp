// translate: an encoder-decoder Transformer on pairs of sentences.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <unordered_map>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/data/bytes.h"
#include "warptape/nn/seq2seq.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/recipes/sentence_pairs.h"
#include "warptape/tools/wt/recipes/translator.h"

namespace wt::tools {
namespace {

constexpr i64 kMadeUpPairs = 4000, kMadeUpHeldOut = 200;

// Of the target's tokens, each for itself.
double unigram_entropy_of(const SentencePairs& pairs) {
  std::unordered_map<i64, i64> counts;
  i64 all = 0;
  for (i64 i = 0; i < pairs.size(); ++i)
    for (const i64 token : pairs.batch(std::vector<i64>{i}).y.to_vector<i64>())
      if (token >= 0) ++counts[token], ++all;
  double entropy = 0;
  for (const auto& [token, n] : counts)
    entropy -= double(n) / double(all) * std::log(double(n) / double(all));
  return entropy;
}

class Translate : public Recipe {
 public:
  explicit Translate(Settings s)
      : languages_{s.word("source", "en"), s.word("target", "de")},
        vocabulary_(s.integer("vocabulary", 8000, Subwords::kLeast, 1 << 20)),
        limits_{.max_length = s.integer("max_length", 60, 1, 4096),
                .pad_to = s.integer("pad_to", 1, 1, 4096)},
        smoothing_(s.real("label_smoothing", 0.1, 0, 0.9)),
        net_(net_of(s)) {
    set_settings(s, "translate");
  }

  nn::ModuleBase& model() override { return net_; }
  Tensor logits(const Tensor& x) override { return net_(select(x, 1, 0), select(x, 1, 1)); }
  Loss loss(const data::Batch& b) override {
    const Tensor y = logits(b.x);
    return cross_entropy(reshape(y, {-1, y.size(-1)}), reshape(b.y, {-1}),
                         {.label_smoothing = smoothing_});
  }

  RecipeData load(const std::string& data) override {
    const Lines lines = lines_of(data);
    if (!words_) words_ = std::make_shared<const Subwords>(lines.train, vocabulary_);
    const SentencePairs train(lines.train, words_, limits_, "training");
    PairLimits sorted = limits_;
    sorted.sorted = true;
    const SentencePairs held_out(lines.held_out, words_, sorted, "held-out");
    RecipeData d{train, held_out,
                 Baseline{"unigram entropy of the held-out target", unigram_entropy_of(held_out)}};
    d.order = [lengths = train.lengths()](i64 batch, u64 seed) {
      return data::bucket_sampler(lengths, batch, {.seed = seed});
    };
    for (const SentencePairs* part : {&train, &held_out})
      if (!part->remark().empty()) d.remarks.push_back(part->remark());
    return d;
  }
  i64 dataset_bytes(const std::string& data) const override {
    if (data == kSyntheticData) return 0;  // some kilobytes
    const PairFiles f = files_of(data);
    i64 n = 0;
    for (const std::string& path : {f.train_source, f.train_target, f.held_source, f.held_target})
      n += i64(data::content_size(path));
    return n;
  }
  data::Batch shape_batch(i64 batch) const override {
    const TensorOptions meta{.dtype = DType::i64, .device = Device::meta()};
    const i64 length = padded_length(limits_);
    return {empty({batch, 2, length}, meta), empty({batch, length}, meta)};
  }

  RecipeDefaults defaults() const override {
    return {.batch = 64,
            .eval_batch = 64,
            .epochs = 15,
            .lr = 5e-4,
            .weight_decay = 0,
            .warmup = 1000,
            .evals = 15,
            .drop_last = true};
  }
  const char* item() const override { return "sentences"; }

  std::unique_ptr<Translator> translator() override {
    if (!words_) throw DataError("the checkpoint has no tokenizer");
    return std::make_unique<Translator>(net_, words_, limits_.max_length);
  }
  bool translates() const override { return true; }
  double eval_cost() const override { return 1; }  // it is translated too, token by token

  nn::Metadata kept() const override {
    if (!words_) return {};
    return {{kTokenizerKey, words_->text()}};
  }
  void take_kept(const nn::Metadata& kept, const std::string& path) override {
    const auto words = std::make_shared<const Subwords>(tokenizer_in(kept, path), path);
    if (words->size() > vocabulary_)
      throw DataError(str(printable_path(path), ": the tokenizer has ", words->size(),
                          " tokens, and the model knows ", vocabulary_));
    words_ = words;
  }

 private:
  struct Lines {
    data::ParallelLines train, held_out;
  };

  models::Seq2Seq net_of(Settings& s) const {
    models::Seq2SeqOptions o{.source_vocabulary = vocabulary_, .target_vocabulary = vocabulary_};
    o.encoder_layers = o.decoder_layers = s.integer("layers", 4, 1, 64);
    o.heads = s.integer("heads", 8, 1, 64);
    o.channels = s.integer("channels", 512, 1, 8192);
    o.feed_forward = s.integer("feed_forward", 512, 1, 65536);
    o.dropout = s.real("dropout", 0.1, 0, 0.9);
    o.longest = padded_length(limits_);
    o.padding = Subwords::kPad;
    if (o.channels % o.heads != 0)
      throw UsageError(str("--set channels=", o.channels, " is no multiple of heads=", o.heads));
    return models::Seq2Seq(o);
  }
  PairFiles files_of(const std::string& data) const {
    if (data.empty())
      throw UsageError(
          str("recipe translate needs pairs of sentences\n  Try --data FOLDER with "
              "train.",
              languages_.source, ", train.", languages_.target, ", val.", languages_.source,
              " and val.", languages_.target, ", or --data synthetic"));
    return find_pair_files(data, languages_);
  }
  Lines lines_of(const std::string& data) const {
    if (data == kSyntheticData)
      return {synthetic_pairs(0, kMadeUpPairs), synthetic_pairs(kMadeUpPairs, kMadeUpHeldOut)};
    const PairFiles f = files_of(data);
    return {data::read_parallel(f.train_source, f.train_target),
            data::read_parallel(f.held_source, f.held_target)};
  }

  Languages languages_;
  i64 vocabulary_;
  PairLimits limits_;
  double smoothing_;
  models::Seq2Seq net_;
  std::shared_ptr<const Subwords> words_;  // of a checkpoint, else learned by load()
};

}  // namespace

std::unique_ptr<Recipe> make_translate(Settings s) {
  return std::make_unique<Translate>(std::move(s));
}

}  // namespace wt::tools
