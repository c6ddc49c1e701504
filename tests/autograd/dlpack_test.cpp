// DLPack out and in: what the structures say, who keeps the memory alive and for how long, and what
// is refused, of which nothing is taken.
#include "warptape/autograd/dlpack.h"

#include <atomic>
#include <thread>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/compare.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/vmap.h"
#include "warptape/core/factories.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using dlpack::ManagedTensor;
using dlpack::ManagedTensorVersioned;

namespace {

// What another library exports: numbers of its own, counted releases.
template <class M>
struct Producer {
  float numbers[24] = {};
  i64 shape[9] = {2, 3}, strides[9] = {3, 1};
  std::atomic<int> released{0};
  M managed{};

  Producer() {
    for (int i = 0; i < 24; ++i) numbers[i] = float(i);
    managed.dl_tensor = {numbers, {dlpack::cpu, 0}, 2, {dlpack::kFloat, 32, 1}, shape, strides, 0};
    managed.manager_ctx = this;
    managed.deleter = [](M* m) { ++static_cast<Producer*>(m->manager_ctx)->released; };
    if constexpr (requires { managed.version; }) managed.version = {1, 0};
  }
  dlpack::TensorView& view() { return managed.dl_tensor; }
};
using Newer = Producer<ManagedTensorVersioned>;

// Deletes at the end, as a consumer must.
template <class M>
struct Taken {
  M* m;
  explicit Taken(M* managed) : m(managed) {}
  ~Taken() { m->deleter(m); }
  Taken(const Taken&) = delete;
  const dlpack::TensorView& view() const { return m->dl_tensor; }
};
Taken<ManagedTensorVersioned> taken(const Tensor& t, const ToDlpackOptions& o = {}) {
  return Taken<ManagedTensorVersioned>(to_dlpack(t, o));
}

std::vector<i64> list(const i64* numbers, int n) { return {numbers, numbers + n}; }

}  // namespace

TEST_CASE("to_dlpack: the tensor's numbers where they lie, for every dtype", "[dlpack]") {
  const LeakGuard guard;
  struct Row {
    DType dtype;
    int code, bits;
  };
  // Codes of dlpack.h: int 0, uint 1, float 2, bfloat 4, bool 6, e4m3fn 10, e5m2 12.
  for (const auto [dtype, code, bits] :
       {Row{f64, 2, 64}, Row{f32, 2, 32}, Row{f16, 2, 16}, Row{bf16, 4, 16}, Row{int64, 0, 64},
        Row{int32, 0, 32}, Row{DType::i16, 0, 16}, Row{DType::i8, 0, 8}, Row{uint8, 1, 8},
        Row{DType::u16, 1, 16}, Row{DType::u32, 1, 32}, Row{DType::u64, 1, 64},
        Row{DType::boolean, 6, 8}, Row{DType::f8_e4m3, 10, 8}, Row{DType::f8_e5m2, 12, 8}}) {
    INFO(dtype_name(dtype));
    const Tensor t = ones({2, 3}).to(dtype);
    const auto out = taken(t);
    CHECK(out.m->version.major == 1);
    CHECK(out.m->flags == 0);
    CHECK(out.view().dtype.code == code);
    CHECK(out.view().dtype.bits == bits);
    CHECK(out.view().dtype.lanes == 1);
    CHECK(out.view().device.type == 1);
    CHECK(out.view().device.id == 0);
    CHECK(static_cast<char*>(out.view().data) + out.view().byte_offset == t.impl()->data);
    CHECK(list(out.view().shape, out.view().ndim) == std::vector<i64>{2, 3});
    CHECK(list(out.view().strides, out.view().ndim) == std::vector<i64>{3, 1});
    const Tensor back = from_dlpack(to_dlpack(t));
    CHECK(back.dtype() == dtype);
    CHECK(back.impl()->data == t.impl()->data);
  }
}

TEST_CASE("to_dlpack: views keep their strides; tensors without axes or elements", "[dlpack]") {
  const LeakGuard guard;
  const Tensor t = arange(24.0).reshape({2, 3, 4});
  const Tensor views[] = {t.transpose(0, 2),      t.slice(1, {1, 3}), t.slice(2, {1, 4, 2}), t[1],
                          t[0][0].expand({5, 4}), t[1][2][3]};
  for (const Tensor& v : views) {
    INFO(v.shape());
    const auto out = taken(v);
    const Shape strides = v.strides();
    CHECK(list(out.view().strides, out.view().ndim) ==
          std::vector<i64>(strides.begin(), strides.end()));
    const Tensor back = from_dlpack(to_dlpack(v));
    CHECK(back.shape() == v.shape());
    CHECK(back.strides() == v.strides());
    CHECK(back.impl()->data == v.impl()->data);
    CHECK(equal(back, v));
  }
  const auto none = taken(zeros({0, 3}));
  CHECK(none.view().data == nullptr);
  CHECK(list(none.view().shape, 2) == std::vector<i64>{0, 3});
  CHECK(from_dlpack(to_dlpack(zeros({0, 3}))).shape() == Shape{0, 3});
  CHECK(taken(tensor(2.0)).view().ndim == 0);
}

TEST_CASE("to_dlpack: the consumer keeps the storage, and lets it go from any thread", "[dlpack]") {
  const LeakGuard guard;
  ManagedTensorVersioned* out;
  ManagedTensor* older;
  {
    Tensor t = arange(4.0);
    out = to_dlpack(t);
    older = to_dlpack_unversioned(t.slice(0, {2, 4}));
    t.fill_(7);  // shared
  }
  for (int i = 0; i < 50; ++i) (void)zeros({4});  // would take the block if it were free
  CHECK(static_cast<float*>(out->dl_tensor.data)[3] == 7);
  CHECK(static_cast<float*>(older->dl_tensor.data)[0] == 7);
  static_cast<float*>(older->dl_tensor.data)[0] = 5;
  CHECK(static_cast<float*>(out->dl_tensor.data)[2] == 5);
  std::thread([&] { older->deleter(older); }).join();
  CHECK(static_cast<float*>(out->dl_tensor.data)[3] == 7);
  std::thread([&] { out->deleter(out); }).join();
}

TEST_CASE("to_dlpack: a copy, and flags that say so", "[dlpack]") {
  const LeakGuard guard;
  const Tensor t = arange(6.0).reshape({2, 3}).transpose(0, 1);
  const auto copy = taken(t, {.copy = true});
  CHECK(copy.m->flags == 2);
  CHECK(copy.view().data != t.impl()->data);
  CHECK(taken(t, {.read_only = true}).m->flags == 1);
  const Tensor back = from_dlpack(to_dlpack(t, {.copy = true}));
  CHECK(equal(back, t));
}

TEST_CASE("to_dlpack: what others cannot have is refused", "[dlpack]") {
  const LeakGuard guard;
  const Tensor w = ones({2}, {.requires_grad = true});
  CHECK(mentions(message_of([&] { to_dlpack(w); }), "Try t.detach()"));
  CHECK_THROWS_AS(to_dlpack(w * 2), UsageError);
  CHECK(equal(from_dlpack(to_dlpack(w.detach())), w));
  CHECK_THROWS_AS(to_dlpack(zeros({2}, {.device = Device::meta()})), PlacementError);
  CHECK_THROWS_AS(to_dlpack(Tensor{}), UsageError);
  for (const Device d : wt_test::kernel_devices())
    if (d.kind == DeviceKind::simt)
      CHECK(mentions(message_of([&] { to_dlpack(zeros({2}, {.device = d})); }),
                     "PlacementError: [to_dlpack] a tensor on simt"));
  const std::string inside = message_of([&] {
    (void)vmap([](const Tensor& row) { return to_dlpack(row), row; })(ones({2, 3}));
  });
  CHECK(mentions(inside, "inside of vmap"));
}

TEST_CASE("from_dlpack: the producer's memory, until the last tensor on it dies", "[dlpack]") {
  const LeakGuard guard;
  Newer p;
  Tensor row;
  {
    Tensor t = from_dlpack(&p.managed);
    CHECK(values(t) == Values{0, 1, 2, 3, 4, 5});
    t.mul_(2);
    CHECK(p.numbers[5] == 10);  // no copy
    row = t[1];
    CHECK(p.released == 0);
  }
  CHECK(p.released == 0);
  CHECK(values(row) == Values{6, 8, 10});
  std::thread([&] { row = Tensor{}; }).join();
  CHECK(p.released == 1);

  Producer<ManagedTensor> older;
  CHECK(values(from_dlpack(&older.managed)[0]) == Values{0, 1, 2});
  CHECK(older.released == 1);
  older.managed.deleter = nullptr;  // memory that is always there
  CHECK(values(from_dlpack(&older.managed)[0]) == Values{0, 1, 2});
  CHECK(older.released == 1);
}

TEST_CASE("from_dlpack: strides, offsets, no axes, no elements, no strides", "[dlpack]") {
  const LeakGuard guard;
  Newer p;
  p.strides[0] = 1, p.strides[1] = 4, p.view().byte_offset = 8;
  CHECK(values(from_dlpack(&p.managed)) == Values{2, 6, 10, 3, 7, 11});
  p.strides[0] = 0;
  CHECK(values(from_dlpack(&p.managed)) == Values{2, 6, 10, 2, 6, 10});
  p.view().strides = nullptr;
  CHECK(values(from_dlpack(&p.managed)) == Values{2, 3, 4, 5, 6, 7});
  p.view().ndim = 0, p.view().shape = nullptr;
  CHECK(from_dlpack(&p.managed).item() == 2);
  p.view().ndim = 2, p.view().shape = p.shape, p.view().strides = p.strides;
  p.shape[1] = 0, p.strides[0] = -77, p.view().data = nullptr, p.view().byte_offset = 3;
  CHECK(from_dlpack(&p.managed).shape() == Shape{2, 0});
  p.shape[1] = 3, p.view().data = p.numbers, p.view().byte_offset = 0;
  p.strides[0] = 3, p.strides[1] = 1, p.view().device = {dlpack::cuda_host, 0};
  CHECK(from_dlpack(&p.managed).device() == Device::cpu());
  CHECK(p.released == 6);
}

TEST_CASE("from_dlpack: operators, gradients and the tape take it as any other", "[dlpack]") {
  const LeakGuard guard;
  Newer p;
  {
    Tensor x = from_dlpack(&p.managed);
    x.set_requires_grad(true);
    sum(square(x)).backward();
    CHECK(values(x.grad()) == Values{0, 2, 4, 6, 8, 10});
    // Its memory is no operator's to reuse, even where it is given up.
    const Tensor y = exp(std::move(x).detach());
    CHECK(y.impl()->data != p.numbers);
  }
  CHECK(p.numbers[2] == 2);
  CHECK(p.released == 1);
}

TEST_CASE("from_dlpack: what may not be written is copied and given back at once", "[dlpack]") {
  const LeakGuard guard;
  Newer p;
  p.managed.flags = dlpack::kReadOnly;
  p.strides[0] = 1, p.strides[1] = 2;
  Tensor t = from_dlpack(&p.managed);
  CHECK(p.released == 1);
  CHECK(values(t) == Values{0, 2, 4, 1, 3, 5});
  t.fill_(9);
  CHECK(p.numbers[2] == 2);
  p.managed.flags = dlpack::kIsCopied;  // ours to write
  from_dlpack(&p.managed).fill_(9);
  CHECK(p.numbers[2] == 9);
}

TEST_CASE("from_dlpack: what is refused stays the producer's", "[dlpack]") {
  const LeakGuard guard;
  const auto refusal = [](auto change) {
    Newer p;
    change(p);
    const std::string said = message_of([&] { (void)from_dlpack(&p.managed); });
    CHECK(p.released == 0);
    return said;
  };
  const auto type = [&](int code, int bits, int lanes) {
    return refusal([&](Newer& p) { p.view().dtype = {u8(code), u8(bits), u16(lanes)}; });
  };
  CHECK(
      mentions(type(2, 32, 4),
               "DtypeError: [from_dlpack] there is no dtype for float of 32 bits in vectors of 4"));
  CHECK(mentions(type(2, 32, 0), "in vectors of 0"));
  CHECK(mentions(type(5, 64, 1), "complex of 64 bits"));
  CHECK(mentions(type(0, 4, 1), "int of 4 bits"));
  CHECK(mentions(type(6, 1, 1), "bool of 1 bits"));
  CHECK(mentions(type(17, 4, 1), "float4_e2m1fn of 4 bits"));
  CHECK(mentions(type(99, 32, 1), "code 99 of 32 bits"));
  const auto device = [&](int kind, int id) {
    return refusal([&](Newer& p) { p.view().device = {kind, id}; });
  };
  CHECK(mentions(device(8, 0),
                 "PlacementError: [from_dlpack] there is no device for DLPack's kind "
                 "8, number 0 (1 is cpu, 2 cuda)"));
  CHECK(mentions(device(0, 0), "kind 0"));
  CHECK(mentions(device(2, -1), "kind 2, number -1"));
  if (!cuda::is_available()) CHECK_FALSE(device(2, 0).empty());
  CHECK(mentions(refusal([](Newer& p) { p.view().ndim = 9; }), "9 dimensions, at most 8"));
  CHECK(mentions(refusal([](Newer& p) { p.view().ndim = -1; }), "-1 dimensions"));
  CHECK(mentions(refusal([](Newer& p) { p.shape[1] = -2; }), "negative size"));
  CHECK(mentions(refusal([](Newer& p) { p.strides[1] = -1; }), "negative stride"));
  CHECK(mentions(refusal([](Newer& p) { p.shape[0] = p.shape[1] = i64{1} << 40; }), "ShapeError"));
  CHECK(mentions(refusal([](Newer& p) {
                   p.strides[0] = i64{1} << 62;
                   p.shape[0] = 9;
                 }),
                 "ShapeError"));
  CHECK(mentions(refusal([](Newer& p) { p.view().shape = nullptr; }), "null pointer to the shape"));
  CHECK(mentions(refusal([](Newer& p) { p.view().data = nullptr; }), "a null pointer"));
  CHECK(mentions(refusal([](Newer& p) { p.view().byte_offset = 2; }), "not aligned for f32"));
  CHECK(mentions(refusal([](Newer& p) { p.managed.version = {2, 0}; }), "DLPack 2.0, version 1"));
  CHECK_THROWS_AS(from_dlpack(static_cast<ManagedTensor*>(nullptr)), UsageError);
  CHECK_THROWS_AS(from_dlpack(static_cast<ManagedTensorVersioned*>(nullptr)), UsageError);
}
