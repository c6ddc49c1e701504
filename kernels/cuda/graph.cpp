// Graphs of the cuda device, connected to the core.
#include "warptape/core/graph/graph_capture.h"
#include "warptape/kernels/cuda/state.h"

namespace wt {
namespace {

using detail::api;

struct CudaGraph {
  void* exec = nullptr;
  size_t nodes = 0;
};

void begin(Device d, void* stream) {
  enter_cuda(d.index);
  cuda_check(api().begin_capture(stream), "cudaStreamBeginCapture", d.index);
}

void* end(Device d, void* stream) {
  void* graph = nullptr;
  cuda_check(api().end_capture(stream, &graph), "cudaStreamEndCapture", d.index);
  auto made = std::make_unique<CudaGraph>();
  int code = api().graph_size(graph, &made->nodes);
  const char* call = "cudaGraphGetNodes";
  if (code == kCudaSuccess) {
    code = api().instantiate(&made->exec, graph);
    call = "cudaGraphInstantiate";
  }
  api().free_graph(graph);
  cuda_check(code, call, d.index);
  return made.release();
}

bool abandon(Device d, void* stream) noexcept {
  void* graph = nullptr;
  api().end_capture(stream, &graph);
  if (graph) api().free_graph(graph);
  api().last_error();  // of the call that spoiled the capture
  return !cuda_is_dead(d.index);
}

void launch(Device d, void* graph, void* stream) {
  enter_cuda(d.index);
  cuda_check(api().launch_graph(static_cast<CudaGraph*>(graph)->exec, stream), "cudaGraphLaunch",
             d.index);
}

// CUDA keeps what is under way alive.
void free_graph(Device, void* graph) noexcept {
  auto* const g = static_cast<CudaGraph*>(graph);
  if (const CudaApi* a = cuda_api()) a->free_exec(g->exec);
  delete g;
}

i64 size(void* graph) { return i64(static_cast<CudaGraph*>(graph)->nodes); }

i64 recorded(Device, void* stream) noexcept {
  size_t nodes = 0;
  const int code = api().capture_size(stream, &nodes);
  if (code != kCudaSuccess) api().last_error();  // a refused question is no launch's error
  return code == kCudaSuccess ? i64(nodes) : -1;
}

}  // namespace

namespace detail {
const GraphBackend cuda_graphs = {begin, end, abandon, launch, free_graph, size, recorded};
}  // namespace detail
}  // namespace wt
