// What the rows of convolutions, of transposed ones and of the weight's gradient share.
#pragma once
#include "warptape/autograd/ops/conv.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

struct ConvCase {
  Shape x, w;
  bool bias;
  std::vector<i64> stride, padding, dilation, extra;  // one a spatial axis; extra: output_padding
  i64 groups = 1;
  std::string options{};  // as PyTorch writes them
  bool same = false;
};

using ConvCall = std::function<void(const Tensor& x, const Tensor& w)>;

int axes_of(const ConvCase& k);
bool batched(const ConvCase& k);
i64 out_size(const ConvCase& k, int axis);
// [N, channels, size...] of x's kind.
Shape result_shape(const ConvCase& k, i64 channels, i64 (*size)(const ConvCase&, int));
// Of x, w and, if there is one, the bias.
Oracle forward_oracle(const ConvCase& k);
Oracle weight_oracle(const ConvCase& k);
ConvOptions options(const ConvCase& k);

void add_conv_row(std::vector<OpCase>& rows, const std::string& name, bool transposed,
                  const std::vector<ConvCase>& cases);

// x and w of ones.
ErrorInput conv_error_shapes(const std::string& label, const std::string& text, const Shape& x,
                             const Shape& w, const ConvCall& call);
ErrorInput conv_error_usage(const std::string& label, const std::string& text, const Shape& x,
                            const Shape& w, const ConvCall& call);
ErrorInput conv_error_dtype(const std::string& op, const Shape& x, const ConvCall& call);

}  // namespace wt_test
