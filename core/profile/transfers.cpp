#include "warptape/core/profile/transfers.h"

#include <algorithm>

#include "warptape/core/memory/asker.h"
#include "warptape/core/profile/recorder.h"

namespace wt::profiler {
namespace {

struct Listeners {
  std::mutex mutex{};
  std::vector<Recorder*> list{};
};
Listeners& listeners() {
  static Listeners* const l = new Listeners;  // threads may copy while static objects end
  return *l;
}

}  // namespace

void hear_transfers(Recorder& r) {
  const std::lock_guard lock(listeners().mutex);
  listeners().list.push_back(&r);
}
void hear_no_transfers(Recorder& r) {
  const std::lock_guard lock(listeners().mutex);
  std::erase(listeners().list, &r);
}

void TransferWatch::begin(const Transfer& t) {
  transfer_ = t;
  transfer_.frame = asker().frame;
  begin_ns_ = steady_ns();
}

void TransferWatch::end() noexcept {
  transfer_.host_ns = steady_ns() - begin_ns_;
  const std::lock_guard lock(listeners().mutex);
  for (Recorder* r : listeners().list) r->transferred(transfer_);
}

const char* Transfer::what() const {
  static constexpr const char* kNames[] = {"to device", "to host", "within", "wait"};
  return kNames[int(kind)];
}

}  // namespace wt::profiler
