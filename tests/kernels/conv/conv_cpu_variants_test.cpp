// Every variant of the three convolutions on the cpu gives the reference's bits where all numbers
// are whole and small, so that sums are exact in any order: tiles and parts that do not come out
// even, all orders in memory of each operand, several taps outside of the image, sums that are
// added to, one thread and three.
#include <array>
#include <set>
#include <string>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/kernels/conv.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

struct Problem {
  i64 batch, in_channels, out_channels, groups;
  std::vector<i64> in;  // spatial
  i64 kernel, stride, padding, dilation;
};
const Problem kProblems[] = {
    {29, 33, 35, 1, {4, 4}, 3, 1, 1, 1},    // two tiles of images and a rest
    {9, 17, 40, 1, {5, 3}, 3, 2, 1, 1},     // phases of columns
    {3, 400, 20, 1, {2, 2}, 3, 1, 1, 1},    // terms in two turns
    {30, 20, 33, 1, {3}, 3, 1, 1, 1},       // 1-d
    {5, 16, 18, 1, {2, 3, 4}, 2, 1, 1, 1},  // 3-d
    {7, 18, 16, 1, {6, 6}, 3, 1, 2, 2},     // taps apart
    {2, 16, 16, 1, {21, 70}, 3, 1, 1, 1},   // an image in parts
    {2, 16, 17, 1, {7, 140}, 3, 2, 1, 1},   // columns that are turned in several turns
    {12, 32, 36, 2, {4, 4}, 3, 1, 1, 1},    // groups
    {600, 16, 16, 1, {2, 2}, 2, 1, 0, 1},   // a batch in parts
    {4, 16, 16, 1, {2, 2}, 5, 1, 2, 1},     // taps that only see padding
    {9, 33, 34, 1, {6, 1}, 3, 1, 1, 1},     // rows of one pixel
    {3, 18, 33, 1, {7, 5}, 3, 1, 0, 1},     // 3 x 3 without padding, results in odd numbers
    {2, 17, 16, 1, {4, 7}, 3, 1, 4, 1},     // results that see padding alone
    {5, 19, 19, 19, {6, 7}, 3, 1, 1, 1},    // depthwise
    {70, 24, 24, 24, {5, 9}, 5, 2, 2, 1},   // the same, a batch in parts
    {6, 17, 33, 1, {4, 5}, 1, 1, 0, 1},     // pixels as rows
    {6, 40, 9, 1, {4, 4}, 1, 2, 0, 1},
};

ConvShape shape_of(const Problem& p, DType t) {
  ConvShape s;
  s.batch = p.batch, s.in_channels = p.in_channels, s.out_channels = p.out_channels;
  s.groups = p.groups, s.dtype = t;
  for (int d = 0; d < 3; ++d) {
    const int own = d - (3 - int(p.in.size()));
    s.in[d] = own < 0 ? 1 : p.in[size_t(own)];
    s.kernel[d] = own < 0 ? 1 : p.kernel;
    s.stride[d] = own < 0 ? 1 : p.stride;
    s.padding[d] = own < 0 ? 0 : p.padding;
    s.dilation[d] = own < 0 ? 1 : p.dilation;
    const i64 reach = s.dilation[d] * (s.kernel[d] - 1) + 1;
    s.out[d] = (s.in[d] + 2 * s.padding[d] - reach) / s.stride[d] + 1;
  }
  return s;
}

enum class Order : u8 { planes, channels_last, gaps };

// Elements of a tensor in some order; what lies between them is NaN and stays that.
template <class T>
struct Laid {
  ConvTensor view;
  std::vector<T> data;
  Laid(Order order, i64 first, i64 second, const i64 (&sizes)[3]) {
    i64 next = order == Order::gaps ? 2 : 1;
    const auto take = [&](i64& stride, i64 size) { stride = next, next *= size; };
    if (order == Order::channels_last) take(view.channel, second);
    for (int d = 2; d >= 0; --d) take(view.at[d], sizes[d]);
    if (order != Order::channels_last) take(view.channel, second);
    take(view.batch, first);
    data.assign(size_t(next), T(NAN));
    view.data = data.data();
    i64 k = 0;  // of the element, in C order
    for (i64 n = 0; n < first; ++n)
      for (i64 c = 0; c < second; ++c)
        for (i64 z = 0; z < sizes[0]; ++z)
          for (i64 y = 0; y < sizes[1]; ++y)
            for (i64 x = 0; x < sizes[2]; ++x, ++k)
              data[size_t(n * view.batch + c * view.channel + z * view.at[0] + y * view.at[1] +
                          x * view.at[2])] = T((k * 7 + k / 5) % 5 - 2);
  }
  Laid(const Laid&) = delete;
};

// What `out` holds, as text of bits: NaN equals itself.
template <class T>
std::string bits(const std::vector<T>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)};
}

// The reference comes last in the list and fills `want` on the way: so every variant runs twice.
template <class Args, class T>
void compare(const Args& a, const std::vector<std::vector<T>*>& out, std::set<std::string>* ran) {
  const std::vector<std::vector<T>> before = [&] {
    std::vector<std::vector<T>> all;
    for (const std::vector<T>* o : out) all.push_back(*o);
    return all;
  }();
  const auto restore = [&] {
    for (size_t i = 0; i < out.size(); ++i)
      std::copy(before[i].begin(), before[i].end(), out[i]->begin());
  };
  std::vector<std::string> want;
  {
    const Variants<Args>& list = *ContractTable<Args>::rows[0];
    const Variant<Args>& reference = list.rows[list.count - 1];
    REQUIRE(std::string(reference.name) == "reference");
    reference.launch(a, Launch{});
    for (const std::vector<T>* o : out) want.push_back(bits(*o));
    restore();
  }
  for_each_variant(
      Device::cpu(), a,
      [&] {
        for (size_t i = 0; i < out.size(); ++i) CHECK((bits(*out[i]) == want[i]));
        restore();
      },
      ran);
}

template <class T>
void check(const Problem& p, DType t, std::array<Order, 3> orders, bool more,
           std::set<std::string>* ran) {
  const ConvShape s = shape_of(p, t);
  CAPTURE(dtype_name(t), p.batch, p.in_channels, p.out_channels, p.groups, p.in, p.kernel, p.stride,
          p.padding, p.dilation, int(orders[0]), int(orders[1]), int(orders[2]), more);
  Laid<T> x(orders[0], s.batch, s.in_channels, s.in), y(orders[1], s.batch, s.out_channels, s.out);
  Laid<T> w(orders[2], s.out_channels, s.in_group(), s.kernel);
  std::vector<T> of_y(size_t(s.out_channels), T(3)), of_x(size_t(s.in_channels), T(-1));
  compare<ConvForwardArgs, T>({s, y.view, x.view, w.view, more ? of_y.data() : nullptr}, {&y.data},
                              ran);
  compare<ConvBackwardInputArgs, T>({s, x.view, y.view, w.view, more ? of_x.data() : nullptr},
                                    {&x.data}, ran);
  compare<ConvBackwardWeightArgs, T>({s, w.view, y.view, x.view, of_y.data(), more, more},
                                     {&w.data, &of_y}, ran);
}

}  // namespace

TEST_CASE("convolutions on the cpu: whole numbers give the reference's bits in every variant") {
  const int before = num_threads();
  std::set<std::string> ran;
  constexpr Order kPlanes = Order::planes, kLast = Order::channels_last, kGaps = Order::gaps;
  for (const int threads : {1, 3}) {
    CAPTURE(threads);
    set_num_threads(threads);
    for (const Problem& p : kProblems) {
      check<float>(p, f32, {kPlanes, kPlanes, kPlanes}, false, &ran);
      check<float>(p, f32, {kLast, kLast, kPlanes}, true, &ran);
      if (threads > 1) continue;
      check<float>(p, f32, {kPlanes, kLast, kLast}, false, &ran);
      check<float>(p, f32, {kGaps, kPlanes, kGaps}, true, &ran);
      check<double>(p, f64, {kLast, kPlanes, kPlanes}, false, &ran);
    }
  }
  set_num_threads(before);
  CHECK(ran == std::set<std::string>{"cpu:direct", "cpu:images", "cpu:matmul", "cpu:packed",
                                     "cpu:turned", "cpu:winograd", "cpu:reference"});
}
