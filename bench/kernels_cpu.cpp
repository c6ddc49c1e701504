#include "warptape/bench/kernels_cpu.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "warptape/bench/gpu/problems.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/cpu/isa.h"

namespace wt::bench {
namespace {

double time_us(const std::function<void()>& work) {
  const double start = processor_us();
  work();
  return processor_us() - start;
}

// --- copying: no way is the fastest on every machine ---
constexpr i64 kCopyFloats = i64{1} << 24;

void copy_library(float* to, const float* from, i64 n) {
  std::memcpy(to, from, size_t(n) * sizeof(float));
}
#if WT_X86
WT_TARGET_AVX2 void copy_stores(float* to, const float* from, i64 n) {
  for (i64 i = 0; i < n; i += 8) _mm256_storeu_ps(to + i, _mm256_loadu_ps(from + i));
}
// Past the caches: what is overwritten is not read first.
WT_TARGET_AVX2 void copy_streamed(float* to, const float* from, i64 n) {
  for (i64 i = 0; i < n; i += 8) _mm256_stream_ps(to + i, _mm256_loadu_ps(from + i));
  _mm_sfence();
}
#endif

class Copy {
 public:
  Copy() : from_(zeros({kCopyFloats})), to_(zeros({kCopyFloats})) {
    double best[3] = {1e30, 1e30, 1e30};
    const Way ways[3] = {{"memcpy", copy_library}
#if WT_X86
                         ,
                         {"vector stores", cpu_isa() >= kAvx2 ? copy_stores : nullptr},
                         {"streaming stores", cpu_isa() >= kAvx2 ? copy_streamed : nullptr}
#endif
    };
    for (int turn = 0; turn < 9; ++turn)
      for (int k = 0; k < 3; ++k) {
        if (!ways[k].copy) continue;
        way_ = ways[k];
        best[k] = std::min(best[k], once());
      }
    way_ = ways[std::min_element(best, best + 3) - best];
  }
  double once() const {
    return time_us([&] { way_.copy(data(to_), data(from_), kCopyFloats); });
  }
  const char* how() const { return way_.name; }
  static double bytes() { return 2.0 * sizeof(float) * double(kCopyFloats); }

 private:
  struct Way {
    const char* name = "";
    void (*copy)(float*, const float*, i64) = nullptr;
  };
  static float* data(const Tensor& t) { return static_cast<float*>(t.impl()->data); }
  Tensor from_, to_;
  Way way_;
};

// A launch that moves less than this has no rate worth the name.
constexpr double kLeastBytes = 1e6;

// --- rows ---
const VariantRun* chosen(const Problem& p) {
  for (const VariantRun& v : p.variants)
    if (v.name == p.chosen) return &v;
  return nullptr;
}

double gemm_rate() {
  double best = 0;
  for (const ProblemRow& row : problem_rows()) {
    if (row.contract != "matmul") continue;
    const Problem p = row.make(Device::cpu(), DType::f32, Scale::host, 0, 1);
    for (const VariantRun& v : p.variants) {
      if (v.why_not() || v.name == "reference") continue;
      v.launch(0);
      for (int i = 0; i < 7; ++i)
        best = std::max(best, p.flops / time_us([&] { v.launch(0); }) * 1e-3);
    }
  }
  return best;
}

Row measure(const CpuKernelOptions& o, const Problem& p, const VariantRun& v, const Copy& copy,
            double gemm_gflop_s, std::vector<double>& copies) {
  Row r{.bench = p.contract, .impl = v.name, .shape = p.shape, .dtype = dtype_name(p.dtype)};
  r.bytes = p.bytes, r.flops = p.flops;
  v.launch(0);
  std::vector<double> mine, beside;
  double spent = 0;
  for (int i = 0; i < o.windows && (spent < 1.5e6 || i < 3); ++i) {
    beside.push_back(copy.once());
    mine.push_back(time_us([&] { v.launch(0); }));
    spent += beside.back() + mine.back();
  }
  copies.insert(copies.end(), beside.begin(), beside.end());
  r.time = summarize(mine);
  const Timing c = summarize(beside);
  const auto ratio = [&](double us, double copy_us) {
    Row timed = r;
    timed.time.median_us = us;
    compare_with_roof(
        timed, p.dtype,
        {.copy_gb_s = Copy::bytes() / copy_us * 1e-3, .gemm_32_tflop_s = gemm_gflop_s * 1e-3});
    r.bound = timed.bound, r.roof = timed.roof;
    return timed.ratio;
  };
  if (p.bytes < kLeastBytes) return r;
  const double median = ratio(r.time.median_us, c.median_us);
  r.ratio = ratio(r.time.min_us, c.min_us);
  if (r.ratio > 0) r.more.emplace_back("ratio_median", median);
  r.more.emplace_back("copy_gb_s", Copy::bytes() / c.min_us * 1e-3);
  r.more.emplace_back("load_average", load_average());
  return r;
}

}  // namespace

double processor_us() {
#if defined(CLOCK_THREAD_CPUTIME_ID)
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e6 + double(t.tv_nsec) * 1e-3;
#else
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
#endif
}

CpuCeilings measure_cpu_kernels(const CpuKernelOptions& o,
                                const std::function<void(const Row&)>& done) {
  const int threads = num_threads();
  set_num_threads(1);
  const Copy copy;
  CpuCeilings c{.copy_bytes = Copy::bytes(), .copy_by = copy.how(), .gemm_gflop_s = gemm_rate()};
  std::vector<double> copies{copy.once()};
  for (const ProblemRow& row : problem_rows()) {
    if (!o.only.empty() && std::find(o.only.begin(), o.only.end(), row.contract) == o.only.end())
      continue;
    for (int shape = 0; shape < row.shapes; ++shape) {
      const Problem p = row.make(Device::cpu(), DType::f32, Scale::host, shape, 1);
      if (const VariantRun* v = chosen(p)) done(measure(o, p, *v, copy, c.gemm_gflop_s, copies));
    }
  }
  c.copy = summarize(copies);
  set_num_threads(threads);
  return c;
}

std::vector<std::string> cpu_kernel_names() {
  std::vector<std::string> names;
  for (const ProblemRow& row : problem_rows()) names.push_back(row.contract);
  return names;
}

double load_average() {
  double load = -1;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

}  // namespace wt::bench
