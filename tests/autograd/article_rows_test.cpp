// Rows of the articles that are no model's: loops that become one operator, tensor cores, files of
// other frameworks.
#include <bit>
#include <set>

#include "warptape/autograd/compare.h"
#include "warptape/autograd/ops.h"
#include "warptape/autograd/vmap.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/profile.h"
#include "warptape/core/random.h"
#include "warptape/data/npz.h"
#include "warptape/kernels/run.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace wt_test;

namespace {

i64 launches(const std::function<void()>& f) {
  const profiler::Profile p = profiler::profile(f);
  i64 n = 0;
  for (const profiler::Event& e : p.events()) n += e.kind == profiler::Kind::kernel;
  return n;
}

// The energy of one sample.
Tensor energy(const Tensor& x) { return sum(square(tanh(x))); }

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && equal(a, b);
}

}  // namespace

TEST_CASE("row 20: a loop over samples is one launch where it is written for all of them") {
  manual_seed(1);
  const NoGrad no_grad;
  const Tensor x = randn({32, 5}, {.dtype = f64});
  Tensor looped, batched, mapped;
  const i64 of_loop = launches([&] {
    std::vector<Tensor> all;
    for (const Tensor& row : unbind(x)) all.push_back(energy(row));
    looped = stack(all);
  });
  const i64 of_batch = launches([&] { batched = sum(square(tanh(x)), 1); });
  const i64 of_map = launches([&] { mapped = vmap(energy)(x); });
  CHECK(allclose(looped, batched));
  CHECK(allclose(looped, mapped));
  CAPTURE(of_loop, of_batch, of_map);
  CHECK(of_batch >= 1);
  CHECK(of_loop >= 32 * of_batch);
  CHECK(of_map < of_loop / 4);
}

TEST_CASE("row 103: products on tensor cores are those of the plain kernels", "[simt]") {
  manual_seed(2);
  std::set<std::string> ran;
  i64 devices = 0;
  for (const Device d : kernel_devices()) {
    if (d.kind == DeviceKind::cpu) continue;
    ++devices;
    for (const DType t : {f16, bf16}) {
      const Tensor a = randn({48, 64}).to(t), b = randn({64, 40}).to(t);
      const Tensor exact = matmul(a.to(f64), b.to(f64));
      for (const char* variant : {"tensor_core", "pipelined", "hopper"}) {
        INFO(str(d) << " " << str(t) << " " << variant);
        Tensor y;
        try {
          const VariantScope scope("matmul", variant);
          y = matmul(a.to(d), b.to(d));
        } catch (const Error& e) {  // one that wants other sizes or another GPU says so
          CHECK(mentions(e.what(), "does not take these arguments"));
          continue;
        }
        ran.insert(variant);
        // Sums are f32; what is left is the rounding of the result.
        const double u = t == f16 ? 0x1p-11 : 0x1p-8;
        const Tensor off = wt::abs(y.to(Device::cpu(), f64) - exact);
        CHECK(amax(off - u * wt::abs(exact), Dims::all()).item() < 1e-4);
      }
    }
  }
  if (devices == 0) SKIP_TEST("no device but the cpu was asked for");
  CHECK(ran.contains("tensor_core"));
}

TEST_CASE("row 104: tensors and weights through the files of other frameworks, to the bit") {
  const TempDir dir;
  manual_seed(3);
  std::vector<std::pair<std::string, Tensor>> all;
  for (const DType t : {f32, f64, f16})
    all.emplace_back(str(t), randn({3, 4}, {.dtype = f64}).to(t));
  all.emplace_back("empty", zeros({0, 2}));
  all.emplace_back("scalar", tensor(2.5));
  all.emplace_back("ids", arange(7));
  all.emplace_back("mask", gt(arange(6), 2));

  data::write_npz(dir / "all.npz", all);  // numpy
  const data::NpzFile archive(dir / "all.npz");
  std::vector<nn::NamedTensor> named;
  for (const auto& [name, tensor] : all) {
    INFO(name);
    data::write_npy(dir / (name + ".npy"), tensor);
    CHECK(same_bits(data::read_npy(dir / (name + ".npy")), tensor));
    CHECK(same_bits(archive.read(name), tensor));
    named.push_back({name, tensor});
  }
  named.push_back({"bf16", randn({5}).to(bf16)});    // numpy has none
  nn::save_tensors(dir / "all.safetensors", named);  // PyTorch, JAX, TensorFlow
  const nn::LoadedTensors back = nn::load_tensors(dir / "all.safetensors");
  CHECK(back.tensors.size() == named.size());
  for (const nn::NamedTensor& t : named) {
    INFO(t.name);
    REQUIRE(back.find(t.name));
    CHECK(same_bits(*back.find(t.name), t.tensor));
  }

  nn::Sequential net{nn::Linear{4, 3}, nn::BatchNorm1d{3}},
      other{nn::Linear{4, 3}, nn::BatchNorm1d{3}};
  nn::save_tensors(dir / "net.safetensors", net.state_dict());  // load_file() there
  CHECK(!equal(net.parameters()[0], other.parameters()[0]));
  CHECK(other.load_state_dict(nn::load_tensors(dir / "net.safetensors").tensors).complete());
  for (const nn::NamedTensor& t : net.state_dict()) {
    INFO(t.name);
    for (const nn::NamedTensor& o : other.state_dict())
      if (o.name == t.name) CHECK(same_bits(o.tensor, t.tensor));
  }
}
