// Capture of streams into graphs.
#include "device/capture.h"

#include <algorithm>

#include "api/api.h"

using namespace emu;

namespace {

thread_local std::vector<cudaGraphNode_t> listed;  // what GetCaptureInfo gives a pointer to

bool nodes_of(const cudaGraphNode_t* handles, size_t count, std::vector<GraphNode*>* nodes) {
  for (size_t i = 0; i < count; ++i) {
    GraphNode* n = handles ? find_node(handles[i]) : nullptr;
    if (!n) return false;
    nodes->push_back(n);
  }
  return true;
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&] {
    const StreamRef s = stream_or_note("cudaStreamBeginCapture", stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (unsigned(mode) > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
    return cudaError_t(begin_capture(s, mode, nullptr, {}));
  });
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* nodes, const cudaGraphEdgeData*,
                                          size_t count, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCaptureToGraph", [&] {
    const StreamRef s = stream_or_note("cudaStreamBeginCaptureToGraph", stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    const GraphRef g = find_graph(graph);
    std::vector<GraphNode*> after;
    if (!g || !nodes_of(nodes, count, &after) || unsigned(mode) > cudaStreamCaptureModeRelaxed)
      return cudaErrorInvalidValue;
    return cudaError_t(begin_capture(s, mode, g, std::move(after)));
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call("cudaStreamEndCapture", [&] {
    const StreamRef s = stream_or_note("cudaStreamEndCapture", stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (!graph) return cudaErrorInvalidValue;
    *graph = nullptr;
    GraphRef g;
    if (const int e = end_capture(s, &g)) return cudaError_t(e);
    give_handle(g);
    *graph = static_cast<cudaGraph_t>(g->handle);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  return call("cudaStreamGetCaptureInfo", [&] {
    const StreamRef s = stream_or_note("cudaStreamGetCaptureInfo", stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (!status) return cudaErrorInvalidValue;
    // The legacy stream cannot be asked while it would wait for one that is captured.
    if (s->legacy && check_implicit(s->device, false)) return cudaErrorStreamCaptureImplicit;
    const auto& c = s->capture;
    *status = !c           ? cudaStreamCaptureStatusNone
              : c->invalid ? cudaStreamCaptureStatusInvalidated
                           : cudaStreamCaptureStatusActive;
    if (edges) *edges = nullptr;
    if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
    if (id) *id = c->id;
    if (graph) {
      give_handle(c->graph);
      *graph = static_cast<cudaGraph_t>(c->graph->handle);
    }
    listed.clear();
    for (const GraphNode* n : s->tail) listed.push_back(static_cast<cudaGraphNode_t>(n->handle));
    if (nodes) *nodes = listed.data();
    if (count) *count = listed.size();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData*, size_t count,
                                                unsigned flags) {
  return call("cudaStreamUpdateCaptureDependencies", [&] {
    const StreamRef s = stream_or_note("cudaStreamUpdateCaptureDependencies", stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (!s->capture) return cudaErrorIllegalState;
    std::vector<GraphNode*> after;
    if (flags > cudaStreamSetCaptureDependencies || !nodes_of(nodes, count, &after))
      return cudaErrorInvalidValue;
    if (flags == cudaStreamSetCaptureDependencies) s->tail.clear();
    for (GraphNode* n : after)
      if (std::find(s->tail.begin(), s->tail.end(), n) == s->tail.end()) s->tail.push_back(n);
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", kNoDevice, [&] {
    if (!mode || unsigned(*mode) > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
    int x = *mode;
    exchange_capture_mode(&x);
    *mode = cudaStreamCaptureMode(x);
    return cudaSuccess;
  });
}
