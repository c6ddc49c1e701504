#include "api/api.h"
#include "device/capture.h"
#include "device/settings.h"

namespace emu {

cudaError_t Call::begin() {
  if (in_host_function() && !(flags_ & kNoDevice)) {
    note(std::string(name_) +
         " was called from a host function of a stream, which may call nothing "
         "of CUDA");
    return cudaErrorNotPermitted;
  }
  if (flags_ & kNoDevice) return cudaSuccess;
  if (device_count() == 0) return cudaErrorNoDevice;
  const int device = current_device();
  start_device(device);
  watch_host_accesses();
  spend_host_time(300);
  if (const int lost = device_error(device)) return cudaError_t(lost);
  if (flags_ & kUnsafe)
    if (const int e = check_unsafe()) {
      note(std::string(name_) + " may not be called while a stream is captured");
      return cudaError_t(e);
    }
  return cudaSuccess;
}

cudaError_t Call::end(cudaError_t e) {
  if (!(flags_ & kNoDevice) && device_count() > 0 && !in_host_function()) {
    progress();
    const int lost = device_error(current_device());
    if (e == cudaSuccess && lost) e = cudaError_t(lost);
  }
  if (e != cudaSuccess && !(flags_ & kKeepError)) set_last_error(e, name_, flags_ & kLaunch);
  return e;
}

StreamRef stream_or_note(const char* name, cudaStream_t stream) {
  StreamRef s = find_stream(stream);
  if (!s) note(std::string(name) + ": the stream was destroyed or never created");
  return s;
}

EventRef event_or_note(const char* name, cudaEvent_t event) {
  EventRef e = find_event(event);
  if (!e) note(std::string(name) + ": the event was destroyed or never created");
  return e;
}

cudaError_t put(const char* name, const StreamRef& s, WorkRef work, OpRef* op,
                std::vector<OpRef> more) {
  if (s->capture) {
    if (s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    const int type = node_type(work->kind);
    capture_node(*s, type, std::move(work));
    return cudaSuccess;
  }
  if (s->legacy)
    if (const int e = check_implicit(s->device)) {
      note(std::string(name) +
           ": the legacy default stream would wait for a stream that is "
           "captured");
      return cudaError_t(e);
    }
  const OpRef queued = enqueue(*s, std::move(work), std::move(more));
  if (op) *op = queued;
  return cudaSuccess;
}

}  // namespace emu
