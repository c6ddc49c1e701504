#include "warptape/nn/conv.h"

#include <cmath>

#include "warptape/core/at_line.h"
#include "warptape/nn/init.h"
#include "warptape/nn/make_parameter.h"
#include "warptape/nn/module_state.h"

namespace wt::nn {
namespace {

void check_numbers(const char* layer, const char* argument, const PerAxis& v, int axes, i64 least) {
  if (v.size() != 1 && v.size() != axes)
    throw UsageError(str("[", layer, "] ", argument, " has ", v.size(), " numbers, needs 1 or ",
                         axes, at_line()));
  for (int i = 0; i < axes; ++i)
    if (v[i] < least)
      throw UsageError(
          str("[", layer, "] ", argument, " must be at least ", least, ", got ", v[i], at_line()));
}

// [first, second / groups, kernel...], all checked.
Shape weight_shape(const char* layer, int axes, i64 in, i64 out, const PerAxis& kernel, i64 groups,
                   bool transposed) {
  detail::at_least_1(layer, "in_channels", in);
  detail::at_least_1(layer, "out_channels", out);
  detail::at_least_1(layer, "groups", groups);
  if (kernel.size() == 1 && kernel[0] == 0)
    throw UsageError(str("[", layer, "] kernel is not given", at_line(), "\n  Try {.kernel = 3}"));
  check_numbers(layer, "kernel", kernel, axes, 1);
  if (in % groups != 0 || out % groups != 0)
    throw ShapeError(str("[", layer, "] groups ", groups, " does not divide both ", in, " and ",
                         out, " channels", at_line()));
  Shape s = transposed ? Shape{in, out / groups} : Shape{out, in / groups};
  for (int i = 0; i < axes; ++i) s.push_back(kernel[i]);
  return s;
}

void fill(const Param& weight, const Param& bias) {
  const double bound = 1 / std::sqrt(double(init::fans_of(weight).in));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

// What pad() takes, from the last axis on.
std::vector<i64> pairs_of(int axes, const ConvLayerOptions& o) {
  std::vector<i64> pairs;
  for (int i = axes - 1; i >= 0; --i) {
    const i64 all = o.padding.is_same() ? o.dilation[i] * (o.kernel[i] - 1) : 0;
    pairs.push_back(o.padding.is_same() ? all / 2 : o.padding.numbers()[i]);
    pairs.push_back(o.padding.is_same() ? all - all / 2 : o.padding.numbers()[i]);
  }
  return pairs;
}

template <class Options>
Options given_kernel(const char* layer, i64 kernel, Options o) {
  if (o.kernel.size() != 1 || o.kernel[0] != 0)
    throw UsageError(str("[", layer, "] kernel is given twice", at_line()));
  o.kernel = kernel;
  return o;
}

}  // namespace

ConvLayerOptions ConvNd::with_kernel(i64 kernel, ConvLayerOptions o) {
  return given_kernel("Conv", kernel, std::move(o));
}
ConvTransposeLayerOptions ConvTransposeNd::with_kernel(i64 kernel, ConvTransposeLayerOptions o) {
  return given_kernel("ConvTranspose", kernel, std::move(o));
}

ConvNd::ConvNd(const char* type, int axes, i64 in, i64 out, const ConvLayerOptions& o)
    : weight(add("weight",
                 detail::make_parameter(
                     weight_shape(type, axes, in, out, o.kernel, o.groups, false), o.dtype))),
      bias(add("bias", detail::make_parameter({out}, o.dtype, o.bias))),
      axes_(axes),
      padding_mode_(o.padding_mode),
      options_{o.stride, o.padding, o.dilation, o.groups} {
  set_type(type);
  check_numbers(type, "stride", o.stride, axes, 1);
  check_numbers(type, "dilation", o.dilation, axes, 1);
  if (!o.padding.is_same()) check_numbers(type, "padding", o.padding.numbers(), axes, 0);
  for (int i = 0; i < axes; ++i)
    if (o.padding.is_same() && o.stride[i] != 1)
      throw UsageError(
          str("[", type, "] Padding::same needs stride 1, got ", o.stride[i], at_line()));
  if (padding_mode_ != PadMode::constant) {
    pairs_ = pairs_of(axes, o);
    options_.padding = 0;
  }
  fill(weight, bias);
}

Tensor ConvNd::forward(Tensor x) {
  if (padding_mode_ != PadMode::constant) {
    if (x.ndim() != axes_ + 1 && x.ndim() != axes_ + 2)  // before pad() says it of its own axes
      throw ShapeError(str("[", state_->type, "] x must have ", axes_ + 1, " or ", axes_ + 2,
                           " axes, got ", x.shape(), at_line()));
    x = pad(std::move(x), pairs_, {.mode = padding_mode_});
  }
  if (bias.defined())
    return axes_ == 1   ? conv1d(std::move(x), weight, bias, options_)
           : axes_ == 2 ? conv2d(std::move(x), weight, bias, options_)
                        : conv3d(std::move(x), weight, bias, options_);
  return axes_ == 1   ? conv1d(std::move(x), weight, options_)
         : axes_ == 2 ? conv2d(std::move(x), weight, options_)
                      : conv3d(std::move(x), weight, options_);
}

ConvTransposeNd::ConvTransposeNd(const char* type, int axes, i64 in, i64 out,
                                 const ConvTransposeLayerOptions& o)
    : weight(
          add("weight", detail::make_parameter(
                            weight_shape(type, axes, in, out, o.kernel, o.groups, true), o.dtype))),
      bias(add("bias", detail::make_parameter({out}, o.dtype, o.bias))),
      axes_(axes),
      options_{o.stride, o.padding, o.output_padding, o.groups, o.dilation} {
  set_type(type);
  check_numbers(type, "stride", o.stride, axes, 1);
  check_numbers(type, "dilation", o.dilation, axes, 1);
  check_numbers(type, "padding", o.padding, axes, 0);
  check_numbers(type, "output_padding", o.output_padding, axes, 0);
  fill(weight, bias);
}

Tensor ConvTransposeNd::forward(Tensor x) {
  if (bias.defined())
    return axes_ == 1   ? conv_transpose1d(std::move(x), weight, bias, options_)
           : axes_ == 2 ? conv_transpose2d(std::move(x), weight, bias, options_)
                        : conv_transpose3d(std::move(x), weight, bias, options_);
  return axes_ == 1   ? conv_transpose1d(std::move(x), weight, options_)
         : axes_ == 2 ? conv_transpose2d(std::move(x), weight, options_)
                      : conv_transpose3d(std::move(x), weight, options_);
}

}  // namespace wt::nn
