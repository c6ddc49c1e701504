// Streams that are captured into a graph: the calls on them add nodes, and nothing runs.
#pragma once
#include "device/graph.h"

namespace emu {

struct Capture {
  u64 id = 0;
  GraphRef graph;
  int mode = 0;    // cudaStreamCaptureMode
  u64 thread = 0;  // that began it
  Stream* origin = nullptr;
  bool invalid = false, over = false;
  size_t nodes_before = 0;  // cudaStreamBeginCaptureToGraph: what the graph had
  std::vector<StreamRef> streams;
};
using CaptureRef = std::shared_ptr<Capture>;

// All of these return a cudaError_t.
int begin_capture(const StreamRef& s, int mode, GraphRef into, std::vector<GraphNode*> after);
int end_capture(const StreamRef& s, GraphRef* graph);
// A call that conflicts with captures: of the stream, of the device (-1: of any), or for its
// thread.
int check_stream_sync(const Stream& s);
int check_device_sync(int device);
int check_unsafe();
// Work on the legacy stream would order captured blocking streams.
int check_implicit(int device, bool invalidates = true);
int wait_captured(const StreamRef& s, Event& e);  // the event was recorded in a capture
// Exchanges this thread's mode.
void exchange_capture_mode(int* mode);

// Behind the nodes where the stream stands.
GraphNode* capture_node(Stream& s, int type, WorkRef work);

}  // namespace emu
