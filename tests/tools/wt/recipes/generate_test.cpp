#include "warptape/tools/wt/recipes/generate.h"

#include <cmath>
#include <map>

#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/nn/generate.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;

namespace {

// Knows the byte after each: 'b' after 'a' with odds 3 : 1 against 'c', then 'a' again.
class Odds : public tools::Recipe {
 public:
  explicit Odds(i64 context = 4) : context_(context) {}
  nn::ModuleBase& model() override { return net_; }
  Tensor logits(const Tensor& x) override {
    longest = std::max(longest, x.size(1));
    was_training = was_training || net_.is_training();
    const i64 n = x.size(1);
    std::vector<float> all(size_t(n * 256), -1e9f);
    const std::vector<i64> bytes = x.to_vector<i64>();
    for (i64 i = 0; i < n; ++i) {
      float* row = all.data() + i * 256;
      if (bytes[size_t(i)] == 'a') {
        row[int('b')] = std::log(3.0f);
        row[int('c')] = 0;
      } else {
        row[int('a')] = 0;
      }
    }
    return tensor(all).reshape({1, n, 256});
  }
  tools::RecipeData load(const std::string&) override { throw UsageError("none"); }
  i64 dataset_bytes(const std::string&) const override { return 0; }
  data::Batch shape_batch(i64) const override { return {}; }
  tools::RecipeDefaults defaults() const override { return {}; }
  const char* item() const override { return "bytes"; }
  i64 context() const override { return context_; }

  i64 longest = 0;
  bool was_training = false;

 private:
  struct Net : nn::Module<Net> {
    Tensor forward(Tensor x) { return x; }
  };
  Net net_;
  i64 context_;
};

std::map<char, int> counts(const std::string& text) {
  std::map<char, int> n;
  for (char c : text) ++n[c];
  return n;
}

}  // namespace

TEST_CASE("generated text follows the model's odds, sharpened by temperature and top_k") {
  Odds model;
  const auto share_of_b = [&](double temperature, i64 top_k) {
    std::map<char, int> n = counts(generate(
        model, {.prompt = "c", .tokens = 8000, .temperature = temperature, .top_k = top_k}));
    CHECK(n['a'] == 4000);
    CHECK(n['b'] + n['c'] == 4000);
    return n['b'] / 4000.0;
  };
  // Four standard deviations of 4000 draws are 0.03.
  CHECK(std::fabs(share_of_b(1, 0) - 0.75) < 0.03);
  CHECK(std::fabs(share_of_b(0.5, 0) - 0.9) < 0.03);
  CHECK(std::fabs(share_of_b(1, 2) - 0.75) < 0.03);
  CHECK(share_of_b(1, 1) == 1);
  CHECK(share_of_b(0, 0) == 1);
  CHECK(model.longest == 4);  // it looks back no further
  CHECK_FALSE(model.was_training);
  CHECK(model.model().is_training());
}

TEST_CASE("the same seed generates the same text, and the ambient generator stays") {
  Odds model;
  const Generator before = generator();
  const std::string one = generate(model, {.tokens = 200, .seed = 1});
  CHECK(one.size() == 200);
  CHECK(generate(model, {.tokens = 200, .seed = 1}) == one);
  CHECK(generate(model, {.tokens = 200, .seed = 2}) != one);
  CHECK(generate(model, {.tokens = 100, .seed = 1}) == one.substr(0, 100));
  CHECK(generator() == before);
  CHECK(generate(model, {.tokens = 0}).empty());
  std::string shown;
  generate(model, {.tokens = 200, .seed = 1}, [&](char c) {
    shown += c;
    return shown.size() < 7;
  });
  CHECK(shown == one.substr(0, 7));
}

TEST_CASE("charlm writes with its cache what it writes without") {
  for (const char* positions : {"rotary", "learned"}) {
    INFO(positions);
    manual_seed(4);
    const auto charlm = tools::find_recipe("charlm").make(tools::Settings::parse(
        str("layers=2 heads=2 channels=16 context=12 positions=", positions)));
    models::Decoder again = charlm->Recipe::decoder();  // computes all for each byte
    const std::vector<std::vector<i64>> prompts = {charlm->encode("To be, or not")};
    const models::GenerateOptions o{.max_new_tokens = 40, .do_sample = true, .slide = 3};
    const auto text = models::generate(charlm->decoder(), prompts, o);
    CHECK(text == models::generate(again, prompts, o));
    CHECK(text[0].size() == 53);
    // Rows of different lengths have positions of their own.
    const auto two =
        models::generate(charlm->decoder(), {{65}, prompts[0]},
                         {.max_new_tokens = 40, .do_sample = true, .seed = 0, .slide = 3});
    CHECK(two[1] == text[0]);
  }
}

TEST_CASE("generate refuses what makes no sense") {
  Odds model, no_text(0);
  CHECK(message_of([&] { generate(no_text, {}); }) ==
        "UsageError: [generate] the model is not one of text");
  CHECK_THROWS_AS(generate(model, {.prompt = ""}), UsageError);
  CHECK_THROWS_AS(generate(model, {.tokens = -1}), UsageError);
  CHECK_THROWS_AS(generate(model, {.temperature = -1}), UsageError);
  CHECK_THROWS_AS(generate(model, {.temperature = NAN}), UsageError);
  CHECK_THROWS_AS(generate(model, {.top_k = -1}), UsageError);
  CHECK_THROWS_AS(generate(model, {.top_p = 0}), UsageError);
  CHECK_THROWS_AS(generate(model, {.repetition_penalty = 0}), UsageError);
}
