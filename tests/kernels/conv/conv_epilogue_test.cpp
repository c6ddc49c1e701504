// Every variant of the convolution with an epilogue, on every device, against the reference in
// double with the epilogue made behind it: activations and their gradients, residual and aux, both
// memory orders, gaps, tiles' edges, addresses that no pack begins at.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/kernels/conv.h"
#include "warptape/tests/support/activations.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

enum class Order : u8 { channels_first, channels_last, gaps };

struct Problem {
  ConvShape shape;
  Order order = Order::channels_first;
  bool bias = false;
  Activation activation = Activation::none;
  bool gradient = false, residual = false, aux = false;
  i64 offset = 0;  // of y, residual and aux from an aligned address, in elements
};

ConvShape shape_of(i64 batch, i64 in_channels, i64 out_channels, i64 groups, std::vector<i64> in,
                   i64 kernel, i64 stride, i64 padding) {
  ConvShape s;
  s.batch = batch, s.in_channels = in_channels, s.out_channels = out_channels, s.groups = groups;
  for (int d = 0; d < 3; ++d) {
    const int skip = 3 - int(in.size());
    const bool own = d >= skip;
    s.in[d] = own ? in[size_t(d - skip)] : 1;
    s.kernel[d] = own ? kernel : 1;
    s.stride[d] = own ? stride : 1;
    s.padding[d] = own ? padding : 0;
    s.dilation[d] = 1;
    s.out[d] = (s.in[d] + 2 * s.padding[d] - s.kernel[d]) / s.stride[d] + 1;
  }
  return s;
}

// A tensor of first x second x sizes in some order, and the elements that it spans.
struct Laid {
  ConvTensor strides;
  i64 span;
};
Laid lay(Order order, i64 first, i64 second, const i64 (&sizes)[3]) {
  Laid l;
  i64 next = order == Order::gaps ? 2 : 1;
  const auto take = [&](i64& stride, i64 size) { stride = next, next *= size; };
  if (order == Order::channels_last) take(l.strides.channel, second);
  for (int d = 2; d >= 0; --d) take(l.strides.at[d], sizes[d]);
  if (order != Order::channels_last) take(l.strides.channel, second);
  take(l.strides.batch, first);
  l.span = next;
  return l;
}

// Values on a device, and what they are after rounding to its dtype.
struct Buffer {
  Tensor tensor;
  std::vector<double> values;
  Buffer(i64 n, u64 seed, DType t, Device d) {
    const Tensor host = n ? wt::tensor(random_values(n, seed, 2)).to(t) : zeros({0}, {.dtype = t});
    values = host.to_vector<double>();
    tensor = host.to(d);
  }
  char* data() const { return static_cast<char*>(tensor.impl()->data); }
};

// y of the reference in double, without an epilogue.
std::vector<double> reference(ConvForwardArgs a, const Laid& y, std::vector<double> x,
                              std::vector<double> w, std::vector<double> bias, bool magnitudes) {
  const auto prepare = [&](std::vector<double>& v) {
    if (magnitudes)
      for (double& e : v) e = std::fabs(e);
    return v.data();
  };
  std::vector<double> out(size_t(y.span));
  a.shape.dtype = f64;
  a.epilogue = {};
  a.x.data = prepare(x), a.w.data = prepare(w), a.y.data = out.data();
  if (a.bias) a.bias = prepare(bias);
  const Variants<ConvForwardArgs>& list = *ContractTable<ConvForwardArgs>::rows[0];
  for (int i = 0; i < list.count; ++i)
    if (std::string_view(list.rows[i].name) == "reference") list.rows[i].launch(a, Launch{});
  return out;
}

struct Want {
  bool written = false;
  double y = 0, y_off = 0, aux = 0, aux_off = 0;
};

// What y and aux are to hold, and how far off they may be: z may be rounded to the dtype before the
// residual and before the activation.
Want want_at(const Problem& p, double z, double size, double residual, double aux) {
  const DType t = p.shape.dtype;
  const double terms =
      double(p.shape.in_group() * p.shape.kernel[0] * p.shape.kernel[1] * p.shape.kernel[2]) + 2;
  const double u = roundoff(t), e = t == f64 ? 0x1p-53 : 0x1p-24;
  double off = u * std::fabs(z) + terms * e * size;
  if (p.residual) {
    z += residual, size += std::fabs(residual);
    off += u * std::fabs(z) + e * size;
  }
  Want w{.written = true, .aux = z, .aux_off = off + u * std::fabs(z)};
  if (p.activation == Activation::none) {
    w.y = z, w.y_off = off;
  } else {
    const double slope = p.gradient ? slope_of(p.activation, aux) : steepest(p.activation);
    w.y = p.gradient ? z * slope : activated(p.activation, z);
    // An activation's own arithmetic: a few roundings of numbers about as large as z. A slope is
    // one less something near one: its error is not relative.
    w.y_off = std::fabs(slope) * off + 16 * e * (size + 1) + u * std::fabs(w.y);
  }
  const double smallest = t == DType::f16 ? 0x1p-24 : 1e-38;
  w.y_off += smallest, w.aux_off += smallest;
  return w;
}

std::string text(const Problem& p) {
  const ConvShape& s = p.shape;
  return str(dtype_name(s.dtype), " batch ", s.batch, " channels ", s.in_channels, " to ",
             s.out_channels, " groups ", s.groups, " in ", s.in[0], "x", s.in[1], "x", s.in[2],
             " kernel ", s.kernel[2], " order ", int(p.order), " activation ", int(p.activation),
             p.gradient ? " gradient" : "", p.residual ? " residual" : "", p.aux ? " aux" : "",
             " offset ", p.offset);
}

std::string difference(const Problem& p, const char* what, const Buffer& before, const Tensor& now,
                       const std::vector<Want>& want, double Want::*value, double Want::*off) {
  const std::vector<double> got = now.to(Device::cpu()).to_vector<double>();
  for (size_t i = 0; i < got.size(); ++i) {
    const bool there = i >= size_t(p.offset) && i - size_t(p.offset) < want.size() &&
                       want[i - size_t(p.offset)].written;
    if (!there) {
      if (got[i] != before.values[i]) return str(what, " ", i, " was overwritten");
      continue;
    }
    const Want& w = want[i - size_t(p.offset)];
    if (!(std::fabs(got[i] - w.*value) <= w.*off))  // true for NaN
      return str(what, " ", i, " is ", got[i], ", not ", w.*value, " (allowed ", w.*off, ")");
  }
  return {};
}

// f(place) for all elements of y.
template <class F>
void for_places(const ConvShape& s, const ConvTensor& t, F&& f) {
  for (i64 n = 0; n < s.batch; ++n)
    for (i64 c = 0; c < s.out_channels; ++c)
      for (i64 i = 0; i < s.out[0]; ++i)
        for (i64 j = 0; j < s.out[1]; ++j)
          for (i64 k = 0; k < s.out[2]; ++k)
            f(size_t(n * t.batch + c * t.channel + i * t.at[0] + j * t.at[1] + k * t.at[2]));
}

void check(const Problem& p, Device d, std::set<std::string>& ran) {
  INFO(text(p));
  const ConvShape& s = p.shape;
  const Laid x = lay(p.order, s.batch, s.in_channels, s.in),
             y = lay(p.order, s.batch, s.out_channels, s.out),
             w = lay(p.order, s.out_channels, s.in_group(), s.kernel);
  const i64 held = y.span + p.offset + 3, start = p.offset * item_size(s.dtype);
  const Buffer in_x(x.span, 1, s.dtype, d), in_w(w.span, 2, s.dtype, d),
      bias(s.out_channels, 3, s.dtype, d), residual(held, 4, s.dtype, d);
  const Buffer fresh_y(held, 5, s.dtype, d), fresh_aux(held, 6, s.dtype, d);
  ConvForwardArgs a{s, y.strides, x.strides, w.strides, p.bias ? bias.data() : nullptr};
  a.x.data = in_x.data(), a.w.data = in_w.data();
  a.epilogue = {.activation = p.activation, .gradient = p.gradient};
  if (p.residual) a.epilogue.residual = residual.data() + start;

  std::vector<Want> want(size_t(y.span));
  const std::vector<double> z = reference(a, y, in_x.values, in_w.values, bias.values, false),
                            size = reference(a, y, in_x.values, in_w.values, bias.values, true);
  for_places(s, y.strides, [&](size_t i) {
    const size_t at = i + size_t(p.offset);
    want[i] = want_at(p, z[i], size[i], residual.values[at], fresh_aux.values[at]);
  });

  const Variants<ConvForwardArgs>& list = *ContractTable<ConvForwardArgs>::rows[int(d.kind)];
  for (int i = 0; i < list.count; ++i) {
    const Variant<ConvForwardArgs>& v = list.rows[i];
    const Buffer out(held, 5, s.dtype, d), aux(held, 6, s.dtype, d);
    a.y.data = out.data() + start;
    if (p.aux || p.gradient) a.epilogue.aux = aux.data() + start;
    if (refusal(v, a, d)) continue;
    INFO(device_kind_name(d.kind) << " " << v.name);
    static constexpr OpInfo info{.name = "fused_conv2d"};
    Launch l{.op = &info, .device = d};
    Tensor workspace;
    if (const i64 bytes = v.workspace ? v.workspace(a) : 0) {
      workspace = empty({bytes}, {.dtype = DType::u8, .device = d});
      l.workspace = workspace.impl()->data;
    }
    v.launch(a, l);
    CHECK(difference(p, "y", fresh_y, out.tensor, want, &Want::y, &Want::y_off) == "");
    if (p.aux && !p.gradient)
      CHECK(difference(p, "aux", fresh_aux, aux.tensor, want, &Want::aux, &Want::aux_off) == "");
    else
      CHECK(difference(p, "aux", fresh_aux, aux.tensor, {}, &Want::aux, &Want::aux_off) == "");
    ran.insert(v.name);
  }
}

// Every activation forward and backward, with and without the rest, by small shapes of all kinds.
std::vector<Problem> problems(DType t) {
  const ConvShape shapes[] = {
      shape_of(2, 3, 5, 1, {5, 6}, 3, 1, 1), shape_of(1, 16, 24, 1, {7, 5}, 3, 1, 1),
      shape_of(2, 8, 20, 2, {9}, 3, 2, 0),   shape_of(2, 4, 6, 1, {3, 4, 4}, 2, 1, 0),
      shape_of(3, 2, 8, 1, {4, 4}, 4, 1, 0),  // as large as the image
      shape_of(1, 6, 6, 6, {6, 8}, 3, 1, 1)};
  std::vector<Problem> all;
  int turn = 0;
  for (const Activation f : kAllActivations)
    for (const bool gradient : {false, true})
      for (ConvShape s : shapes) {
        if (gradient && f == Activation::none) continue;
        s.dtype = t;
        Problem p{.shape = s, .order = Order(turn % 3), .bias = turn % 4 != 1, .activation = f};
        p.gradient = gradient;
        p.residual = f == Activation::none || turn % 2 == 1;
        p.aux = !gradient && f != Activation::none && turn % 5 != 0;
        p.offset = turn % 7 == 3 ? 1 : 0;
        all.push_back(p);
        ++turn;
      }
  return all;
}
// Several tiles of 64 channels by 64 pixels, ragged and whole, whose packs are of channels, of
// pixels, or not there.
std::vector<Problem> tiles(DType t) {
  std::vector<Problem> all;
  for (const auto& [channels, width] : {std::pair<i64, i64>{128, 16}, {72, 13}, {67, 12}})
    for (const Order order : {Order::channels_first, Order::channels_last})
      for (const i64 offset : {0, 1}) {
        ConvShape s = shape_of(2, 16, channels, 1, {5, width}, 3, 1, 1);
        s.dtype = t;
        all.push_back({.shape = s,
                       .order = order,
                       .bias = true,
                       .activation = offset ? Activation::relu : Activation::gelu_tanh,
                       .residual = true,
                       .aux = true,
                       .offset = offset});
      }
  return all;
}
std::vector<Problem> empty(DType t) {
  ConvShape none = shape_of(0, 3, 4, 1, {5, 5}, 3, 1, 0),
            no_terms = shape_of(2, 0, 4, 1, {4}, 2, 1, 0);
  none.dtype = no_terms.dtype = t;
  return {{.shape = none, .activation = Activation::relu, .residual = true},
          {.shape = no_terms, .bias = true, .activation = Activation::silu, .aux = true}};
}

void check_all(Device d, std::set<std::string>& ran) {
  for (const DType t : {f64, f32, DType::f16, DType::bf16}) {
    if (t == DType::bf16 && !whole_walk()) continue;  // its accesses are those of f16
    int turn = 0;
    for (const Problem& p : problems(t))  // or each of 6 shapes with an activation in one dtype
      if (const int n = turn++; whole_walk() || (n + n / 6 + int(t)) % 3 == 0) check(p, d, ran);
    for (const Problem& p : empty(t)) check(p, d, ran);
    if (t != f64)
      for (const Problem& p : tiles(t)) check(p, d, ran);
  }
}

}  // namespace

TEST_CASE("conv epilogue: every variant against the reference in double") {
  for (const Device d : kernel_devices()) {
    INFO(to_string(d));
    std::set<std::string> ran;
    check_all(d, ran);
    const std::set<std::string> cpu{"direct", "matmul", "reference", "widened"},
        gpu{"channels", "naive", "tensor_core", "tiled"};
    const std::set<std::string>& all = d.kind == DeviceKind::cpu ? cpu : gpu;
    CHECK(std::includes(ran.begin(), ran.end(), all.begin(), all.end()));
  }
}

TEST_CASE("conv epilogue: what it reads and writes is priced") {
  ConvForwardArgs a;
  a.shape = shape_of(2, 3, 4, 1, {5, 5}, 3, 1, 0);
  const i64 plain = a.bytes(), y = 4 * a.shape.y_numel();
  float data = 0;
  a.epilogue = {.activation = Activation::gelu, .residual = &data};
  CHECK(a.bytes() == plain + y);
  a.epilogue.aux = &data;
  CHECK(a.bytes() == plain + 2 * y);
}
