#include "device/capture.h"

#include <driver_types.h>

#include <algorithm>
#include <set>

#include "device/gpu.h"

namespace emu {
namespace {

std::vector<CaptureRef>& captures() {
  static auto* all = new std::vector<CaptureRef>;
  return *all;
}
thread_local int thread_mode = cudaStreamCaptureModeGlobal;
u64 this_thread() {
  static thread_local char here;
  return reinterpret_cast<u64>(&here);
}

int invalidate(Capture& c, int error) {
  c.invalid = true;
  return error;
}

void finish(const CaptureRef& c) {
  c->over = true;
  for (const StreamRef& s : c->streams) {
    s->capture = nullptr;
    s->tail.clear();
  }
  std::erase(captures(), c);
}

void unite(std::vector<GraphNode*>& a, const std::vector<GraphNode*>& b) {
  for (GraphNode* n : b)
    if (std::find(a.begin(), a.end(), n) == a.end()) a.push_back(n);
}

// Whether a branch that was captured did not come back to the stream where the capture began.
bool has_loose_ends(const Capture& c) {
  std::set<const GraphNode*> joined;
  std::vector<const GraphNode*> open(c.origin->tail.begin(), c.origin->tail.end());
  while (!open.empty()) {
    const GraphNode* n = open.back();
    open.pop_back();
    if (joined.insert(n).second) open.insert(open.end(), n->after.begin(), n->after.end());
  }
  for (size_t i = c.nodes_before; i < c.graph->nodes.size(); ++i)
    if (!joined.contains(c.graph->nodes[i].get())) return true;
  return false;
}

}  // namespace

int begin_capture(const StreamRef& s, int mode, GraphRef into, std::vector<GraphNode*> after) {
  if (s->legacy) return cudaErrorStreamCaptureUnsupported;
  if (s->capture) return cudaErrorIllegalState;
  static u64 made = 0;
  auto c = std::make_shared<Capture>();
  c->id = ++made;
  c->mode = mode;
  c->thread = this_thread();
  c->origin = s.get();
  c->graph = into ? into : make_graph();
  c->nodes_before = c->graph->nodes.size();
  c->streams.push_back(s);
  s->capture = c;
  s->tail = std::move(after);
  captures().push_back(c);
  return 0;
}

int end_capture(const StreamRef& s, GraphRef* graph) {
  const CaptureRef c = s->capture;
  if (!c) return cudaErrorIllegalState;
  if (c->origin != s.get()) return invalidate(*c, cudaErrorStreamCaptureUnmatched);
  if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != this_thread())
    return cudaErrorStreamCaptureWrongThread;
  const bool loose = !c->invalid && has_loose_ends(*c);
  finish(c);
  if (c->invalid) return cudaErrorStreamCaptureInvalidated;
  if (loose) return cudaErrorStreamCaptureUnjoined;
  *graph = c->graph;
  return 0;
}

int check_stream_sync(const Stream& s) {
  if (s.capture) return invalidate(*s.capture, cudaErrorStreamCaptureUnsupported);
  return s.legacy ? check_implicit(s.device) : 0;
}

int check_device_sync(int device) {
  int error = 0;
  for (const CaptureRef& c : captures())
    for (const StreamRef& s : c->streams)
      if (s->device == device) error = invalidate(*c, cudaErrorStreamCaptureUnsupported);
  return error;
}

int check_unsafe() {
  if (captures().empty() || thread_mode == cudaStreamCaptureModeRelaxed) return 0;
  int error = 0;
  for (const CaptureRef& c : captures()) {
    const bool own = c->thread == this_thread();
    const bool forbids =
        own ? c->mode != cudaStreamCaptureModeRelaxed
            : c->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
    if (forbids) error = invalidate(*c, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

int check_implicit(int device, bool invalidates) {
  int error = 0;
  for (const CaptureRef& c : captures())
    for (const StreamRef& s : c->streams)
      if (s->device == device && !s->non_blocking) {
        error = cudaErrorStreamCaptureImplicit;
        if (invalidates) c->invalid = true;
      }
  return error;
}

int wait_captured(const StreamRef& s, Event& e) {
  Capture& c = *e.capture;
  if (c.over) return cudaErrorCapturedEvent;
  if (s->legacy) return invalidate(c, cudaErrorStreamCaptureImplicit);
  if (s->capture && s->capture != e.capture) {
    invalidate(*s->capture, 0);
    return invalidate(c, cudaErrorStreamCaptureMerge);
  }
  if (c.invalid) return cudaErrorStreamCaptureInvalidated;
  if (!s->capture) {
    s->capture = e.capture;
    s->tail.clear();
    c.streams.push_back(s);
  }
  unite(s->tail, e.tail);
  return 0;
}

void exchange_capture_mode(int* mode) { std::swap(*mode, thread_mode); }

GraphNode* capture_node(Stream& s, int type, WorkRef work) {
  GraphNode* n = add_node(*s.capture->graph, type, std::move(work), s.tail);
  n->device = s.device;
  s.tail = {n};
  return n;
}

}  // namespace emu
