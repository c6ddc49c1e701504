// Printing: PyTorch's layout, with dtype and device always named. The bodies are what PyTorch 2
// prints for the same values; only the tail after the brackets is ours.
#include <cmath>
#include <sstream>

#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/values.h"

using namespace wt;

TEST_CASE("print: integers, bools and whole floats", "[print]") {
  CHECK(to_string(tensor({1, -20, 3})) == "tensor([  1, -20,   3], i64, cpu)");
  CHECK(to_string(tensor({true, false})) == "tensor([ True, False], bool, cpu)");
  CHECK(to_string(tensor({true})) == "tensor([True], bool, cpu)");
  CHECK(to_string(tensor({1.0, -2.0})) == "tensor([ 1., -2.], f32, cpu)");
  CHECK(to_string(zeros({2})) == "tensor([0., 0.], f32, cpu)");
  CHECK(to_string(tensor(7)) == "tensor(7, i64, cpu)");
  CHECK(to_string(tensor(3.5)) == "tensor(3.5000, f32, cpu)");
  // Beyond 2^53, where doubles have gaps.
  CHECK(to_string(tensor({i64(9007199254740993)})) == "tensor([9007199254740993], i64, cpu)");
  CHECK(to_string(tensor(std::vector<u64>{~0ull})) == "tensor([18446744073709551615], u64, cpu)");
  CHECK(to_string(tensor({-3, 4}, {.dtype = DType::i8})) == "tensor([-3,  4], i8, cpu)");
}

TEST_CASE("print: four digits, or powers of ten where the range asks for them", "[print]") {
  CHECK(to_string(tensor({0.5, 1.25, 10.0})) == "tensor([ 0.5000,  1.2500, 10.0000], f32, cpu)");
  CHECK(to_string(tensor({1e-5, 1.0})) == "tensor([1.0000e-05, 1.0000e+00], f32, cpu)");
  CHECK(to_string(tensor({0.001, 10.5})) == "tensor([1.0000e-03, 1.0500e+01], f32, cpu)");
  CHECK(to_string(tensor({1.0, 2000.0})) == "tensor([1.0000e+00, 2.0000e+03], f32, cpu)");
  CHECK(to_string(tensor({2000.0, 3000.0})) == "tensor([2000., 3000.], f32, cpu)");
  CHECK(to_string(tensor({2e8, 3e8})) == "tensor([2.0000e+08, 3.0000e+08], f32, cpu)");
  CHECK(to_string(tensor({0.0, 0.25})) == "tensor([0.0000, 0.2500], f32, cpu)");
}

TEST_CASE("print: NaN and infinities do not widen the others", "[print]") {
  CHECK(to_string(tensor({1.0, NAN})) == "tensor([1., nan], f32, cpu)");
  CHECK(to_string(tensor({INFINITY, -INFINITY, 2.0})) == "tensor([inf, -inf, 2.], f32, cpu)");
  CHECK(to_string(tensor({NAN, 0.5})) == "tensor([   nan, 0.5000], f32, cpu)");
}

TEST_CASE("print: nesting, wrapping at 80 columns and summaries", "[print]") {
  CHECK(to_string(tensor({{1, 2}, {3, 4}})) ==
        "tensor([[1, 2],\n"
        "        [3, 4]], i64, cpu)");
  CHECK(to_string(arange(8).reshape({2, 2, 2})) ==
        "tensor([[[0, 1],\n"
        "         [2, 3]],\n"
        "\n"
        "        [[4, 5],\n"
        "         [6, 7]]], i64, cpu)");
  CHECK(to_string(linspace(0, 1.25, 11)) ==
        "tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000,\n"
        "        1.1250, 1.2500], f32, cpu)");
  CHECK(to_string(arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000], i64, cpu)");
  CHECK(to_string(zeros({1000, 2})) ==
        "tensor([[0., 0.],\n"
        "        [0., 0.],\n"
        "        [0., 0.],\n"
        "        ...,\n"
        "        [0., 0.],\n"
        "        [0., 0.],\n"
        "        [0., 0.]], f32, cpu)");
  Tensor spike = ones({2000});  // what is not shown does not decide the format
  spike.index_put_({1000}, tensor(0.125));
  CHECK(to_string(spike) == "tensor([1., 1., 1.,  ..., 1., 1., 1.], f32, cpu)");
}

TEST_CASE("print: any device, any layout, no values on meta", "[print]") {
  CHECK(to_string(tensor({1, 2}, {.device = Device::simt()})) == "tensor([1, 2], i64, simt)");
  CHECK(to_string(tensor({{1, 2}, {3, 4}}).t()) ==
        "tensor([[1, 3],\n"
        "        [2, 4]], i64, cpu)");
  CHECK(to_string(empty({2, 3}, {.device = Device::meta()})) ==
        "tensor(..., shape=[2, 3], f32, meta:cpu)");
  CHECK(to_string(zeros({2, 0})) == "tensor([], shape=[2, 0], f32, cpu)");
  CHECK(to_string(Tensor()) == "tensor(undefined)");
  CHECK(to_string(leaf({1.0})) == "tensor([1.], f64, cpu, requires_grad)");
  std::ostringstream out;
  out << tensor({0.5}, {.dtype = f16});
  CHECK(out.str() == "tensor([0.5000], f16, cpu)");
  const Tensor x = tensor({1.0});
  (void)to_string(x);
  CHECK(x.version() == 0);
}

TEST_CASE("print: a dtype is its name", "[print]") {
  std::ostringstream out;
  for (int t = 0; t < kNumDTypes; ++t) out << DType(t) << ' ';
  CHECK(out.str() == "f64 f32 f16 bf16 i64 i32 u8 bool i8 i16 u16 u32 u64 f8_e4m3 f8_e5m2 ");
  CHECK(str(DType::boolean, '/', f16) == "bool/f16");
}
