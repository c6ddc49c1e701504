#include "api/api.h"
#include "device/capture.h"

using namespace emu;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreate", [&] {
    if (!event || flags > 7) return cudaErrorInvalidValue;
    if (flags & cudaEventInterprocess) {
      note("events of other processes are not emulated");
      return cudaErrorNotSupported;
    }
    *event = static_cast<cudaEvent_t>(make_event(current_device(), flags));
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", [&] {
    if (!event_or_note("cudaEventDestroy", event)) return cudaErrorInvalidResourceHandle;
    drop_event(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call("cudaEventRecord", [&] {
    const EventRef e = event_or_note("cudaEventRecord", event);
    const StreamRef s = stream_or_note("cudaEventRecord", stream);
    if (!e || !s) return cudaErrorInvalidResourceHandle;
    if (flags > cudaEventRecordExternal) return cudaErrorInvalidValue;
    if (e->device != s->device) {
      note("cudaEventRecord: the event is of device " + std::to_string(e->device) +
           ", the stream of device " + std::to_string(s->device));
      return cudaErrorInvalidResourceHandle;
    }
    if (s->capture) {
      if (s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
      if (flags & cudaEventRecordExternal) {
        capture_node(*s, cudaGraphNodeTypeEventRecord, nullptr)->event = e;
        return cudaSuccess;
      }
      e->capture = s->capture;
      e->tail = s->tail;
      return cudaSuccess;
    }
    OpRef op;
    const cudaError_t error =
        put("cudaEventRecord", s, std::make_shared<Mark>(WorkKind::record, "record an event"), &op);
    if (error != cudaSuccess) return error;
    e->capture = nullptr;
    e->tail.clear();
    e->recorded = op;
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", kUnsafe, [&] {
    const EventRef e = event_or_note("cudaEventQuery", event);
    if (!e) return cudaErrorInvalidResourceHandle;
    if (e->capture) {
      e->capture->invalid = true;
      return cudaErrorCapturedEvent;
    }
    if (e->recorded && !poll(e->recorded)) return cudaErrorNotReady;
    return cudaError_t(device_error(e->device));
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize", kUnsafe, [&] {
    const EventRef e = event_or_note("cudaEventSynchronize", event);
    if (!e) return cudaErrorInvalidResourceHandle;
    if (e->capture) {
      e->capture->invalid = true;
      return cudaErrorCapturedEvent;
    }
    if (e->recorded) wait_for(e->recorded);
    return cudaError_t(device_error(e->device));
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return call("cudaEventElapsedTime", [&] {
    const EventRef a = event_or_note("cudaEventElapsedTime", start);
    const EventRef b = event_or_note("cudaEventElapsedTime", end);
    if (!ms) return cudaErrorInvalidValue;
    if (!a || !b || a->device != b->device || a->timing_disabled() || b->timing_disabled() ||
        a->capture || b->capture || !a->recorded || !b->recorded)
      return cudaErrorInvalidResourceHandle;
    if (!a->recorded->done || !b->recorded->done) return cudaErrorNotReady;
    *ms = float((b->recorded->end - a->recorded->end) / 1e6);
    return cudaSuccess;
  });
}
