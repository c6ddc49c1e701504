// Convolutions.
#pragma once
#include "warptape/autograd/ops/conv.h"
#include "warptape/autograd/ops/pad.h"
#include "warptape/core/misnamed.h"
#include "warptape/nn/module.h"

namespace wt::nn {

struct ConvLayerOptions {
  // First, so that {3, 5} is not a kernel of 3 with a stride of 5.
  WT_MISNAMED_SAYS(kernel_size, "the kernel is called .kernel here: {.kernel = {3, 5}}");
  PerAxis kernel = 0;  // must be given
  PerAxis stride = 1;
  ConvPadding padding = 0;  // numbers, or Padding::same
  PerAxis dilation = 1;
  i64 groups = 1;
  bool bias = true;
  PadMode padding_mode = PadMode::constant;  // what the padding holds; constant: zeros
  DType dtype = DType::f32;
};
// What Conv1d, Conv2d and Conv3d have in common (wt::conv1d has formula and shapes). weight is
// [out, in / groups, kernel...], bias [out]; both drawn from U(-b, b) with b = 1 / sqrt(in / groups
// * elements of the kernel). Throws ShapeError unless groups divides both channels, UsageError for
// a kernel that is not given and other numbers out of range.
class WT_API ConvNd : public Module<ConvNd> {
 public:
  Tensor forward(Tensor x);
  Param weight;
  Param bias;

 protected:
  ConvNd(const char* type, int axes, i64 in_channels, i64 out_channels, const ConvLayerOptions& o);
  static ConvLayerOptions with_kernel(i64 kernel, ConvLayerOptions o);

 private:
  int axes_;
  PadMode padding_mode_;
  std::vector<i64> pairs_;  // for pad(), when the padding is not zeros
  wt::ConvOptions options_;
};
// x is [N, C, L] or [C, L].
struct Conv1d : Derived<Conv1d, ConvNd> {
  Conv1d(i64 in_channels, i64 out_channels, const ConvLayerOptions& o, const CallLine& = {})
      : Derived("Conv1d", 1, in_channels, out_channels, o) {}
  template <Integer T>
  Conv1d(i64 in_channels, i64 out_channels, T kernel, const ConvLayerOptions& o = {},
         const CallLine& line = {})
      : Conv1d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};
// x is [N, C, H, W] or [C, H, W].
struct Conv2d : Derived<Conv2d, ConvNd> {
  Conv2d(i64 in_channels, i64 out_channels, const ConvLayerOptions& o, const CallLine& = {})
      : Derived("Conv2d", 2, in_channels, out_channels, o) {}
  template <Integer T>
  Conv2d(i64 in_channels, i64 out_channels, T kernel, const ConvLayerOptions& o = {},
         const CallLine& line = {})
      : Conv2d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};
// x is [N, C, D, H, W] or [C, D, H, W].
struct Conv3d : Derived<Conv3d, ConvNd> {
  Conv3d(i64 in_channels, i64 out_channels, const ConvLayerOptions& o, const CallLine& = {})
      : Derived("Conv3d", 3, in_channels, out_channels, o) {}
  template <Integer T>
  Conv3d(i64 in_channels, i64 out_channels, T kernel, const ConvLayerOptions& o = {},
         const CallLine& line = {})
      : Conv3d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};

struct ConvTransposeLayerOptions {
  // First, so that {3, 5} is not a kernel of 3 with a stride of 5.
  WT_MISNAMED_SAYS(kernel_size, "the kernel is called .kernel here: {.kernel = {3, 5}}");
  PerAxis kernel = 0;  // must be given
  PerAxis stride = 1;
  PerAxis padding = 0;
  PerAxis output_padding = 0;
  i64 groups = 1;
  bool bias = true;
  PerAxis dilation = 1;
  DType dtype = DType::f32;
};
// What ConvTranspose1d, 2d and 3d have in common (wt::conv_transpose1d). weight is [in, out /
// groups, kernel...], bias [out]; both drawn from U(-b, b) with b = 1 / sqrt(out / groups *
// elements of the kernel). Throws as ConvNd does.
class WT_API ConvTransposeNd : public Module<ConvTransposeNd> {
 public:
  Tensor forward(Tensor x);
  Param weight;
  Param bias;

 protected:
  ConvTransposeNd(const char* type, int axes, i64 in_channels, i64 out_channels,
                  const ConvTransposeLayerOptions& o);
  static ConvTransposeLayerOptions with_kernel(i64 kernel, ConvTransposeLayerOptions o);

 private:
  int axes_;
  wt::ConvTransposeOptions options_;
};
struct ConvTranspose1d : Derived<ConvTranspose1d, ConvTransposeNd> {
  ConvTranspose1d(i64 in_channels, i64 out_channels, const ConvTransposeLayerOptions& o,
                  const CallLine& = {})
      : Derived("ConvTranspose1d", 1, in_channels, out_channels, o) {}
  template <Integer T>
  ConvTranspose1d(i64 in_channels, i64 out_channels, T kernel,
                  const ConvTransposeLayerOptions& o = {}, const CallLine& line = {})
      : ConvTranspose1d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};
struct ConvTranspose2d : Derived<ConvTranspose2d, ConvTransposeNd> {
  ConvTranspose2d(i64 in_channels, i64 out_channels, const ConvTransposeLayerOptions& o,
                  const CallLine& = {})
      : Derived("ConvTranspose2d", 2, in_channels, out_channels, o) {}
  template <Integer T>
  ConvTranspose2d(i64 in_channels, i64 out_channels, T kernel,
                  const ConvTransposeLayerOptions& o = {}, const CallLine& line = {})
      : ConvTranspose2d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};
struct ConvTranspose3d : Derived<ConvTranspose3d, ConvTransposeNd> {
  ConvTranspose3d(i64 in_channels, i64 out_channels, const ConvTransposeLayerOptions& o,
                  const CallLine& = {})
      : Derived("ConvTranspose3d", 3, in_channels, out_channels, o) {}
  template <Integer T>
  ConvTranspose3d(i64 in_channels, i64 out_channels, T kernel,
                  const ConvTransposeLayerOptions& o = {}, const CallLine& line = {})
      : ConvTranspose3d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};

}  // namespace wt::nn
