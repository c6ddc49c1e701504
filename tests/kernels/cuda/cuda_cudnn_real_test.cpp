// The real cuDNN, where it is installed, without a GPU: since 9.8 it plans for a device that is
// only described. So what our graphs are is judged by cuDNN itself: every descriptor, the
// heuristics of an H100, the notes of its engines, finalized plans and their text. Nothing is
// executed.
#include <cstring>

#include "warptape/core/device.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/conv.h"
#include "warptape/kernels/cuda/cudnn_plan.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/tests/kernels/cuda/cudnn_support.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/fake_cuda.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;

namespace {

constexpr const char* kH100 =
    R"({"cudaDeviceId":0,"deviceName":"NVIDIA H100 80GB HBM3","deviceVer":900,"driverVersion":13000,)"
    R"("cudartVersion":13000,"driverVer":13000,"smVersion":900,"maxGridSize":[2147483647,65535,65535],)"
    R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,)"
    R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("maxSharedMemoryPerSM":233472,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
    R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":8992,)"
    R"("isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":2619000,)"
    R"("l2CacheSize":52428800,"totalGlobalMem":85000000000,"globalMemSize":85000000000,"deviceId":0})";

const CudnnApi* real = nullptr;
void* described = nullptr;  // the descriptor of the H100
int executed = 0, restored = 0;

// Where a handle is named, the description takes its place.
int set_attribute(void* d, int attribute, int type, i64 count, const void* values) {
  if (attribute == kGraphHandle) return kCudnnSuccess;
  if (attribute == kPlanHandle) return real->set_attribute(d, 407, kTypeDescriptor, 1, &described);
  restored += attribute == kPlanJson;
  if (attribute == kHeuristicMode)
    if (const int status = real->set_attribute(d, 204, kTypeDescriptor, 1, &described))
      return status;
  return real->set_attribute(d, attribute, type, count, values);
}

CudnnApi planning_only() {
  CudnnApi api = *real;
  api.create = [](void** handle) {
    *handle = &executed;
    return 0;
  };
  api.destroy = [](void*) { return 0; };
  api.set_stream = [](void*, void*) { return 0; };
  api.set_attribute = set_attribute;
  api.execute = [](void*, void*, void*) {
    ++executed;
    return 0;
  };
  return api;
}

ConvTensor tensor_at(u64 address, i64 channels, const i64* sizes, bool last) {
  ConvTensor t;
  t.data = reinterpret_cast<void*>(address);  // never touched
  i64 next = 1;
  if (last) t.channel = next, next *= channels;
  for (int d = 2; d >= 0; --d) t.at[d] = next, next *= sizes[d];
  if (!last) t.channel = next, next *= channels;
  t.batch = next;
  return t;
}

}  // namespace

TEST_CASE("cudnn: the real library plans every pass for an H100") {
  // The library keeps what it has allocated for ever.
  if (std::string(simt_flavour()) != "plain") SKIP_TEST("cuDNN under a sanitizer");
  real = cudnn_api();
  if (!real) SKIP_TEST(cudnn_why_not());
  if (real->version() < 90800) SKIP_TEST("this cuDNN cannot plan for a device that is described");
  const TempDir dir;
  const wt_test::Environment cache("XDG_CACHE_HOME", dir.path.c_str()),
      plans("WT_CUDNN_PLANS", nullptr);
  const wt_test::Warnings heard;
  wt_test::FakeCuda cuda;
  CudnnDescriptor device;
  try {
    device = CudnnDescriptor(*real, CudnnDescriptorType(38));
    device.set(CudnnAttribute(2702), kTypeChar, i64(std::strlen(kH100)) + 1, kH100);
    device.finalize();
  } catch (const CudnnFailure& f) {
    SKIP_TEST(f.text.c_str());  // another version wants other words
  }
  described = device.get();
  executed = restored = 0;
  static const CudnnApi api = planning_only();  // the thread keeps plans of it until it ends
  const auto walk = [&] {
    wt::detail::replace_cudnn(&api);
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
            const ConvTensor x = tensor_at(1 << 20, s.in_channels, s.in, last),
                             y = tensor_at(1 << 24, s.out_channels, s.out, last),
                             w = tensor_at(1 << 28, s.in_group(), s.kernel, last);
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
  CHECK(executed == all);
  CHECK(walk() == all);  // from what the first time left on disk
  CHECK(executed == 2 * all);
  CHECK(restored == all);
  for (const std::string& line : wt_test::warnings()) WARN(line);
  CHECK(wt_test::warnings().empty());
  wt::detail::restore_cudnn();
}
