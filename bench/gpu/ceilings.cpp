// wt_gpu_bench ceilings.
#include "warptape/bench/gpu/ceilings.h"

#include "warptape/bench/gpu/maker.h"
#include "warptape/config.h"
#include "warptape/core/graph.h"
#include "warptape/core/memory/copy_bytes.h"

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

bool measure_copy(const BenchOptions& o, RowFile& rows, Ceilings& c) {
  const i64 bytes = at_full_size(o) ? i64{2} << 30 : i64{1} << 20;
  const Device d = o.device;
  Row r{.bench = "ceiling_copy", .impl = "memcpy", .shape = std::to_string(bytes), .dtype = "u8"};
  const bool good = measure_ceiling(rows, r, [&] {
    std::vector<Tensor> keep;
    Maker m(d, 1, keep);
    const Tensor from = m.normal({bytes / 4}, DType::f32), to = m.out({bytes / 4}, DType::f32);
    const auto copy = [&](int) { copy_bytes(to.impl()->data, d, from.impl()->data, d, bytes); };
    r.time = time_batch(d, 5, copy, {.seconds = o.seconds_or(0.15)});
    r.bytes = 2.0 * double(bytes);
  });
  if (good) c.copy_gb_s = r.bytes / r.time.median_us * 1e-3;
  return good;
}

#if WARPTAPE_HAS_CUDA
bool measure_gemm(const BenchOptions& o, RowFile& rows, const char* dtype, i64 full, double& rate) {
  const i64 n = at_full_size(o) ? full : 64;
  Row r{.bench = "ceiling_gemm", .impl = "cublaslt", .shape = str(n, "x", n, "x", n)};
  r.dtype = dtype;
  const bool good = measure_ceiling(rows, r, [&] {
    r.time = gemm_ceiling(o.device, n, dtype, o.seconds_or(0.15));
    r.flops = 2.0 * double(n) * double(n) * double(n);
  });
  if (good) rate = r.flops / r.time.median_us * 1e-6;
  return good;
}

// f32 at half the size: without tensor cores it takes as long.
bool measure_gemms(const BenchOptions& o, RowFile& rows, Ceilings& c) {
  bool good = measure_gemm(o, rows, "bf16", 8192, c.gemm_16_tflop_s);
  good &= measure_gemm(o, rows, "f16", 8192, c.gemm_f16_tflop_s);
  good &= measure_gemm(o, rows, "tf32", 8192, c.gemm_tf32_tflop_s);
  good &= measure_gemm(o, rows, "f32", 4096, c.gemm_32_tflop_s);
  return good;
}
#else
bool measure_gemms(const BenchOptions&, RowFile&, Ceilings&) { return true; }
#endif

Row launch_row(const char* impl) {
  return {.bench = "ceiling_launch", .impl = impl, .shape = "1x32", .dtype = "-"};
}

// Host time of fewer than a device's queue holds: a full one makes the host wait.
bool measure_launches(const BenchOptions& o, RowFile& rows, Ceilings& c) {
  const Device d = o.device;
  const int queued = at_full_size(o) ? 500 : 20, calls = at_full_size(o) ? 2000 : 20;
  const auto work = [&](int) { launch_empty(d); };
  Row issue = launch_row("issue"), batch = launch_row("back_to_back"),
      round = launch_row("round_trip");
  bool good = measure_ceiling(rows, issue, [&] { issue.time = time_issue(d, queued, work); });
  good &= measure_ceiling(rows, batch, [&] { batch.time = time_batch(d, calls, work); });
  good &= measure_ceiling(rows, round, [&] { round.time = time_round_trip(d, work); });
  c.launch_us = batch.time.median_us;
  return good;
}

}  // namespace

void launch_empty([[maybe_unused]] Device d) {
#if WARPTAPE_HAS_CUDA
  if (d.kind == DeviceKind::cuda) return cuda::launch_empty(detail::native_stream(d));
#endif
  simt::launch_empty(nullptr);
}

bool measure_ceiling(RowFile& rows, Row& r, const std::function<void()>& measure) {
  if (!rows.attempt(r, measure)) return false;
  rows.keep(r);
  return true;
}

Ceilings measure_roofs(const BenchOptions& o, RowFile& rows, bool& good) {
  Ceilings c;
  good = measure_copy(o, rows, c);
  if (o.device.kind == DeviceKind::cuda) good &= measure_gemms(o, rows, c);
  good &= measure_launches(o, rows, c);
  return c;
}

bool measure_graphs(const BenchOptions& o, RowFile& rows) {
  bool good = true;
  for (const int launches : {1, 100}) {
    Row issue = launch_row("graph, issue"), batch = launch_row("graph, back_to_back");
    issue.shape = batch.shape = str(launches, " x 1x32");
    const auto replayed = [&](Row& r,
                              Timing (*time)(Device, int, const std::function<void(int)>&)) {
      return measure_ceiling(rows, r, [&] {
        Graph graph(o.device);
        const auto work = [&] {
          for (int i = 0; i < launches; ++i) launch_empty(o.device);
        };
        graph.warm_up(work);
        graph.capture(work);
        const int calls = !at_full_size(o) ? 5 : launches == 1 ? 500 : 100;
        r.time = time(o.device, calls, [&](int) { graph.replay(); });
        synchronize(o.device);
      });
    };
    good &= replayed(issue, time_issue);
    good &= replayed(batch, [](Device d, int calls, const std::function<void(int)>& work) {
      return time_batch(d, calls, work, {});
    });
  }
  return good;
}

int run_ceilings(const BenchOptions& o) {
  RowFile rows(o);
  bool good = true;
  measure_roofs(o, rows, good);
  if (o.device.kind == DeviceKind::cuda) {
    good &= measure_graphs(o, rows);
    good &= measure_transfers(o, rows);
  }
  if (!o.disk.empty()) measure_disk(o, rows);
  return good ? kBenchRight : kBenchWrong;
}

}  // namespace wt::bench
