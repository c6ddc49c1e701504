// Graphs: work with dependencies, described once and launched often.
#pragma once
#include "device/stream.h"

namespace emu {

struct Graph;

struct GraphNode {
  u64 id = 0;
  int type = 0;    // cudaGraphNodeType
  int device = 0;  // where it runs
  WorkRef work;    // null: the node orders only, or is a graph of its own
  std::shared_ptr<Graph> child;
  EventRef event;                 // to record or to wait for
  std::vector<GraphNode*> after;  // of the same graph
  Graph* graph = nullptr;
  void* handle = nullptr;
  u64 origin = 0;  // of a clone: the id of the node it was made from
};
using NodeRef = std::shared_ptr<GraphNode>;

struct Graph {
  u64 id = 0;
  void* handle = nullptr;      // null: of a child node, or not given to the program
  std::vector<NodeRef> nodes;  // in the order they were added
  GraphNode* parent = nullptr;
  std::vector<std::shared_ptr<void>> kept;  // user objects
};
using GraphRef = std::shared_ptr<Graph>;

GraphRef make_graph();
void give_handle(const GraphRef& g);  // once
GraphRef find_graph(const void* handle);
void drop_graph(const GraphRef& g);
GraphNode* add_node(Graph& g, int type, WorkRef work, std::vector<GraphNode*> after);
GraphNode* find_node(const void* handle);
void drop_node(GraphNode* n);
GraphRef clone(const Graph& g);
// The cudaGraphNodeType of a piece of work.
int node_type(WorkKind kind);

// A graph made ready: its nodes in an order that respects what they wait for, child graphs
// dissolved.
struct ExecNode {
  u64 id = 0;  // of the graph's node
  int type = 0, device = 0;
  WorkRef work;
  EventRef event;
  std::vector<u32> after;
  u32 lane = 0;
  bool enabled = true;
};
struct GraphExec {
  std::vector<ExecNode> nodes;
  u64 flags = 0, launches = 0, graph = 0;
  OpRef last;  // launches of one graph take turns
  std::vector<std::shared_ptr<void>> kept;
};
using ExecRef = std::shared_ptr<GraphExec>;

// Null: it goes in a circle.
ExecRef instantiate(const Graph& g);
void* give_handle(const ExecRef& e);
ExecRef find_exec(const void* handle);
bool drop_exec(const void* handle);
ExecNode* node_of(GraphExec& e, const GraphNode* n);
void launch(GraphExec& e, Stream& stream);
// The same as a graph again: launched while its stream is captured, it is a node there.
GraphRef graph_of(const GraphExec& e);

}  // namespace emu
