// Nodes added one by one, and their parameters.
#include "api/graph_nodes.h"

#include "api/launch.h"
#include "device/copy.h"

using namespace emu;

namespace {

// `make(&work)` gives the node's work; null work is a node that orders only.
template <class F>
cudaError_t add(const char* name, cudaGraphNode_t* node, cudaGraph_t graph,
                const cudaGraphNode_t* after, size_t count, int type, F&& make) {
  return with_graph(name, graph, [&](Graph& g) {
    if (!node) return cudaErrorInvalidValue;
    std::vector<GraphNode*> before;
    for (size_t i = 0; i < count; ++i) {
      GraphNode* a = after ? find_node(after[i]) : nullptr;
      if (!a || a->graph != &g) return cudaErrorInvalidValue;
      before.push_back(a);
    }
    WorkRef work;
    if (const cudaError_t e = make(&work); e != cudaSuccess) return e;
    GraphNode* n = add_node(g, type, std::move(work), std::move(before));
    *node = static_cast<cudaGraphNode_t>(n->handle);
    return cudaSuccess;
  });
}

// New parameters are new work: launches that are queued keep theirs.
template <class F>
cudaError_t set(const char* name, cudaGraphNode_t node, int type, F&& make) {
  return with_node(name, node, type, [&](GraphNode& n) {
    WorkRef work;
    const cudaError_t e = make(&work, n);
    if (e == cudaSuccess) n.work = std::move(work);
    return e;
  });
}

}  // namespace

#define NODE cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count
#define PLACE node, graph, after, count

// --- kernels ---
cudaError_t cudaGraphAddKernelNode(NODE, const cudaKernelNodeParams* p) {
  return add("cudaGraphAddKernelNode", PLACE, cudaGraphNodeTypeKernel,
             [&](WorkRef* w) { return make_kernel(p, current_device(), w); });
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* p) {
  return with_node("cudaGraphKernelNodeGetParams", node, cudaGraphNodeTypeKernel,
                   [&](GraphNode& n) {
                     auto* k = dynamic_cast<KernelWork*>(n.work.get());
                     if (!p || !k) return cudaErrorInvalidValue;
                     const LaunchShape& s = k->shape;
                     *p = {};
                     p->func = k->function.host ? const_cast<void*>(k->function.host)
                                                : static_cast<void*>(&k->function);
                     p->gridDim = dim3(s.grid.x, s.grid.y, s.grid.z);
                     p->blockDim = dim3(s.block.x, s.block.y, s.block.z);
                     p->sharedMemBytes = unsigned(s.dynamic_shared);
                     p->kernelParams = k->arguments.data();
                     return cudaSuccess;
                   });
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* p) {
  return set("cudaGraphKernelNodeSetParams", node, cudaGraphNodeTypeKernel,
             [&](WorkRef* w, GraphNode& n) { return make_kernel(p, n.device, w); });
}
// Hints, of which none changes a result.
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t, cudaGraphNode_t) {
  return cudaSuccess;
}
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t, cudaLaunchAttributeID,
                                            const cudaLaunchAttributeValue*) {
  return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID,
                                            cudaLaunchAttributeValue* value) {
  return with_node("cudaGraphKernelNodeGetAttribute", node, cudaGraphNodeTypeKernel,
                   [&](GraphNode&) {
                     if (value) *value = {};
                     return value ? cudaSuccess : cudaErrorInvalidValue;
                   });
}

// --- copies ---
cudaError_t cudaGraphAddMemcpyNode(NODE, const cudaMemcpy3DParms* p) {
  return add("cudaGraphAddMemcpyNode", PLACE, cudaGraphNodeTypeMemcpy,
             [&](WorkRef* w) { return make_copy(p, w); });
}
cudaError_t cudaGraphAddMemcpyNode1D(NODE, void* to, const void* from, size_t bytes,
                                     cudaMemcpyKind kind) {
  return add("cudaGraphAddMemcpyNode1D", PLACE, cudaGraphNodeTypeMemcpy,
             [&](WorkRef* w) { return make_copy(to, from, bytes, kind, w); });
}
cudaError_t cudaGraphAddMemcpyNodeToSymbol(NODE, const void* symbol, const void* from, size_t bytes,
                                           size_t offset, cudaMemcpyKind kind) {
  return add("cudaGraphAddMemcpyNodeToSymbol", PLACE, cudaGraphNodeTypeMemcpy, [&](WorkRef* w) {
    return make_symbol_copy(symbol, offset, nullptr, from, bytes, kind, w);
  });
}
cudaError_t cudaGraphAddMemcpyNodeFromSymbol(NODE, void* to, const void* symbol, size_t bytes,
                                             size_t offset, cudaMemcpyKind kind) {
  return add("cudaGraphAddMemcpyNodeFromSymbol", PLACE, cudaGraphNodeTypeMemcpy, [&](WorkRef* w) {
    return make_symbol_copy(symbol, offset, to, nullptr, bytes, kind, w);
  });
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* p) {
  return with_node("cudaGraphMemcpyNodeGetParams", node, cudaGraphNodeTypeMemcpy,
                   [&](GraphNode& n) {
                     const auto* c = dynamic_cast<CopyWork*>(n.work.get());
                     if (!p || !c) return cudaErrorInvalidValue;
                     const CopyShape& s = c->shape;
                     const auto rows = [](u64 slice, u64 pitch, u64 height) {
                       return slice && pitch ? slice / pitch : height;
                     };
                     *p = {};
                     p->dstPtr = {pointer_to(s.to), s.to_pitch ? s.to_pitch : s.width, s.width,
                                  rows(s.to_slice, s.to_pitch, s.height)};
                     p->srcPtr = {pointer_to(s.from), s.from_pitch ? s.from_pitch : s.width,
                                  s.width, rows(s.from_slice, s.from_pitch, s.height)};
                     p->extent = {s.width, s.height, s.depth};
                     p->kind = cudaMemcpyDefault;
                     return cudaSuccess;
                   });
}
cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* p) {
  return set("cudaGraphMemcpyNodeSetParams", node, cudaGraphNodeTypeMemcpy,
             [&](WorkRef* w, GraphNode&) { return make_copy(p, w); });
}
cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from,
                                           size_t bytes, cudaMemcpyKind kind) {
  return set("cudaGraphMemcpyNodeSetParams1D", node, cudaGraphNodeTypeMemcpy,
             [&](WorkRef* w, GraphNode&) { return make_copy(to, from, bytes, kind, w); });
}

// --- fills ---
cudaError_t cudaGraphAddMemsetNode(NODE, const cudaMemsetParams* p) {
  return add("cudaGraphAddMemsetNode", PLACE, cudaGraphNodeTypeMemset,
             [&](WorkRef* w) { return make_fill(p, w); });
}
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* p) {
  return with_node("cudaGraphMemsetNodeGetParams", node, cudaGraphNodeTypeMemset,
                   [&](GraphNode& n) {
                     const auto* f = dynamic_cast<FillWork*>(n.work.get());
                     if (!p || !f) return cudaErrorInvalidValue;
                     *p = {pointer_to(f->shape.to),   f->shape.to_pitch, f->value, f->bytes,
                           f->shape.width / f->bytes, f->shape.height};
                     return cudaSuccess;
                   });
}
cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* p) {
  return set("cudaGraphMemsetNodeSetParams", node, cudaGraphNodeTypeMemset,
             [&](WorkRef* w, GraphNode&) { return make_fill(p, w); });
}

// --- host functions ---
cudaError_t cudaGraphAddHostNode(NODE, const cudaHostNodeParams* p) {
  return add("cudaGraphAddHostNode", PLACE, cudaGraphNodeTypeHost,
             [&](WorkRef* w) { return make_host(p, w); });
}
cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* p) {
  return with_node("cudaGraphHostNodeGetParams", node, cudaGraphNodeTypeHost, [&](GraphNode& n) {
    const auto* h = dynamic_cast<HostWork*>(n.work.get());
    if (!p || !h) return cudaErrorInvalidValue;
    *p = {h->function, h->data};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* p) {
  return set("cudaGraphHostNodeSetParams", node, cudaGraphNodeTypeHost,
             [&](WorkRef* w, GraphNode&) { return make_host(p, w); });
}

// --- nodes that only order, and graphs in graphs ---
cudaError_t cudaGraphAddEmptyNode(NODE) {
  return add("cudaGraphAddEmptyNode", PLACE, cudaGraphNodeTypeEmpty,
             [](WorkRef*) { return cudaSuccess; });
}
cudaError_t cudaGraphAddChildGraphNode(NODE, cudaGraph_t child) {
  GraphRef copy;
  const cudaError_t e =
      add("cudaGraphAddChildGraphNode", PLACE, cudaGraphNodeTypeGraph, [&](WorkRef*) {
        const GraphRef g = find_graph(child);
        if (g) copy = clone(*g);
        return g ? cudaSuccess : cudaErrorInvalidValue;
      });
  if (e != cudaSuccess) return e;
  const Locked lock;
  GraphNode* n = find_node(*node);
  copy->parent = n;
  n->child = std::move(copy);
  return cudaSuccess;
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return with_node("cudaGraphChildGraphNodeGetGraph", node, cudaGraphNodeTypeGraph,
                   [&](GraphNode& n) {
                     if (!graph) return cudaErrorInvalidValue;
                     give_handle(n.child);
                     *graph = static_cast<cudaGraph_t>(n.child->handle);
                     return cudaSuccess;
                   });
}

// --- events ---
static cudaError_t add_event(const char* name, NODE, int type, cudaEvent_t event) {
  const cudaError_t e = add(name, PLACE, type, [&](WorkRef*) {
    return find_event(event) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
  if (e != cudaSuccess) return e;
  const Locked lock;
  find_node(*node)->event = find_event(event);
  return cudaSuccess;
}
cudaError_t cudaGraphAddEventRecordNode(NODE, cudaEvent_t event) {
  return add_event("cudaGraphAddEventRecordNode", PLACE, cudaGraphNodeTypeEventRecord, event);
}
cudaError_t cudaGraphAddEventWaitNode(NODE, cudaEvent_t event) {
  return add_event("cudaGraphAddEventWaitNode", PLACE, cudaGraphNodeTypeWaitEvent, event);
}
