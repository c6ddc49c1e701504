// What a checkpoint from a stranger may make the commands do that use a trained model.
#include "warptape/tools/wt/training/trained_model.h"

#include <chrono>

#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/values.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/reports/run_output.h"

using namespace wt;

namespace {

// A checkpoint that says of itself what it likes.
struct Forged {
  TempDir dir;
  std::string path = dir / "f.safetensors";
  nn::Metadata metadata{{"format", tools::kCheckpointFormat}, {"data", ""}};
  std::vector<nn::NamedTensor> tensors{tools::named_number("train.step", i64(7))};

  std::string refusal(const std::string& recipe, const std::string& set) {
    nn::Metadata all = metadata;
    all.emplace_back("recipe", recipe), all.emplace_back("set", set);
    nn::save_tensors(path, tensors, all);
    return message_of([&] { (void)tools::load_trained(path, "cpu"); });
  }
};

}  // namespace

TEST_CASE("trained model: its settings cost no memory before the weights have proved to be there") {
  Forged f;
  memory::reset_peak(Device::cpu());
  const i64 before = memory::stats(Device::cpu()).peak;
  const std::string text = f.refusal("charlm", "layers=64 heads=64 channels=8192");
  CHECK(
      mentions(text, "DataError: " + f.path + ": the weights are not those of charlm\n  UsageErr"));
  CHECK(mentions(text, "missing token.weight [256, 8192]"));
  CHECK(mentions(text, "more missing"));
  CHECK(memory::stats(Device::cpu()).peak - before < (1 << 20));
}

TEST_CASE("trained model: the right weights are loaded, with the step") {
  Forged f;
  const std::string set = "layers=1 heads=2 channels=8 context=8";
  const auto recipe = tools::find_recipe("charlm").make(tools::Settings::parse(set));
  for (auto& t : nn::add_prefix(recipe->model().state_dict(), "model.")) f.tensors.push_back(t);
  REQUIRE(f.refusal("charlm", set) == "");
  const tools::TrainedModel t = tools::load_trained(f.path, "cpu");
  CHECK(t.step == 7);
  const auto mine = recipe->model().state_dict(), theirs = t.recipe->model().state_dict();
  REQUIRE(mine.size() == theirs.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    CHECK(theirs[i].tensor.device() == Device::cpu());
    CHECK(values(theirs[i].tensor) == values(mine[i].tensor));
  }
}

TEST_CASE("trained model: a million bytes of settings are refused as quickly as they are read") {
  Forged f;
  std::string set;
  for (int i = 0; i < 100'000; ++i) set += "k" + std::to_string(i) + "=1 ";
  const auto begin = std::chrono::steady_clock::now();
  CHECK(mentions(f.refusal("charlm", set), "charlm has no setting 'k0'"));
  const auto spent = std::chrono::steady_clock::now() - begin;
  CHECK(std::chrono::duration<double>(spent).count() < 4);  // 0.1 s; comparing each with each: 20 s
}

TEST_CASE("trained model: what a checkpoint says of itself is shown escaped") {
  Forged f;
  const std::string evil = "\x1b[2J\x07";
  for (const std::string& text :
       {f.refusal(evil, ""), f.refusal("charlm", evil), f.refusal("charlm", evil + "=1"),
        f.refusal("charlm", "layers=" + evil), f.refusal("charlm", "positions=" + evil)}) {
    CHECK(mentions(text, "DataError: "));
    CHECK(mentions(text, "\\x1b[2J\\x07"));
    CHECK(text.find_first_of("\x1b\x07") == text.npos);
  }
  f.metadata[0].second = evil;
  CHECK(mentions(f.refusal("charlm", ""), "the format is \\x1b[2J\\x07, expected"));
}
