// Weights of PyTorch's libraries into models by name, all or nothing, and back.
#include <sys/stat.h>

#include <map>

#include "warptape/autograd/compare.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/core/random.h"
#include "warptape/core/safetensors.h"
#include "warptape/nn/models.h"
#include "warptape/nn/weight_files.h"
#include "warptape/tests/nn/models/torch_model.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using models::AnyModel;
using nn::NamedTensor;

namespace {

// A small model of the table, with numbers that are not its beginnings.
AnyModel hashed_model(const std::string& name, i64 classes = 0) {
  const AnyModel net = models::make(name, {.classes = classes});
  wt_test::fill_by_hash(net);
  return net;
}
bool same_state(const nn::ModuleBase& a, const nn::ModuleBase& b) {
  const std::vector<NamedTensor> of_a = a.state_dict(), of_b = b.state_dict();
  if (of_a.size() != of_b.size()) return false;
  for (size_t i = 0; i < of_a.size(); ++i)
    if (of_a[i].name != of_b[i].name || !equal(of_a[i].tensor, of_b[i].tensor)) return false;
  return true;
}
std::vector<NamedTensor> without(std::vector<NamedTensor> state, const std::string& ending) {
  std::erase_if(state, [&](const NamedTensor& t) { return t.name.ends_with(ending); });
  return state;
}
std::string refusal(const std::string& name, const std::string& path,
                    const models::LoadOptions& o = {}) {
  return message_of([&] { (void)models::load(name, path, o); });
}
// What a file of this model would be: zeros of a model that has no bytes.
void write_zeros(const std::string& path, const std::string& name, i64 classes = 0) {
  const DefaultDevice meta(Device::meta());
  std::vector<NamedTensor> state;
  for (const NamedTensor& t : models::make(name, {.classes = classes}).state_dict())
    state.push_back(
        {t.name, zeros(t.tensor.shape(), {.dtype = t.tensor.dtype(), .device = Device::cpu()})});
  nn::save_tensors(path, state);
}

}  // namespace

TEST_CASE("load by name: a model made with the weights of a file, a folder or an index",
          "[models][load]") {
  const LeakGuard guard;
  const TempDir dir;
  const AnyModel net = hashed_model("mobilenet_v3_small", 10);
  models::save(net, dir / "net.safetensors");
  models::save(net, dir / "folder", {.max_shard_bytes = 2'000'000});
  CHECK(dir.count() == 2);
  CHECK(nn::WeightFiles::open(dir / "folder").path() ==
        dir / "folder/model.safetensors.index.json");
  const Generator before = generator();
  CHECK(before.calls(RandomStream::init) > 0);
  const AnyModel one = models::load("mobilenet_v3_small", dir / "net.safetensors", {.classes = 10});
  CHECK(generator() == before);  // nothing random is made to be overwritten
  CHECK(same_state(one, net));
  CHECK(one.is_training());
  CHECK(one.parameters()[0].requires_grad());
  CHECK(one.parameters()[0].device() == Device::cpu());
  CHECK(same_state(models::load("mobilenet_v3_small", dir / "folder", {.classes = 10}), net));
  const Tensor x = rand({1, 3, 32, 32});
  AnyModel again = models::load("mobilenet_v3_small", dir / "folder/model.safetensors.index.json",
                                {.classes = 10});
  again.eval(), net.eval();
  const NoGrad no_grad;
  CHECK(equal(again(x), net(x)));
}

TEST_CASE("load by name: what PyTorch's files lack or have beside it", "[models][load]") {
  const LeakGuard guard;
  const TempDir dir;
  const AnyModel net = hashed_model("resnet18_cifar", 3);
  for (const NamedTensor& t : net.state_dict())
    if (t.name.ends_with("num_batches_tracked")) Tensor(t.tensor).fill_(0);
  nn::save_tensors(dir / "old.safetensors", without(net.state_dict(), "num_batches_tracked"));
  CHECK(same_state(models::load("resnet18_cifar", dir / "old.safetensors", {.classes = 3}), net));
  const AnyModel into = models::make("resnet18_cifar", {.classes = 3});
  CHECK(nn::load_model(into, dir / "old.safetensors").complete());
  CHECK(same_state(into, net));
  // A norm without its statistics is not complete for all that.
  nn::save_tensors(dir / "bad.safetensors",
                   without(without(net.state_dict(), "bn1.running_mean"), "num_batches_tracked"));
  const std::string text = refusal("resnet18_cifar", dir / "bad.safetensors", {.classes = 3});
  CHECK(mentions(text, "missing layer1.0.bn1.running_mean [64]"));
  CHECK(mentions(text, "missing layer1.0.bn1.num_batches_tracked []"));
}

TEST_CASE("load by name: GPT-2's names with and without the prefix, masks, the tied head",
          "[models][load]") {
  const LeakGuard guard;
  const TempDir dir;
  const models::Gpt2Options tiny{
      .vocabulary = 51, .context = 16, .channels = 24, .layers = 2, .heads = 3};
  models::Gpt2 from(tiny);
  wt_test::fill_by_hash(from);
  std::vector<NamedTensor> bare;
  for (const NamedTensor& t : from.state_dict())
    if (t.name != "lm_head.weight") bare.push_back({t.name.substr(12), t.tensor});
  bare.push_back({"h.0.attn.bias", ones({1, 1, 16, 16})});
  nn::save_tensors(dir / "bare.safetensors", bare);
  nn::save_tensors(dir / "all.safetensors", from.state_dict());
  models::save(from, dir / "saved.safetensors");
  nn::save_sharded(dir / "folder", bare, {.max_shard_bytes = 4000});
  for (const char* file : {"bare.safetensors", "all.safetensors", "saved.safetensors", "folder"}) {
    models::Gpt2 to(tiny);
    CHECK(models::load_weights(to, "gpt2", dir / file).complete());
    CHECK(same_state(to, from));
    CHECK(to.lm_head.weight->same_as(to.transformer.wte.weight));
  }
  models::Gpt2 padded({.vocabulary = 51,
                       .context = 16,
                       .channels = 24,
                       .layers = 2,
                       .heads = 3,
                       .dropout = 0,
                       .pad_vocabulary_to = 64});
  CHECK(models::load_weights(padded, "gpt2", dir / "bare.safetensors").complete());
  CHECK(equal(padded.transformer.wte.weight->slice(0, {0, 51}), from.transformer.wte.weight));
  // Saved as transformers does: the table under its own name, the head told in the metadata.
  auto saved = SafetensorsFile::open(dir / "saved.safetensors");
  CHECK(saved.find("transformer.wte.weight") != nullptr);
  CHECK(saved.find("lm_head.weight") == nullptr);
  CHECK(*saved.find_metadata("lm_head.weight") == "transformer.wte.weight");
  CHECK(*saved.find_metadata("format") == "pt");
}

TEST_CASE("load by name: weights of another architecture are told by the model they look like",
          "[models][load]") {
  const LeakGuard guard;
  const TempDir dir;
  const std::string file = dir / "f.safetensors";
  write_zeros(file, "resnet34");
  CHECK(mentions(
      refusal("resnet18", file),
      "UsageError: [models] " + file + " does not fit resnet18: it looks like resnet34\n"));
  CHECK(mentions(refusal("resnet18", file), "unexpected layer1.2.conv1.weight"));
  CHECK(mentions(refusal("mobilenet_v2", file), "it looks like resnet34\n"));
  write_zeros(file, "resnet18_cifar", 7);
  CHECK(mentions(refusal("resnet18_cifar", file),
                 "does not fit resnet18_cifar: it looks like resnet18_cifar with {.classes = 7}\n"
                 "  fc.weight is [10, 512] here and [7, 512] in the state\n"
                 "  fc.bias is [10] here and [7] in the state"));
  CHECK(
      mentions(refusal("efficientnet_b0", file), "looks like resnet18_cifar with {.classes = 7}"));
  nn::save_tensors(file, {{"w", ones({2})}});
  CHECK(mentions(refusal("pinn", file), "pinn: it holds weights of another architecture\n"));
  CHECK(mentions(refusal("pinn", file), "unexpected w"));
  CHECK(mentions(refusal("pin", file), "did you mean 'pinn'?"));
  CHECK_THROWS_AS(models::load("pinn", dir / "absent.safetensors"), DataError);
  // What was asked and refused has drawn nothing, and a pipe is not waited for.
  const AnyModel into = models::make("pinn");
  const Generator before = generator();
  CHECK_THROWS_AS(models::load_weights(into, "pinn", file), UsageError);
  CHECK_THROWS_AS(models::load("pinn", dir / "absent.safetensors", {.strict = false}), DataError);
  CHECK(generator() == before);
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK(mentions(refusal("pinn", dir / "pipe"), "cannot be read: it is not a regular file"));
}

TEST_CASE("load by name: nothing of what does not fit is loaded, unless it may be",
          "[models][load]") {
  const LeakGuard guard;
  const TempDir dir;
  const std::string file = dir / "f.safetensors";
  const AnyModel trained = hashed_model("pinn", 3);
  models::save(trained, file, {.metadata = {{"note", "n"}}});
  CHECK(
      nn::load_tensors(file).metadata ==
      nn::Metadata{{"format", "pt"}, {"architecture", std::string(trained.type())}, {"note", "n"}});
  CHECK_THROWS_AS(models::save(trained, file, {.metadata = {{"format", "x"}}}), UsageError);
  const AnyModel net = models::make("pinn"), before = net.clone();
  CHECK_THROWS_AS(models::load_weights(net, "pinn", file), UsageError);
  CHECK(same_state(net, before));
  const nn::LoadStateResult rest = models::load_weights(net, "pinn", file, {.strict = false});
  CHECK(rest.misshapen.size() == 2);
  CHECK(equal(net.named_parameters()[0].tensor, trained.named_parameters()[0].tensor));
  CHECK(equal(net.named_parameters().back().tensor, before.named_parameters().back().tensor));
  manual_seed(5);
  const AnyModel tuned = models::load("pinn", file, {.classes = 2, .strict = false});
  CHECK(equal(tuned.named_parameters()[0].tensor, trained.named_parameters()[0].tensor));
  CHECK(tuned.named_parameters().back().tensor.shape() == Shape{2});
  // A model by name is saved as what it is, not as AnyModel.
  nn::save_model(trained, file);
  CHECK(nn::load_model(hashed_model("pinn", 3), file).complete());
  CHECK(*SafetensorsFile::open(file).find_metadata("architecture") == trained.type());
}
