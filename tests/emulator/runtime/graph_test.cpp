// Capture of streams and graphs of the emulated runtime.
#include <thread>

#include "runtime.h"

namespace {

struct Graph {
  ~Graph() {
    if (handle) cudaGraphDestroy(handle);
  }
  cudaGraph_t handle = nullptr;
};
struct Exec {
  ~Exec() {
    if (handle) cudaGraphExecDestroy(handle);
  }
  cudaGraphExec_t handle = nullptr;
};

size_t nodes_of(cudaGraph_t g) {
  size_t n = 0;
  OK(cudaGraphGetNodes(g, nullptr, &n));
  return n;
}
cudaMemsetParams fill_params(void* to, unsigned value, size_t bytes) {
  cudaMemsetParams p{};
  p.dst = to;
  p.value = value;
  p.elementSize = 1;
  p.width = bytes;
  p.height = 1;
  return p;
}

}  // namespace

TEST_CASE("emulated capture: work becomes nodes, branches join, launches repeat it") {
  const Findings found;
  const Stream a, b;
  const Event fork(cudaEventDisableTiming), join(cudaEventDisableTiming);
  const DeviceBytes d(64), e(64);
  OK(cudaMemset(d, 0, 64));
  OK(cudaMemset(e, 0, 64));
  OK(cudaDeviceSynchronize());
  Graph g;
  OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  OK(cudaStreamIsCapturing(a, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
  OK(cudaMemsetAsync(d, 1, 64, a));
  OK(cudaEventRecord(fork, a));
  OK(cudaStreamWaitEvent(b, fork, 0));
  OK(cudaMemcpyAsync(e, d, 64, cudaMemcpyDeviceToDevice, b));
  OK(cudaEventRecord(join, b));
  OK(cudaStreamWaitEvent(a, join, 0));
  OK(cudaMemsetAsync(d, 2, 64, a));
  OK(cudaStreamEndCapture(a, &g.handle));
  OK(cudaStreamIsCapturing(b, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
  CHECK(d.read()[0] == 0);  // nothing ran
  CHECK(nodes_of(g.handle) == 3);
  Exec x;
  OK(cudaGraphInstantiate(&x.handle, g.handle, 0));
  for (int i = 0; i < 5; ++i) OK(cudaGraphLaunch(x.handle, i % 2 ? a : b));
  OK(cudaStreamSynchronize(a));
  OK(cudaStreamSynchronize(b));
  CHECK(d.read()[5] == 2);
  CHECK(e.read()[5] == 1);
  CHECK(found.count() == 0);
}

TEST_CASE("emulated capture: a branch that does not join is refused, one that races is found") {
  const Stream a, b;
  const Event fork(cudaEventDisableTiming), join(cudaEventDisableTiming);
  const DeviceBytes d(64);
  Graph g;
  OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(fork, a));
  OK(cudaStreamWaitEvent(b, fork, 0));
  OK(cudaMemsetAsync(d, 1, 64, b));
  FAILS(cudaStreamEndCapture(a, &g.handle), cudaErrorStreamCaptureUnjoined);
  CHECK(g.handle == nullptr);

  const Findings found;
  OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(fork, a));
  OK(cudaStreamWaitEvent(b, fork, 0));
  OK(cudaMemsetAsync(d, 1, 64, b));
  OK(cudaMemsetAsync(d, 2, 64, a));
  OK(cudaEventRecord(join, b));
  OK(cudaStreamWaitEvent(a, join, 0));
  OK(cudaStreamEndCapture(a, &g.handle));
  Exec x;
  OK(cudaGraphInstantiate(&x.handle, g.handle, 0));
  OK(cudaGraphLaunch(x.handle, a));
  OK(cudaStreamSynchronize(a));
  CHECK(found.count() == 1);
}

TEST_CASE("emulated capture: what may not be called under it") {
  const Stream a, b, blocking(cudaStreamDefault);
  const Event recorded(cudaEventDisableTiming), captured(cudaEventDisableTiming);
  const DeviceBytes d(64);
  OK(cudaEventRecord(recorded, b));
  OK(cudaStreamSynchronize(b));
  void* p = nullptr;
  Graph g;
  // Each invalidates the capture, which says so when it is ended.
  const auto fails = [&](cudaStream_t s, cudaStreamCaptureMode mode, cudaError_t code, auto&& f) {
    OK(cudaStreamBeginCapture(s, mode));
    OK(cudaMemsetAsync(d, 1, 64, s));
    OK(cudaEventRecord(captured, s));
    FAILS(f(), code);
    FAILS(cudaMemsetAsync(d, 1, 64, s), cudaErrorStreamCaptureInvalidated);
    FAILS(cudaStreamEndCapture(s, &g.handle), cudaErrorStreamCaptureInvalidated);
  };
  const auto global = cudaStreamCaptureModeGlobal, relaxed = cudaStreamCaptureModeRelaxed;
  const cudaError_t unsupported = cudaErrorStreamCaptureUnsupported;
  fails(a, global, unsupported, [&] { return cudaMalloc(&p, 8); });
  fails(a, global, unsupported, [&] { return cudaFree(d); });
  fails(a, global, unsupported, [&] { return cudaMemcpy(&p, d, 8, cudaMemcpyDefault); });
  fails(a, global, unsupported, [&] { return cudaStreamSynchronize(a); });
  fails(a, relaxed, unsupported, [&] { return cudaStreamQuery(a); });
  fails(a, relaxed, unsupported, [&] { return cudaDeviceSynchronize(); });
  fails(a, relaxed, cudaErrorCapturedEvent, [&] { return cudaEventQuery(captured); });
  fails(a, relaxed, cudaErrorCapturedEvent, [&] { return cudaEventSynchronize(captured); });
  fails(a, global, cudaErrorStreamCaptureIsolation,
        [&] { return cudaStreamWaitEvent(a, recorded, 0); });
  fails(blocking, relaxed, cudaErrorStreamCaptureImplicit,
        [&] { return cudaMemsetAsync(d, 1, 8, nullptr); });

  OK(cudaStreamBeginCapture(blocking, relaxed));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  FAILS(cudaStreamIsCapturing(nullptr, &status), cudaErrorStreamCaptureImplicit);
  OK(cudaStreamEndCapture(blocking, &g.handle));
  OK(cudaGraphDestroy(g.handle));

  OK(cudaStreamBeginCapture(a, relaxed));
  OK(cudaMalloc(&p, 8));
  OK(cudaFree(p));
  OK(cudaStreamEndCapture(a, &g.handle));
  FAILS(cudaStreamEndCapture(a, &g.handle), cudaErrorIllegalState);
  FAILS(cudaStreamBeginCapture(nullptr, global), unsupported);
}

TEST_CASE("emulated capture: threads and merges") {
  const Stream a, b;
  const Event e(cudaEventDisableTiming);
  Graph g, h;
  OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
  cudaError_t ended = cudaSuccess, taken = cudaErrorUnknown;
  std::thread([&] {
    cudaGraph_t none = nullptr;
    void* p = nullptr;
    ended = cudaStreamEndCapture(a, &none);
    taken = cudaMalloc(&p, 8);  // another thread's mode does not matter to this one
    cudaFree(p);
  }).join();
  CHECK(ended == cudaErrorStreamCaptureWrongThread);
  CHECK(taken == cudaSuccess);
  OK(cudaStreamBeginCapture(b, cudaStreamCaptureModeThreadLocal));
  OK(cudaEventRecord(e, a));
  FAILS(cudaStreamWaitEvent(b, e, 0), cudaErrorStreamCaptureMerge);
  FAILS(cudaStreamEndCapture(a, &g.handle), cudaErrorStreamCaptureInvalidated);
  FAILS(cudaStreamEndCapture(b, &h.handle), cudaErrorStreamCaptureInvalidated);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeGlobal);
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeRelaxed);
}

TEST_CASE("emulated graphs: nodes added one by one, changed, updated") {
  const Stream s;
  const DeviceBytes d(64), e(64);
  const PinnedBytes out(64);
  Graph g;
  OK(cudaGraphCreate(&g.handle, 0));
  cudaGraphNode_t fill = nullptr, copy = nullptr, host = nullptr, empty = nullptr;
  cudaMemsetParams p = fill_params(d, 1, 64);
  OK(cudaGraphAddMemsetNode(&fill, g.handle, nullptr, 0, &p));
  OK(cudaGraphAddMemcpyNode1D(&copy, g.handle, &fill, 1, out, d, 64, cudaMemcpyDeviceToHost));
  int calls = 0;
  const cudaHostNodeParams call = {[](void* n) { ++*static_cast<int*>(n); }, &calls};
  OK(cudaGraphAddHostNode(&host, g.handle, &copy, 1, &call));
  OK(cudaGraphAddEmptyNode(&empty, g.handle, nullptr, 0));
  OK(cudaGraphAddDependencies(g.handle, &host, &empty, nullptr, 1));
  CHECK(nodes_of(g.handle) == 4);
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  OK(cudaGraphNodeGetType(copy, &type));
  CHECK(type == cudaGraphNodeTypeMemcpy);
  size_t edges = 0, roots = 0;
  OK(cudaGraphGetEdges(g.handle, nullptr, nullptr, nullptr, &edges));
  CHECK(edges == 3);
  OK(cudaGraphGetRootNodes(g.handle, nullptr, &roots));
  CHECK(roots == 1);

  Exec x;
  OK(cudaGraphInstantiateWithFlags(&x.handle, g.handle, 0));
  OK(cudaGraphUpload(x.handle, s));
  OK(cudaGraphLaunch(x.handle, s));
  p = fill_params(d, 2, 64);
  OK(cudaGraphExecMemsetNodeSetParams(x.handle, fill, &p));  // the launch before keeps the 1
  OK(cudaStreamSynchronize(s));
  CHECK(out[9] == 1);
  OK(cudaGraphLaunch(x.handle, s));
  OK(cudaStreamSynchronize(s));
  CHECK(out[9] == 2);
  CHECK(calls == 2);
  OK(cudaGraphNodeSetEnabled(x.handle, fill, 0));
  OK(cudaMemset(d, 8, 64));
  OK(cudaDeviceSynchronize());
  OK(cudaGraphLaunch(x.handle, s));
  OK(cudaStreamSynchronize(s));
  CHECK(out[9] == 8);
  OK(cudaGraphNodeSetEnabled(x.handle, fill, 1));

  // A graph alike gives its parameters; another one is refused.
  Graph alike, other;
  OK(cudaGraphClone(&alike.handle, g.handle));
  cudaGraphNode_t twin = nullptr;
  OK(cudaGraphNodeFindInClone(&twin, fill, alike.handle));
  p = fill_params(d, 3, 64);
  OK(cudaGraphMemsetNodeSetParams(twin, &p));
  cudaGraphExecUpdateResultInfo info;
  OK(cudaGraphExecUpdate(x.handle, alike.handle, &info));
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  OK(cudaGraphLaunch(x.handle, s));
  OK(cudaStreamSynchronize(s));
  CHECK(out[9] == 3);
  OK(cudaGraphCreate(&other.handle, 0));
  OK(cudaGraphAddEmptyNode(&empty, other.handle, nullptr, 0));
  FAILS(cudaGraphExecUpdate(x.handle, other.handle, &info), cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
}

TEST_CASE("emulated graphs: circles are refused, child graphs run whole, removed nodes not") {
  const Stream s;
  const DeviceBytes d(64), e(64);
  Graph child, g;
  OK(cudaGraphCreate(&child.handle, 0));
  OK(cudaGraphCreate(&g.handle, 0));
  cudaGraphNode_t first = nullptr, second = nullptr, node = nullptr, last = nullptr;
  cudaMemsetParams p = fill_params(d, 1, 64);
  OK(cudaGraphAddMemsetNode(&first, child.handle, nullptr, 0, &p));
  p = fill_params(d, 2, 32);
  OK(cudaGraphAddMemsetNode(&second, child.handle, &first, 1, &p));
  OK(cudaGraphAddChildGraphNode(&node, g.handle, nullptr, 0, child.handle));
  OK(cudaGraphAddMemcpyNode1D(&last, g.handle, &node, 1, e, d, 64, cudaMemcpyDeviceToDevice));
  Exec x;
  OK(cudaGraphInstantiate(&x.handle, g.handle, 0));
  OK(cudaGraphLaunch(x.handle, s));
  OK(cudaStreamSynchronize(s));
  CHECK(e.read()[31] == 2);
  CHECK(e.read()[32] == 1);
  OK(cudaGraphAddDependencies(child.handle, &second, &first, nullptr, 1));
  Exec circle;
  FAILS(cudaGraphInstantiate(&circle.handle, child.handle, 0), cudaErrorInvalidValue);
  OK(cudaGraphDestroyNode(second));
  CHECK(nodes_of(child.handle) == 1);
  FAILS(cudaGraphDestroyNode(second), cudaErrorInvalidValue);
}

TEST_CASE("emulated graphs: a launch into a captured stream is a node") {
  const Stream s;
  const DeviceBytes d(64);
  Graph inner, outer;
  Exec x, y;
  OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  OK(cudaMemsetAsync(d, 6, 64, s));
  OK(cudaStreamEndCapture(s, &inner.handle));
  OK(cudaGraphInstantiate(&x.handle, inner.handle, 0));
  OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  OK(cudaGraphLaunch(x.handle, s));
  OK(cudaMemsetAsync(d, 7, 32, s));
  OK(cudaStreamEndCapture(s, &outer.handle));
  CHECK(nodes_of(outer.handle) == 2);
  OK(cudaGraphInstantiate(&y.handle, outer.handle, 0));
  OK(cudaGraphLaunch(y.handle, s));
  OK(cudaStreamSynchronize(s));
  CHECK(d.read()[31] == 7);
  CHECK(d.read()[32] == 6);
}

TEST_CASE("emulated graphs: user objects live as long as a graph has them") {
  int freed = 0;
  cudaUserObject_t object = nullptr;
  OK(cudaUserObjectCreate(
      &object, &freed, [](void* p) { ++*static_cast<int*>(p); }, 1,
      cudaUserObjectNoDestructorSync));
  cudaGraph_t g = nullptr;
  OK(cudaGraphCreate(&g, 0));
  OK(cudaGraphRetainUserObject(g, object, 1, cudaGraphUserObjectMove));
  CHECK(freed == 0);
  OK(cudaGraphDestroy(g));
  CHECK(freed == 1);
}
