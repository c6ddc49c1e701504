#include "device/graph.h"

#include <driver_types.h>

#include <algorithm>
#include <map>

#include "device/context.h"

namespace emu {
namespace {

struct Graphs {
  Handles<Graph, 0x53> graphs;
  Handles<GraphNode, 0x54> nodes;
  Handles<GraphExec, 0x55> execs;
  u64 made = 0, nodes_made = 0;
};
Graphs& graphs() {
  static Graphs* g = new Graphs;
  return *g;
}

// The graph's nodes, each behind those it waits for; empty if that cannot be.
std::vector<const GraphNode*> in_order(const Graph& g) {
  std::vector<const GraphNode*> order;
  std::map<const GraphNode*, int> state;  // 1: being placed, 2: placed
  bool circle = false;
  const auto place = [&](auto& self, const GraphNode* n) -> void {
    int& s = state[n];
    if (s == 2) return;
    if (s == 1) {
      circle = true;
      return;
    }
    s = 1;
    for (const GraphNode* a : n->after) self(self, a);
    state[n] = 2;
    order.push_back(n);
  };
  for (const NodeRef& n : g.nodes) place(place, n.get());
  if (circle) order.clear();
  return order;
}

bool flatten(const Graph& g, const std::vector<u32>& roots_after, GraphExec& e,
             std::vector<u32>* ends) {
  const auto order = in_order(g);
  if (order.empty() && !g.nodes.empty()) return false;
  std::map<const GraphNode*, u32> place;
  for (const GraphNode* n : order) {
    ExecNode x;
    x.id = n->id;
    x.type = n->type;
    x.device = n->device;
    x.work = n->work;
    x.event = n->event;
    for (const GraphNode* a : n->after) x.after.push_back(place[a]);
    if (n->after.empty()) x.after = roots_after;
    if (n->child) {
      std::vector<u32> child_ends;
      if (!flatten(*n->child, x.after, e, &child_ends)) return false;
      if (!child_ends.empty()) x.after = child_ends;
    }
    place[n] = u32(e.nodes.size());
    e.nodes.push_back(std::move(x));
  }
  for (const GraphNode* n : order) {
    const bool last = std::none_of(order.begin(), order.end(), [&](const GraphNode* m) {
      return std::find(m->after.begin(), m->after.end(), n) != m->after.end();
    });
    if (last) ends->push_back(place[n]);
  }
  return true;
}

// A node goes on in the lane of the first it waits for, unless another did so before.
void give_lanes(GraphExec& e) {
  std::vector<bool> continued(e.nodes.size());
  for (ExecNode& n : e.nodes) {
    u32 lane = ~u32(0);
    for (const u32 a : n.after) {
      if (continued[a]) continue;
      continued[a] = true;
      lane = e.nodes[a].lane;
      break;
    }
    n.lane = lane == ~u32(0) ? new_lane() : lane;
  }
}

}  // namespace

GraphRef make_graph() {
  auto g = std::make_shared<Graph>();
  g->id = ++graphs().made;
  return g;
}
void give_handle(const GraphRef& g) {
  if (!g->handle) g->handle = graphs().graphs.add(g);
}
GraphRef find_graph(const void* handle) { return graphs().graphs.find(handle); }

void drop_graph(const GraphRef& g) {
  for (const NodeRef& n : g->nodes) {
    graphs().nodes.remove(n->handle);
    if (n->child) drop_graph(n->child);
  }
  if (g->handle) graphs().graphs.remove(g->handle);
}

GraphNode* add_node(Graph& g, int type, WorkRef work, std::vector<GraphNode*> after) {
  auto n = std::make_shared<GraphNode>();
  n->id = ++graphs().nodes_made;
  n->type = type;
  n->device = current_device();
  n->work = std::move(work);
  n->after = std::move(after);
  n->graph = &g;
  n->handle = graphs().nodes.add(n);
  g.nodes.push_back(n);
  return n.get();
}
GraphNode* find_node(const void* handle) { return graphs().nodes.find(handle).get(); }

void drop_node(GraphNode* n) {
  Graph& g = *n->graph;
  for (const NodeRef& other : g.nodes) std::erase(other->after, n);
  if (n->child) drop_graph(n->child);
  graphs().nodes.remove(n->handle);
  std::erase_if(g.nodes, [&](const NodeRef& x) { return x.get() == n; });
}

GraphRef clone(const Graph& g) {
  GraphRef c = make_graph();
  std::map<const GraphNode*, GraphNode*> copies;
  for (const NodeRef& n : g.nodes) {
    GraphNode* x = add_node(*c, n->type, n->work, {});
    x->device = n->device;
    x->event = n->event;
    x->origin = n->id;
    if (n->child) {
      x->child = clone(*n->child);
      x->child->parent = x;
    }
    copies[n.get()] = x;
  }
  for (const NodeRef& n : g.nodes)
    for (const GraphNode* a : n->after) copies[n.get()]->after.push_back(copies[a]);
  c->kept = g.kept;
  return c;
}

int node_type(WorkKind kind) {
  switch (kind) {
    case WorkKind::copy:
      return cudaGraphNodeTypeMemcpy;
    case WorkKind::fill:
      return cudaGraphNodeTypeMemset;
    case WorkKind::host:
      return cudaGraphNodeTypeHost;
    case WorkKind::record:
      return cudaGraphNodeTypeEventRecord;
    case WorkKind::wait:
      return cudaGraphNodeTypeWaitEvent;
    case WorkKind::take:
      return cudaGraphNodeTypeMemAlloc;
    case WorkKind::give:
      return cudaGraphNodeTypeMemFree;
    case WorkKind::join:
      return cudaGraphNodeTypeEmpty;
    default:
      return cudaGraphNodeTypeKernel;
  }
}

ExecRef instantiate(const Graph& g) {
  auto e = std::make_shared<GraphExec>();
  std::vector<u32> ends;
  if (!flatten(g, {}, *e, &ends)) return nullptr;
  give_lanes(*e);
  e->graph = g.id;
  e->kept = g.kept;
  return e;
}
void* give_handle(const ExecRef& e) { return graphs().execs.add(e); }
ExecRef find_exec(const void* handle) { return graphs().execs.find(handle); }
bool drop_exec(const void* handle) { return graphs().execs.remove(handle); }

ExecNode* node_of(GraphExec& e, const GraphNode* n) {
  for (ExecNode& x : e.nodes)
    if (x.id == n->id) return &x;
  return nullptr;
}

void launch(GraphExec& e, Stream& stream) {
  const std::string name = "graph " + std::to_string(e.graph);
  std::vector<OpRef> before;
  if (e.last) before.push_back(e.last);
  const OpRef begin = enqueue(stream, std::make_shared<Mark>(WorkKind::join, "begin of " + name),
                              std::move(before));
  std::vector<OpRef> ops;
  std::vector<bool> waited(e.nodes.size());
  for (const ExecNode& n : e.nodes) {
    auto op = std::make_shared<QueuedOp>();
    op->device = n.device;
    op->lane = n.lane;
    op->stream = name;
    op->work = n.work && n.enabled ? n.work : std::make_shared<Mark>(WorkKind::join, "empty node");
    std::vector<OpRef> after;
    for (const u32 a : n.after) {
      after.push_back(ops[a]);
      waited[a] = true;
    }
    if (after.empty()) after.push_back(begin);
    if (n.type == cudaGraphNodeTypeWaitEvent && n.event && n.event->recorded)
      after.push_back(n.event->recorded);
    submit(op, std::move(after));
    if (n.type == cudaGraphNodeTypeEventRecord && n.event) n.event->recorded = op;
    ops.push_back(op);
  }
  std::vector<OpRef> ends;
  for (size_t i = 0; i < ops.size(); ++i)
    if (!waited[i]) ends.push_back(ops[i]);
  e.last =
      enqueue(stream, std::make_shared<Mark>(WorkKind::join, "end of " + name), std::move(ends));
  ++e.launches;
}

GraphRef graph_of(const GraphExec& e) {
  GraphRef g = make_graph();
  std::vector<GraphNode*> nodes;
  for (const ExecNode& x : e.nodes) {
    std::vector<GraphNode*> after;
    for (const u32 a : x.after) after.push_back(nodes[a]);
    GraphNode* n = add_node(*g, x.type, x.enabled ? x.work : nullptr, std::move(after));
    n->device = x.device;
    n->event = x.event;
    nodes.push_back(n);
  }
  g->kept = e.kept;
  return g;
}

}  // namespace emu
