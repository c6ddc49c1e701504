// Resizing and the gradient of unfold several elements a thread: where rungs `packs` are to be had,
// and that they write the bits of the plainest rung.
#include <bit>

#include "warptape/autograd/ops/shape.h"
#include "warptape/kernels/resize.h"
#include "warptape/kernels/unfold.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using namespace wt_test;

namespace {

// How a tensor lies in memory.
enum class Lie { contiguous, channels_last, off_by_one, strided };

// What a kernel must not read or write is 7.
Tensor laid(const Shape& shape, DType t, Lie lie, Device d) {
  const TensorOptions o{.dtype = t, .device = d};
  Shape wide = shape;
  i64 n = 1;
  for (const i64 size : shape) n *= size;
  switch (lie) {
    case Lie::contiguous:
      return full(shape, 7, o);
    case Lie::channels_last:
      return contiguous(full(shape, 7, o), MemoryFormat::channels_last);
    case Lie::off_by_one:  // from 16 bytes
      return slice(full({n + 1}, 7, o), 0, {1, n + 1}).view(shape);
    case Lie::strided:
      wide.push_back(2);
      return full(wide, 7, o).select(-1, 1);
  }
  return {};
}
void fill(Tensor to, u64 seed, bool with_infinity) {
  std::vector<double> v = random_values(to.numel(), seed);
  if (with_infinity && v.size() > 3) v[v.size() / 2] = INFINITY, v[v.size() / 3] = NAN;
  to.copy_(to_tensor(v, to.shape(), to.dtype(), to.device()));
}

// The bits of what a variant writes to `to`.
template <class Args>
std::vector<u64> bits_of(const Variant<Args>& v, const Args& args, Tensor to) {
  to.fill_(5);
  Launch l;
  l.device = to.device();
  const i64 bytes = v.workspace ? v.workspace(args) : 0;
  const Tensor workspace =
      empty({std::max<i64>(bytes, 1)}, {.dtype = DType::u8, .device = to.device()});
  l.workspace = workspace.impl()->data;
  v.launch(args, l);
  std::vector<u64> bits;
  for (const double x : to_doubles(to)) bits.push_back(std::isnan(x) ? 1 : std::bit_cast<u64>(x));
  return bits;
}

// Whether rung packs takes the arguments; where it does, its bits are those of naive.
template <class Args>
bool checked(const Args& args, const Tensor& to) {
  const Variants<Args>& list = *ContractTable<Args>::rows[int(DeviceKind::simt)];
  const Variant<Args>& packs = list.rows[0];
  REQUIRE(std::string(packs.name) == "packs");
  if (refusal(packs, args, to.device())) return false;
  const std::vector<u64> want = bits_of(list.rows[list.count - 1], args, to);
  for (int i = 0; i + 1 < list.count; ++i) {
    INFO(list.rows[i].name);
    CHECK(bits_of(list.rows[i], args, to) == want);
  }
  return true;
}

struct Case {
  Shape shape;  // of the longer side's other axes; `axis` is replaced by the sizes
  int axis;
  Lie to, from;
  bool packs;  // expected of f32
};
// Rows are packs where W is not resized; else four lines, wherever four are to be had.
const Case kCases[] = {{{2, 3, 0, 16}, 2, Lie::contiguous, Lie::contiguous, true},
                       {{2, 6, 4, 0}, 3, Lie::contiguous, Lie::contiguous, true},
                       {{1, 3, 5, 0}, 3, Lie::contiguous, Lie::contiguous, false},
                       {{2, 8, 0, 3}, 2, Lie::channels_last, Lie::channels_last, true},
                       {{2, 8, 3, 0}, 3, Lie::channels_last, Lie::channels_last, true},
                       {{3, 5, 4, 0}, 3, Lie::channels_last, Lie::channels_last, true},
                       {{1, 5, 3, 0}, 3, Lie::channels_last, Lie::channels_last, false},
                       {{2, 2, 0, 16}, 2, Lie::off_by_one, Lie::contiguous, true},
                       {{2, 2, 0, 16}, 2, Lie::contiguous, Lie::off_by_one, true},
                       {{1, 3, 0, 16}, 2, Lie::contiguous, Lie::off_by_one, false},
                       {{2, 2, 0, 16}, 2, Lie::contiguous, Lie::strided, true},
                       {{2, 2, 0, 16}, 2, Lie::strided, Lie::contiguous, true},
                       {{2, 8, 0, 4}, 2, Lie::channels_last, Lie::contiguous, true},
                       {{1, 3, 0, 18}, 2, Lie::contiguous, Lie::contiguous, false},
                       {{0, 3, 0, 16}, 2, Lie::contiguous, Lie::contiguous, false}};

}  // namespace

TEST_CASE("resize: packs write the bits of the plainest rung, in every layout") {
  if (!ContractTable<ResizeArgs>::rows[int(DeviceKind::simt)]) SKIP_TEST("no simt here");
  const Device d = Device::simt();
  for (const DType t : {f32, f16, bf16})
    for (const Case& c : kCases)
      for (const auto& [in, out] : {std::pair<i64, i64>{5, 10}, {7, 3}, {4, 4}, {1, 9}, {6, 1}})
        for (const ResizeMode mode : {ResizeMode::nearest, ResizeMode::linear})
          for (const bool corners : {false, true}) {
            if (corners && mode == ResizeMode::nearest) continue;
            Shape from_shape = c.shape, to_shape = c.shape;
            from_shape[c.axis] = in, to_shape[c.axis] = out;
            INFO(dtype_name(t) << ' ' << str(from_shape) << " to " << out << " axis " << c.axis
                               << " mode " << int(mode) << " corners " << corners << " lies "
                               << int(c.to) << ' ' << int(c.from));
            const ResizeMap map{in, out, mode, corners};
            const Tensor old = laid(from_shape, t, c.from, d), made = laid(to_shape, t, c.to, d);
            fill(old, 3, true);
            const bool forward = checked(ResizeArgs{view(made), view(old), c.axis, map}, made);
            const Tensor gin = laid(from_shape, t, c.to, d), gout = laid(to_shape, t, c.from, d);
            fill(gout, 4, true);
            const bool backward =
                checked(ResizeBackwardArgs{view(gin), view(gout), c.axis, map}, gin);
            // An axis of one place is none to the walk: what lies behind it may then be whole.
            if (t == f32 && in > 1 && out > 1) {
              CHECK(forward == c.packs);
              CHECK(backward == c.packs);
            }
          }
}

TEST_CASE("unfold: the gradient in packs has the bits of the plainest rung, in every layout") {
  if (!ContractTable<UnfoldBackwardArgs>::rows[int(DeviceKind::simt)]) SKIP_TEST("no simt here");
  const Device d = Device::simt();
  struct Windows {
    Shape shape;
    int axis;
    i64 size, step;
    Lie gx;
    bool turned;  // the place in the window lies outside the other axes
    bool packs;   // expected of f32
  };
  for (const DType t : {f32, f16, bf16})
    for (const Windows& c : {Windows{{3, 64}, 1, 16, 8, Lie::contiguous, false, true},
                             {{3, 64}, 1, 24, 8, Lie::contiguous, false, true},
                             {{1, 72}, 1, 8, 16, Lie::contiguous, false, true},  // gaps
                             {{64}, 0, 64, 1, Lie::contiguous, false, false},
                             {{3, 64}, 1, 16, 3, Lie::contiguous, false, false},
                             {{8, 61}, 1, 16, 3, Lie::contiguous, false, true},
                             {{4, 61}, 1, 7, 9, Lie::contiguous, false, true},
                             {{4, 9, 16}, 1, 4, 2, Lie::contiguous, false, true},
                             {{3, 9, 16}, 1, 4, 2, Lie::contiguous, false, false},
                             {{3, 9, 16}, 1, 4, 2, Lie::contiguous, true, true},
                             {{3, 64}, 1, 16, 8, Lie::off_by_one, false, false},
                             {{4, 64}, 1, 16, 8, Lie::strided, false, true},
                             {{4, 8, 5, 6}, 3, 3, 1, Lie::channels_last, false, true},
                             {{0, 64}, 1, 16, 8, Lie::contiguous, false, false},
                             {{}, 0, 1, 1, Lie::contiguous, false, false}}) {
      INFO(dtype_name(t) << ' ' << str(c.shape) << " axis " << c.axis << " size " << c.size
                         << " step " << c.step << " turned " << c.turned);
      Shape windows = c.shape;
      if (windows.ndim() > 0) windows[c.axis] = (windows[c.axis] - c.size) / c.step + 1;
      windows.push_back(c.size);
      Tensor gout = laid(windows, t, Lie::contiguous, d);
      if (c.turned) gout = transpose(laid({3, 3, 4, 16}, t, Lie::contiguous, d), 2, 3);
      REQUIRE(gout.shape() == (c.turned ? Shape{3, 3, 16, 4} : windows));
      fill(gout, 5, true);
      const Tensor gx = laid(c.shape, t, c.gx, d);
      const bool packs = checked(UnfoldBackwardArgs{view(gx), view(gout), c.axis, c.step}, gx);
      if (t == f32) CHECK(packs == c.packs);
    }
}
