// Timing on a device, and the rows that are printed. The method: docs/gpu_gate.md.
#pragma once
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "warptape/core/tensor.h"

namespace wt::bench {

struct Timing {
  double median_us = 0, p10_us = 0, p90_us = 0, min_us = 0;
  int samples = 0;
};
// Of one measurement; whichever comes first ends it, but there are at least 5 samples, and a single
// one of what takes longer than `longest_us` (time_cold): ten runs of the plainest rungs at full
// size would take a minute each.
struct TimingLimits {
  int warmups = 25, samples = 200;
  double seconds = 0.3;
  double longest_us = 50e3;
  bool loaded = false;  // the kernel has run before
};

Timing summarize(std::vector<double> us);

// Device time of one work(i), i = 0, 1, ...: events before and after it, and before each the second
// level cache is filled with other data, which are read.
Timing time_cold(Device d, const std::function<void(int)>& work, const TimingLimits& limits = {});
// Device time of one work(i) when `calls` of them are queued back to back.
Timing time_batch(Device d, int calls, const std::function<void(int)>& work,
                  const TimingLimits& limits = {});
// Host time to queue one work(i), the device not waited for; and from queueing it until it is done.
Timing time_issue(Device d, int calls, const std::function<void(int)>& work);
Timing time_round_trip(Device d, const std::function<void(int)>& work);

// What the machine can do, measured in the same run. Zero: not measured.
struct Ceilings {
  double copy_gb_s = 0;        // bytes read and written
  double gemm_16_tflop_s = 0;  // bf16, f32 accumulation
  double gemm_32_tflop_s = 0;  // f32 without tf32
  double launch_us = 0;        // an empty kernel, back to back
  double gemm_f16_tflop_s = 0;
  double gemm_tf32_tflop_s = 0;
  // Of f16 that of bf16 where its own was not measured. `tf32`: f32 may be rounded to it.
  double gemm(DType t, bool tf32 = false) const {
    if (t == DType::f32) return tf32 ? gemm_tf32_tflop_s : gemm_32_tflop_s;
    if (t == DType::f16 && gemm_f16_tflop_s > 0) return gemm_f16_tflop_s;
    return t == DType::f16 || t == DType::bf16 ? gemm_16_tflop_s : 0;
  }
};

struct Row {
  std::string bench{}, impl{}, shape{}, dtype{};
  Timing time{};
  double bytes = 0, flops = 0;  // of one call; zero: no rate
  double roof = 0;              // GB/s or TFLOP/s of the ceiling that binds; zero: none
  double ratio = 0;             // the least time the ceilings allow / median
  std::string bound{};          // "copy", "gemm" or ""
  i64 peak_bytes = 0;
  std::string check{};  // of the values: "ok", or what is wrong
  std::vector<std::pair<std::string, double>> more{};
  std::vector<std::pair<std::string, std::string>> words{};  // as `more`, after it
};
// Whether a contract's time goes into sums of products, whose rate is then its roof.
inline bool is_product(const std::string& contract) {
  return contract == "matmul" || contract.starts_with("conv") || contract.starts_with("attention");
}
// Sets roof, ratio and bound from bytes, flops and the median.
void compare_with_roof(Row& row, DType t, const Ceilings& c);

struct Machine {
  Device device;
  std::string device_name;  // "NVIDIA H200", "simt"
  std::string host;         // processor
  std::string driver;       // "13.0", or empty
  std::string runtime;
};
Machine describe_machine(Device d);
// One JSON object a line, with the keys of every `wt bench --json`.
std::string to_json(const Row& row, const Machine& m);

}  // namespace wt::bench
