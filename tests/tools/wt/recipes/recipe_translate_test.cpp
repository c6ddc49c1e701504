// The recipe translate: what it reads, what a batch of it is, what training makes of a few hundred
// pairs, and lines in another language from a checkpoint.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/nn/bleu.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/recipes/sentence_pairs.h"
#include "warptape/tools/wt/recipes/translator.h"
#include "warptape/tools/wt/reports/run_output.h"
#include "warptape/tools/wt/training/run_metrics.h"
#include "warptape/tools/wt/training/train.h"
#include "warptape/tools/wt/training/trained_model.h"

using namespace wt;
using namespace wt::tools;

namespace {

const std::vector<std::string> kTiny = {"layers=1",        "heads=2",        "channels=16",
                                        "feed_forward=16", "vocabulary=300", "dropout=0",
                                        "max_length=12"};

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& l : lines) text += l + "\n";
  return text;
}
// Pairs as --data synthetic makes them, in files.
void write_pairs(const TempDir& dir, i64 train, i64 held_out) {
  const data::ParallelLines t = synthetic_pairs(0, train), h = synthetic_pairs(train, held_out);
  spit(dir / "train.en", text_of(t.source));
  spit(dir / "train.de", text_of(t.target));
  spit(dir / "val.en", text_of(h.source));
  spit(dir / "val.de", text_of(h.target));
}

std::unique_ptr<Recipe> made(const std::vector<std::string>& set = kTiny) {
  return find_recipe("translate").make(Settings(set));
}
std::shared_ptr<const Subwords> words_of(const data::ParallelLines& lines, i64 tokens = 300) {
  return std::make_shared<const Subwords>(lines, tokens);
}

int quietly(TrainOptions o) {
  const CapturedOutput output;
  o.quiet = true;
  return train(o);
}

}  // namespace

TEST_CASE("a batch of pairs: both sides padded to one length, and what follows each place") {
  const data::ParallelLines lines{{"ab", "a b c d"}, {"xyz", "y"}};
  const auto words = words_of(lines);
  const SentencePairs pairs(lines, words, {.max_length = 10, .pad_to = 4}, "training");
  REQUIRE(pairs.size() == 2);
  CHECK(pairs.remark().empty());
  const data::Batch b = pairs.batch(std::vector<i64>{0, 1});
  CHECK(b.x.shape() == Shape{2, 2, 12});  // begin, 7 tokens, end: 9
  CHECK(b.y.shape() == Shape{2, 12});
  const std::vector<i64> source = b.x[1][0].to_vector<i64>(), target = b.x[0][1].to_vector<i64>(),
                         follows = b.y[0].to_vector<i64>();
  CHECK(source[0] == Subwords::kBegin);
  CHECK(source[8] == Subwords::kEnd);
  CHECK(source[9] == Subwords::kPad);
  CHECK(words->decode(source) == "a b c d");
  CHECK(target[0] == Subwords::kBegin);
  CHECK(words->decode(target) == "xyz");
  const size_t n = words->encode("xyz").size();
  for (size_t t = 0; t < n; ++t) CHECK(follows[t] == target[t + 1]);
  CHECK(follows[n] == Subwords::kEnd);
  for (size_t t = n + 1; t < 12; ++t) CHECK(follows[t] == -100);
  CHECK(padded_length({.max_length = 10, .pad_to = 8}) == 16);
}

TEST_CASE("subwords give lines back, and ids that are none are refused") {
  const std::vector<std::string> lines = {"Ein M\u00e4dchen l\u00e4uft.", "", "  two  spaces "};
  const auto words = words_of({lines, lines});
  for (const std::string& l : lines) CHECK(words->decode(words->encode(l)) == l);
  const std::vector<i64> beyond = {5, words->size()}, below = {-1};
  CHECK(mentions(message_of([&] { (void)words->decode(beyond); }),
                 str("id ", words->size(), " at 1 is outside [0, ", words->size(), ")")));
  CHECK_THROWS_AS(words->decode(below), IndexError);
  CHECK(Subwords(words->text(), "x").size() == words->size());
  CHECK(mentions(message_of([] { Subwords("bpe", "here"); }), "here: "));
  CHECK_THROWS_AS(Subwords({lines, lines}, 200), UsageError);
}

TEST_CASE("translate: files that are missing or no translations, empty and long lines") {
  const TempDir dir;
  const auto text = [&](const std::vector<std::string>& set = kTiny) {
    return message_of([&] { (void)made(set)->load(dir.path); });
  };
  CHECK(mentions(text(),
                 "DataError: " + dir.path + ": there is no train.en, train.de, val.en, val.de"));
  write_pairs(dir, 6, 2);
  std::filesystem::remove(dir / "val.de");
  CHECK(mentions(text(), ": there is no val.de (plain, .gz or .xz)"));
  std::vector<std::string> french = kTiny;
  french.insert(french.end(), {"source=de", "target=fr"});
  CHECK(mentions(text(french), "there is no train.fr, val.de, val.fr"));
  CHECK(
      mentions(message_of([] { made()->load(""); }), "Try --data FOLDER with train.en, train.de"));
  CHECK(mentions(message_of([] { made({"source=../x"}); }), "letters, digits and _ - ."));
  spit(dir / "val.de", "ta\n");
  CHECK(mentions(text(), "val.en has 2 lines, " + dir / "val.de" + " has 1"));

  spit(dir / "train.en", "a b\n\nc d\ne f g h i j k l m n o p q r s t u v w x y z\nq\n");
  spit(dir / "train.de", "b a\nc\n\nz\nq\n");
  spit(dir / "val.en", "sa\nsb\n");
  spit(dir / "val.de", "ta\ntb\n");
  const RecipeData d = made()->load(dir.path);
  CHECK(d.train.size() == 2);
  CHECK(d.held_out.size() == 2);
  REQUIRE(d.remarks.size() == 1);
  CHECK(d.remarks[0] ==
        "training: 3 of 5 pairs are left out: 2 with an empty side, 1 with more than 12 tokens");
  spit(dir / "val.de", "\n\n");
  CHECK(mentions(text(), "held-out: no pair is left of 2: all others have an empty side"));
  spit(dir / "train.en", "a b\nc d e\n");
  spit(dir / "train.de", "b a\nd\n");
  std::vector<std::string> narrow = kTiny;
  narrow.back() = "max_length=1";
  CHECK(mentions(text(narrow),
                 "training: no pair is left of 2: 0 have an empty side, 2 more than 1 tokens"));
  const TempDir other;
  write_pairs(other, 6, 2);
  CHECK(made()->dataset_bytes(other.path) == i64(std::filesystem::file_size(other / "train.en") +
                                                 std::filesystem::file_size(other / "train.de") +
                                                 std::filesystem::file_size(other / "val.en") +
                                                 std::filesystem::file_size(other / "val.de")));
}

TEST_CASE(
    "translate is trained with label smoothing and judged without; padding counts in neither") {
  const auto r = made();
  const RecipeData d = r->load("synthetic");
  r->model().eval();
  const data::Batch b = d.train.batch(std::vector<i64>{0, 1, 2});
  const Tensor y = r->logits(b.x);
  CHECK(y.shape() == Shape{3, b.y.size(1), 300});
  const Loss plain = cross_entropy(reshape(y, {-1, 300}), reshape(b.y, {-1}));
  const Loss trained = r->loss(b);
  CHECK(trained.item() != plain.item());
  const std::vector<i64> labels = b.y.to_vector<i64>();
  const double counted =
      double(std::count_if(labels.begin(), labels.end(), [](i64 l) { return l >= 0; }));
  CHECK(plain.weight.item() == counted);
  CHECK(trained.weight.item() == counted);
  // What is behind a sentence changes nothing.
  const i64 n = b.x.size(2);
  const Tensor longer = cat({b.x, zeros({3, 2, 3}, {.dtype = DType::i64})}, 2);
  const Tensor same = r->logits(longer).narrow(1, 0, n);
  const std::vector<double> a = y.to(f64).to_vector<double>(), z = same.to(f64).to_vector<double>();
  double far = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (labels[i / 300] >= 0) far = std::max(far, std::abs(a[i] - z[i]));
  CHECK(far < 1e-4);
}

TEST_CASE("translate: batches of one length each, another order each epoch") {
  const auto r = made();
  const RecipeData d = r->load("synthetic");
  RecipeDefaults o = r->defaults();
  o.batch = 50;
  auto loader = make_loader(o, d, 3, 0);
  i64 batches = 0, tokens = 0, places = 0;
  std::vector<i64> first;
  for (data::Batch b; loader.next(b); ++batches) {
    tokens += (ne(b.x, 0)).to(DType::i64).sum().item<i64>();
    places += b.x.numel();
    if (batches == 0) first = b.x.to_vector<i64>();
  }
  CHECK(batches == d.train.size() / 50);
  CHECK(double(tokens) > 0.85 * double(places));
  data::Batch b;
  REQUIRE(loader.next(b));
  CHECK(b.x.to_vector<i64>() != first);
}

namespace {

// A run that learns its 200 pairs: val is a part of train.
TrainOptions run_of(const TempDir& dir, const std::string& out) {
  TrainOptions o;
  o.recipe = "translate";
  o.set = {"layers=1",       "heads=2",   "channels=32",          "feed_forward=32",
           "vocabulary=320", "dropout=0", "label_smoothing=0.05", "max_length=12"};
  o.data = dir.path;
  o.out = dir / out;
  o.batch = 20;
  o.steps = 500;
  o.eval_every = 250;
  o.save_every = 250;
  o.lr = 1e-2;
  o.warmup = 50;
  o.monitor = "bleu";
  return o;
}
void write_known_pairs(const TempDir& dir) {
  const data::ParallelLines t = synthetic_pairs(0, 200);
  for (const char* part : {"train", "val"}) {
    const size_t n = part[0] == 't' ? 200 : 60;
    spit(dir / (std::string(part) + ".en"), text_of({t.source.begin(), t.source.begin() + i64(n)}));
    spit(dir / (std::string(part) + ".de"), text_of({t.target.begin(), t.target.begin() + i64(n)}));
  }
}

}  // namespace

TEST_CASE(
    "translate: 200 pairs are learned, BLEU rises above 90, and the run translates their lines") {
  const TempDir dir;
  write_known_pairs(dir);
  REQUIRE(quietly(run_of(dir, "run")) == 0);
  const RunHistory h = read_metrics(dir / "run/metrics.jsonl");
  REQUIRE(h.evals.size() == 3);
  for (const EvalRecord& e : h.evals) REQUIRE(e.bleu.has_value());
  std::printf("BLEU %.2f %.2f %.2f\n", *h.evals[0].bleu, *h.evals[1].bleu, *h.evals[2].bleu);
  CHECK(*h.evals[0].bleu < 5);
  CHECK(*h.evals[1].bleu > *h.evals[0].bleu);
  CHECK(*h.evals[2].bleu > 90);

  const TrainedModel t = load_trained(dir / "run", "cpu");
  REQUIRE(t.recipe->translates());
  const auto translator = t.recipe->translator();
  data::ParallelLines known = synthetic_pairs(0, 20);
  known.source[3].clear();
  const auto greedy = translator->translate(known.source, {.batch = 7});
  const auto beam = translator->translate(known.source, {.beam = 4});
  metrics::Bleu by_greedy, by_beam;
  for (size_t i = 0; i < 20; ++i) {
    if (i == 3) continue;
    by_greedy.add(greedy[i].text, {known.target[i]});
    by_beam.add(beam[i].text, {known.target[i]});
    CHECK(greedy[i].score == 0);
    CHECK(beam[i].score < 0);
  }
  CHECK(by_greedy.value().score > 80);
  CHECK(by_beam.value().score > 80);
  CHECK(greedy[3].text.empty());
  CHECK(beam[3].text.empty());

  // Two ranks begin with those weights, and each translates a part.
  TrainOptions more = run_of(dir, "more");
  more.init_from = dir / "run";
  more.ranks = 2;
  more.steps = 1;
  more.eval_batches = 0;
  REQUIRE(quietly(more) == 0);
  double best = 0;
  for (const EvalRecord& e : h.evals) best = std::max(best, *e.bleu);
  const RunHistory goes_on = read_metrics(dir / "more/metrics.jsonl");
  REQUIRE(!goes_on.evals.empty());
  CHECK(goes_on.evals[0].bleu == best);

  const std::string far = "sa sb sc sd se sf sg sh si sj sk sl sm sn so";
  CHECK(translator->translate({far})[0].cut == 3);
  CHECK(mentions(message_of([&] { translator->translate({"sa"}, {.beam = 0}); }), "a beam of 0"));
  CHECK(
      mentions(message_of([&] { translator->translate({"sa"}, {.max_length = 14}); }), "up to 13"));
  const std::string foreign = translator->translate({"\xF0\x9F\x90\x95 ?!"})[0].text;
  CHECK(foreign.find('\n') == std::string::npos);
}

TEST_CASE("translate goes on where it was, and not over other lines") {
  const TempDir dir;
  write_known_pairs(dir);
  TrainOptions o = run_of(dir, "whole");
  o.steps = 12, o.eval_every = 4, o.save_every = 4, o.log_every = 1;
  o.set[5] = "dropout=0.1";
  REQUIRE(quietly(o) == 0);
  TrainOptions again = o;
  again.out = dir / "again";
  REQUIRE(quietly(again) == 0);
  // As after a kill behind step 8.
  std::filesystem::remove(dir / "again/ckpt/step-0000012.safetensors");
  again.resume = true;
  REQUIRE(quietly(again) == 0);
  const RunHistory a = read_metrics(dir / "whole/metrics.jsonl"),
                   b = read_metrics(dir / "again/metrics.jsonl");
  REQUIRE(a.steps.size() == 12);
  REQUIRE(b.steps.size() == 12);
  for (size_t i = 0; i < 12; ++i) CHECK(a.steps[i].loss == b.steps[i].loss);
  REQUIRE(a.evals.size() == b.evals.size());
  for (size_t i = 0; i < a.evals.size(); ++i) CHECK(a.evals[i].bleu == b.evals[i].bleu);

  spit(dir / "train.en", text_of(synthetic_pairs(1000, 200).target));
  again.steps = 12;
  std::filesystem::remove(dir / "again/ckpt/step-0000012.safetensors");
  CHECK(mentions(message_of([&] { quietly(again); }), "was started with another tokenizer"));
}

TEST_CASE("translate: a checkpoint without its tokenizer, or with a larger one, is refused") {
  const TempDir dir;
  const auto r = made();
  const std::string path = dir / "f.safetensors";
  std::vector<nn::NamedTensor> all = nn::add_prefix(r->model().state_dict(), "model.");
  all.push_back(named_number("train.step", i64{1}));
  const nn::Metadata about{
      {"format", kCheckpointFormat}, {"recipe", "translate"}, {"set", r->settings()}, {"data", ""}};
  const auto refusal = [&](const nn::Metadata& more) {
    nn::Metadata m = about;
    m.insert(m.end(), more.begin(), more.end());
    nn::save_tensors(path, all, m);
    return message_of([&] { (void)load_trained(path, "cpu"); });
  };
  CHECK(mentions(refusal({}), "DataError: " + path + ": the checkpoint has no tokenizer"));
  CHECK(mentions(refusal({{"tokenizer", "warptape bpe 1\n"}}), path + ": "));
  const data::ParallelLines lines = synthetic_pairs(0, 300);
  CHECK(mentions(refusal({{"tokenizer", words_of(lines, 310)->text()}}),
                 "tokens, and the model knows 300"));
  CHECK(refusal({{"tokenizer", words_of(lines)->text()}}).empty());
  CHECK(
      mentions(message_of([] { (void)made()->translator(); }), "the checkpoint has no tokenizer"));
}

TEST_CASE("translate on simt follows the cpu, and both translate alike") {
  const Device simt = ready(Device::simt());
  NEEDS_OPERATORS(simt);
  const auto run = [](Device d) {
    manual_seed(3);
    const auto r = made();
    const RecipeData data = r->load("synthetic");
    r->model().to(d);
    r->model().train();
    optim::AdamW opt{r->model(), {.lr = 3e-3}};
    TrainStep step{r->model(), opt, {.clip_norm = 1.0}};
    std::vector<double> losses;
    for (i64 i = 0; i < 6; ++i) {
      const data::Batch b = data.train.batch(std::vector<i64>{8 * i, 8 * i + 1, 8 * i + 2});
      losses.push_back(step(b, [&](const data::Batch& part) { return r->loss(part); }).loss());
    }
    r->model().eval();
    const data::Batch b = data.held_out.batch(std::vector<i64>{0, 1, 2, 3}).to(d);
    return std::pair(losses, r->translator()->compare(b));
  };
  const auto [cpu, of_cpu] = run(Device::cpu());
  const auto [there, of_simt] = run(simt);
  for (size_t i = 0; i < cpu.size(); ++i) CHECK(std::abs(there[i] - cpu[i]) < 1e-3 * cpu[i]);
  CHECK(cpu.back() < cpu.front());
  CHECK(of_simt == of_cpu);
  CHECK(of_cpu[0].second.starts_with("t"));
}

TEST_CASE("bleu is monitored of what translates alone") {
  TrainOptions o;
  o.recipe = "charlm";
  o.monitor = "bleu";
  CHECK(mentions(message_of([&] { quietly(o); }), "--monitor bleu: charlm does not translate"));
}

TEST_CASE("translate reads Multi30k: 29,000 pairs and 1,014") {
  const std::string file = test_data("multi30k/train.en.gz");
  if (file.empty()) SKIP_TEST("no multi30k in WT_TEST_DATA or shared/data");
  const std::string folder = file.substr(0, file.rfind('/'));
  const PairFiles f = find_pair_files(folder, {"en", "de"});
  const data::ParallelLines lines = data::read_parallel(f.held_source, f.held_target);
  CHECK(data::read_parallel(f.train_source, f.train_target).source.size() == 29000);
  CHECK(lines.source.size() == 1014);
  const auto words = words_of(lines, 1000);
  const SentencePairs pairs(lines, words, {.max_length = 120, .sorted = true}, "held-out");
  CHECK(pairs.size() == 1014);
  CHECK(pairs.lengths().front() < pairs.lengths().back());
  for (const std::string& l : lines.target) REQUIRE(words->decode(words->encode(l)) == l);
}
