#include "warptape/data/loader/prefetch.h"

#include <optional>

#include "warptape/core/async_copy.h"
#include "warptape/core/error.h"
#include "warptape/core/stream.h"
#include "warptape/core/warning.h"
#include "warptape/data/loader/type_name.h"

namespace wt::data::detail {

struct DevicePrefetch::Side {
  explicit Side(Device d) : stream(d) {}
  Stream stream;
};

DevicePrefetch::DevicePrefetch(Device d, bool pin_memory, std::shared_ptr<LoaderTimes> times)
    : device_(d), pins_(false), times_(std::move(times)) {
  if (d == Device::cpu() || !stream_backend(d)) return;
  side_ = std::make_unique<Side>(d);
  pins_ = pin_memory;
  if (!pins_)
    warn_once("loader pageable",
              str("[Loader] pin_memory = false: batches for ", to_string(d),
                  " come from pageable memory, are copied aside first and hold the caller up\n  "
                  "Try pin_memory = true: only page-locked (pinned) memory is copied while the "
                  "program goes on"));
}
DevicePrefetch::~DevicePrefetch() = default;

void DevicePrefetch::pin(std::span<Tensor* const> batch) const {
  if (!pins_) return;
  const StageTimer timer(*times_, LoaderStage::pin);
  for (Tensor* t : batch) {
    if (!t->defined() || t->device() != Device::cpu() || is_pinned(*t)) continue;
    try {
      *t = wt::pin(*t, device_);
    } catch (const OutOfMemory& e) {
      // The copy works from pageable memory as well, only later.
      warn_once("loader no pinned memory",
                str("[Loader] no page-locked memory for a batch, it is copied from pageable memory "
                    "and holds the caller up: ",
                    e.what()));
      return;
    }
  }
}

void DevicePrefetch::upload(std::span<Tensor* const> batch) {
  const StageTimer timer(*times_, LoaderStage::copy);
  std::optional<StreamScope> on;
  if (side_) on.emplace(side_->stream);
  for (Tensor* t : batch) {
    if (!t->defined() || t->device() == device_) continue;
    *t = copy_async(*t, device_);
    times_->add_bytes(t->numel() * item_size(t->dtype()));
  }
}

void DevicePrefetch::wait() const {
  if (side_) Stream::current(device_).wait(side_->stream);
}

std::vector<Tensor*> tensors_of(const BatchMaker& set, AnyBatch& item) {
  std::vector<Tensor*> tensors;
  set.tensors(item, tensors);
  return tensors;
}

Owned<AnyBatch> next_on_device(DevicePrefetch& to, const BatchMaker& set, i64 k, BatchAhead& ahead,
                               const std::function<Owned<AnyBatch>(i64)>& fetch,
                               const std::function<void()>& refetch) {
  const auto upload = [&](i64 number) {
    Owned<AnyBatch> item = fetch(number);
    try {
      if (item) to.upload(tensors_of(set, *item));
    } catch (...) {
      refetch();
      throw;
    }
    return item;
  };
  BatchAhead now = std::exchange(ahead, {});
  if (now.error) std::rethrow_exception(now.error);
  if (now.number != k) now.item = upload(k);
  if (!now.item) return nullptr;
  to.wait();
  ahead.number = k + 1;
  try {
    ahead.item = upload(k + 1);
  } catch (...) {
    ahead.error = std::current_exception();
  }
  return std::move(now.item);
}

void no_tensors_to_move(const std::type_info& batch) {
  throw UsageError(str("[Loader] .device cannot move a ", type_name(batch),
                       ": the loader does not know its tensors\n  Try giving it a tensors() member "
                       "(core/batch.h)"));
}

}  // namespace wt::data::detail
