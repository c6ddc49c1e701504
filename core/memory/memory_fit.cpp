#include "warptape/core/memory_fit.h"

#include <algorithm>

#include "warptape/core/error.h"
#include "warptape/core/random.h"
#include "warptape/core/storage.h"

namespace wt::memory {

Prediction predict(Device d, const std::function<void()>& f) {
  const Device meta = Device::meta(d.kind);
  struct Keep {  // what the run changes beside the meta device
    const Generator before = generator();
    ~Keep() { generator() = before; }
  } keep;
  const DefaultDevice there(meta);
  reset_peak(meta);
  // This thread's counters: stats() adds other threads' peaks, which are not of this run.
  const auto& c = detail::thread_memory.counters[detail::counter_row(meta)];
  const detail::MemoryCounters before = c;
  f();
  Prediction p;
  p.peak = c.peak - before.live;
  for (int i = 0; i < kNumCategories; ++i)
    p.by_category[i] = c.peak_by_category[i] - before.by_category[i];
  return p;
}

BatchFit fit_batch_by(const std::function<i64(i64)>& bytes_of, i64 bytes, i64 most) {
  if (bytes < 1) throw UsageError(str("[fit_batch] bytes must be at least 1, got ", bytes));
  if (most < 1) throw UsageError(str("[fit_batch] most must be at least 1, got ", most));
  BatchFit best{.batch = 0, .bytes = bytes_of(1)};
  if (best.bytes > bytes) return best;
  best.batch = 1;
  i64 too_many = most + 1;
  const auto look = [&](i64 batch) {
    const i64 needed = bytes_of(batch);
    if (needed <= bytes)
      best = {batch, needed};
    else
      too_many = batch;
  };
  for (i64 b = 2; too_many > most && best.batch < most;) {
    look(std::min(b, most));
    b *= 2;
  }
  while (too_many - best.batch > 1) look(best.batch + (too_many - best.batch) / 2);
  return best;
}

BatchFit fit_batch(const std::function<void(i64)>& steps, const FitOptions& o) {
  return fit_batch_by([&](i64 n) { return predict(o.device, [&] { steps(n); }).peak; }, o.bytes,
                      o.most);
}

}  // namespace wt::memory
