// What adding up gradients costs on paper, and how much of it a backward hides: alpha-beta models
// of all-reduce. Nothing here is measured; docs/distributed_model.md has the constants' sources and
// how far published measurements are from the results.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::tools {

// One way along a wire. A message of b bytes takes us + b / (1e3 gb_s) microseconds.
struct CommLink {
  double us = 0;    // a message, small as it may be
  double gb_s = 0;  // 1e9 bytes a second, as collectives reach it, not as the data sheet has it
};

// Nodes of equally many GPUs. Where a node has several network cards, `between` is all of them.
struct Cluster {
  std::string name;
  int gpus_a_node = 8;
  CommLink inside{};       // of one GPU, a ring's step
  CommLink tree{};         // of one GPU and (gb_s) of the node: a tree's step
  double switch_gb_s = 0;  // bus bandwidth where the switch adds up (NVLink SHARP); 0: it does not
  CommLink between{};      // of one node, a ring's step
  double tree_between_us = 0;
  double begin_us = 0;  // of every collective
};

enum class CommAlgorithm : u8 { ring, tree, hierarchical, in_switch };
const char* to_string(CommAlgorithm a);

// Microseconds of one all-reduce of `bytes` on each of `gpus` GPUs, in whole nodes or inside one.
// Throws UsageError for gpus < 1 and for parts of nodes beyond the first. 1 GPU: 0.
//
// ring: one ring through all GPUs, a card of the node to each turn of it: every byte passes a link
//   2 (n-1)/n times; 2 (n-1) steps of which 2 (m-1) are between the m nodes.
// tree: chains inside nodes, two binary trees over nodes, each with half of the bytes (Sanders,
//   Speck, Traff 2009, as in NCCL 2.4): 2 bytes each way (1 with two nodes), 2 log2(m) steps.
// hierarchical: reduce-scatter inside, a ring between nodes for each GPU's part, all-gather
//   inside, one after the other (the 2D torus of Mikami et al. 2018).
// in_switch: the switch adds up inside, trees between, both at once.
double all_reduce_us(double bytes, int gpus, const Cluster& c, CommAlgorithm a);
// The cheapest of those that the cluster has.
CommAlgorithm best_algorithm(double bytes, int gpus, const Cluster& c);
double best_all_reduce_us(double bytes, int gpus, const Cluster& c);
// bytes / us, times 2 (n-1)/n: what nccl-tests calls busbw. GB/s.
double bus_gb_s(double bytes, double us, int gpus);

// Gradients in the order in which a backward makes them.
struct GradientPart {
  double parameters = 0;
  double from = 0, to = 0;  // of the backward, 0 to 1; they come evenly in between
};
struct GradientBucket {
  double bytes = 0;
  double ready = 0;  // of the backward
};
// Cut where `most` bytes are reached; the rest is the last one.
std::vector<GradientBucket> cut_buckets(const std::vector<GradientPart>& parts,
                                        double bytes_a_parameter, double most);

struct Overlapped {
  double communication_us = 0;  // of all buckets, were nothing else to do
  double exposed_us = 0;        // after the end of the backward
};
// Buckets go one after the other, each when it is ready. That communication slows computation is
// not in it.
Overlapped overlap(const std::vector<GradientBucket>& buckets, double backward_us, int gpus,
                   const Cluster& c);

}  // namespace wt::tools
