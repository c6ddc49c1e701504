// The recipe imagenet-folder on trees of pictures that the test writes: classes from folders, parts
// that are held out, pictures that cannot be read, and a run that learns and goes on.
#include <filesystem>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/data/image.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/data/image_input.h"
#include "warptape/tools/wt/measure/memory_use.h"
#include "warptape/tools/wt/recipes/folder_pictures.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/training/train.h"
#include "warptape/tools/wt/training/trained_model.h"

using namespace wt;
using namespace wt::tools;

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kSmall = {"model=mobilenet_v3_small", "size=32", "area=0.8"};

// u8 [height, width, 3]: one channel bright, by the class, the rest noise.
Tensor picture(i64 label, i64 number) {
  const i64 height = 20 + number % 3, width = 24;
  std::vector<u8> v(size_t(height * width * 3));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = u8((i64(i) % 3 == label % 3 ? 150 : 0) + i64((i * 7919 + size_t(number) * 104729) % 60));
  return tensor(v).reshape({height, width, 3});
}

// `folder`/class/picture.jpg and .png by turns.
void write_class(const std::string& folder, const std::string& name, i64 label, i64 from, i64 to) {
  fs::create_directories(folder + "/" + name);
  for (i64 i = from; i < to; ++i) {
    const std::string path = folder + "/" + name + "/" + std::to_string(100 + i);
    i % 2 ? data::write_png(path + ".png", picture(label, i))
          : data::write_jpeg(path + ".jpg", picture(label, i));
  }
}
void write_tree(const std::string& folder, i64 from, i64 to) {
  const char* names[] = {"ant", "bee", "cat"};
  for (i64 c = 0; c < 3; ++c) write_class(folder, names[c], c, from, to);
}

std::unique_ptr<Recipe> made(const std::string& data, std::vector<std::string> more = {}) {
  manual_seed(5);
  more.insert(more.end(), kSmall.begin(), kSmall.end());
  return make_recipe("imagenet-folder", more, data);
}
std::string refused(const std::string& data, const std::vector<std::string>& more = {}) {
  return message_of([&] { (void)made(data, more)->load(data); });
}
TrainOptions tiny_run(const TempDir& dir, const std::string& out) {
  TrainOptions o;
  o.recipe = "imagenet-folder";
  o.set = kSmall;
  o.device = "cpu";
  o.data = dir / "tree";
  o.out = dir / out;
  o.batch = 12;
  o.steps = 12;
  o.lr = 2e-3;
  o.warmup = 0;
  o.save_every = 3;
  o.keep = 50;
  o.quiet = true;
  return o;
}
std::string run(const TrainOptions& o) {
  const CapturedOutput output;
  REQUIRE(train(o) == 0);
  return output.text();
}

}  // namespace

TEST_CASE("imagenet-folder: folders are classes, and a part of each is held out by a seed") {
  const TempDir dir;
  write_tree(dir / "tree", 0, 10);
  write_class(dir / "tree", "dog", 3, 0, 1);
  spit(dir / "tree/cat/notes.txt", "no picture");
  const auto recipe = made(dir / "tree", {"val=0.2"});
  CHECK(mentions(recipe->settings(), "classes=4"));
  const RecipeData d = recipe->load(dir / "tree");
  CHECK(recipe->class_names() == std::vector<std::string>{"ant", "bee", "cat", "dog"});
  CHECK(d.train.size() == 3 * 8 + 1);
  CHECK(d.held_out.size() == 3 * 2);
  REQUIRE(d.remarks.size() == 2);
  CHECK(d.remarks[0] == "1 file is no picture");
  CHECK(mentions(d.remarks[1], "one picture in all, which is learned from and not judged"));
  CHECK(mentions(d.remarks[1], "dog"));

  const auto parts = [&](u64 seed) {
    return open_pictures(dir / "tree", {.held_out = 0.2, .seed = seed},
                         [](const std::string& root, bool) { return data::ImageFolder(root); });
  };
  // Another seed, other pictures; the same one, the same.
  const auto labels_and_pixels = [](const FolderPictures& p) {
    double sums = 0;
    for (i64 i = 0; i < p.size(); ++i)
      sums += double(i + 1) * sum(p.batch(std::vector<i64>{i}).x.to(DType::f64)).item();
    return sums;
  };
  CHECK(labels_and_pixels(parts(1).held_out) == labels_and_pixels(parts(1).held_out));
  CHECK(labels_and_pixels(parts(1).held_out) != labels_and_pixels(parts(2).held_out));
}

TEST_CASE("imagenet-folder: train and val, batches of one size, anew in each epoch") {
  const TempDir dir;
  write_tree(dir / "tree/train", 0, 4);
  write_tree(dir / "tree/val", 4, 6);
  const auto recipe = made(dir / "tree");
  const RecipeData d = recipe->load(dir / "tree");
  CHECK(d.train.size() == 12);
  CHECK(d.held_out.size() == 6);
  std::vector<i64> some{0, 5, 11};
  const data::Batch b = d.train.batch(some);
  CHECK(b.x.shape() == Shape{3, 3, 32, 32});
  CHECK(b.y.to_vector<i64>() == std::vector<i64>{0, 1, 2});
  CHECK(max(abs(b.x - d.train.batch(some, 1).x)).item() > 0.1);
  CHECK(max(abs(b.x - d.train.batch(some).x)).item() == 0);
  some = {0, 5};
  CHECK(max(abs(d.held_out.batch(some).x - d.held_out.batch(some, 1).x)).item() == 0);
}

TEST_CASE("imagenet-folder: val may have more pictures than train, and one picture is remarked") {
  const TempDir dir;
  write_tree(dir / "tree/train", 0, 2);
  fs::remove(dir / "tree/train/cat/101.png");
  write_tree(dir / "tree/val", 2, 9);
  const RecipeData d = made(dir / "tree")->load(dir / "tree");
  CHECK(d.train.size() == 5);
  CHECK(d.held_out.size() == 21);
  CHECK(d.remarks == std::vector<std::string>{"one picture to learn from: the class cat"});
}

TEST_CASE("imagenet-folder: what folders lack is said") {
  const TempDir dir;
  CHECK(mentions(refused(""), "needs --data FOLDER"));
  CHECK(mentions(refused(dir / "nowhere"), "nowhere"));
  CHECK(mentions(refused(dir.path), "no folders are in it"));
  write_class(dir / "one", "ant", 0, 0, 2);
  CHECK(mentions(refused(dir / "one"), "one class, ant, and nothing to tell it from"));
  write_tree(dir / "tree", 0, 3);
  fs::create_directories(dir / "tree/empty");
  CHECK(mentions(refused(dir / "tree"), "a class without images"));
  write_tree(dir / "two/train", 0, 3);
  write_tree(dir / "two/val", 0, 3);
  fs::rename(dir / "two/val/bee", dir / "two/val/eel");
  const std::string both = refused(dir / "two");
  CHECK(mentions(both, "both must have the same classes"));
  CHECK(mentions(both, "train lacks eel"));
  CHECK(mentions(both, "val lacks bee"));
  write_tree(dir / "fine", 0, 3);
  CHECK(mentions(refused(dir / "fine", {"classes=5"}), "3 classes, and the model has 5"));
  CHECK(mentions(message_of([] {
                   make_recipe("imagenet-folder", {"model=vit_small_patch16_224", "size=64"}, "");
                 }),
                 "pictures of 64 x 64 do not go through"));
}

TEST_CASE("imagenet-folder: pictures that cannot be read are named, counted and limited") {
  const TempDir dir;
  write_tree(dir / "tree", 0, 6);
  spit(dir / "tree/ant/bad.jpg", "not a JPEG file");
  spit(dir / "tree/bee/cut.png", slurp(dir / "tree/bee/101.png").substr(0, 20));
  const std::string why = refused(dir / "tree");
  CHECK(mentions(why, "2 pictures cannot be read, at most 0 may be"));
  CHECK(mentions(why, "ant/bad.jpg"));
  CHECK(mentions(why, "bee/cut.png"));
  CHECK(mentions(why, "Try --set unreadable=2"));
  CHECK(mentions(refused(dir / "tree", {"unreadable=1"}), "at most 1 may be"));
  const RecipeData d = made(dir / "tree", {"unreadable=2"})->load(dir / "tree");
  CHECK(d.train.size() + d.held_out.size() == 18);
  REQUIRE(d.remarks.size() == 1);
  CHECK(mentions(d.remarks[0], "2 pictures cannot be read and are left out: "));

  // Damage behind the header is met when the picture is decoded: another one takes its place.
  for (const char* broken : {"tree/ant/bad.jpg", "tree/bee/cut.png"}) fs::remove(dir / broken);
  std::string png = slurp(dir / "tree/cat/101.png");
  png[png.size() / 2] ^= 0x55;
  spit(dir / "tree/cat/101.png", png);
  for (const i64 most : {0, 1}) {
    const RecipeData later =
        made(dir / "tree", {"unreadable=" + std::to_string(most)})->load(dir / "tree");
    CHECK(later.remarks.empty());
    std::string text, error;
    {
      const CapturedOutput output;
      error = message_of([&] {
        for (const data::AnyDataset* part : {&later.train, &later.held_out})
          for (i64 i = 0; i < part->size(); ++i) (void)part->batch(std::vector<i64>{i});
      });
      text = output.text();
    }
    CHECK(mentions(text, "left out: "));
    CHECK(mentions(text, "cat/101.png"));
    if (most == 0)
      CHECK(mentions(error, "1 picture cannot be read, at most 0 may be"));
    else
      CHECK(error.empty());
  }
  // Nothing but damage in a class.
  for (i64 i = 0; i < 6; ++i)
    spit(dir / ("tree/ant/" + std::to_string(100 + i) + (i % 2 ? ".png" : ".jpg")), "damaged");
  CHECK(mentions(refused(dir / "tree", {"unreadable=20"}),
                 "no picture can be read of the class ant"));
}

TEST_CASE("imagenet-folder: a class of val alone whose pictures cannot be read is an error") {
  const TempDir dir;
  write_tree(dir / "tree/train", 0, 3);
  write_tree(dir / "tree/val", 3, 5);
  spit(dir / "tree/val/bee/103.png", "damaged");
  CHECK(refused(dir / "tree", {"unreadable=2"}).empty());
  spit(dir / "tree/val/bee/104.jpg", "damaged");
  const std::string why = refused(dir / "tree", {"unreadable=2"});
  CHECK(mentions(why, "tree/val: no picture can be read of the class bee"));
}

TEST_CASE("imagenet-folder: a picture that proved damaged is not decoded again") {
  const TempDir dir;
  write_tree(dir / "tree/train", 0, 3);
  write_tree(dir / "tree/val", 0, 3);
  const std::string path = dir / "tree/val/bee/101.png", whole = slurp(path);
  std::string png = whole;
  png[png.size() / 2] ^= 0x55;
  spit(path, png);
  const fs::file_time_type written = fs::last_write_time(path);
  const RecipeData d = made(dir / "tree", {"unreadable=1"})->load(dir / "tree");
  const CapturedOutput output;
  const std::vector<i64> some{3, 4, 5};  // the bees
  const data::Batch first = d.held_out.batch(some);
  CHECK(max(abs(first.x.narrow(0, 1, 1) - first.x.narrow(0, 2, 1))).item() == 0);
  // Were the file opened once more, the picture would be good.
  spit(path, whole);
  fs::last_write_time(path, written);
  CHECK(max(abs(d.held_out.batch(some).x - first.x)).item() == 0);
}

TEST_CASE("imagenet-folder: predict is shown what evaluation is, bit for bit") {
  const TempDir dir;
  write_tree(dir / "tree/train", 0, 2);
  write_tree(dir / "tree/val", 2, 4);
  const auto noise = [](const Shape& shape) {
    std::vector<u8> v(size_t(shape[0] * shape[1] * shape[2]));
    for (size_t i = 0; i < v.size(); ++i) v[i] = u8(i * i * 31 + i / 7);
    return tensor(v).reshape(shape);
  };
  // Wide, high, as large as the model's own, grey, and with an alpha channel.
  data::write_png(dir / "tree/val/ant/a.png", noise({60, 131, 3}));
  data::write_png(dir / "tree/val/ant/b.png", noise({97, 40, 3}));
  data::write_png(dir / "tree/val/ant/c.png", noise({32, 32, 3}));
  data::write_png(dir / "tree/val/ant/d.png", noise({50, 45, 1}));
  data::write_png(dir / "tree/val/ant/e.png", noise({45, 50, 4}));
  const auto recipe = made(dir / "tree");
  const RecipeData d = recipe->load(dir / "tree");
  const data::ImageFolder files(dir / "tree/val");
  REQUIRE(files.size() == d.held_out.size());
  recipe->model().eval();
  const NoGrad no_grad;
  for (i64 i = 0; i < files.size(); ++i) {
    CAPTURE(files.path(i));
    const Tensor judged = d.held_out.batch(std::vector<i64>{i}).x;
    for (const bool resize : {false, true}) {
      const Tensor seen = recipe->prepare(read_images(files.path(i), *recipe, resize));
      REQUIRE(seen.shape() == judged.shape());
      CHECK(seen.to_vector<float>() == judged.to_vector<float>());
      CHECK(recipe->logits(seen).to_vector<float>() == recipe->logits(judged).to_vector<float>());
    }
  }
}

TEST_CASE("imagenet-folder: a run learns, names its classes, and goes on with the same bits") {
  const TempDir dir;
  write_tree(dir / "tree", 0, 16);
  for (i64 c = 3; c < 6; ++c) write_class(dir / "tree", "more" + std::to_string(c), c, 0, 6);
  TrainOptions o = tiny_run(dir, "run");
  const std::string text = run(o);
  const auto number = [&](const std::string& key) {
    return std::stod(text.substr(text.find("\"" + key + "\":") + key.size() + 3));
  };
  CHECK(number("top5") >= number("accuracy"));
  CHECK(mentions(slurp(o.out + "/metrics.jsonl"), "\"top5\":"));
  CHECK(mentions(slurp(o.out + "/report.html"), "among the first five"));
  const std::string last = o.out + "/ckpt/step-000012.safetensors", whole = slurp(last);
  REQUIRE(!whole.empty());
  for (const char* step : {"06", "09", "12"})
    fs::remove(o.out + "/ckpt/step-0000" + step + ".safetensors");
  o.resume = true;
  o.workers = 2;
  run(o);
  CHECK(slurp(last) == whole);

  const TrainedModel t = load_trained(o.out, "cpu");
  CHECK(t.recipe->class_names() ==
        std::vector<std::string>{"ant", "bee", "cat", "more3", "more4", "more5"});
  (void)t.recipe->load(o.data);
  fs::rename(dir / "tree/bee", dir / "tree/bug");
  CHECK(
      mentions(message_of([&] { (void)t.recipe->load(o.data); }), "number 1 is bug, and was bee"));
  const CapturedOutput output;
  CHECK_THROWS_AS(train(o), UsageError);  // nor does the run go on
}

TEST_CASE(
    "imagenet-folder: names of classes in a checkpoint are checked, and no terminal obeys them") {
  const auto taken = [](const std::string& text) {
    const auto recipe = made("", {"classes=2"});
    recipe->take_kept({{"classes", text}}, "file");
    return recipe->class_names();
  };
  CHECK(taken("ant/b\x1b[2J/") == std::vector<std::string>{"ant", "b\\x1b[2J"});
  for (const char* wrong : {"ant/", "ant/bee", "ant/bee/cat/"})
    CHECK(mentions(message_of([&] { taken(wrong); }), "and the model 2 classes"));
  CHECK(mentions(message_of([] { made("")->take_kept({}, "file"); }),
                 "there are no names of the classes"));
  CHECK(made("")->kept().empty());
}

TEST_CASE("imagenet-folder: three colours are told apart after a few epochs") {
  const TempDir dir;
  write_tree(dir / "tree", 0, 20);
  TrainOptions o = tiny_run(dir, "run");
  o.steps = 16;
  const std::string text = run(o);
  CHECK(std::stod(text.substr(text.find("\"train_loss\":") + 13)) < 0.5);  // of ln 3 = 1.1
  CHECK(text.find("\"top5\"") == std::string::npos);  // of three classes all are
}

TEST_CASE("imagenet-folder: a batch that will not fit is refused before the run, with what would") {
  const TempDir dir;
  write_tree(dir / "tree", 0, 6);
  TrainOptions o = tiny_run(dir, "run");
  o.batch = 200;
  const i64 small = [&] {
    TrainOptions fewer = o;
    fewer.batch = 50;
    return predicted_peak(memory_jobs(fewer, true).front());
  }();
  o.memory_limit = small;
  const std::string why = message_of([&] { train(o); });
  CHECK(mentions(why, "a batch of 200 of imagenet-folder is predicted to take"));
  CHECK(mentions(why, "--batch 50"));
  CHECK(!fs::exists(o.out));
}
