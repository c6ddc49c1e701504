#include "warptape/bench/gpu/ceilings.h"

#include "warptape/bench/gpu/maker.h"
#include "warptape/config.h"
#include "warptape/core/copy_bytes.h"
#include "warptape/core/stream.h"

namespace wt {
namespace simt {
void launch_empty(void* stream);
}
#if WARPTAPE_HAS_CUDA
namespace cuda {
void launch_empty(void* stream);
}
#endif
}  // namespace wt

namespace wt::bench {
namespace {

void launch_empty([[maybe_unused]] Device d) {
#if WARPTAPE_HAS_CUDA
  if (d.kind == DeviceKind::cuda) return cuda::launch_empty(detail::native_stream(d));
#endif
  simt::launch_empty(nullptr);
}

double copy_ceiling(Device d, std::vector<Row>& rows) {
  const i64 bytes = d.kind == DeviceKind::cuda ? i64{2} << 30 : i64{1} << 20;
  std::vector<Tensor> keep;
  Maker m(d, 1, keep);
  const Tensor from = m.normal({bytes / 4}, DType::f32), to = m.out({bytes / 4}, DType::f32);
  Row r{.bench = "ceiling_copy", .impl = "memcpy", .shape = std::to_string(bytes), .dtype = "u8"};
  r.time =
      time_batch(d, 5, [&](int) { copy_bytes(to.impl()->data, d, from.impl()->data, d, bytes); });
  r.bytes = 2.0 * double(bytes);
  rows.push_back(r);
  return r.bytes / r.time.median_us * 1e-3;
}

}  // namespace

Ceilings measure_ceilings(Device d, std::vector<Row>& rows) {
  Ceilings c;
  const bool gpu = d.kind == DeviceKind::cuda;
  c.copy_gb_s = copy_ceiling(d, rows);
#if WARPTAPE_HAS_CUDA
  if (gpu) {
    c.gemm_16_tflop_s = gemm_ceiling(d, 8192, DType::bf16);
    c.gemm_32_tflop_s = gemm_ceiling(d, 4096, DType::f32);
    for (DType t : {DType::bf16, DType::f32}) {
      const double n = t == DType::bf16 ? 8192 : 4096, flops = 2 * n * n * n;
      Row r{.bench = "ceiling_gemm", .impl = "cublaslt", .dtype = dtype_name(t)};
      r.shape = t == DType::bf16 ? "8192x8192x8192" : "4096x4096x4096";
      const double us = c.gemm(t) > 0 ? flops / c.gemm(t) * 1e-6 : 0;
      r.time = {us, us, us, us, 1};
      r.flops = flops;
      rows.push_back(r);
    }
  }
#endif
  const int calls = gpu ? 2000 : 20;
  const auto empty_launch = [&](int) { launch_empty(d); };
  Row r{.bench = "ceiling_launch", .shape = "1x32", .dtype = "-"};
  r.impl = "issue";
  r.time = time_issue(d, calls, empty_launch);
  rows.push_back(r);
  r.impl = "back_to_back";
  r.time = time_batch(d, calls, empty_launch);
  c.launch_us = r.time.median_us;
  rows.push_back(r);
  r.impl = "round_trip";
  r.time = time_round_trip(d, empty_launch);
  rows.push_back(r);
  return c;
}

}  // namespace wt::bench
