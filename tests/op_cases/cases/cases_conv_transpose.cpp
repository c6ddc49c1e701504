// Rows of the transposed convolutions.
#include "warptape/tests/op_cases/cases/conv_case.h"

namespace wt_test {
namespace {

void add_conv_transpose1d(std::vector<OpCase>& rows) {
  add_conv_row(
      rows, "conv_transpose1d", true,
      {{{2, 2, 5}, {2, 3, 3}, true, {1}, {0}, {1}, {0}},
       {{2, 2, 4},
        {2, 2, 3},
        false,
        {2},
        {1},
        {1},
        {1},
        1,
        "stride=2, padding=1, output_padding=1"},
       {{4, 5}, {4, 2, 2}, true, {1}, {0}, {2}, {0}, 2, "groups=2, dilation=2"},
       {{1, 3, 1}, {3, 2, 1}, true, {1}, {0}, {1}, {0}},
       {{2, 3, 7},
        {3, 5, 4},
        true,
        {3},
        {2},
        {2},
        {1},
        1,
        "stride=3, padding=2, output_padding=1, dilation=2"},
       {{1, 3, 3}, {3, 2, 1}, false, {3}, {0}, {1}, {2}, 1, "stride=3, output_padding=2"},
       {{1, 6, 33}, {6, 1, 3}, true, {2}, {1}, {1}, {0}, 6, "stride=2, padding=1, groups=6"},
       {{0, 2, 5}, {2, 3, 3}, true, {1}, {0}, {1}, {0}}});
  OpCase& c = rows.back();
  const ConvCall call = [](const Tensor& x, const Tensor& w) { (void)conv_transpose1d(x, w); };
  const std::string tag = "[conv_transpose1d] ";
  c.errors = {undefined_operand("conv_transpose1d", call), two_devices("conv_transpose1d", call),
              conv_error_dtype("conv_transpose1d", {1, 1, 3}, call),
              conv_error_shapes("weight",
                                tag + "weight has 2 dimensions, 3 are needed: [in "
                                      "channels, out channels / groups, kernel]",
                                {1, 3}, {1, 1}, call)};
}

void add_conv_transpose2d(std::vector<OpCase>& rows) {
  const std::vector<i64> one{1, 1}, none{0, 0};
  add_conv_row(rows, "conv_transpose2d", true,
               {{{2, 2, 3, 2}, {2, 2, 2, 2}, true, one, none, one, none},
                {{1, 2, 3, 3},
                 {2, 3, 3, 2},
                 false,
                 {2, 1},
                 {1, 0},
                 one,
                 {1, 0},
                 1,
                 "stride=(2, 1), padding=(1, 0), output_padding=(1, 0)"},
                {{2, 3, 3},
                 {2, 2, 2, 2},
                 true,
                 {1, 2},
                 none,
                 {2, 1},
                 none,
                 2,
                 "stride=(1, 2), groups=2, dilation=(2, 1)"},
                {{1, 1, 1, 1}, {1, 2, 3, 3}, true, one, {1, 1}, one, none, 1, "padding=1"},
                {{2, 5, 4, 3},
                 {5, 3, 3, 3},
                 true,
                 {3, 2},
                 {2, 1},
                 {1, 2},
                 {2, 1},
                 1,
                 "stride=(3, 2), padding=(2, 1), output_padding=(2, 1), dilation=(1, 2)"},
                {{1, 6, 5, 9},
                 {6, 1, 3, 3},
                 true,
                 {2, 2},
                 {1, 1},
                 one,
                 one,
                 6,
                 "stride=2, padding=1, output_padding=1, groups=6"},
                {{1, 17, 4, 4}, {17, 33, 3, 3}, true, one, {1, 1}, one, none, 1, "padding=1"},
                {{1, 3, 3, 3},
                 {3, 2, 1, 1},
                 true,
                 {2, 3},
                 none,
                 one,
                 {1, 2},
                 1,
                 "stride=(2, 3), output_padding=(1, 2)"},
                {{1, 0, 3, 3}, {0, 2, 2, 2}, true, one, none, one, none},
                {{3, 6, 1, 1}, {6, 4, 3, 2}, true, one, none, one, none}});  // from one pixel
  OpCase& c = rows.back();
  const auto with = [](const ConvTransposeOptions& o) {
    return [o](const Tensor& x, const Tensor& w) { (void)conv_transpose2d(x, w, o); };
  };
  const ConvCall call = with({});
  const std::string tag = "[conv_transpose2d] ";
  const Shape x{1, 4, 3, 3}, w{4, 2, 3, 3};
  c.errors = {
      undefined_operand("conv_transpose2d", call),
      two_devices("conv_transpose2d", call),
      conv_error_dtype("conv_transpose2d", {1, 1, 3, 3}, call),
      conv_error_shapes("channels", tag + "x has 4 channels, weight takes 2", x, {2, 2, 3, 3},
                        call),
      conv_error_usage("output_padding",
                       tag + "output_padding 2 must be less than stride 2 or dilation 1", x, w,
                       with({.stride = 2, .output_padding = 2})),
      conv_error_shapes("padding", tag + "padding 3 leaves nothing of spatial axis 0: size -1", x,
                        w, with({.padding = 3})),
      conv_error_shapes("bias", tag + "bias [4] \u2260 output channels [2]", x, w,
                        [](const Tensor& a, const Tensor& b) {
                          (void)conv_transpose2d(a, b, ones({4}, {.device = a.device()}));
                        })};
}

void add_conv_transpose3d(std::vector<OpCase>& rows) {
  const std::vector<i64> one{1, 1, 1}, none{0, 0, 0};
  add_conv_row(
      rows, "conv_transpose3d", true,
      {{{1, 2, 2, 3, 2}, {2, 2, 2, 1, 2}, true, one, none, one, none},
       {{1, 1, 2, 2, 2},
        {1, 2, 2, 2, 2},
        false,
        {2, 1, 2},
        none,
        one,
        {1, 0, 0},
        1,
        "stride=(2, 1, 2), output_padding=(1, 0, 0)"},
       {{2, 2, 2, 2},
        {2, 1, 2, 2, 1},
        true,
        one,
        {1, 0, 0},
        {2, 1, 1},
        none,
        2,
        "padding=(1, 0, 0), groups=2, dilation=(2, 1, 1)"},
       {{1, 3, 3, 4, 3},
        {3, 5, 3, 2, 3},
        true,
        {2, 3, 2},
        {1, 0, 2},
        {1, 1, 2},
        {0, 1, 1},
        1,
        "stride=(2, 3, 2), padding=(1, 0, 2), output_padding=(0, 1, 1), dilation=(1, 1, 2)"},
       {{1, 4, 3, 5, 5}, {4, 1, 3, 3, 3}, true, one, one, one, none, 4, "padding=1, groups=4"},
       {{1, 1, 1, 1, 1}, {1, 3, 1, 1, 1}, true, one, none, one, none}});
  OpCase& c = rows.back();
  const ConvCall call = [](const Tensor& x, const Tensor& w) { (void)conv_transpose3d(x, w); };
  const std::string tag = "[conv_transpose3d] ";
  c.errors = {undefined_operand("conv_transpose3d", call), two_devices("conv_transpose3d", call),
              conv_error_dtype("conv_transpose3d", {1, 1, 3, 3, 3}, call),
              conv_error_shapes("rank", tag + "x has 3 dimensions, 5 are needed", {1, 1, 3},
                                {1, 1, 1, 1, 1}, call)};
}

void add_conv_transpose_cases(std::vector<OpCase>& rows) {
  add_conv_transpose1d(rows);
  add_conv_transpose2d(rows);
  add_conv_transpose3d(rows);
}

const CaseFile file{add_conv_transpose_cases};

}  // namespace
}  // namespace wt_test
