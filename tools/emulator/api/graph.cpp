// Graphs: their nodes and edges.
#include <algorithm>
#include <cstdio>

#include "api/graph_nodes.h"

using namespace emu;

namespace {

cudaGraphNode_t handle_of(const GraphNode* n) { return static_cast<cudaGraphNode_t>(n->handle); }

// As all these calls do: without a place the count is asked for; room that is left is cleared.
template <class T>
cudaError_t give_list(const std::vector<T>& all, T* to, size_t* count) {
  if (!count) return cudaErrorInvalidValue;
  if (to)
    for (size_t i = 0; i < *count; ++i) to[i] = i < all.size() ? all[i] : T{};
  *count = to ? std::min(*count, all.size()) : all.size();
  return cudaSuccess;
}

cudaError_t change_edges(const char* name, cudaGraph_t graph, const cudaGraphNode_t* from,
                         const cudaGraphNode_t* to, size_t count, bool add) {
  return with_graph(name, graph, [&](Graph& g) {
    for (size_t i = 0; i < count; ++i) {
      GraphNode* a = from ? find_node(from[i]) : nullptr;
      GraphNode* b = to ? find_node(to[i]) : nullptr;
      if (!a || !b || a == b || a->graph != &g || b->graph != &g) return cudaErrorInvalidValue;
      const auto at = std::find(b->after.begin(), b->after.end(), a);
      if ((at == b->after.end()) != add) return cudaErrorInvalidValue;
      if (add)
        b->after.push_back(a);
      else
        b->after.erase(at);
    }
    return cudaSuccess;
  });
}

const char* name_of_type(int type) {
  static constexpr const char* kNames[] = {"kernel", "copy", "fill",   "host",       "graph",
                                           "empty",  "wait", "record", "signal",     "semaphore",
                                           "malloc", "free", "batch",  "conditional"};
  return type >= 0 && type < 14 ? kNames[type] : "node";
}

}  // namespace

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return call("cudaGraphCreate", [&] {
    if (!graph || flags) return cudaErrorInvalidValue;
    const GraphRef g = make_graph();
    give_handle(g);
    *graph = static_cast<cudaGraph_t>(g->handle);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call("cudaGraphDestroy", [&] {
    const GraphRef g = find_graph(graph);
    if (!g) return cudaErrorInvalidValue;
    drop_graph(g);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphClone(cudaGraph_t* to, cudaGraph_t from) {
  return with_graph("cudaGraphClone", from, [&](Graph& g) {
    if (!to) return cudaErrorInvalidValue;
    const GraphRef c = clone(g);
    give_handle(c);
    *to = static_cast<cudaGraph_t>(c->handle);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original,
                                     cudaGraph_t copy) {
  return with_node("cudaGraphNodeFindInClone", original, -1, [&](GraphNode& n) {
    const GraphRef g = find_graph(copy);
    if (!g || !node) return cudaErrorInvalidValue;
    for (const NodeRef& x : g->nodes)
      if (x->origin == n.id) {
        *node = handle_of(x.get());
        return cudaSuccess;
      }
    return cudaErrorInvalidValue;
  });
}
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return with_node("cudaGraphDestroyNode", node, -1, [](GraphNode& n) {
    drop_node(&n);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return with_node("cudaGraphNodeGetType", node, -1, [&](GraphNode& n) {
    if (type) *type = cudaGraphNodeType(n.type);
    return type ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return with_graph("cudaGraphGetNodes", graph, [&](Graph& g) {
    std::vector<cudaGraphNode_t> all;
    for (const NodeRef& n : g.nodes) all.push_back(handle_of(n.get()));
    return give_list(all, nodes, count);
  });
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return with_graph("cudaGraphGetRootNodes", graph, [&](Graph& g) {
    std::vector<cudaGraphNode_t> all;
    for (const NodeRef& n : g.nodes)
      if (n->after.empty()) all.push_back(handle_of(n.get()));
    return give_list(all, nodes, count);
  });
}
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* data, size_t* count) {
  return with_graph("cudaGraphGetEdges", graph, [&](Graph& g) {
    if (!count || !from != !to) return cudaErrorInvalidValue;
    std::vector<cudaGraphNode_t> tails, heads;
    for (const NodeRef& n : g.nodes)
      for (const GraphNode* a : n->after) {
        tails.push_back(handle_of(a));
        heads.push_back(handle_of(n.get()));
      }
    size_t n = *count;
    if (data) std::fill_n(data, from ? std::min(n, tails.size()) : 0, cudaGraphEdgeData{});
    give_list(tails, from, &n);
    return give_list(heads, to, count);
  });
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                         cudaGraphEdgeData* data, size_t* count) {
  return with_node("cudaGraphNodeGetDependencies", node, -1, [&](GraphNode& n) {
    std::vector<cudaGraphNode_t> all;
    for (const GraphNode* a : n.after) all.push_back(handle_of(a));
    if (data && nodes && count)
      std::fill_n(data, std::min(*count, all.size()), cudaGraphEdgeData{});
    return give_list(all, nodes, count);
  });
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                           cudaGraphEdgeData* data, size_t* count) {
  return with_node("cudaGraphNodeGetDependentNodes", node, -1, [&](GraphNode& n) {
    std::vector<cudaGraphNode_t> all;
    for (const NodeRef& x : n.graph->nodes)
      if (std::find(x->after.begin(), x->after.end(), &n) != x->after.end())
        all.push_back(handle_of(x.get()));
    if (data && nodes && count)
      std::fill_n(data, std::min(*count, all.size()), cudaGraphEdgeData{});
    return give_list(all, nodes, count);
  });
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                     size_t count) {
  return change_edges("cudaGraphAddDependencies", graph, from, to, count, true);
}
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                        size_t count) {
  return change_edges("cudaGraphRemoveDependencies", graph, from, to, count, false);
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  return with_graph("cudaGraphDebugDotPrint", graph, [&](Graph& g) {
    std::FILE* out = path ? std::fopen(path, "w") : nullptr;
    if (!out) return cudaErrorOperatingSystem;
    std::fprintf(out, "digraph graph_%llu {\n", static_cast<unsigned long long>(g.id));
    for (const NodeRef& n : g.nodes) {
      const std::string text = n->work ? n->work->name() : name_of_type(n->type);
      std::fprintf(out, "  n%llu [label=\"%s\"];\n", static_cast<unsigned long long>(n->id),
                   text.c_str());
      for (const GraphNode* a : n->after)
        std::fprintf(out, "  n%llu -> n%llu;\n", static_cast<unsigned long long>(a->id),
                     static_cast<unsigned long long>(n->id));
    }
    std::fprintf(out, "}\n");
    return std::fclose(out) == 0 ? cudaSuccess : cudaErrorOperatingSystem;
  });
}
