// What users read when something is wrong: whole messages against tests/golden/errors.txt. Those of
// single operators are in operator_errors_test.cpp.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <regex>
#include <sstream>

#include "warptape/autograd/custom.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/npy.h"
#include "warptape/core/safetensors.h"
#include "warptape/data/idx.h"
#include "warptape/data/loader.h"
#include "warptape/kernels/dispatch/run_erased.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/golden/golden.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/recipes/recipes.h"

using namespace wt;

namespace wt {
struct CpuAloneArgs {
  View out, in;
  i64 bytes() const { return out.bytes() + in.bytes(); }
  i64 flops() const { return 0; }
};
template <>
struct ContractTable<CpuAloneArgs> {
  static constexpr const char* kName = "cpu_alone";
  static constexpr Variant<CpuAloneArgs> kReference{
      .name = "reference", .launch = [](const CpuAloneArgs&, const Launch&) {}};
  static constexpr Variants<CpuAloneArgs> kOnCpu{&kReference, 1};
  static constexpr const Variants<CpuAloneArgs>* rows[kNumDeviceKinds] = {&kOnCpu};
  static const detail::ErasedContract erased;
};
constinit const detail::ErasedContract ContractTable<CpuAloneArgs>::erased =
    detail::erased_contract<CpuAloneArgs>();
}  // namespace wt

// Nothing here has a result: it throws.
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wunused-value"

namespace {

using golden::Examples;

const TensorOptions kGrad{.requires_grad = true};
const Device kSimt{DeviceKind::simt, 0};
TensorOptions on(Device d) { return {.device = d}; }

struct Net : nn::Module<Net> {
  nn::Linear fc1 = add("fc1", nn::Linear{4, 8});
  nn::Linear fc2 = add("fc2", nn::Linear{8, 3});
  Net() { set_type("Net"); }
  Tensor forward(Tensor x) { return fc2(relu(fc1(std::move(x)))); }
};
struct Twofold : nn::Module<Twofold> {
  nn::Sequential body = add("body", nn::Sequential{nn::Linear{4, 8}, nn::ReLU{}});
  Tensor forward(Tensor x) { return body(std::move(x)); }
};
// An operator whose kernel nobody has written for simt yet: of warptape's own, none stays so.
Tensor cpu_alone(const In& x) {
  static constexpr OpInfo info{.name = "cpu_alone"};
  OpScope s(info, x);
  Result y = s.result_like();
  run(CpuAloneArgs{y.view(), s.view(0)}, s.launch());
  return s.finish(std::move(y));
}
struct CpuAlone : nn::Module<CpuAlone> {
  Tensor forward(Tensor x) { return cpu_alone(x); }
};
data::Batch batch(i64 n) { return {ones({n, 4}), zeros({n}, {.dtype = DType::i64})}; }

// --- operators ---

const Examples kOperands{
    {"shapes that do not broadcast",
     [](auto&) {
       ones({2, 3}) + ones({4});
     }},
    {"inner sizes of a product",
     [](auto&) {
       matmul(ones({2, 3}), ones({4, 5}));
     }},
    {"a layer that gets the wrong width",
     [](auto&) {
       Net()(ones({2, 5}));
     }},
    {"a layer that gets the wrong width, called by a user's layer",
     [](auto&) {
       Twofold()(ones({2, 5}));
     }},
    {"a bias of another length",
     [](auto&) {
       linear(ones({2, 3}), ones({4, 3}), ones({5}));
     }},
    {"a view of another size",
     [](auto&) {
       ones({2, 3}).view({4});
     }},
    {"a view of a tensor with gaps",
     [](auto&) {
       ones({2, 3}).t().view({6});
     }},
    {"two open sizes",
     [](auto&) {
       ones({2, 3}).reshape({-1, -1});
     }},
    {"an axis that is not there",
     [](auto&) {
       sum(ones({2, 3}), 2);
     }},
    {"an axis twice",
     [](auto&) {
       sum(ones({2, 3}), {0, -2});
     }},
    {"too many dimensions",
     [](auto&) {
       ones({1, 1, 1, 1, 1, 1, 1, 1, 1});
     }},
    {"tensors that do not join",
     [](auto&) {
       cat({ones({2, 3}), ones({2, 4})});
     }},
    {"the maximum of nothing",
     [](auto&) {
       max(ones({0, 3}), 0);
     }},
    {"item() of many elements",
     [](auto&) {
       ones({2, 3}).item();
     }},
    {"a dtype for storage only",
     [](auto&) { ones({2}, {.dtype = DType::i16}) + ones({2}, {.dtype = DType::i16}); }},
    {"an operation that bool lacks", [](auto&) { -ones({2}, {.dtype = DType::boolean}); }},
    {"integers where a mean is wanted", [](auto&) { mean(arange(3)); }},
    {"a condition that is not bool", [](auto&) { where(ones({2}), 1.0, 2.0); }},
    {"elements read as another type", [](auto&) { ones({2}).data<double>(); }},
    {"a gradient of integers", [](auto&) { arange(3).set_requires_grad(); }},
    {"two devices", [](auto&) { ones({2}) + ones({2}, on(kSimt)); }},
    {"a device that has no name", [](auto&) { Device::parse("gpu:0"); }},
    {"item() on the meta device", [](auto&) { sum(ones({2}, on(Device::meta()))).item(); }},
    {"meta values moved to a device",
     [](auto&) { ones({2}, on(Device::meta())).to(Device::cpu()); }},
    {"an undefined operand", [](auto&) { relu(Tensor()); }},
    {"a tensor that was moved away",
     [](auto&) {
       Tensor x = ones({2});
       const Tensor y = std::move(x);
       x + y;
     }},
    {"the shape of an undefined tensor", [](auto&) { Tensor().shape(); }},
    {"an undefined tensor for a module",
     [](auto&) {
       Tensor x = ones({2, 3});
       nn::Linear fc{3, 4};
       const Tensor y = fc(std::move(x));
       fc(std::move(x));
     }},
    {"a view of an undefined tensor", [](auto&) { flatten(Tensor()); }},
    {"a cast of an undefined tensor", [](auto&) { Tensor().to(f64); }},
    {"an argument out of range", [](auto&) { dropout(ones({2}), 1.5); }},
    {"an index out of range",
     [](auto&) {
       ones({2, 3})[5];
     }},
    {"an index out of range in a list",
     [](auto&) {
       ones({2, 3})[{Slice{0, 1}, 3}];
     }},
    {"a token out of range",
     [](auto&) {
       embedding(tensor({1, 7}), ones({5, 2}));
     }},
    {"a token out of range, found on the device",
     [](auto&) {
       embedding(tensor({1, 7}).to(kSimt), ones({5, 2}, on(kSimt))).to_vector<float>();
     }},
    {"a label out of range",
     [](auto&) {
       cross_entropy(ones({2, 3}), tensor({0, 9}));
     }},
    {"a label out of range, found on the device",
     [](auto&) {
       cross_entropy(ones({2, 3}, on(kSimt)), tensor({0, 9}).to(kSimt)).item();
     }},
    {"labels of another length",
     [](auto&) {
       cross_entropy(ones({2, 3}), tensor({0, 1, 2}));
     }},
    {"a kernel contract that is not there",
     [](auto&) { VariantScope v("softmax_forwad", "naive"); }},
    {"a kernel variant that is not there", [](auto&) { VariantScope v("matmul", "nave"); }},
    {"a kernel variant that does not take the arguments",
     [](auto&) {
       VariantScope v("matmul", "tensor_core");
       matmul(ones({2, 3}, on(kSimt)), ones({3, 2}, on(kSimt)));
     }},
    {"a kernel that a device does not have", [](auto&) { cpu_alone(ones({3}, on(kSimt))); }},
    {"a kernel that a device does not have, in a module",
     [](auto&) { CpuAlone()(ones({3}, on(kSimt))); }},
    {"elements of a device's memory", [](auto&) { ones({2}, on(kSimt)).data<float>(); }},
    {"item() of an integer that is no double",
     [](auto&) { tensor({i64(9007199254740993)}).item(); }},
    {"a tensor that another operand took",
     [](auto&) {
       Tensor x = ones({2});
       exp(std::move(x)) - x;
     }},
    {"no memory",
     [](auto&) {
       const Tensor x = ones({2, 3});
       memory::fail_nth_request(1);
       clone(x);
     }},
};

// --- autograd ---

struct Wrong {
  int count;
  static constexpr OpInfo info{.name = "wrong"};
  Tensor forward(Save&, const Tensor& x) const { return x * 2; }
  Grads backward(const Saved&, const Tensor& gy) const {
    return Grads(std::vector<Tensor>(size_t(count), sum(gy)));
  }
};

const Examples kAutograd{
    {"a leaf written in place",
     [](auto&) {
       Tensor w = ones({2}, kGrad);
       w.add_(ones({2}));
     }},
    {"a view written in place",
     [](auto&) {
       const Tensor w = ones({2, 2}, kGrad);
       Tensor row = (w * 2)[0];
       row.mul_(3);
     }},
    {"a tensor with a live view written in place",
     [](auto&) {
       Tensor x = ones({2, 2}, kGrad) * 2;
       const Tensor row = x[0];
       x.mul_(3);
     }},
    {"an expanded tensor written in place",
     [](auto&) {
       Tensor x = ones({1}).expand({3});
       x.mul_(3);
     }},
    {"a saved tensor that changed",
     [](auto&) {
       const Tensor w = ones({2}, kGrad);
       Tensor y = exp(w);
       const Tensor z = sum(y);
       y.mul_(2);
       z.backward();
     }},
    {"a parameter that changed before its backward",
     [](auto&) {
       Tensor w = ones({2}, kGrad);
       const Tensor y = sum(w * w);
       {
         const NoGrad no_grad;
         w.mul_(2);
       }
       y.backward();
     }},
    {"a second backward",
     [](auto&) {
       const Tensor w = ones({2}, kGrad);
       const Tensor y = sum(w * w);
       y.backward();
       y.backward();
     }},
    {"a parameter that an optimizer changed before its backward",
     [](auto&) {
       Net net;
       optim::Sgd opt{net};
       const Tensor y = sum(net(ones({2, 4})));
       sum(net(ones({2, 4}))).backward();
       opt.step();
       y.backward();
     }},
    {"a backward from many elements", [](auto&) { (ones({2}, kGrad) * 2).backward(); }},
    {"a backward from a constant", [](auto&) { sum(ones({2})).backward(); }},
    {"a seed of another shape", [](auto&) { (ones({2}, kGrad) * 2).backward(ones({3})); }},
    {"an input that no output depends on",
     [](auto&) {
       const Tensor a = ones({2}, kGrad), b = ones({2}, kGrad);
       grad(sum(a * a), b);
     }},
    {"requires_grad on a result", [](auto&) { (ones({2}, kGrad) * 2).set_requires_grad(false); }},
    {"a custom backward that returns a wrong shape",
     [](auto&) { sum(apply(Wrong{1}, ones({2}, kGrad))).backward(); }},
    {"a custom backward that returns too many",
     [](auto&) { sum(apply(Wrong{2}, ones({2}, kGrad))).backward(); }},
    {"a gradient that is not finite, in anomaly mode",
     [](auto&) {
       const AnomalyMode anomaly;
       const Tensor w = zeros({2}, kGrad);
       sum(sqrt(w) * 0).backward();
     }},
};

// --- modules and optimizers ---

struct Block : nn::Module<Block> {
  nn::Linear fc{4, 3};
  Tensor forward(Tensor x) { return fc(std::move(x)); }
};
struct Unregistered : nn::Module<Unregistered> {
  Block block = add("block", Block());
  Tensor forward(Tensor x) { return block(std::move(x)); }
};
struct Twice : nn::Module<Twice> {
  nn::Linear a = add("fc", nn::Linear{4, 3}), b = add("fc", nn::Linear{4, 3});
  Tensor forward(Tensor x) { return x; }
};
struct BadName : nn::Module<BadName> {
  nn::Linear a = add("fc.1", nn::Linear{4, 3});
  Tensor forward(Tensor x) { return x; }
};

const Examples kTraining{
    {"a module that is not registered",
     [](auto&) {
       Unregistered()(ones({1, 4}));
     }},
    {"one name twice", [](auto&) { Twice(); }},
    {"a name with a dot", [](auto&) { BadName(); }},
    {"a state dict that does not fit",
     [](auto&) {
       auto values = Net().state_dict();
       values[0].tensor = ones({8, 5});
       values[1].name = "fc1.bais";
       values.pop_back();
       Net().load_state_dict(values);
     }},
    {"a parameter assigned under an optimizer",
     [](auto&) {
       Net net;
       optim::Sgd opt{net};
       net.fc1.weight = ones({8, 4}, kGrad);
     }},
    {"a layer of no width", [](auto&) { nn::Linear(4, 0); }},
    {"packed lengths that rise",
     [](auto&) {
       nn::pack_padded_sequence(ones({3, 2, 4}), {2, 3});
     }},
    {"a computed weight that is none",
     [](auto&) { nn::utils::weight_norm(nn::Linear(4, 3), "wieght"); }},
    {"an optimizer of a module without parameters", [](auto&) { optim::Sgd opt{nn::ReLU()}; }},
    {"an option out of range",
     [](auto&) {
       Net net;
       optim::AdamW opt{net, {.betas = {.first = 1}}};
     }},
    {"an optimizer whose parameters another one took",
     [](auto&) {
       Net net;
       optim::Sgd first{net};
       optim::AdamW second{net};
       first.step();
     }},
    {"a pattern of a group that matches nothing",
     [](auto&) {
       Net net;
       optim::AdamW opt{net, {.groups = {{.names = {"fc1.bais"}, .weight_decay = 0}}}};
     }},
    {"a parameter in two groups",
     [](auto&) {
       Net net;
       optim::AdamW opt{net, {.groups = {{.names = {"*.bias"}}, {.names = {"fc1.*"}, .lr = 1}}}};
     }},
    {"the state of another optimizer",
     [](auto&) {
       Net a, b;
       optim::AdamW adamw{a};
       optim::Adam{b}.load_state(adamw.state());
     }},
    {"a step while the weights are their averages",
     [](auto&) {
       Net net;
       optim::Lion opt{net};
       opt.track_ema();
       const optim::EmaScope averaged{opt};
       opt.step();
     }},
    {"a clip norm of zero",
     [](auto&) {
       Net net;
       optim::Sgd opt{net};
       optim::clip_factor(opt, 0);
     }},
    {"a schedule without steps", [](auto&) { optim::warmup(100, optim::cosine(0)); }},
    {"a loss without weight in micro-batches",
     [](auto&) {
       Net net;
       optim::Sgd opt{net};
       TrainStep step{net, opt, {.micro_batches = 2}};
       step(batch(4), [&](const data::Batch& b) { return mean(net(b.x)); });
     }},
    {"a loss that is not a number",
     [](auto&) {
       Net net;
       optim::Sgd opt{net};
       TrainStep step{net, opt};
       step(batch(4), [&](const data::Batch& b) { return sum(net(b.x)) * std::nan(""); }).loss();
     }},
    {"a bad label in a step on simt",
     [](auto&) {
       Net net;
       net.to(kSimt);
       optim::Sgd opt{net};
       TrainStep step{net, opt};
       data::Batch b = batch(4);
       b.y.fill_(3);
       step(b, [&](const data::Batch& p) { return cross_entropy(net(p.x), p.y); }).loss();
     }},
    {"a precision that no step has",
     [](auto&) {
       Net net;
       optim::Sgd opt{net};
       TrainStep step{net, opt, {.precision = f64}};
     }},
    {"a recipe that is not there", [](auto&) { tools::find_recipe("fashon"); }},
};

// --- files ---

// A safetensors file with this header.
std::string with_header(const std::string& json, size_t data = 0) {
  std::string size(8, '\0');
  for (size_t i = 0; i < 8; ++i) size[i] = char(json.size() >> (8 * i));
  return size + json + std::string(data, 'x');
}
void open_safetensors(const TempDir& dir, const std::string& content) {
  spit(dir / "a.safetensors", content);
  SafetensorsFile::open(dir / "a.safetensors");
}
void open_npy(const TempDir& dir, const std::string& content) {
  spit(dir / "a.npy", content);
  NpyFile::open(dir / "a.npy");
}
void open_idx(const TempDir& dir, const std::string& content) {
  spit(dir / "a-idx3-ubyte", content);
  (void)data::read_idx(dir / "a-idx3-ubyte");
}
std::string zeros_then(int zero_bytes, const std::string& rest) {
  return std::string(size_t(zero_bytes), '\0') + rest;
}

const Examples kFiles{
    {"a file that is not there", [](auto& d) { nn::load_tensors(d / "none.safetensors"); }},
    {"safetensors: too short", [](auto& d) { open_safetensors(d, "abc"); }},
    {"safetensors: not the format", [](auto& d) { open_safetensors(d, std::string(64, 'x')); }},
    {"safetensors: a header that is no JSON",
     [](auto& d) { open_safetensors(d, with_header("{a}")); }},
    {"safetensors: truncated",
     [](auto& d) {
       open_safetensors(
           d, with_header(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4));
     }},
    {"safetensors: a dtype that is not known",
     [](auto& d) {
       open_safetensors(
           d, with_header(R"({"w":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8));
     }},
    {"safetensors: sizes that do not fit",
     [](auto& d) {
       open_safetensors(
           d, with_header(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8));
     }},
    {"safetensors: damaged data",
     [](auto& d) {
       const std::string path = d / "a.safetensors";
       nn::save_tensors(path, {{"w", ones({4})}});
       std::string content = slurp(path);
       content.back() ^= 1;
       spit(path, content);
       nn::load_tensors(path);
     }},
    {"safetensors: a file of torch.save",
     [](auto& d) { open_safetensors(d, "PK\3\4 archive/data.pkl and the rest of an archive"); }},
    {"safetensors: a pickle", [](auto& d) { open_safetensors(d, "\x80\2}q\1X\1\2\3\4\5\6"); }},
    {"load_model: weights of another architecture",
     [](auto& d) {
       nn::save_model(nn::Linear{2, 3}, d / "a.safetensors");
       nn::load_model(nn::LayerNorm{Shape{3}}, d / "a.safetensors");
     }},
    {"load_model: weights of other sizes",
     [](auto& d) {
       nn::save_model(nn::Linear{2, 3}, d / "a.safetensors");
       nn::load_model<nn::Linear>(d / "a.safetensors", 2, 4);
     }},
    {"npy: not the format", [](auto& d) { open_npy(d, "PK archive of arrays"); }},
    {"npy: objects",
     [](auto& d) {
       const std::string header = "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n";
       open_npy(d, "\x93NUMPY" + std::string("\1\0", 2) + char(header.size()) + '\0' + header);
     }},
    {"idx: not the format", [](auto& d) { open_idx(d, "hello"); }},
    {"idx: truncated",
     [](auto& d) { open_idx(d, zeros_then(2, "\x08\x01") + zeros_then(3, "\x05") + "abc"); }},
    {"fashion mnist: no folder", [](auto& d) { data::FashionMnist(d / "none"); }},
    {"fashion mnist: no files", [](auto& d) { data::FashionMnist(d.path); }},
    {"text: too short for one sample",
     [](auto& d) {
       spit(d / "a.txt", "short");
       data::TextBytes({d / "a.txt"}, {.context = 16});
     }},
    {"loader: no samples a batch",
     [](auto&) { data::Loader(data::TensorDataset(arange(3), arange(3)), {.batch = 0}); }},
    {"loader: not one full batch",
     [](auto&) {
       data::Loader(data::TensorDataset(arange(3), arange(3)), {.batch = 4, .drop_last = true});
     }},
    {"loader: x and y of different lengths",
     [](auto&) { data::TensorDataset(arange(3), arange(4)); }},
    {"loader: tensors of different lengths",
     [](auto&) { data::TensorsDataset(arange(3), arange(3), arange(4)); }},
    {"loader: a sampler beside shuffle",
     [](auto&) {
       data::Loader(data::TensorDataset(arange(3), arange(3)),
                    {.shuffle = true, .sampler = data::weighted_sampler({1, 2, 3}, 5)});
     }},
    {"loader: a sampler of more samples than there are",
     [](auto&) {
       data::Loader(data::TensorDataset(arange(3), arange(3)), {.sampler = [](i64) {
                      return std::vector<i64>{0, 1, 2, 3};
                    }});
     }},
    {"weighted sampler: a negative weight",
     [](auto&) {
       (void)data::weighted_sampler({0.5, -1}, 5);
     }},
    {"an output folder that is not there",
     [](auto& d) {
       nn::save_tensors(d / "none/a.safetensors", {{"w", ones({4})}});
     }},
};

}  // namespace

TEST_CASE("golden: whole error messages") {
  ready(kSimt);
  golden::compare("errors.txt", {&kOperands, &kAutograd, &kTraining, &kFiles});
}
