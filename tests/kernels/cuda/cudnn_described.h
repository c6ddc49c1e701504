// The real cuDNN, where it is installed, without a GPU: since 9.8 it plans for a device that is
// only described. So what our graphs are is judged by cuDNN itself: every descriptor, the
// heuristics of an H100, the notes of its engines, compiled plans and their text. Nothing is
// executed.
#pragma once
#include <dlfcn.h>

#include <cstring>
#include <set>

#include "warptape/kernels/cuda/cudnn_plan.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/tests/kernels/cuda/cudnn_support.h"
#include "warptape/tests/support/fake_cuda.h"
#include "warptape/tests/support/temp_dir.h"

namespace wt_test {

class DescribedH100 {
 public:
  // Engines that compile when they are planned ask for a driver, if only to load what comes of it:
  // with `driver` a toolkit's stub of one is there, which cannot, and that is where they end.
  explicit DescribedH100(bool driver = false) : why_not_(describe(driver)) {
    if (why_not_.empty()) replace();
  }
  ~DescribedH100() {
    if (why_not_.empty()) wt::detail::restore_cudnn();
  }
  DescribedH100(const DescribedH100&) = delete;
  const char* why_not() const { return why_not_.empty() ? nullptr : why_not_.c_str(); }
  // Forgets the plans in memory: those on disk are read next.
  void replace() {
    static const wt::CudnnApi api = planning_only();  // the thread keeps plans of it until it ends
    wt::detail::replace_cudnn(&api);
  }

  static int& executed() {
    static int n = 0;
    return n;
  }
  static int& restored() {
    static int n = 0;
    return n;
  }

 private:
  static constexpr const char* kText =
      R"({"cudaDeviceId":0,"deviceName":"NVIDIA H100 80GB HBM3","deviceVer":900,"driverVersion":13000,)"
      R"("cudartVersion":13000,"driverVer":13000,"smVersion":900,"maxGridSize":[2147483647,65535,65535],)"
      R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,)"
      R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
      R"("maxSharedMemoryPerSM":233472,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":8992,)"
      R"("isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":2619000,)"
      R"("l2CacheSize":52428800,"totalGlobalMem":85000000000,"globalMemSize":85000000000,"deviceId":0})";
  static const wt::CudnnApi*& real() {
    static const wt::CudnnApi* api = nullptr;
    return api;
  }
  static void*& described() {
    static void* p = nullptr;
    return p;
  }
  static std::set<const void*>& unloaded() {  // plans that are compiled and in no driver
    static std::set<const void*> plans;
    return plans;
  }
  std::string describe(bool driver) {
    // The library keeps what it has allocated for ever.
    if (std::string(wt::simt_flavour()) != "plain") return "cuDNN under a sanitizer";
    real() = wt::cudnn_api();
    if (!real()) return wt::cudnn_why_not();
    if (real()->version() < 90800) return "this cuDNN cannot plan for a device that is described";
    if (driver && !some_driver()) return "there is no driver, nor a toolkit's stub of one";
    try {
      device_ = wt::CudnnDescriptor(*real(), wt::CudnnDescriptorType(38));
      device_.set(wt::CudnnAttribute(2702), wt::kTypeChar, wt::i64(std::strlen(kText)) + 1, kText);
      device_.finalize();
    } catch (const wt::CudnnFailure& f) {
      return f.text;  // another version wants other words
    }
    described() = device_.get();
    executed() = restored() = 0;
    return {};
  }

  static bool some_driver() {
    // By its name a stub is the driver, for all that ask later.
    std::vector<std::string> places{"libcuda.so.1"};
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* root = std::getenv(variable))
        places.push_back(std::string(root) + "/lib64/stubs/libcuda.so");
    places.push_back("/usr/local/cuda/lib64/stubs/libcuda.so");
    for (const std::string& place : places)
      if (dlopen(place.c_str(), RTLD_NOW)) return true;
    return false;
  }

  // Where a handle is named, the description takes its place.
  static int set_attribute(void* d, int attribute, int type, wt::i64 count, const void* values) {
    if (attribute == wt::kGraphHandle) return wt::kCudnnSuccess;
    if (attribute == wt::kPlanHandle)
      return real()->set_attribute(d, 407, wt::kTypeDescriptor, 1, &described());
    restored() += attribute == wt::kPlanJson;
    if (attribute == wt::kHeuristicMode)
      if (const int status = real()->set_attribute(d, 204, wt::kTypeDescriptor, 1, &described()))
        return status;
    return real()->set_attribute(d, attribute, type, count, values);
  }
  static int finalize(void* d) {
    const int status = real()->finalize(d);
    if (status < wt::kCudnnExecutionFailed) return status;
    char text[512] = "";
    real()->last_error_text(text, sizeof text);
    if (!std::strstr(text, "cuLibraryLoadData") && !std::strstr(text, "cuModuleLoadData"))
      return status;
    unloaded().insert(d);
    return wt::kCudnnSuccess;
  }
  static int get_attribute(const void* d, int attribute, int type, wt::i64 room, wt::i64* count,
                           void* values) {
    if (!unloaded().count(d)) return real()->get_attribute(d, attribute, type, room, count, values);
    if (attribute == wt::kPlanWorkspaceSize) *static_cast<wt::i64*>(values) = 0;
    *count = attribute == wt::kPlanWorkspaceSize;  // and no text
    return wt::kCudnnSuccess;
  }
  static int free_descriptor(void* d) {
    unloaded().erase(d);
    return real()->free_descriptor(d);
  }

  static wt::CudnnApi planning_only() {
    wt::CudnnApi api = *real();
    api.create = [](void** handle) {
      *handle = &executed();
      return 0;
    };
    api.destroy = [](void*) { return 0; };
    api.set_stream = [](void*, void*) { return 0; };
    api.set_attribute = set_attribute;
    api.get_attribute = get_attribute;
    api.finalize = finalize;
    api.free_descriptor = free_descriptor;
    api.execute = [](void*, void*, void*) {
      ++executed();
      return 0;
    };
    return api;
  }

  wt::CudnnDescriptor device_;
  std::string why_not_;  // last: it is what describing the device comes to
};

// What a test of compiled plans needs around it; no plans on disk.
struct CompilingTest {
  Environment plans{"WT_CUDNN_PLANS", "off"};
  Warnings heard;
  FakeCuda cuda;
  DescribedH100 h100{true};
};

// An image that is never touched, without gaps.
inline wt::ConvTensor image_at(wt::u64 address, wt::i64 channels, const wt::i64* sizes,
                               bool channels_last) {
  wt::ConvTensor t;
  t.data = reinterpret_cast<void*>(address);
  wt::i64 next = 1;
  if (channels_last) t.channel = next, next *= channels;
  for (int d = 2; d >= 0; --d) t.at[d] = next, next *= sizes[d];
  if (!channels_last) t.channel = next, next *= channels;
  t.batch = next;
  return t;
}

}  // namespace wt_test
