// Work of graph nodes made from the parameters that a program gives, and back.
#pragma once
#include "api/api.h"
#include "device/graph.h"

namespace emu {

cudaError_t make_kernel(const cudaKernelNodeParams* p, int device, WorkRef* work);
cudaError_t make_copy(const cudaMemcpy3DParms* p, WorkRef* work);
cudaError_t make_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, WorkRef* work);
cudaError_t make_symbol_copy(const void* symbol, size_t offset, void* to, const void* from,
                             size_t bytes, cudaMemcpyKind kind, WorkRef* work);
cudaError_t make_fill(const cudaMemsetParams* p, WorkRef* work);
cudaError_t make_host(const cudaHostNodeParams* p, WorkRef* work);

// Runs `body(node)`; the handle must be of a node of this type (-1: of any).
template <class F>
cudaError_t with_node(const char* name, cudaGraphNode_t handle, int type, F&& body) {
  return call(name, [&] {
    GraphNode* n = find_node(handle);
    return n && (type < 0 || n->type == type) ? body(*n) : cudaErrorInvalidValue;
  });
}
template <class F>
cudaError_t with_graph(const char* name, cudaGraph_t handle, F&& body) {
  return call(name, [&] {
    const GraphRef g = find_graph(handle);
    return g ? body(*g) : cudaErrorInvalidValue;
  });
}

}  // namespace emu
