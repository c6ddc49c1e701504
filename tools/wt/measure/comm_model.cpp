#include "warptape/tools/wt/measure/comm_model.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "warptape/core/error.h"

namespace wt::tools {
namespace {

constexpr CommAlgorithm kAlgorithms[] = {CommAlgorithm::ring, CommAlgorithm::tree,
                                         CommAlgorithm::hierarchical, CommAlgorithm::in_switch};

double us_of(double bytes, double gb_s) { return gb_s > 0 ? bytes / gb_s * 1e-3 : 0; }

// Steps from the leaves of a balanced binary tree to its root.
int tree_steps(int nodes) { return int(std::bit_width(unsigned(nodes - 1))); }

// How often each byte leaves a node.
double tree_times(int nodes) { return nodes < 2 ? 0 : nodes == 2 ? 1 : 2; }

double ring_us(double bytes, int gpus, int nodes, const Cluster& c) {
  const double outside = 2.0 * (nodes - 1), inside = 2.0 * (gpus - 1) - outside;
  const double bus = nodes > 1 ? std::min(c.inside.gb_s, c.between.gb_s) : c.inside.gb_s;
  return outside * c.between.us + inside * c.inside.us +
         us_of(2.0 * (gpus - 1) / gpus * bytes, bus);
}

double tree_us(double bytes, int gpus, int nodes, const Cluster& c) {
  const int local = gpus / nodes;
  const double steps = 2.0 * (local - 1) * c.tree.us + 2.0 * tree_steps(nodes) * c.tree_between_us;
  const double inside = us_of(2 * bytes, c.tree.gb_s);
  return steps + std::max(inside, us_of(tree_times(nodes) * bytes, c.between.gb_s));
}

double hierarchical_us(double bytes, int gpus, int nodes, const Cluster& c) {
  const int local = gpus / nodes;
  return ring_us(bytes, local, 1, c) + 2.0 * (nodes - 1) * c.between.us +
         us_of(2.0 * (nodes - 1) / nodes * bytes, c.between.gb_s);
}

double in_switch_us(double bytes, int gpus, int nodes, const Cluster& c) {
  const int local = gpus / nodes;
  const double inside = us_of(2.0 * (local - 1) / local * bytes, c.switch_gb_s);
  return 2 * c.tree.us + 2.0 * tree_steps(nodes) * c.tree_between_us +
         std::max(inside, us_of(tree_times(nodes) * bytes, c.between.gb_s));
}

bool has(const Cluster& c, CommAlgorithm a) {
  return a != CommAlgorithm::in_switch || c.switch_gb_s > 0;
}

}  // namespace

const char* to_string(CommAlgorithm a) {
  switch (a) {
    case CommAlgorithm::ring:
      return "ring";
    case CommAlgorithm::tree:
      return "tree";
    case CommAlgorithm::hierarchical:
      return "hierarchical";
    case CommAlgorithm::in_switch:
      return "in switch";
  }
  return "?";
}

double all_reduce_us(double bytes, int gpus, const Cluster& c, CommAlgorithm a) {
  if (gpus < 1 || (gpus > c.gpus_a_node && gpus % c.gpus_a_node != 0))
    throw UsageError(str("[all_reduce_us] ", gpus, " GPUs in nodes of ", c.gpus_a_node));
  if (!has(c, a))
    throw UsageError(str("[all_reduce_us] no switch of ", c.name, " adds up: no \"in switch\""));
  if (gpus == 1) return 0;
  const int nodes = std::max(1, gpus / c.gpus_a_node);
  switch (a) {
    case CommAlgorithm::ring:
      return c.begin_us + ring_us(bytes, gpus, nodes, c);
    case CommAlgorithm::tree:
      return c.begin_us + tree_us(bytes, gpus, nodes, c);
    case CommAlgorithm::hierarchical:
      return c.begin_us + hierarchical_us(bytes, gpus, nodes, c);
    case CommAlgorithm::in_switch:
      return c.begin_us + in_switch_us(bytes, gpus, nodes, c);
  }
  return 0;
}

CommAlgorithm best_algorithm(double bytes, int gpus, const Cluster& c) {
  CommAlgorithm best = CommAlgorithm::ring;
  for (const CommAlgorithm a : kAlgorithms)
    if (has(c, a) && all_reduce_us(bytes, gpus, c, a) < all_reduce_us(bytes, gpus, c, best))
      best = a;
  return best;
}

double best_all_reduce_us(double bytes, int gpus, const Cluster& c) {
  return all_reduce_us(bytes, gpus, c, best_algorithm(bytes, gpus, c));
}

double bus_gb_s(double bytes, double us, int gpus) {
  return us > 0 ? bytes / us * 1e-3 * 2.0 * (gpus - 1) / gpus : 0;
}

std::vector<GradientBucket> cut_buckets(const std::vector<GradientPart>& parts,
                                        double bytes_a_parameter, double most) {
  if (!(most > 0)) throw UsageError(str("[cut_buckets] buckets of ", most, " bytes"));
  std::vector<GradientBucket> buckets;
  GradientBucket filling;
  for (const GradientPart& p : parts) {
    const double all = p.parameters * bytes_a_parameter;
    for (double done = 0; done < all;) {
      const double took = std::min(all - done, most - filling.bytes);
      done += took;
      filling.bytes += took;
      filling.ready = p.from + (p.to - p.from) * (done / all);
      if (filling.bytes >= most) buckets.push_back(std::exchange(filling, {}));
      if (took <= 0) break;  // less than a double can tell apart
    }
  }
  if (filling.bytes > 0) buckets.push_back(filling);
  return buckets;
}

Overlapped overlap(const std::vector<GradientBucket>& buckets, double backward_us, int gpus,
                   const Cluster& c) {
  Overlapped o;
  double free_at = 0;
  for (const GradientBucket& b : buckets) {
    const double us = best_all_reduce_us(b.bytes, gpus, c);
    o.communication_us += us;
    free_at = std::max(free_at, b.ready * backward_us) + us;
  }
  o.exposed_us = std::max(0.0, free_at - backward_us);
  return o;
}

}  // namespace wt::tools
