// State dicts that PyTorch saved: a ResNet, a GPT by hand, a GPT of PyTorch's TransformerEncoder.
// They load by PyTorch's names, the models give its outputs, and what is saved is what was read.
// tools/generators/make_weights_reference.py has the same models and writes
// tests/reference/weights.
#include <limits>
#include <map>
#include <optional>

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/safetensors.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

struct BasicBlock : nn::Module<BasicBlock> {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  std::optional<nn::Sequential> downsample;
  BasicBlock(i64 in, i64 out, i64 stride)
      : conv1(add("conv1", conv(in, out, 3, stride))),
        conv2(add("conv2", conv(out, out, 3, 1))),
        bn1(add("bn1", nn::BatchNorm2d{out})),
        bn2(add("bn2", nn::BatchNorm2d{out})) {
    if (stride != 1 || in != out)
      downsample =
          add("downsample", nn::Sequential{conv(in, out, 1, stride), nn::BatchNorm2d{out}});
  }
  static nn::Conv2d conv(i64 in, i64 out, i64 kernel, i64 stride) {
    return nn::Conv2d{
        in, out, {.kernel = kernel, .stride = stride, .padding = kernel / 2, .bias = false}};
  }
  Tensor forward(Tensor x) {
    const Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(y + (downsample ? (*downsample)(x) : x));
  }
};

struct ResNet : nn::Module<ResNet> {
  nn::Conv2d conv1 = add("conv1", BasicBlock::conv(3, 8, 3, 1));
  nn::BatchNorm2d bn1 = add("bn1", nn::BatchNorm2d{8});
  nn::MaxPool2d maxpool{3, {.stride = 2, .padding = 1}};
  nn::Sequential layer1 = add("layer1", nn::Sequential{BasicBlock{8, 8, 1}, BasicBlock{8, 8, 1}});
  nn::Sequential layer2 =
      add("layer2", nn::Sequential{BasicBlock{8, 12, 2}, BasicBlock{12, 12, 1}});
  nn::AdaptiveAvgPool2d avgpool{1};
  nn::Linear fc = add("fc", nn::Linear{12, 5});
  Tensor forward(Tensor x) {
    x = maxpool(relu(bn1(conv1(std::move(x)))));
    return fc(avgpool(layer2(layer1(std::move(x)))).flatten(1));
  }
};

constexpr i64 kContext = 8, kChannels = 16, kHeads = 2, kWords = 24;

struct Attention : nn::Module<Attention> {
  nn::Linear c_attn = add("c_attn", nn::Linear{kChannels, 3 * kChannels});
  nn::Linear c_proj = add("c_proj", nn::Linear{kChannels, kChannels});
  nn::Buffer bias =
      add_buffer("bias", zeros({1, 1, kContext, kContext}, {.dtype = DType::boolean}));
  Tensor forward(Tensor x) {
    const i64 n = x.size(0), t = x.size(1);
    std::vector<Tensor> qkv = chunk(c_attn(x), 3, -1);
    for (Tensor& y : qkv)
      y = y.reshape({n, t, kHeads, kChannels / kHeads}).transpose(1, 2).contiguous();
    const Tensor seen = bias.tensor().slice(2, {0, t}).slice(3, {0, t});
    Tensor scores = matmul(qkv[0], qkv[1].transpose(-2, -1)) / std::sqrt(kChannels / kHeads);
    scores = where(seen, scores, -std::numeric_limits<double>::infinity());
    return c_proj(matmul(softmax(scores, -1), qkv[2]).transpose(1, 2).reshape({n, t, kChannels}));
  }
};
struct Mlp : nn::Module<Mlp> {
  nn::Linear c_fc = add("c_fc", nn::Linear{kChannels, 4 * kChannels});
  nn::Linear c_proj = add("c_proj", nn::Linear{4 * kChannels, kChannels});
  Tensor forward(Tensor x) { return c_proj(gelu_tanh(c_fc(std::move(x)))); }
};
struct Block : nn::Module<Block> {
  nn::LayerNorm ln_1 = add("ln_1", nn::LayerNorm{kChannels});
  Attention attn = add("attn", Attention{});
  nn::LayerNorm ln_2 = add("ln_2", nn::LayerNorm{kChannels});
  Mlp mlp = add("mlp", Mlp{});
  Tensor forward(Tensor x) {
    x = x + attn(ln_1(x));
    return x + mlp(ln_2(x));
  }
};
struct Body : nn::Module<Body> {
  nn::Embedding wte = add("wte", nn::Embedding{kWords, kChannels});
  nn::Embedding wpe = add("wpe", nn::Embedding{kContext, kChannels});
  nn::ModuleList<Block> h = add("h", nn::ModuleList<Block>(2, [] { return Block{}; }));
  nn::LayerNorm ln_f = add("ln_f", nn::LayerNorm{kChannels});
  Tensor forward(Tensor x) {
    Tensor y = wte(x) + wpe(arange(x.size(1)));
    for (Block& block : h) y = block(std::move(y));
    return ln_f(std::move(y));
  }
};
struct Gpt : nn::Module<Gpt> {
  Body transformer = add("transformer", Body{});
  nn::Linear lm_head = add("lm_head", nn::Linear{kChannels, kWords, {.bias = false}});
  Gpt() { lm_head.weight = transformer.wte.weight; }
  Tensor forward(Tensor x) { return lm_head(transformer(std::move(x))); }
};

struct GptEncoder : nn::Module<GptEncoder> {
  nn::Embedding token = add("token", nn::Embedding{kWords, kChannels});
  nn::Param position = add("position", zeros({kContext, kChannels}));
  nn::TransformerEncoder blocks =
      add("blocks", nn::TransformerEncoder{kChannels,
                                           kHeads,
                                           2,
                                           {.dim_feedforward = 32,
                                            .dropout = 0,
                                            .activation = nn::TransformerActivation::gelu,
                                            .batch_first = true,
                                            .norm_first = true},
                                           {.norm = true}});
  nn::Linear head = add("head", nn::Linear{kChannels, kWords});
  Tensor forward(Tensor x) {
    const i64 t = x.size(1);
    const Tensor hidden = gt(arange(t).unsqueeze(0), arange(t).unsqueeze(1));
    Tensor y = token(x) + position.tensor().slice(0, {0, t});
    return head(blocks(std::move(y), nn::EncoderMasks{.src_mask = hidden}));
  }
};

std::string weights(const std::string& name) {
  return reference::reference_file("weights/" + name + ".safetensors");
}

// name -> dtype, shape and bytes.
std::map<std::string, std::string> content_of(const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  std::map<std::string, std::string> content;
  for (const TensorEntry& e : file.entries()) {
    std::string bytes(e.bytes(), '\0');
    file.read(e, bytes.data());
    content[e.name] = str(dtype_name(e.dtype), " ", Shape(e.shape), " ") + bytes;
  }
  return content;
}
// What stands behind the header.
std::string data_of(const std::string& path) {
  const std::string all = slurp(path);
  u64 header = 0;
  std::copy_n(all.data(), 8, reinterpret_cast<char*>(&header));
  return all.substr(8 + header);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  return max(abs(a - b)).item();
}

template <class M>
void check_weights(const std::string& name) {
  INFO(name);
  const LeakGuard guard;
  const TempDir dir;
  M net = nn::load_model<M>(weights(name));
  const nn::LoadedTensors io = nn::load_tensors(weights(name + "_io"));
  const Tensor x = *io.find("x");
  {
    const nn::EvalScope eval(net);
    CHECK(largest_difference(net(x), *io.find("y")) < 1e-5);
  }
  nn::save_tensors(dir / "back.safetensors", net.state_dict());  // save_model has tied ones once
  const auto was = content_of(weights(name)), is = content_of(dir / "back.safetensors");
  CHECK(was.size() == is.size());
  for (const auto& [key, content] : was) {
    CAPTURE(key);
    REQUIRE(is.contains(key));
    CHECK((is.at(key) == content));
  }
  CHECK((data_of(dir / "back.safetensors") == data_of(weights(name))));  // in the same order too
  // Training mode last: it moves the running statistics.
  CHECK(largest_difference(net(x), *io.find("y_train")) < 1e-5);

  // With wrong names nothing loads half: strict says which, otherwise the rest is listed.
  std::vector<nn::NamedTensor> renamed = nn::load_tensors(weights(name)).tensors;
  const std::string lost = renamed[1].name;  // not a tied one, of which another name would do
  renamed[1].name = "renamed.weight";
  M other;
  const auto before = values(other.parameters()[0]);
  const std::string text = message_of([&] { other.load_state_dict(renamed); });
  CHECK(mentions(text, "missing " + lost));
  CHECK(mentions(text, "unexpected renamed.weight"));
  CHECK(values(other.parameters()[0]) == before);
  const nn::LoadStateResult rest = other.load_state_dict(renamed, {.strict = false});
  CHECK(rest.missing == std::vector<std::string>{lost});
  CHECK(rest.unexpected == std::vector<std::string>{"renamed.weight"});
  CHECK(rest.misshapen.empty());
  for (const nn::NamedTensor& t : other.state_dict())
    if (t.name != lost)
      for (const nn::NamedTensor& r : renamed)
        if (r.name == t.name) CHECK(values(t.tensor) == values(r.tensor));
}

}  // namespace

TEST_CASE("PyTorch's weights: a ResNet loads, gives its outputs, is saved as it was",
          "[torch][checkpoint]") {
  check_weights<ResNet>("resnet");
  // The statistics are those of a training run, counts included.
  const auto net = nn::load_model<ResNet>(weights("resnet"));
  CHECK(net.bn1.num_batches_tracked->item() == 5);
  CHECK(mentions(message_of([] { nn::load_model<Gpt>(weights("resnet")); }),
                 "holds weights of another architecture\n  missing transformer.wte.weight"));
}

TEST_CASE("PyTorch's weights: a GPT made by hand, with tied embeddings", "[torch][checkpoint]") {
  check_weights<Gpt>("gpt");
  const auto net = nn::load_model<Gpt>(weights("gpt"));
  CHECK(net.lm_head.weight->same_as(net.transformer.wte.weight));
}

TEST_CASE("PyTorch's weights: a GPT of its TransformerEncoder", "[torch][checkpoint]") {
  check_weights<GptEncoder>("gpt_encoder");
}
