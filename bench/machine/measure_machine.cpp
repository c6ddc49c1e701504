#include "warptape/bench/machine/measure_machine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/bench/allreduce.h"
#include "warptape/bench/gpu/measure.h"
#include "warptape/bench/machine/disk_file.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/core/matmul_precision.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stopwatch.h"

namespace wt::bench {
namespace {

using machine::Figure;
using EachFigure = std::function<void(Figure)>;

const char* const kStandsIn[] = {"", "host time of the executor: no GPU's",
                                 "host time of the emulated device: no GPU's"};
const char* stand_in_note(Device d) {
  return kStandsIn[d.kind == DeviceKind::simt                                     ? 1
                   : d.kind == DeviceKind::cuda && describe_measured(d).stands_in ? 2
                                                                                  : 0];
}
bool is_real_gpu(Device d) { return d.kind == DeviceKind::cuda && !*stand_in_note(d); }

// An error's first line without its kind.
std::string words_of(const Error& e) {
  const std::string text = std::string(e.what()).substr(std::strlen(e.kind()) + 2);
  return text.substr(0, text.find('\n'));
}

Figure failed_figure(Figure f, const std::string& why) {
  f.value = f.spread = 0;
  f.note = str("not measured: ", why);
  return f;
}

// What `measure` fills into `f`, or why it could not. A device that is lost ends all.
void try_figure(const EachFigure& each, Figure f, const std::function<void(Figure&)>& measure) {
  try {
    measure(f);
  } catch (const DeviceError&) {
    throw;
  } catch (const Error& e) {
    f = failed_figure(f, words_of(e));
  }
  each(std::move(f));
}

void put_rate(Figure& f, const TimeSpread& t, double units_a_call) {
  f.value = units_a_call / t.median * 1e-9;
  f.spread = t.spread();
}

// --- disk ---
template <class F>
double disk_rate(const F& move) {
  const auto start = std::chrono::steady_clock::now();
  const i64 bytes = move();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  return double(bytes) / spent.count() * 1e-9;
}

// From the disk and not from what the system remembers of it, or why not.
Figure cold_read(DiskFile& file, Figure f, i64 bytes) {
  constexpr double kMostKept = 0.05;
  const double kept = file.forget();
  if (kept <= kMostKept) {
    f.how = "cold";
    f.note = "the system's copy was given up (posix_fadvise)";
  } else if (file.direct(true)) {
    f.how = "cold";
    f.note = "past the system's memory (O_DIRECT)";
  } else {
    f.how = "not cold";
    f.note = str("the system keeps ", i64(100 * kept), " % of the file, and refuses O_DIRECT");
  }
  const std::string lies_in = file.memory_kind();
  if (!lies_in.empty()) {
    f.how = "not cold";
    f.note = str("the folder lies in memory (", lies_in, ")");
  }
  f.value = disk_rate([&] { return file.read(bytes); });
  file.direct(false);
  return f;
}

void measure_disk_of(const MachineOptions& o, const EachFigure& each) {
  Figure f{.place = "disk", .what = "write", .how = "synchronised", .unit = "GB/s"};
  try {
    DiskFile file(o.disk);
    const i64 most = std::max(DiskFile::kChunk, o.disk_bytes / DiskFile::kChunk * DiskFile::kChunk);
    i64 written = 0;
    f.value = disk_rate([&] { return written = file.write(most); });
    f.size = written;
    f.note = printable_path(o.disk);
    each(f);
    f.what = "read";
    each(cold_read(file, f, written));
    file.read(written);
    f.how = "warm";
    f.note = "";
    f.value = disk_rate([&] { return file.read(written); });
    each(f);
  } catch (const NotAvailable& e) {
    each(failed_figure(f, str(printable_path(o.disk), ": ", words_of(e))));
  }
}

// --- memory ---
void copy_by_threads(char* to, const char* from, i64 bytes, int threads) {
  const auto part = [=](i64 k) {
    const i64 begin = bytes * k / threads, end = bytes * (k + 1) / threads;
    std::memcpy(to + begin, from + begin, size_t(end - begin));
  };
  std::vector<std::jthread> others;
  for (int k = 1; k < threads; ++k) others.emplace_back(part, k);
  part(0);
}

i64 copied_bytes(const MachineOptions& o, Device d) {
  if (o.copy_bytes) return o.copy_bytes;
  return d.kind == DeviceKind::cpu ? i64{128} << 20 : is_real_gpu(d) ? i64{1} << 30 : i64{1} << 20;
}

void measure_copies(const MachineOptions& o, Device d, const EachFigure& each) {
  const i64 bytes = copied_bytes(o, d);
  Figure f{.place = to_string(d), .what = "copy", .unit = "GB/s", .size = bytes};
  f.note = stand_in_note(d);
  const auto tensors = [&](Tensor& from, Tensor& to) {
    from = ones({bytes}, {.dtype = DType::u8, .device = d});
    to = zeros({bytes}, {.dtype = DType::u8, .device = d});
  };
  if (d.kind != DeviceKind::cpu)
    return try_figure(each, f, [&](Figure& figure) {
      Tensor from, to;
      tensors(from, to);
      const auto copy = [&] { copy_bytes(to.impl()->data, d, from.impl()->data, d, bytes); };
      put_rate(figure, time(copy, {.device = d, .seconds = o.seconds}), 2 * double(bytes));
    });
  std::vector<int> threads{num_threads()};
  if (threads[0] > 1) threads.push_back(1);
  for (const int n : threads)
    try_figure(each, f, [&](Figure& figure) {
      Tensor from, to;
      tensors(from, to);
      figure.how = str(n, n > 1 ? " threads" : " thread");
      const auto copy = [&] {
        copy_by_threads(static_cast<char*>(to.impl()->data), static_cast<char*>(from.impl()->data),
                        bytes, n);
      };
      put_rate(figure, time(copy, {.seconds = o.seconds}), 2 * double(bytes));
    });
}

// --- between host and device ---
void measure_transfers_of(const MachineOptions& o, Device d, const EachFigure& each) {
  if (d.kind == DeviceKind::cpu) return;
  const i64 bytes = std::min(copied_bytes(o, d), i64{256} << 20);
  Figure f{.place = to_string(d), .unit = "GB/s", .size = bytes};
  f.note = stand_in_note(d);
  for (const bool pinned : {true, false})
    for (const bool to_device : {true, false}) {
      f.what = to_device ? "to device" : "to host";
      f.how = pinned ? "pinned" : "pageable";
      try_figure(each, f, [&](Figure& figure) {
        const Tensor plain = ones({bytes}, {.dtype = DType::u8});
        const Tensor host = pinned ? pin(plain, d) : plain;
        const Tensor there = plain.to(d);
        const auto move = [&] {
          if (to_device)
            pinned ? void(copy_async(host, d)) : void(host.to(d));
          else
            pinned ? void(copy_async(there, Device::cpu())) : void(there.to(Device::cpu()));
          synchronize(d);
        };
        put_rate(figure, time(move, {.device = d, .seconds = o.seconds}), double(bytes));
      });
    }
}

// --- products ---
struct ProductCase {
  DType dtype;
  bool tf32;
  i64 gpu_n, cpu_n;  // f32 without tensor cores takes as long at half the size
};
constexpr ProductCase kProducts[] = {{DType::f32, false, 4096, 1024},
                                     {DType::f32, true, 8192, 0},
                                     {DType::bf16, false, 8192, 512},
                                     {DType::f16, false, 8192, 512},
                                     {DType::f64, false, 4096, 512}};

// For as long as one measurement takes.
class ProductPrecision {
 public:
  explicit ProductPrecision(bool tf32) : before_(matmul_precision()) {
    set_matmul_precision(tf32 ? MatmulPrecision::high : MatmulPrecision::highest);
  }
  ~ProductPrecision() { set_matmul_precision(before_); }
  ProductPrecision(const ProductPrecision&) = delete;

 private:
  MatmulPrecision before_;
};

void measure_products_of(const MachineOptions& o, Device d, const EachFigure& each) {
  const NoGrad no_grad;
  for (const ProductCase& c : kProducts) {
    if (c.tf32 && d.kind != DeviceKind::cuda) continue;  // no other device rounds to it
    i64 n = is_real_gpu(d) ? c.gpu_n : d.kind == DeviceKind::cpu ? c.cpu_n : 64;
    if (o.matrix) n = o.matrix;
    Figure f{.place = to_string(d), .what = "product", .how = c.tf32 ? "tf32" : "exact"};
    f.dtype = dtype_name(c.dtype), f.unit = "GFLOP/s", f.size = n, f.note = stand_in_note(d);
    try_figure(each, f, [&](Figure& figure) {
      const ProductPrecision precision(c.tf32);
      const TensorOptions as{.dtype = c.dtype, .device = d};
      const Tensor a = full({n, n}, 0.5, as), b = full({n, n}, 0.25, as);
      const auto product = [&] { (void)matmul(a, b); };
      put_rate(figure, time(product, {.device = d, .seconds = o.seconds}),
               2 * double(n) * double(n) * double(n));
    });
  }
}

// --- launches ---
void measure_launches_of(const Device d, const EachFigure& each) {
  const NoGrad no_grad;
  Tensor one = zeros({1}, {.device = d});
  const auto launch = [&](int) { one.zero_(); };
  const int calls = is_real_gpu(d) ? 500 : 100;  // fewer than a device's queue holds
  Figure f{.place = to_string(d), .what = "launch", .unit = "us", .size = 1};
  f.note = stand_in_note(d);
  const auto add = [&](const char* how, const std::function<Timing()>& measure) {
    f.how = how;
    try_figure(each, f, [&](Figure& figure) {
      const Timing t = measure();
      figure.value = t.median_us;
      figure.spread = t.median_us > 0 ? (t.p90_us - t.p10_us) / t.median_us : 0;
    });
  };
  add("back to back", [&] { return time_batch(d, calls, launch); });
  add("issue", [&] { return time_issue(d, calls, launch); });
  add("round trip", [&] { return time_round_trip(d, launch); });
}

// --- ranks ---
// False: another rank of several processes, to which nothing is told.
bool measure_ranks(const MachineOptions& o, const EachFigure& each) {
  AllReduceOptions a;
  const int processors = int(std::max(2u, std::thread::hardware_concurrency()));
  a.world.ranks = o.ranks ? o.ranks : std::min(4, processors);
  a.from = a.to = o.copy_bytes ? o.copy_bytes : i64{16} << 20;
  a.samples = 7;
  bool told = false;
  const i64 errors = measure_allreduce(a, [&](const AllReduceRow& r) {
    told = true;
    Figure f{.place = "cpu", .what = "all-reduce", .how = str(r.ranks, " ranks"), .unit = "GB/s"};
    f.value = r.bus_gb_s(a.collective);
    f.spread = r.time.median_us > 0 ? (r.time.p90_us - r.time.p10_us) / r.time.median_us : 0;
    f.size = r.bytes;
    f.note = str("rate of a link; ", r.backend, r.errors ? ", WRONG VALUES" : "");
    each(f);
  });
  if (errors) throw InternalError(str("the all-reduce has ", errors, " wrong elements"));
  return told || !ranks_are_processes();
}

bool measures(const MachineOptions& o, const char* part) {
  return o.only.empty() || std::find(o.only.begin(), o.only.end(), part) != o.only.end();
}

// The part that a figure belongs to.
const char* part_of(const Figure& f) {
  return f.place == "disk"          ? "disk"
         : f.what == "copy"         ? "copy"
         : f.what.starts_with("to") ? "transfer"
         : f.what == "product"      ? "product"
         : f.what == "launch"       ? "launch"
                                    : "allreduce";
}

}  // namespace

std::vector<std::string> machine_parts() {
  return {"disk", "copy", "transfer", "product", "launch", "allreduce"};
}

machine::MeasuredDevice describe_measured(Device d) {
  const std::string name = describe_machine(d).device_name;
  return {to_string(d), name, d.kind == DeviceKind::simt || name.ends_with("(emulated)")};
}

bool measure_machine(const MachineOptions& o, const EachFigure& each) {
  for (const Device d : o.devices) require_available(d);
  // First: all of several processes come to it, and only one goes on.
  if (measures(o, "allreduce") && !measure_ranks(o, each)) return false;
  if (measures(o, "disk")) measure_disk_of(o, each);
  for (const Device d : o.devices) {
    if (measures(o, "copy")) measure_copies(o, d, each);
    if (measures(o, "transfer")) measure_transfers_of(o, d, each);
    if (measures(o, "product")) measure_products_of(o, d, each);
    if (measures(o, "launch")) measure_launches_of(d, each);
  }
  return true;
}

machine::Measured merged(const machine::Known& before, const MachineOptions& o,
                         const std::vector<Figure>& now) {
  machine::Measured m = machine::this_machine();
  const auto is_new_place = [&](const std::string& place) {
    return std::any_of(o.devices.begin(), o.devices.end(),
                       [&](Device d) { return to_string(d) == place; });
  };
  for (const Device d : o.devices) m.devices.push_back(describe_measured(d));
  for (const machine::MeasuredDevice& d : before.figures.devices)
    if (!is_new_place(d.place)) m.devices.push_back(d);
  for (const Figure& f : now)
    if (f.value > 0) m.figures.push_back(f);
  for (const Figure& f : before.figures.figures) {
    const std::string part = part_of(f);
    const bool of_device = part != "disk" && part != "allreduce";
    if (!measures(o, part.c_str()) || (of_device && !is_new_place(f.place))) m.figures.push_back(f);
  }
  return m;
}

}  // namespace wt::bench
