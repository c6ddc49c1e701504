// Streams, and work of the host's on them.
#include <algorithm>

#include "api/api.h"
#include "device/capture.h"
#include "device/copy.h"

using namespace emu;

namespace {

template <class F>
cudaError_t with_stream(const char* name, cudaStream_t stream, F&& f) {
  return call(name, [&] {
    const StreamRef s = stream_or_note(name, stream);
    return s ? f(s) : cudaErrorInvalidResourceHandle;
  });
}

}  // namespace

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call("cudaStreamCreate", [&] {
    if (!stream || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    const StreamRef s = make_stream(current_device(), flags == cudaStreamNonBlocking,
                                    std::max(-5, std::min(priority, 0)));
    *stream = static_cast<cudaStream_t>(s->handle);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with_stream("cudaStreamDestroy", stream, [&](const StreamRef& s) {
    if (s->legacy || s->per_thread) return cudaErrorInvalidResourceHandle;
    if (s->capture) s->capture->invalid = true;
    drop_stream(s);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return with_stream("cudaStreamSynchronize", stream, [&](const StreamRef& s) {
    if (const int e = check_stream_sync(*s)) return cudaError_t(e);
    // The legacy stream is over when all that it would wait for is.
    if (s->legacy)
      for (const OpRef& op : predecessors(*s)) wait_for(op);
    if (s->last) wait_for(s->last);
    return cudaError_t(device_error(s->device));
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return with_stream("cudaStreamQuery", stream, [&](const StreamRef& s) {
    if (const int e = check_stream_sync(*s)) return cudaError_t(e);
    bool done = !s->last || poll(s->last);
    if (s->legacy)
      for (const OpRef& op : predecessors(*s)) done = poll(op) && done;
    if (!done) return cudaErrorNotReady;
    return cudaError_t(device_error(s->device));
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return with_stream("cudaStreamWaitEvent", stream, [&](const StreamRef& s) {
    const EventRef e = event_or_note("cudaStreamWaitEvent", event);
    if (!e) return cudaErrorInvalidResourceHandle;
    if (flags & ~unsigned(cudaEventWaitExternal)) return cudaErrorInvalidValue;
    if (s->capture && s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    if (s->capture && flags & cudaEventWaitExternal) {
      capture_node(*s, cudaGraphNodeTypeWaitEvent, nullptr)->event = e;
      return cudaSuccess;
    }
    if (e->capture) return cudaError_t(wait_captured(s, *e));
    if (!e->recorded) return cudaSuccess;
    if (s->capture) {
      s->capture->invalid = true;
      return cudaErrorStreamCaptureIsolation;
    }
    if (s->legacy)
      if (const int error = check_implicit(s->device)) return cudaError_t(error);
    enqueue(*s, std::make_shared<Mark>(WorkKind::wait, "wait for an event"), {e->recorded});
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return with_stream("cudaLaunchHostFunc", stream, [&](const StreamRef& s) {
    if (!function) return cudaErrorInvalidValue;
    return put("cudaLaunchHostFunc", s, std::make_shared<HostWork>(function, data));
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned flags) {
  return with_stream("cudaStreamAddCallback", stream, [&](const StreamRef& s) {
    if (!callback || flags) return cudaErrorInvalidValue;
    if (s->capture) {
      s->capture->invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    // The same function but for the types of its arguments, which the call passes on unchanged.
    struct Pair {
      cudaStreamCallback_t callback;
      void* data;
    };
    auto* pair = new Pair{callback, data};
    return put("cudaStreamAddCallback", s,
               std::make_shared<HostWork>(
                   stream,
                   [](void* of, int error, void* p) {
                     const Pair it = *static_cast<Pair*>(p);
                     delete static_cast<Pair*>(p);
                     it.callback(static_cast<cudaStream_t>(of), cudaError_t(error), it.data);
                   },
                   pair));
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return with_stream("cudaStreamGetPriority", stream, [&](const StreamRef& s) {
    if (priority) *priority = s->priority;
    return priority ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return with_stream("cudaStreamGetFlags", stream, [&](const StreamRef& s) {
    if (flags) *flags = s->flags();
    return flags ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return with_stream("cudaStreamGetId", stream, [&](const StreamRef& s) {
    if (id) *id = s->id;
    return id ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return with_stream("cudaStreamGetDevice", stream, [&](const StreamRef& s) {
    if (device) *device = s->device;
    return device ? cudaSuccess : cudaErrorInvalidValue;
  });
}
// Hints of the caches and of synchronisation: they change no result.
cudaError_t cudaStreamCopyAttributes(cudaStream_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue*) {
  return cudaSuccess;
}
cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID id,
                                   cudaStreamAttrValue* value) {
  return with_stream("cudaStreamGetAttribute", stream, [&](const StreamRef& s) {
    if (!value) return cudaErrorInvalidValue;
    *value = {};
    if (id == cudaLaunchAttributePriority) value->priority = s->priority;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t, unsigned) {
  return with_stream("cudaStreamAttachMemAsync", stream, [&](const StreamRef&) {
    return find_block(address_of(pointer)) ? cudaSuccess : cudaErrorInvalidValue;
  });
}
