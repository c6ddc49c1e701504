#include "warptape/bench/gpu/plant.h"

#include <chrono>
#include <thread>

#include "warptape/config.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"
#include "warptape/core/suggest.h"

#if WARPTAPE_HAS_CUDA
namespace wt::cuda {
void launch_crash(void* stream);
}
#endif

namespace wt::bench {
namespace {

// More than there is: of a cuda device twice its memory, elsewhere more than a process can address.
void take_too_much(Device d) {
  const bool on_cuda = d.kind == DeviceKind::cuda;
  const i64 bytes = on_cuda ? 2 * cuda::properties(d.index).memory_bytes : i64{1} << 50;
  (void)empty({bytes}, {.dtype = DType::u8, .device = d});
}

[[noreturn]] void hang() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

// simt would end as a process does: there the error is all that is planted.
void crash([[maybe_unused]] Device d) {
#if WARPTAPE_HAS_CUDA
  if (d.kind == DeviceKind::cuda) {
    cuda::launch_crash(detail::native_stream(d));
    synchronize(d);
  }
#endif
  throw DeviceError("planted: an illegal memory access");
}

}  // namespace

Plant::Plant(const std::string& text) {
  const size_t at = text.find('@');
  if (at == std::string::npos || at + 1 == text.size())
    throw UsageError("--plant: KIND@PLACE is wanted, not '" + printable(text) + "'");
  kind_ = text.substr(0, at);
  place_ = text.substr(at + 1);
  const std::vector<std::string> kinds{"fail", "hang", "crash", "nan", "memory"};
  for (const std::string& k : kinds)
    if (kind_ == k) return;
  throw UsageError(
      str("--plant: no fault is called '", printable(kind_), "'", did_you_mean(kind_, kinds)));
}

void Plant::before(const std::string& place, Device d) const {
  if (place_.empty() || place != place_) return;
  if (kind_ == "fail") throw InternalError("planted");
  if (kind_ == "hang") hang();
  if (kind_ == "crash") crash(d);
  if (kind_ == "memory") take_too_much(d);
}

void Plant::after(const std::string& place, const Problem& p) const {
  if (!gives_nan(place) || p.outputs.empty()) return;
  Problem first;
  first.device = p.device;
  first.outputs = {p.outputs[0]};
  poison_outputs(first);
}

}  // namespace wt::bench
