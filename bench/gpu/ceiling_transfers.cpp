// What goes between host memory and a cuda device in a second, and how long a few bytes take.
#include <chrono>
#include <cstring>

#include "warptape/bench/gpu/ceilings.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/cuda/api.h"

namespace wt::bench {
namespace {

// Host memory as the driver locks it, or as the system gives it; touched.
class HostBlock {
 public:
  HostBlock(i64 bytes, bool pinned) : pinned_(pinned) {
    if (pinned_) {
      if (cuda_api()->take_host(&data_, size_t(bytes)) != kCudaSuccess) {
        cuda_api()->last_error();
        throw OutOfMemory(str(bytes, " bytes of page-locked memory"));
      }
    } else {
      pageable_.resize(size_t(bytes));
      data_ = pageable_.data();
    }
    std::memset(data_, 1, size_t(bytes));
  }
  ~HostBlock() {
    if (pinned_) cuda_api()->free_host(data_);
  }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  void* data() const { return data_; }

 private:
  const bool pinned_;
  std::vector<char> pageable_;
  void* data_ = nullptr;
};

enum class By { driver, warptape };

struct Transfer {
  const char* impl;
  bool pinned;
  By by;
};
// The last is what Tensor::to() does with host memory that is not page-locked.
constexpr Transfer kTransfers[] = {{"pinned", true, By::driver},
                                   {"pageable", false, By::driver},
                                   {"pageable, by warptape", false, By::warptape}};

// Host time of one transfer, the device waited for: at least 5, about `seconds` in all.
Timing time_waited(const std::function<void()>& transfer, double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> us;
  transfer();
  for (const auto begin = Clock::now();
       us.size() < 5 ||
       (us.size() < 200 && Clock::now() - begin < std::chrono::duration<double>(seconds));) {
    const auto start = Clock::now();
    transfer();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return summarize(std::move(us));
}

void run_transfer(const Transfer& t, Device d, void* device, void* host, i64 bytes,
                  bool to_device) {
  if (t.by == By::warptape) {
    if (to_device)
      copy_bytes(device, d, host, Device::cpu(), bytes);
    else
      copy_bytes(host, Device::cpu(), device, d, bytes);
  } else {
    cuda_check(cuda_api()->copy(to_device ? device : host, to_device ? host : device, size_t(bytes),
                                to_device ? CudaCopy::to_device : CudaCopy::to_host,
                                detail::native_stream(d)),
               "cudaMemcpyAsync", d.index);
  }
  synchronize(d);
}

bool measure_transfer(const BenchOptions& o, RowFile& rows, const Transfer& t, i64 bytes,
                      bool to_device) {
  const Device d = o.device;
  Row r{.bench = "ceiling_transfer", .shape = std::to_string(bytes), .dtype = "u8"};
  r.impl = str(t.impl, to_device ? ", to device" : ", to host");
  return measure_ceiling(rows, r, [&] {
    const Tensor device = zeros({bytes}, {.dtype = DType::u8, .device = d});
    const HostBlock host(bytes, t.pinned);
    void* const at = device.impl()->data;
    const auto once = [&] { run_transfer(t, d, at, host.data(), bytes, to_device); };
    r.time = time_waited(once, o.seconds_or(0.15));
    if (bytes > 4) r.bytes = double(bytes);  // four bytes have no rate
  });
}

}  // namespace

bool measure_transfers(const BenchOptions& o, RowFile& rows) {
  const i64 large = at_full_size(o) ? i64{64} << 20 : i64{1} << 16;
  bool good = true;
  enter_cuda(o.device.index);
  for (const i64 bytes : {large, i64{4}})
    for (const Transfer& t : kTransfers)
      for (const bool to_device : {true, false})
        good &= measure_transfer(o, rows, t, bytes, to_device);
  return good;
}

}  // namespace wt::bench
