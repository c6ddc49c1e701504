// Convolutions.
#pragma once
#include "warptape/autograd/ops/conv.h"
#include "warptape/autograd/ops/pad.h"
#include "warptape/core/misnamed.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// Options of Conv1d, Conv2d and Conv3d, by PyTorch's names; a PerAxis is one number for all axes or
// one each.
struct ConvLayerOptions {
  // First, so that {3, 5} is not a kernel of 3 with a stride of 5.
  WT_MISNAMED_SAYS(kernel_size, "the kernel is called .kernel here: {.kernel = {3, 5}}");
  PerAxis kernel = 0;       // elements along an axis; must be given
  PerAxis stride = 1;       // between windows, at least 1; of Padding::same 1
  ConvPadding padding = 0;  // numbers, or Padding::same
  PerAxis dilation = 1;     // between neighbouring elements of the kernel, at least 1
  i64 groups = 1;           // of channels, each with output channels of its own
  bool bias = true;         // false: bias is undefined
  PadMode padding_mode = PadMode::constant;  // what the padding holds; constant: zeros
  DType dtype = DType::f32;                  // of weight and bias
};
// What Conv1d, Conv2d and Conv3d have in common (wt::conv1d has formula and shapes). weight is
// [out, in / groups, kernel...], bias [out]; both drawn from U(-b, b) with b = 1 / sqrt(in / groups
// * elements of the kernel). Throws ShapeError for channels and groups below 1 and unless groups
// divides both channels, UsageError for a kernel that is not given and other numbers out of range.
class WT_API ConvNd : public Module<ConvNd> {
 public:
  // [N, in, d...] to [N, out, d'...], or both without N. Throws ShapeError for other ranks and
  // channels, DtypeError unless x has the dtype of weight.
  Tensor forward(Tensor x);
  // weight is [out, in / groups, kernel...], bias [out], undefined without one.
  Param weight;
  Param bias;

 protected:
  // For a class with `axes` spatial axes, 1 to 3, that errors call `type`.
  ConvNd(const char* type, int axes, i64 in_channels, i64 out_channels, const ConvLayerOptions& o);
  // These options with that kernel. Throws UsageError where they have one.
  static ConvLayerOptions with_kernel(i64 kernel, ConvLayerOptions o);

 private:
  int axes_;
  PadMode padding_mode_;
  std::vector<i64> pairs_;  // for pad(), when the padding is not zeros
  wt::ConvOptions options_;
};
// A convolution over one axis: x is [N, C, L] or [C, L].
struct Conv1d : Derived<Conv1d, ConvNd> {
  // The kernel is given in the options, or before them as one number for all axes. Throws as the
  // base class, and UsageError for a kernel that is given twice.
  Conv1d(i64 in_channels, i64 out_channels, const ConvLayerOptions& o, const CallLine& = {})
      : Derived("Conv1d", 1, in_channels, out_channels, o) {}
  template <Integer T>
  Conv1d(i64 in_channels, i64 out_channels, T kernel, const ConvLayerOptions& o = {},
         const CallLine& line = {})
      : Conv1d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};
// A convolution over two axes: x is [N, C, H, W] or [C, H, W].
struct Conv2d : Derived<Conv2d, ConvNd> {
  // The kernel is given in the options, or before them as one number for all axes. Throws as the
  // base class, and UsageError for a kernel that is given twice.
  Conv2d(i64 in_channels, i64 out_channels, const ConvLayerOptions& o, const CallLine& = {})
      : Derived("Conv2d", 2, in_channels, out_channels, o) {}
  template <Integer T>
  Conv2d(i64 in_channels, i64 out_channels, T kernel, const ConvLayerOptions& o = {},
         const CallLine& line = {})
      : Conv2d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};
// A convolution over three axes: x is [N, C, D, H, W] or [C, D, H, W].
struct Conv3d : Derived<Conv3d, ConvNd> {
  // The kernel is given in the options, or before them as one number for all axes. Throws as the
  // base class, and UsageError for a kernel that is given twice.
  Conv3d(i64 in_channels, i64 out_channels, const ConvLayerOptions& o, const CallLine& = {})
      : Derived("Conv3d", 3, in_channels, out_channels, o) {}
  template <Integer T>
  Conv3d(i64 in_channels, i64 out_channels, T kernel, const ConvLayerOptions& o = {},
         const CallLine& line = {})
      : Conv3d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};

// Options of ConvTranspose1d, 2d and 3d, by PyTorch's names.
struct ConvTransposeLayerOptions {
  // First, so that {3, 5} is not a kernel of 3 with a stride of 5.
  WT_MISNAMED_SAYS(kernel_size, "the kernel is called .kernel here: {.kernel = {3, 5}}");
  PerAxis kernel = 0;          // elements along an axis; must be given
  PerAxis stride = 1;          // between what two neighbours of x add, at least 1
  PerAxis padding = 0;         // elements that are cut off at both ends of an axis
  PerAxis output_padding = 0;  // further elements at the end of an axis
  i64 groups = 1;              // of channels, each with output channels of its own
  bool bias = true;            // false: bias is undefined
  PerAxis dilation = 1;        // between neighbouring elements of the kernel, at least 1
  DType dtype = DType::f32;    // of weight and bias
};
// What ConvTranspose1d, 2d and 3d have in common (wt::conv_transpose1d). weight is [in, out /
// groups, kernel...], bias [out]; both drawn from U(-b, b) with b = 1 / sqrt(out / groups *
// elements of the kernel). Throws as ConvNd does.
class WT_API ConvTransposeNd : public Module<ConvTransposeNd> {
 public:
  // [N, in, d...] to [N, out, d'...], or both without N. Throws ShapeError for other ranks and
  // channels, DtypeError unless x has the dtype of weight, UsageError unless output_padding is less
  // than the stride or the dilation.
  Tensor forward(Tensor x);
  // weight is [in, out / groups, kernel...], bias [out], undefined without one.
  Param weight;
  Param bias;

 protected:
  // For a class with `axes` spatial axes, 1 to 3, that errors call `type`.
  ConvTransposeNd(const char* type, int axes, i64 in_channels, i64 out_channels,
                  const ConvTransposeLayerOptions& o);
  // These options with that kernel. Throws UsageError where they have one.
  static ConvTransposeLayerOptions with_kernel(i64 kernel, ConvTransposeLayerOptions o);

 private:
  int axes_;
  wt::ConvTransposeOptions options_;
};
// A transposed convolution over one axis: x is [N, C, L] or [C, L].
struct ConvTranspose1d : Derived<ConvTranspose1d, ConvTransposeNd> {
  // The kernel is given in the options, or before them as one number for all axes. Throws as the
  // base class, and UsageError for a kernel that is given twice.
  ConvTranspose1d(i64 in_channels, i64 out_channels, const ConvTransposeLayerOptions& o,
                  const CallLine& = {})
      : Derived("ConvTranspose1d", 1, in_channels, out_channels, o) {}
  template <Integer T>
  ConvTranspose1d(i64 in_channels, i64 out_channels, T kernel,
                  const ConvTransposeLayerOptions& o = {}, const CallLine& line = {})
      : ConvTranspose1d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};
// A transposed convolution over two axes: x is [N, C, H, W] or [C, H, W].
struct ConvTranspose2d : Derived<ConvTranspose2d, ConvTransposeNd> {
  // The kernel is given in the options, or before them as one number for all axes. Throws as the
  // base class, and UsageError for a kernel that is given twice.
  ConvTranspose2d(i64 in_channels, i64 out_channels, const ConvTransposeLayerOptions& o,
                  const CallLine& = {})
      : Derived("ConvTranspose2d", 2, in_channels, out_channels, o) {}
  template <Integer T>
  ConvTranspose2d(i64 in_channels, i64 out_channels, T kernel,
                  const ConvTransposeLayerOptions& o = {}, const CallLine& line = {})
      : ConvTranspose2d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};
// A transposed convolution over three axes: x is [N, C, D, H, W] or [C, D, H, W].
struct ConvTranspose3d : Derived<ConvTranspose3d, ConvTransposeNd> {
  // The kernel is given in the options, or before them as one number for all axes. Throws as the
  // base class, and UsageError for a kernel that is given twice.
  ConvTranspose3d(i64 in_channels, i64 out_channels, const ConvTransposeLayerOptions& o,
                  const CallLine& = {})
      : Derived("ConvTranspose3d", 3, in_channels, out_channels, o) {}
  template <Integer T>
  ConvTranspose3d(i64 in_channels, i64 out_channels, T kernel,
                  const ConvTransposeLayerOptions& o = {}, const CallLine& line = {})
      : ConvTranspose3d(in_channels, out_channels, with_kernel(kernel, o), line) {}
};

}  // namespace wt::nn
