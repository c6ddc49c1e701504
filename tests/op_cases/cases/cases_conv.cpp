// Rows of the convolutions and of their weight's gradient.
#include "warptape/tests/op_cases/cases/conv_case.h"

namespace wt_test {
namespace {

void add_conv1d(std::vector<OpCase>& rows) {
  add_conv_row(
      rows, "conv1d", false,
      {{{2, 2, 5}, {3, 2, 3}, true, {1}, {1}, {1}, {}, 1, "padding=1"},
       {{2, 2, 7}, {2, 2, 3}, false, {2}, {0}, {1}, {}, 1, "stride=2"},
       {{4, 6}, {4, 2, 2}, true, {1}, {0}, {2}, {}, 2, "dilation=2, groups=2"},
       {{1, 1, 6}, {2, 1, 4}, true, {1}, {0}, {1}, {}, 1, "padding='same'", true},
       {{1, 3, 1}, {2, 3, 1}, true, {1}, {0}, {1}, {}},
       {{2, 3, 31}, {5, 3, 5}, true, {3}, {4}, {2}, {}, 1, "stride=3, padding=4, dilation=2"},
       {{1, 6, 33}, {6, 1, 3}, false, {1}, {1}, {1}, {}, 6, "padding=1, groups=6"},
       {{1, 3, 257}, {5, 3, 3}, true, {1}, {1}, {1}, {}, 1, "padding=1"},
       {{1, 17, 7}, {33, 17, 3}, true, {1}, {1}, {1}, {}, 1, "padding=1"},
       {{0, 2, 5}, {3, 2, 3}, true, {1}, {0}, {1}, {}},
       {{2, 0, 5}, {3, 0, 3}, true, {1}, {0}, {1}, {}}});
  OpCase& c = rows.back();
  const ConvCall call = [](const Tensor& x, const Tensor& w) { (void)conv1d(x, w); };
  const std::string tag = "[conv1d] ";
  c.errors = {undefined_operand("conv1d", call), two_devices("conv1d", call),
              conv_error_dtype("conv1d", {1, 1, 3}, call),
              conv_error_shapes("rank", tag + "x has 4 dimensions, 3 are needed: [N, C, L], or 2",
                                {1, 1, 1, 3}, {1, 1, 1}, call),
              conv_error_shapes("weight", tag + "weight has 2 dimensions, 3 are needed", {1, 3},
                                {1, 1}, call)};
}

void add_conv2d(std::vector<OpCase>& rows) {
  const std::vector<i64> one{1, 1}, none{0, 0};
  add_conv_row(
      rows, "conv2d", false,
      {{{2, 2, 3, 4}, {2, 2, 2, 2}, true, one, none, one, {}},
       {{1, 2, 4, 3},
        {3, 2, 3, 2},
        false,
        {2, 1},
        {1, 0},
        one,
        {},
        1,
        "stride=(2, 1), padding=(1, 0)"},
       {{2, 4, 5},
        {4, 1, 2, 2},
        true,
        one,
        {1, 1},
        {1, 2},
        {},
        2,
        "padding=1, dilation=(1, 2), groups=2"},
       {{1, 2, 4, 3}, {2, 1, 2, 3}, true, one, none, one, {}, 2, "padding='same', groups=2", true},
       {{1, 1, 1, 1}, {2, 1, 3, 3}, true, one, {1, 1}, one, {}, 1, "padding=1"},
       {{2, 3, 9, 7},
        {5, 3, 3, 3},
        true,
        {3, 2},
        {2, 1},
        {1, 2},
        {},
        1,
        "stride=(3, 2), padding=(2, 1), dilation=(1, 2)"},
       {{1, 6, 9, 31}, {6, 1, 3, 3}, true, one, {1, 1}, one, {}, 6, "padding=1, groups=6"},
       {{1, 6, 9, 9},
        {12, 1, 3, 3},
        false,
        {2, 2},
        {1, 1},
        one,
        {},
        6,
        "stride=2, padding=1, groups=6"},
       {{1, 17, 5, 5}, {33, 17, 3, 3}, true, one, {1, 1}, one, {}, 1, "padding=1"},
       {{3, 5, 6, 5}, {7, 5, 1, 1}, true, one, none, one, {}},
       {{1, 2, 5, 5}, {2, 2, 1, 1}, false, {3, 3}, none, one, {}, 1, "stride=3"},
       {{1, 2, 3, 3}, {2, 2, 2, 2}, true, one, {3, 3}, one, {}, 1, "padding=3"},
       {{0, 2, 3, 3}, {2, 2, 2, 2}, true, one, none, one, {}},
       {{1, 2, 0, 3}, {2, 2, 2, 2}, true, one, {1, 0}, one, {}},
       {{1, 2, 3, 3}, {0, 2, 2, 2}, false, one, none, one, {}},
       {{3, 4, 2, 3}, {5, 4, 2, 3}, true, one, none, one, {}},  // as large as the image
       {{2, 7, 1, 1}, {9, 7, 1, 1}, false, one, none, one, {}}});
  OpCase& c = rows.back();
  const std::string tag = "[conv2d] ";
  const auto with = [](const ConvOptions& o) {
    return [o](const Tensor& x, const Tensor& w) { (void)conv2d(x, w, o); };
  };
  const ConvCall call = with({});
  const Shape x{1, 4, 5, 5}, w{6, 4, 3, 3};
  c.errors = {
      undefined_operand("conv2d", call),
      two_devices("conv2d", call),
      conv_error_dtype("conv2d", {1, 1, 3, 3}, call),
      conv_error_shapes("rank", tag + "x has 2 dimensions, 4 are needed: [N, C, H, W], or 3",
                        {3, 3}, w, call),
      conv_error_shapes("weight rank", tag + "weight has 3 dimensions, 4 are needed", x, {6, 4, 3},
                        call),
      conv_error_shapes("channels", tag + "x has 4 channels, weight takes 3", x, {6, 3, 3, 3},
                        call),
      conv_error_shapes("groups", tag + "x's channels 4 cannot be divided among groups 3", x, w,
                        with({.groups = 3})),
      conv_error_shapes("groups of results",
                        tag + "weight's output channels 6 cannot be divided among groups 4", x,
                        {6, 1, 3, 3}, with({.groups = 4})),
      conv_error_shapes("kernel too large",
                        tag + "the kernel spans 9 elements of spatial axis 0, x has 5, 7 with "
                              "padding",
                        x, w, with({.padding = 1, .dilation = 4})),
      conv_error_shapes("no kernel", tag + "weight has a kernel of size 0", x, {6, 4, 0, 3}, call),
      conv_error_usage("stride", tag + "stride must be at least 1, got 0", x, w,
                       with({.stride = {1, 0}})),
      conv_error_usage("stride's numbers", tag + "stride has 3 numbers, 1 or 2 are needed", x, w,
                       with({.stride = {1, 1, 1}})),
      conv_error_usage("padding", tag + "padding must be at least 0, got -1", x, w,
                       with({.padding = -1})),
      conv_error_usage("dilation", tag + "dilation must be at least 1, got -2", x, w,
                       with({.dilation = -2})),
      conv_error_usage("groups 0", tag + "groups must be at least 1, got 0", x, w,
                       with({.groups = 0})),
      conv_error_usage("same", tag + "padding same needs stride 1, got 2", x, w,
                       with({.stride = 2, .padding = Padding::same})),
      conv_error_shapes("bias", tag + "bias [5] \u2260 output channels [6]", x, w,
                        [](const Tensor& a, const Tensor& b) {
                          (void)conv2d(a, b, ones({5}, {.device = a.device()}));
                        })};
}

void add_conv3d(std::vector<OpCase>& rows) {
  const std::vector<i64> one{1, 1, 1}, none{0, 0, 0};
  add_conv_row(
      rows, "conv3d", false,
      {{{2, 1, 3, 3, 2}, {2, 1, 2, 2, 2}, true, one, none, one, {}},
       {{1, 2, 3, 2, 2},
        {2, 2, 2, 1, 2},
        false,
        {2, 1, 1},
        {1, 0, 1},
        one,
        {},
        1,
        "stride=(2, 1, 1), padding=(1, 0, 1)"},
       {{2, 3, 2, 3},
        {2, 1, 2, 1, 2},
        true,
        one,
        none,
        {1, 1, 2},
        {},
        2,
        "dilation=(1, 1, 2), groups=2"},
       {{1, 1, 2, 2, 2}, {1, 1, 2, 3, 1}, true, one, none, one, {}, 1, "padding='same'", true},
       {{1, 3, 5, 7, 6},
        {5, 3, 3, 3, 2},
        true,
        {2, 3, 1},
        {1, 2, 0},
        {2, 1, 1},
        {},
        1,
        "stride=(2, 3, 1), padding=(1, 2, 0), dilation=(2, 1, 1)"},
       {{1, 4, 3, 5, 5}, {4, 1, 3, 3, 3}, true, one, one, one, {}, 4, "padding=1, groups=4"},
       {{1, 1, 1, 1, 1}, {3, 1, 1, 1, 1}, true, one, none, one, {}},
       {{0, 1, 3, 3, 3}, {2, 1, 2, 2, 2}, true, one, none, one, {}}});
  OpCase& c = rows.back();
  const ConvCall call = [](const Tensor& x, const Tensor& w) { (void)conv3d(x, w); };
  const std::string tag = "[conv3d] ";
  c.errors = {undefined_operand("conv3d", call), two_devices("conv3d", call),
              conv_error_dtype("conv3d", {1, 1, 3, 3, 3}, call),
              conv_error_shapes("rank", tag + "x has 3 dimensions, 5 are needed: [N, C, D, H, W]",
                                {1, 1, 3}, {1, 1, 1, 1, 1}, call),
              conv_error_shapes("kernel", tag + "the kernel spans 4 elements of spatial axis 1",
                                {1, 1, 3, 3, 3}, {1, 1, 1, 4, 1}, call)};
}

void add_conv_weight_grad(std::vector<OpCase>& rows) {
  OpCase c{
      "conv_weight_grad", {"conv_forward", "conv_backward_input", "conv_backward_weight"}, kFloats};
  const std::vector<i64> one{1, 1}, none{0, 0};
  const ConvCase cases[] = {
      {{2, 2, 3, 4}, {2, 2, 2, 2}, false, one, none, one, {}},
      {{1, 2, 4, 3},
       {3, 2, 3, 2},
       false,
       {2, 1},
       {1, 0},
       one,
       {},
       1,
       "stride=(2, 1), padding=(1, 0)"},
      {{4, 6}, {4, 2, 2}, false, {1}, {0}, {2}, {}, 2, "dilation=2, groups=2"},
      {{1, 1, 3, 3, 2}, {2, 1, 2, 2, 2}, false, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {}},
      {{1, 2, 4, 3}, {2, 1, 2, 3}, false, one, none, one, {}, 2, "padding='same'", true},
      {{2, 3, 9, 7},
       {5, 3, 3, 3},
       false,
       {3, 2},
       {2, 1},
       {1, 2},
       {},
       1,
       "stride=(3, 2), padding=(2, 1), dilation=(1, 2)"},
      {{2, 6, 9, 31}, {6, 1, 3, 3}, false, one, {1, 1}, one, {}, 6, "padding=1, groups=6"},
      {{1, 17, 5, 5}, {33, 17, 3, 3}, false, one, {1, 1}, one, {}, 1, "padding=1"},
      {{1, 1, 33}, {2, 1, 5}, false, {1}, {2}, {1}, {}, 1, "padding=2"},
      {{0, 2, 3, 3}, {2, 2, 2, 2}, false, one, none, one, {}},
      {{3, 4, 5}, {6, 4, 5}, false, {1}, {0}, {1}, {}}};  // as large as the image
  for (const ConvCase& k : cases) {
    const Shape y = result_shape(k, k.w[0], out_size);
    Sample s{
        str("w ", k.w, k.options.empty() ? "" : ", ", k.options),
        {{y}, {k.x}},
        [k](std::span<const Tensor> in) { return conv_weight_grad(in[0], in[1], k.w, options(k)); },
        weight_oracle(k)};
    if (axes_of(k) == 2 && batched(k) && !k.same && count(k.x) > 0 && k.groups == 1)
      s.torch = str("torch.nn.grad.conv2d_weight(b, ", k.w, ", a", k.options.empty() ? "" : ", ",
                    k.options, ")");
    s.constant = count(k.x) == 0;
    c.samples.push_back(std::move(s));
  }
  const ConvCall call = [](const Tensor& gy, const Tensor& x) {
    (void)conv_weight_grad(gy, x, {2, 1, 2, 2});
  };
  const std::string tag = "[conv_weight_grad] ";
  c.errors = {
      undefined_operand("conv_weight_grad", call),
      two_devices("conv_weight_grad", call),
      conv_error_dtype("conv_weight_grad", {1, 1, 3, 3}, call),
      conv_error_shapes("gy", tag + "gy [1, 2, 3, 3] \u2260 the convolution's result [1, 2, 2, 2]",
                        {1, 2, 3, 3}, {1, 1, 3, 3}, call),
      conv_error_shapes("channels", tag + "weight [2, 1, 2, 2] does not fit x's channels 3",
                        {1, 2, 2, 2}, {1, 3, 3, 3}, call),
      conv_error_shapes("rank", tag + "weight has 2 dimensions, 3 to 5 are needed", {1, 2, 2, 2},
                        {1, 1, 3, 3}, [](const Tensor& gy, const Tensor& x) {
                          (void)conv_weight_grad(gy, x, {2, 1});
                        })};
  rows.push_back(std::move(c));
}

void add_conv_cases(std::vector<OpCase>& rows) {
  add_conv1d(rows);
  add_conv2d(rows);
  add_conv3d(rows);
  add_conv_weight_grad(rows);
}

const CaseFile file{add_conv_cases};

}  // namespace
}  // namespace wt_test
