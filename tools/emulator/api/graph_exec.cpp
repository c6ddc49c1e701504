// Graphs made ready, changed and launched.
#include "api/graph_nodes.h"
#include "device/capture.h"

using namespace emu;

namespace {

template <class F>
cudaError_t with_exec(const char* name, cudaGraphExec_t handle, F&& body) {
  return call(name, [&] {
    const ExecRef e = find_exec(handle);
    return e ? body(*e) : cudaErrorInvalidValue;
  });
}

cudaError_t instantiate_graph(const char* name, cudaGraphExec_t* exec, cudaGraph_t graph,
                              u64 flags) {
  return with_graph(name, graph, [&](Graph& g) {
    if (!exec) return cudaErrorInvalidValue;
    if (flags & cudaGraphInstantiateFlagDeviceLaunch) {
      note("graphs that the device launches are not emulated");
      return cudaErrorNotSupported;
    }
    const ExecRef e = instantiate(g);
    if (!e) {
      note(std::string(name) + ": the graph's nodes wait for each other in a circle");
      return cudaErrorInvalidValue;
    }
    e->flags = flags;
    *exec = static_cast<cudaGraphExec_t>(give_handle(e));
    return cudaSuccess;
  });
}

template <class F>
cudaError_t set(const char* name, cudaGraphExec_t exec, cudaGraphNode_t node, int type, F&& make) {
  return with_exec(name, exec, [&](GraphExec& e) {
    const GraphNode* n = find_node(node);
    ExecNode* x = n && n->type == type ? node_of(e, n) : nullptr;
    if (!x) return cudaErrorInvalidValue;
    WorkRef work;
    const cudaError_t error = make(&work, *x);
    if (error == cudaSuccess) x->work = std::move(work);
    return error;
  });
}

}  // namespace

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return instantiate_graph("cudaGraphInstantiateWithFlags", exec, graph, flags);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return instantiate_graph("cudaGraphInstantiate", exec, graph, flags);
}
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* p) {
  if (!p) return call("cudaGraphInstantiateWithParams", [] { return cudaErrorInvalidValue; });
  const cudaError_t e = instantiate_graph("cudaGraphInstantiateWithParams", exec, graph, p->flags);
  p->errNode_out = nullptr;
  p->result_out = e == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
  return e;
}
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  return with_exec("cudaGraphExecGetFlags", exec, [&](GraphExec& e) {
    if (flags) *flags = e.flags;
    return flags ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return call("cudaGraphExecDestroy",
              [&] { return drop_exec(exec) ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return with_exec("cudaGraphLaunch", exec, [&](GraphExec& e) {
    const StreamRef s = stream_or_note("cudaGraphLaunch", stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (s->capture) {
      if (s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
      GraphNode* n = capture_node(*s, cudaGraphNodeTypeGraph, nullptr);
      n->child = graph_of(e);
      n->child->parent = n;
      return cudaSuccess;
    }
    if (s->legacy)
      if (const int error = check_implicit(s->device)) return cudaError_t(error);
    launch(e, *s);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return with_exec("cudaGraphUpload", exec, [&](GraphExec&) {
    return stream_or_note("cudaGraphUpload", stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

// The graphs must be alike but for parameters: node by node in the order they were added.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  return with_exec("cudaGraphExecUpdate", exec, [&](GraphExec& e) {
    const GraphRef g = find_graph(graph);
    if (!g) return cudaErrorInvalidValue;
    const auto refuse = [&](cudaGraphExecUpdateResult why) {
      if (info) *info = {why, nullptr, nullptr};
      return cudaErrorGraphExecUpdateFailure;
    };
    const ExecRef other = instantiate(*g);
    if (!other || other->nodes.size() != e.nodes.size())
      return refuse(cudaGraphExecUpdateErrorTopologyChanged);
    for (size_t i = 0; i < e.nodes.size(); ++i) {
      if (other->nodes[i].type != e.nodes[i].type)
        return refuse(cudaGraphExecUpdateErrorNodeTypeChanged);
      if (other->nodes[i].after != e.nodes[i].after)
        return refuse(cudaGraphExecUpdateErrorTopologyChanged);
      if (other->nodes[i].device != e.nodes[i].device)
        return refuse(cudaGraphExecUpdateErrorParametersChanged);
    }
    for (size_t i = 0; i < e.nodes.size(); ++i) {
      e.nodes[i].work = other->nodes[i].work;
      e.nodes[i].event = other->nodes[i].event;
    }
    if (info) *info = {cudaGraphExecUpdateSuccess, nullptr, nullptr};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* p) {
  return set("cudaGraphExecKernelNodeSetParams", exec, node, cudaGraphNodeTypeKernel,
             [&](WorkRef* w, const ExecNode& x) { return make_kernel(p, x.device, w); });
}
cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* p) {
  return set("cudaGraphExecMemcpyNodeSetParams", exec, node, cudaGraphNodeTypeMemcpy,
             [&](WorkRef* w, const ExecNode&) { return make_copy(p, w); });
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                               const void* from, size_t bytes,
                                               cudaMemcpyKind kind) {
  return set("cudaGraphExecMemcpyNodeSetParams1D", exec, node, cudaGraphNodeTypeMemcpy,
             [&](WorkRef* w, const ExecNode&) { return make_copy(to, from, bytes, kind, w); });
}
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* p) {
  return set("cudaGraphExecMemsetNodeSetParams", exec, node, cudaGraphNodeTypeMemset,
             [&](WorkRef* w, const ExecNode&) { return make_fill(p, w); });
}
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* p) {
  return set("cudaGraphExecHostNodeSetParams", exec, node, cudaGraphNodeTypeHost,
             [&](WorkRef* w, const ExecNode&) { return make_host(p, w); });
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled) {
  return with_exec("cudaGraphNodeSetEnabled", exec, [&](GraphExec& e) {
    const GraphNode* n = find_node(node);
    ExecNode* x = n ? node_of(e, n) : nullptr;
    if (!x || x->type > cudaGraphNodeTypeMemset) return cudaErrorInvalidValue;
    x->enabled = enabled != 0;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled) {
  return with_exec("cudaGraphNodeGetEnabled", exec, [&](GraphExec& e) {
    const GraphNode* n = find_node(node);
    const ExecNode* x = n ? node_of(e, n) : nullptr;
    if (!x || !enabled) return cudaErrorInvalidValue;
    *enabled = x->enabled;
    return cudaSuccess;
  });
}
