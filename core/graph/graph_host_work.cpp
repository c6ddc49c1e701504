#include "warptape/core/graph/graph_host_work.h"

#include <utility>

#include "warptape/core/graph/graph_capture.h"

namespace wt::detail {
namespace {
RecordHostWork recorders[kNumDeviceKinds] = {};
}  // namespace

void set_graph_host_work(DeviceKind k, RecordHostWork f) { recorders[int(k)] = f; }

bool record_host_work(Device d, std::function<void()> work) {
  if (!recording_graph() || !(mode.capture->device == d) || d.is_meta) return false;
  const RecordHostWork f = recorders[int(d.kind)];
  if (!f || !mode.capture->memory) return false;
  f(std::move(work), mode.capture->stream);
  return true;
}

}  // namespace wt::detail
