// Convolutions through cuDNN's graphs, over a fake cuDNN on a fake runtime: what is built, chosen
// and kept. cuda_cudnn_path_test.cpp has what operators make of it.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/machine/launch_timer.h"
#include "warptape/kernels/conv.h"
#include "warptape/kernels/cuda/cudnn_plan.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/kernels/cuda/cudnn_support.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_cuda.h"
#include "warptape/tests/support/fake_cudnn.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::Environment;
using wt_test::FakeCuda;
using wt_test::FakeCudnn;
using wt_test::Warnings;
using wt_test::warnings;
using wt_test::worst;

namespace {

const Device kCuda = Device::cuda(0);

struct Case {
  const char* name;
  ConvShape shape;
  bool channels_last = false;
  bool gaps = false;  // strides twice as long as they need to be
};

ConvShape shape_of(i64 batch, i64 in_channels, i64 out_channels, i64 groups, std::vector<i64> in,
                   i64 kernel, i64 stride, i64 padding, i64 dilation, DType t) {
  ConvShape s;
  s.batch = batch, s.in_channels = in_channels, s.out_channels = out_channels, s.groups = groups;
  for (int d = 0; d < 3; ++d) {
    const int skip = 3 - int(in.size());
    const bool missing = d < skip;
    s.in[d] = missing ? 1 : in[size_t(d - skip)];
    s.kernel[d] = missing ? 1 : kernel;
    s.stride[d] = missing ? 1 : stride;
    s.padding[d] = missing ? 0 : padding;
    s.dilation[d] = missing ? 1 : dilation;
    s.out[d] =
        (s.in[d] + 2 * s.padding[d] - (s.kernel[d] - 1) * s.dilation[d] - 1) / s.stride[d] + 1;
  }
  s.dtype = t;
  return s;
}

// A tensor of a convolution on some device: its memory and how it lies there.
struct Laid {
  Tensor memory;
  ConvTensor view;
};
Laid operand(const Case& c, i64 first, i64 second, const i64* sizes, u64 seed, Device d) {
  ConvTensor t;
  i64 next = c.gaps ? 2 : 1;
  const auto take = [&](i64& stride, i64 size) { stride = next, next *= size; };
  if (c.channels_last) take(t.channel, second);
  for (int i = 2; i >= 0; --i) take(t.at[i], sizes[i]);
  if (!c.channels_last) take(t.channel, second);
  take(t.batch, first);
  const std::vector<double> values = wt_test::random_values(next, seed);
  Laid o{tensor(values).to(c.shape.dtype).to(d), t};
  o.view.data = o.memory.impl()->data;
  return o;
}
std::vector<double> values_of(const Laid& o) {
  return o.memory.to(Device::cpu()).to(f64).to_vector<double>();
}

// All three passes on one device: by cuDNN, or by the cpu's own kernels.
struct Results {
  std::vector<double> y, x, w;
};
Results three_passes(const Case& c, bool bias, bool accumulate, Device d) {
  const ConvShape& s = c.shape;
  Results r;
  const Launch l{.device = d};
  const bool cudnn = d.kind == DeviceKind::cuda;
  const Tensor b = tensor(wt_test::random_values(64, 9)).to(s.dtype).to(d);
  const auto make = [&](int which, u64 seed) {
    return which == 0   ? operand(c, s.batch, s.in_channels, s.in, seed, d)
           : which == 1 ? operand(c, s.out_channels, s.in_group(), s.kernel, seed, d)
                        : operand(c, s.batch, s.out_channels, s.out, seed, d);
  };
  {
    const Laid x = make(0, 1), w = make(1, 2), y = make(2, 3);
    const ConvForwardArgs a{s, y.view, x.view, w.view, bias ? b.impl()->data : nullptr};
    if (cudnn) REQUIRE(conv_forward_cudnn_why_not(a) == nullptr);
    cudnn ? conv_forward_cudnn(a, l) : run(a, l);
    r.y = values_of(y);
  }
  {
    const Laid x = make(0, 4), w = make(1, 5), y = make(2, 6);
    const ConvBackwardInputArgs a{s, x.view, y.view, w.view};
    if (cudnn) REQUIRE(conv_backward_input_cudnn_why_not(a) == nullptr);
    cudnn ? conv_backward_input_cudnn(a, l) : run(a, l);
    r.x = values_of(x);
  }
  {
    const Laid x = make(0, 7), w = make(1, 8), y = make(2, 10);
    ConvBackwardWeightArgs a{s, w.view, y.view, x.view};
    a.accumulate = accumulate;
    if (cudnn) REQUIRE(conv_backward_weight_cudnn_why_not(a) == nullptr);
    cudnn ? conv_backward_weight_cudnn(a, l) : run(a, l);
    r.w = values_of(w);
  }
  return r;
}

void check_passes(const Case& c, bool bias, bool accumulate) {
  const Results cpu = three_passes(c, bias, accumulate, Device::cpu()),
                gpu = three_passes(c, bias, accumulate, kCuda);
  const double bound = c.shape.dtype == f32 ? 1e-4 : c.shape.dtype == f16 ? 3e-2 : 2e-1;
  CHECK(worst(cpu.y, gpu.y) < bound);
  CHECK(worst(cpu.x, gpu.x) < bound);
  CHECK(worst(cpu.w, gpu.w) < bound);
}

ConvForwardArgs small(const Case& c, std::vector<Laid>& keep) {
  const ConvShape& s = c.shape;
  keep.push_back(operand(c, s.batch, s.out_channels, s.out, 1, kCuda));
  keep.push_back(operand(c, s.batch, s.in_channels, s.in, 2, kCuda));
  keep.push_back(operand(c, s.out_channels, s.in_group(), s.kernel, 3, kCuda));
  return {s, keep[0].view, keep[1].view, keep[2].view, nullptr};
}

const Case kSmall{"small", shape_of(1, 2, 3, 1, {4, 4}, 3, 1, 1, 1, f32)};

}  // namespace

TEST_CASE("cudnn: three passes build graphs that are complete, and right") {
  const Environment off("WT_CUDNN_PLANS", "off");
  FakeCuda cuda;
  FakeCudnn cudnn;
  const Case cases[] = {
      {"2d", shape_of(2, 3, 4, 1, {5, 6}, 3, 1, 1, 1, f32)},
      {"channels last", shape_of(2, 3, 4, 1, {5, 6}, 3, 1, 1, 1, f16), true},
      {"1x1", shape_of(2, 4, 3, 1, {4, 4}, 1, 1, 0, 1, bf16), true},
      {"gaps", shape_of(2, 3, 2, 1, {5, 5}, 2, 1, 0, 1, f32), false, true},
      {"groups", shape_of(1, 4, 6, 2, {5, 5}, 3, 2, 1, 1, f32)},
      {"depthwise", shape_of(1, 4, 4, 4, {5, 5}, 3, 1, 1, 1, f32), true},
      {"dilated", shape_of(1, 2, 2, 1, {9, 8}, 3, 1, 2, 2, f32)},
      {"rest", shape_of(1, 2, 2, 1, {8, 7}, 3, 3, 0, 1, f32)},
      {"1d", shape_of(2, 3, 2, 1, {9}, 3, 2, 1, 1, f32)},
      {"3d", shape_of(1, 2, 3, 1, {3, 4, 5}, 2, 1, 1, 1, f32)},
      {"3d last", shape_of(1, 2, 4, 2, {3, 4, 5}, 3, 2, 1, 1, f16), true},
  };
  for (const Case& c : cases)
    for (const bool with : {false, true}) {
      CAPTURE(c.name, with);
      const int before = cudnn.calls("execute");
      check_passes(c, with, with);
      CHECK(cudnn.calls("execute") == before + 3);
    }
  CHECK(cudnn.violations() == std::vector<std::string>{});
  CHECK(cuda.violations() == std::vector<std::string>{});
}

TEST_CASE("cudnn: padding behind, and what cannot be said to it") {
  const Environment off("WT_CUDNN_PLANS", "off");
  FakeCuda cuda;
  FakeCudnn cudnn;
  Case c{"same", shape_of(1, 1, 1, 1, {4, 4}, 2, 1, 0, 1, f32)};
  for (int d : {1, 2}) c.shape.out[d] = 4;  // one more behind than before
  check_passes(c, true, false);
  CHECK(mentions(cudnn.last(), "before=[0,0] behind=[1,1]"));
  CHECK(cudnn.violations() == std::vector<std::string>{});

  std::vector<Laid> keep;
  ConvForwardArgs a = small(kSmall, keep);
  const auto refuses = [&](auto change, const char* why) {
    ConvForwardArgs changed = a;
    change(changed);
    const char* said = conv_forward_cudnn_why_not(changed);
    REQUIRE(said != nullptr);
    CHECK(std::string(said) == why);
  };
  CHECK(conv_forward_cudnn_why_not(a) == nullptr);
  refuses([](auto& x) { x.shape.dtype = f64; }, "takes f32, f16 and bf16 only");
  refuses([](auto& x) { x.shape.batch = 0; }, "takes no empty tensors");
  refuses([](auto& x) { x.shape.padding[2] = -1; }, "takes no negative padding");
  refuses([](auto& x) { x.x.channel = 0; }, "takes no operand that repeats or goes backwards");
  refuses([](auto& x) { x.x.at[2] = -1; }, "takes no operand that repeats or goes backwards");
  refuses([](auto& x) { x.shape.out[2] = 2; },
          "takes no image of which a kernel's step at the end is left out");
  const ConvBackwardInputArgs data{a.shape, a.x, a.y, a.w, a.w.data};
  REQUIRE(conv_backward_input_cudnn_why_not(data) != nullptr);
  CHECK(std::string(conv_backward_input_cudnn_why_not(data)) == "adds no bias");
}

TEST_CASE("cudnn: an engine is chosen that repeats itself, and a plan is made once") {
  const Environment off("WT_CUDNN_PLANS", "off");
  FakeCuda cuda;
  FakeCudnn cudnn;
  cudnn.engines = {{.notes = {kNoteNondeterministic}},
                   {.notes = {kNoteTensorCore}},
                   {.notes = {kNoteWinograd}},
                   {.notes = {kNoteReducedPrecisionReduction}},
                   {.plan_status = 3000},
                   {.workspace = kMostCudnnWorkspace + 1},
                   {.notes = {kNoteStrictNan}, .workspace = 1000}};
  std::vector<Laid> keep;
  const ConvForwardArgs a = small(kSmall, keep);
  for (int i = 0; i < 3; ++i) conv_forward_cudnn(a, Launch{.device = kCuda});
  CHECK(cudnn.last_engine() == 6);
  CHECK(cudnn.calls("execute") == 3);
  CHECK(cudnn.calls("heuristic") == 1);
  CHECK(cudnn.calls("create") == 1);
  // In f16 sums are f32 on tensor cores too.
  Case half = kSmall;
  half.shape.dtype = f16;
  std::vector<Laid> other;
  conv_forward_cudnn(small(half, other), Launch{.device = kCuda});
  CHECK(cudnn.last_engine() == 1);
  // What is aligned less is another problem.
  ConvForwardArgs moved = a;
  moved.w.data = static_cast<char*>(moved.w.data) + 4;
  moved.shape.out_channels = 2;
  moved.shape.kernel[1] = 3;
  conv_forward_cudnn(moved, Launch{.device = kCuda});
  CHECK(mentions(cudnn.last(), "/4 y="));
  CHECK(cudnn.violations() == std::vector<std::string>{});
  // Mode A knows none: its fallback is asked.
  cudnn.engines = {{.notes = {kNoteNondeterministic}}, {.mode = kHeuristicFallback}};
  Case more = kSmall;
  more.shape.batch = 2;
  std::vector<Laid> third;
  conv_forward_cudnn(small(more, third), Launch{.device = kCuda});
  CHECK(cudnn.last_engine() == 1);
  CHECK(cuda.violations() == std::vector<std::string>{});
}

// Microseconds of the fake's engines by their place; 9 where it did not run.
static FakeCudnn* timed_cudnn = nullptr;
static double fake_engine_us(Device, const std::function<void()>& once, double) {
  const int before = timed_cudnn->calls("execute");
  once();
  static constexpr double kMicroseconds[] = {5, 1, 3, 4};
  return timed_cudnn->calls("execute") == before ? 9 : kMicroseconds[timed_cudnn->last_engine()];
}

TEST_CASE("benchmark: cudnn's engines are timed, and the fastest is kept on disk", "[benchmark]") {
  const TempDir dir;
  const Environment cache("XDG_CACHE_HOME", dir.path.c_str()), plans("WT_CUDNN_PLANS", nullptr);
  FakeCuda cuda;
  FakeCudnn cudnn;
  timed_cudnn = &cudnn;
  detail::plant_launch_timer(fake_engine_us);
  // The quickest of f32 is none that rounds as f32 does; the last one fails as it runs.
  cudnn.engines = {{}, {.notes = {kNoteWinograd}}, {}, {.execute_status = kCudnnNotSupported}};
  std::vector<Laid> keep;
  const ConvForwardArgs a = small(kSmall, keep);
  conv_forward_cudnn(a, Launch{.device = kCuda});
  CHECK(cudnn.last_engine() == 0);  // as the library ranks them
  {
    const detail::TimingScope timing;
    conv_forward_cudnn(a, Launch{.device = kCuda});
    CHECK(cudnn.last_engine() == 2);
    const int heuristics = cudnn.calls("heuristic");
    conv_forward_cudnn(a, Launch{.device = kCuda});  // once a problem
    CHECK(cudnn.calls("heuristic") == heuristics);
  }
  conv_forward_cudnn(a, Launch{.device = kCuda});
  CHECK(cudnn.last_engine() == 2);
  wt::detail::replace_cudnn(&FakeCudnn::api());  // the next process
  const int made = cudnn.calls("plan");
  conv_forward_cudnn(a, Launch{.device = kCuda});
  CHECK(cudnn.last_engine() == 2);
  CHECK(cudnn.calls("plan") == made);
  CHECK(cudnn.violations() == std::vector<std::string>{});
  detail::plant_launch_timer(nullptr);
}

TEST_CASE("trap T7: cudnn searches once a shape, and a warning comes with very many shapes",
          "[trap]") {
  const Environment off("WT_CUDNN_PLANS", "off");
  const Warnings heard;
  FakeCuda cuda;
  FakeCudnn cudnn;
  std::vector<Laid> keep;
  const auto run_batch = [&](i64 batch) {
    keep.clear();
    // As little as can be: the fake multiplies, and 300 batches are 80,000 images.
    Case c{"tiny", shape_of(1, 1, 1, 1, {2, 2}, 1, 1, 0, 1, f32)};
    c.shape.batch = batch;
    conv_forward_cudnn(small(c, keep), Launch{.device = kCuda});
  };
  for (int again = 0; again < 2; ++again)
    for (i64 batch = 1; batch <= 255; ++batch) run_batch(batch);
  CHECK(cudnn.calls("heuristic") == 255);
  CHECK(warnings() == std::vector<std::string>{});
  for (i64 batch = 256; batch <= 300; ++batch) run_batch(batch);
  REQUIRE(warnings().size() == 1);
  CHECK(mentions(warnings()[0], "cuDNN has planned conv_forward for 256 different shapes"));
  CHECK(mentions(warnings()[0], "drop_last"));
  // The choice itself never depends on what was fastest by chance: engines that repeat their
  // results, ranked by the library ("an engine is chosen that repeats itself").
  CHECK(cudnn.calls("heuristic") == 300);
}

TEST_CASE("cudnn: a context that broke is a device's error") {
  const Environment off("WT_CUDNN_PLANS", "off");
  FakeCuda cuda;
  FakeCudnn cudnn;
  cudnn.engines[0].execute_status = kCudnnExecutionFailed;
  std::vector<Laid> keep;
  const ConvForwardArgs a = small(kSmall, keep);
  try {
    conv_forward_cudnn(a, Launch{.device = kCuda});
    FAIL("nothing was thrown");
  } catch (const DeviceError& e) {
    CHECK(std::string(e.what()) ==
          "DeviceError: cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED (the fake says so ) on "
          "cuda:0");
  }
}

TEST_CASE("cudnn: plans on disk serve the next process, damaged ones are made anew") {
  const TempDir dir;
  const Environment cache("XDG_CACHE_HOME", dir.path.c_str()), plans("WT_CUDNN_PLANS", nullptr);
  const Warnings heard;
  FakeCuda cuda;
  FakeCudnn cudnn;
  std::vector<Laid> keep;
  const ConvForwardArgs a = small(kSmall, keep);
  const auto next_process = [&] {
    wt::detail::replace_cudnn(&FakeCudnn::api());
    conv_forward_cudnn(a, Launch{.device = kCuda});
  };
  next_process();
  CHECK(cudnn.calls("plan") == 1);
  const std::string folder = cudnn_plan_folder(kCuda);
  CHECK(mentions(folder, "/warptape/cudnn-Fake-9.8.0"));
  std::vector<std::filesystem::path> files;
  for (const auto& f : std::filesystem::directory_iterator(folder)) files.push_back(f.path());
  REQUIRE(files.size() == 1);

  next_process();
  CHECK(cudnn.calls("plan") == 1);
  CHECK(cudnn.calls("restored") == 1);
  CHECK(cudnn.calls("execute") == 2);

  std::string good;
  std::getline(std::ifstream(files[0]), good, '\0');
  for (const std::string& bad : {std::string(), std::string("{}"), good.substr(0, good.size() - 1),
                                 good + "x", good.substr(0, good.find("[")) + "\n"}) {
    CAPTURE(bad);
    std::ofstream(files[0]) << bad;
    warnings().clear();
    wt::detail::forget_warnings();
    const int before = cudnn.calls("plan");
    next_process();
    CHECK(cudnn.calls("plan") == before + 1);
    CHECK(warnings().size() == 1);
    next_process();  // from the file that was written anew
    CHECK(cudnn.calls("plan") == before + 1);
  }
  // Another version of the library never reads it.
  cudnn.version = 90900;
  const int before = cudnn.calls("plan");
  next_process();
  CHECK(cudnn.calls("plan") == before + 1);
  // Where nothing can be written, one line says so and all goes on.
  std::filesystem::remove_all(dir.path);
  std::ofstream(dir.path) << "a file";
  warnings().clear();
  next_process();
  CHECK(cudnn.calls("plan") == before + 2);
  CHECK(warnings().size() == 1);
  CHECK(cudnn.violations() == std::vector<std::string>{});
}

TEST_CASE("cudnn: a library that is absent, too old, or none says so") {
  static std::string version_of;
  const auto find = [](const char* why, void* (*open)(const char*),
                       void* (*symbol)(void*, const char*)) {
    const wt::detail::CudnnFound found = wt::detail::find_cudnn({open, symbol});
    CHECK(found.api == nullptr);
    CHECK(found.why_not == why);
  };
  const auto none = [](const char*) -> void* { return nullptr; };
  const auto some = [](const char*) -> void* { return &version_of; };
  const auto no_symbol = [](void*, const char*) -> void* { return nullptr; };
  const auto old = [](void*, const char*) -> void* {
    return reinterpret_cast<void*>(+[]() -> size_t { return 8907; });
  };
  const auto only_version = [](void*, const char* name) -> void* {
    if (std::strcmp(name, "cudnnGetVersion") != 0) return nullptr;
    return reinterpret_cast<void*>(+[]() -> size_t { return 92600; });
  };
  {
    const Environment unset("WT_CUDNN", nullptr);
    find("there is no libcudnn.so.9 (pip install nvidia-cudnn-cu13, or WT_CUDNN=FILE)", none,
         no_symbol);
  }
  {
    const Environment is_off("WT_CUDNN", "off");
    find("WT_CUDNN=off", some, old);
  }
  const Environment named("WT_CUDNN", "/lib/x.so");
  find("WT_CUDNN: /lib/x.so cannot be loaded", none, no_symbol);
  find("/lib/x.so is no cuDNN: it has no cudnnGetVersion", some, no_symbol);
  find("/lib/x.so is cuDNN 8.9.7, older than 9.0", some, old);
  find("/lib/x.so lacks cudnnGetErrorString", some, only_version);

  FakeCuda cuda;
  wt::detail::replace_cudnn(nullptr, "there is none");
  std::vector<Laid> keep;
  CHECK(std::string(conv_forward_cudnn_why_not(small(kSmall, keep))) == "there is none");
  CHECK(describe_cudnn() == "not used: there is none");
  wt::detail::restore_cudnn();
}
