// Convolutions of 16-bit floats on the cpu: some images at a time are widened to f32 copies, which
// go through the f32 kernels and are rounded once. How many depends on the shape alone, and so does
// the order of the weight gradient's sums.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/core/half.h"
#include "warptape/kernels/conv/conv_cpu.h"
#include "warptape/kernels/cpu/image_copies.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/dispatch/run_inner.h"

namespace wt {

namespace {

constexpr i64 kCopiesBytes = 8 << 20;  // of the images at a time: part of a third-level cache
constexpr i64 kImagesAWeight = 4;      // weights are packed for each turn: copies are larger
constexpr i64 kWorkAThread = 1 << 16;  // elements that are worth waking a thread

i64 round_up(i64 v, i64 step) { return (v + step - 1) / step * step; }

ImageExtent x_extent(const ConvShape& s) { return {s.in_channels, {s.in[0], s.in[1], s.in[2]}}; }
ImageExtent y_extent(const ConvShape& s) {
  return {s.out_channels, {s.out[0], s.out[1], s.out[2]}};
}
ImageExtent w_extent(const ConvShape& s) {
  return {s.in_group(), {s.kernel[0], s.kernel[1], s.kernel[2]}};
}

template <class To, class From>
void convert(const ConvTensor& to, const ConvTensor& from, const ImageExtent& e, i64 images) {
  const int threads = int(std::min<i64>(num_threads(), images * e.numel() / kWorkAThread + 1));
  const i64 tasks = std::min<i64>(images, 1 << 16);
  parallel(threads, int(tasks), [&](int task, int) {
    for (i64 n = images * task / tasks; n < images * (task + 1) / tasks; ++n)
      convert_image<To, From>(to, from, e, n);
  });
}

template <class T>
ConvTensor images_from(const ConvTensor& t, i64 n) {
  ConvTensor part = t;
  part.data = static_cast<T*>(t.data) + n * t.batch;
  return part;
}

// Where the copies lie in the workspace, in floats.
struct Layout {
  i64 images;  // at a time
  i64 w = 0, line, x, y, inner;
  explicit Layout(const ConvShape& s) {
    const i64 image = std::max<i64>(1, x_extent(s).numel() + y_extent(s).numel());
    const i64 wanted = std::max(kCopiesBytes / 4, kImagesAWeight * s.w_numel());
    images = std::clamp<i64>(wanted / image, 1, std::max<i64>(1, s.batch));
    line = round_up(s.w_numel(), 16);  // a bias, or the sums of y
    x = line + round_up(std::max(s.in_channels, s.out_channels), 16);
    y = x + round_up(images * x_extent(s).numel(), 16);
    inner = y + round_up(images * y_extent(s).numel(), 16);
  }
};

// The same problem on the copies, of `images` images.
template <class Args>
Args narrowed(const Args& a, const Layout& at, float* base, i64 images) {
  const ConvShape& s = a.shape;
  Args r = a;
  r.shape.dtype = DType::f32;
  r.shape.batch = images;
  r.x = image_copy(a.x, x_extent(s), base + at.x);
  r.y = image_copy(a.y, y_extent(s), base + at.y);
  r.w = image_copy(a.w, w_extent(s), base + at.w);
  return r;
}

template <class Args>
i64 workspace(const Args& a) {
  const Layout at(a.shape);
  static float none;  // only its address is asked for
  i64 inner = inner_workspace(narrowed(a, at, &none, at.images));
  if (const i64 rest = a.shape.batch % at.images)
    inner = std::max(inner, inner_workspace(narrowed(a, at, &none, rest)));
  return at.inner * i64(sizeof(float)) + inner;
}

// f(first, images) for every turn; once, with none, for an empty batch.
template <class F>
void for_turns(const ConvShape& s, const Layout& at, F&& f) {
  for (i64 n = 0; n == 0 || n < s.batch; n += at.images) f(n, std::min(at.images, s.batch - n));
}

template <class T>
void forward(const ConvForwardArgs& a, const Launch& l) {
  const ConvShape& s = a.shape;
  const Layout at(s);
  float* const base = static_cast<float*>(l.workspace);
  if (a.bias) detail::convert_row(base + at.line, static_cast<const T*>(a.bias), s.out_channels);
  for_turns(s, at, [&](i64 n, i64 images) {
    ConvForwardArgs one = narrowed(a, at, base, images);
    if (a.bias) one.bias = base + at.line;
    if (n == 0) convert<float, T>(one.w, a.w, w_extent(s), s.out_channels);
    convert<float, T>(one.x, images_from<T>(a.x, n), x_extent(s), images);
    inner_run(one, l, base + at.inner);
    convert<T, float>(images_from<T>(a.y, n), one.y, y_extent(s), images);
  });
}

template <class T>
void backward_input(const ConvBackwardInputArgs& a, const Launch& l) {
  const ConvShape& s = a.shape;
  const Layout at(s);
  float* const base = static_cast<float*>(l.workspace);
  if (a.bias) detail::convert_row(base + at.line, static_cast<const T*>(a.bias), s.in_channels);
  for_turns(s, at, [&](i64 n, i64 images) {
    ConvBackwardInputArgs one = narrowed(a, at, base, images);
    if (a.bias) one.bias = base + at.line;
    if (n == 0) convert<float, T>(one.w, a.w, w_extent(s), s.out_channels);
    convert<float, T>(one.y, images_from<T>(a.y, n), y_extent(s), images);
    inner_run(one, l, base + at.inner);
    convert<T, float>(images_from<T>(a.x, n), one.x, x_extent(s), images);
  });
}

// to (+)= sums, rounded once.
template <class T>
void round_sums(T* to, float* sums, i64 n, bool add) {
  for (i64 i = 0; add && i < n; ++i) sums[i] += float(to[i]);
  detail::convert_row(to, sums, n);
}

template <class T>
void backward_weight(const ConvBackwardWeightArgs& a, const Launch& l) {
  const ConvShape& s = a.shape;
  const Layout at(s);
  float* const base = static_cast<float*>(l.workspace);
  ConvTensor w;
  for_turns(s, at, [&](i64 n, i64 images) {
    ConvBackwardWeightArgs one = narrowed(a, at, base, images);
    if (a.y_sum) one.y_sum = base + at.line;
    w = one.w;
    // What the weight holds is one more term of its sums, in f32.
    if (n == 0 && a.accumulate) convert<float, T>(w, a.w, w_extent(s), s.out_channels);
    one.accumulate = a.accumulate || n > 0;
    one.accumulate_y_sum = n > 0;
    convert<float, T>(one.x, images_from<T>(a.x, n), x_extent(s), images);
    convert<float, T>(one.y, images_from<T>(a.y, n), y_extent(s), images);
    inner_run(one, l, base + at.inner);
  });
  convert<T, float>(a.w, w, w_extent(s), s.out_channels);
  if (a.y_sum)
    round_sums(static_cast<T*>(a.y_sum), base + at.line, s.out_channels, a.accumulate_y_sum);
}

}  // namespace

const char* conv_widened_why_not(const ConvShape& s) {
  return is_half(s.dtype) ? nullptr : "takes f16 and bf16 only";
}
i64 conv_widened_workspace(const ConvForwardArgs& a) { return workspace(a); }
i64 conv_widened_workspace(const ConvBackwardInputArgs& a) { return workspace(a); }
i64 conv_widened_workspace(const ConvBackwardWeightArgs& a) { return workspace(a); }

void conv_widened_forward(const ConvForwardArgs& a, const Launch& l) {
  a.shape.dtype == DType::f16 ? forward<Half>(a, l) : forward<BFloat16>(a, l);
}
void conv_widened_input(const ConvBackwardInputArgs& a, const Launch& l) {
  a.shape.dtype == DType::f16 ? backward_input<Half>(a, l) : backward_input<BFloat16>(a, l);
}
void conv_widened_weight(const ConvBackwardWeightArgs& a, const Launch& l) {
  a.shape.dtype == DType::f16 ? backward_weight<Half>(a, l) : backward_weight<BFloat16>(a, l);
}

}  // namespace wt
