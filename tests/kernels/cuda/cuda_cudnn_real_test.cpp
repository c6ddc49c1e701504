// Convolutions as the real cuDNN plans them for an H100 (cudnn_described.h).
#include "warptape/core/device.h"
#include "warptape/tests/kernels/cuda/cudnn_described.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using wt_test::DescribedH100;
using wt_test::image_at;

TEST_CASE("cudnn: the real library plans every pass for an H100") {
  const TempDir dir;
  const wt_test::Environment cache("XDG_CACHE_HOME", dir.path.c_str()),
      plans("WT_CUDNN_PLANS", nullptr);
  const wt_test::Warnings heard;
  wt_test::FakeCuda cuda;
  DescribedH100 h100;
  if (h100.why_not()) SKIP_TEST(h100.why_not());
  const auto walk = [&] {
    h100.replace();
    int convolutions = 0;
    for (const DType t : {f32, f16, bf16})
      for (const bool last : {false, true})
        for (const int axes : {2, 3})
          for (const int kind : {0, 1, 2, 3, 4}) {
            CAPTURE(int(t), last, axes, kind);
            ConvShape s;
            s.batch = 4, s.in_channels = 32, s.out_channels = 64, s.dtype = t;
            s.groups = kind == 2 ? 4 : 1;
            for (int d = 0; d < 3; ++d) {
              const bool missing = d < 3 - axes;
              s.in[d] = missing ? 1 : 14;
              s.kernel[d] = missing || kind == 4 ? 1 : 3;
              s.stride[d] = missing || kind != 1 ? 1 : 2;
              s.dilation[d] = missing || kind != 3 ? 1 : 2;
              s.padding[d] = missing || kind == 4 ? 0 : 1;
              s.out[d] = (s.in[d] + 2 * s.padding[d] - (s.kernel[d] - 1) * s.dilation[d] - 1) /
                             s.stride[d] +
                         1;
            }
            const ConvTensor x = image_at(1 << 20, s.in_channels, s.in, last),
                             y = image_at(1 << 24, s.out_channels, s.out, last),
                             w = image_at(1 << 28, s.in_group(), s.kernel, last);
            const Launch l{.device = Device::cuda(0)};
            for (const void* bias :
                 {static_cast<const void*>(nullptr), static_cast<const void*>(y.data)}) {
              const ConvForwardArgs a{s, y, x, w, bias};
              REQUIRE(conv_forward_cudnn_why_not(a) == nullptr);
              try {
                conv_forward_cudnn(a, l);
              } catch (const std::exception& e) {  // without cuda's kernels: no engine
                WARN(e.what());
              }
            }
            const ConvBackwardInputArgs data{s, x, y, w};
            REQUIRE(conv_backward_input_cudnn_why_not(data) == nullptr);
            conv_backward_input_cudnn(data, l);
            for (const bool accumulate : {false, true}) {
              ConvBackwardWeightArgs filter{s, w, y, x};
              filter.accumulate = accumulate;
              REQUIRE(conv_backward_weight_cudnn_why_not(filter) == nullptr);
              conv_backward_weight_cudnn(filter, l);
            }
            convolutions += 5;
          }
    return convolutions;
  };
  const int all = walk();
  CHECK(h100.executed() == all);
  CHECK(walk() == all);  // from what the first time left on disk
  CHECK(h100.executed() == 2 * all);
  CHECK(h100.restored() == all);
  for (const std::string& line : wt_test::warnings()) WARN(line);
  CHECK(wt_test::warnings().empty());
}
