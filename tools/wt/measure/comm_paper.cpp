#include "warptape/tools/wt/measure/comm_paper.h"

#include <cmath>
#include <cstdio>

#include "warptape/core/build_info.h"
#include "warptape/core/files/json.h"
#include "warptape/core/str.h"
#include "warptape/tools/wt/measure/comm_networks.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {
namespace {

constexpr double kBucket = 25 << 20;
constexpr int kGpus[] = {8, 64, 1024};

// NCCL's own figures of its LL128 protocol (src/graph/tuning.cc), the same for every cluster: a
// step of a ring over NVLink and over a network, of a tree, and what a collective begins with.
Cluster cluster(const char* name, int gpus_a_node, double inside_gb_s, double between_gb_s) {
  return {.name = name,
          .gpus_a_node = gpus_a_node,
          .inside = {1.9, inside_gb_s},
          .tree = {1.2, 0.9 * inside_gb_s},
          .between = {4.0, between_gb_s},
          .tree_between_us = 8.5,
          .begin_us = 10};
}

// A 100 Gb/s card carries 12 GB/s in collectives.
constexpr double card(double gbit_s) { return gbit_s * 0.12; }

Cluster make_h100() {
  Cluster c = cluster("8 H100 a node, NVLink 4, 8 x 400 Gb/s InfiniBand", 8, 370, 8 * 47);
  c.switch_gb_s = 480;
  return c;
}
Cluster a100() { return cluster("8 A100, 4 x 200 Gb/s", 8, 235, 4 * card(200)); }
Cluster h20() {
  Cluster c = make_h100();
  c.name = "8 H20, 8 x 400 Gb/s";
  return c;
}
Cluster big_basin() { return cluster("8 P100, 50 Gb/s Ethernet", 8, 80, card(50)); }
Cluster mn1() { return cluster("8 P100, 56 Gb/s InfiniBand", 8, 10, card(56)); }
Cluster pascal_roce() { return cluster("4 Pascal, 25 Gb/s RoCE", 4, 10, card(25)); }

double step_of(const PaperNetwork& n, int gpus, const Cluster& c, double bytes, bool overlapped) {
  const Overlapped o =
      overlap(cut_buckets(n.parts, bytes, kBucket), n.step_ms * 1e3 * n.backward, gpus, c);
  return n.step_ms + (overlapped ? o.exposed_us : o.communication_us) * 1e-3;
}

// Published: the rate of a GPU among `gpus`, as a part of that among `base`.
PaperCheck scaling(std::string what, std::string source, double published, const PaperNetwork& n,
                   double bytes, const Cluster& c, int base, int gpus) {
  const auto part = [&](bool overlapped) {
    return step_of(n, base, c, bytes, overlapped) / step_of(n, gpus, c, bytes, overlapped);
  };
  return {std::move(what), std::move(source), "of linear", published, part(true), part(false)};
}

// Of `base` GPUs with another batch a GPU than `gpus` have, all of them one batch.
PaperCheck speedrun() {
  PaperNetwork two = gpt2_small(), eight = gpt2_small();
  two.step_ms = 112, eight.step_ms = 28;
  const Cluster& c = h100_cluster();
  const auto part = [&](bool overlapped) {
    return step_of(two, 16, c, 2, overlapped) / (4 * step_of(eight, 64, c, 2, overlapped));
  };
  return {"nanoGPT speed run, 2 to 8 nodes of 8 H100, one batch",
          "multinode-training-guide#27",
          "of linear",
          115 / (4 * 30.0),
          part(true),
          part(false)};
}

std::string table_line(const PaperRow& r) {
  char line[160];
  std::snprintf(line, sizeof line, "%-26s %-5s %6d  %-12s %10.3f %10.3f %10.1f %%\n",
                r.network.c_str(), r.dtype.c_str(), r.gpus, to_string(r.algorithm),
                r.time.communication_us * 1e-3, r.time.exposed_us * 1e-3, 100 * r.efficiency);
  return line;
}

// The published figure minus the model's, in points of per cent.
int points_off(double modelled, double published) {
  return int(std::lround(100 * (modelled - published)));
}

std::string check_lines(const PaperCheck& c) {
  const bool alone = c.without_overlap == 0;
  char line[200];
  if (alone)
    std::snprintf(line, sizeof line, "  published %.4g %s, modelled %.4g: %+.0f %%\n", c.published,
                  c.unit.c_str(), c.modelled, 100 * (c.modelled / c.published - 1));
  else
    std::snprintf(line, sizeof line,
                  "  published %.1f %%, modelled %.1f %% (%+d points), were nothing hidden %.1f %% "
                  "(%+d)\n",
                  100 * c.published, 100 * c.modelled, points_off(c.modelled, c.published),
                  100 * c.without_overlap, points_off(c.without_overlap, c.published));
  return c.what + " [" + c.source + "]\n" + line;
}

std::string size_text(double bytes) { return bytes_text(i64(bytes)); }

// All algorithms for one size and number of GPUs.
std::string algorithm_line(double bytes, int gpus, const Cluster& c) {
  char cell[40];
  std::snprintf(cell, sizeof cell, "%-9s %6d", size_text(bytes).c_str(), gpus);
  std::string line = cell;
  for (const CommAlgorithm a : {CommAlgorithm::ring, CommAlgorithm::tree,
                                CommAlgorithm::hierarchical, CommAlgorithm::in_switch}) {
    const double us = all_reduce_us(bytes, gpus, c, a);
    std::snprintf(cell, sizeof cell, " %10.1f %8.2f", us, bus_gb_s(bytes, us, gpus));
    line += cell;
  }
  return line + "\n";
}

std::string algorithms_text(const Cluster& c) {
  std::string text = "one all-reduce: microseconds and bus bandwidth, GB/s\n\n";
  char line[160];
  std::snprintf(line, sizeof line, "%-9s %6s %19s %19s %19s %19s\n", "bytes", "GPUs", "ring",
                "tree", "hierarchical", "in switch");
  text += line;
  for (const double bytes : {1024.0, 1048576.0, kBucket, 1073741824.0})
    for (const int gpus : kGpus) text += algorithm_line(bytes, gpus, c);
  return text;
}

}  // namespace

const Cluster& h100_cluster() {
  static const Cluster c = make_h100();
  return c;
}

std::vector<PaperRow> paper_rows() {
  const Cluster& c = h100_cluster();
  std::vector<PaperRow> rows;
  for (const PaperNetwork& n : {resnet50(256), resnet50(32), gpt2_small(), gpt2_xl()})
    for (const double bytes : {4.0, 2.0})
      for (const int gpus : kGpus) {
        const auto buckets = cut_buckets(n.parts, bytes, kBucket);
        const Overlapped o = overlap(buckets, n.step_ms * 1e3 * n.backward, gpus, c);
        rows.push_back({n.name, bytes == 4 ? "f32" : "bf16", gpus, best_algorithm(kBucket, gpus, c),
                        o, n.step_ms / (n.step_ms + o.exposed_us * 1e-3)});
      }
  return rows;
}

std::vector<PaperCheck> paper_checks() {
  std::vector<PaperCheck> checks;
  const auto bus = [](double bytes, int gpus, const Cluster& c) {
    return bus_gb_s(bytes, best_all_reduce_us(bytes, gpus, c), gpus);
  };
  checks.push_back({"8 H200, 4 GiB: bus bandwidth (nearly an input of the model)", "nccl-tests#272",
                    "GB/s", 475, bus(4294967296.0, 8, h100_cluster())});
  checks.push_back({"24 A100, 4 HDR cards a node, 132 MB: bus bandwidth", "nccl-tests#119", "GB/s",
                    95.77, bus(132120584, 24, a100())});
  checks.push_back({"16 H20, 2 nodes, 1 KiB or less: time", "nccl#1244", "us", 46.5,
                    all_reduce_us(1024, 16, h20(), CommAlgorithm::in_switch)});
  PaperNetwork big_step = resnet50(32);
  big_step.step_ms = 232, big_step.backward = 120 / 232.0;
  checks.push_back(scaling("ResNet-50, 8 to 256 P100, 50 Gb/s Ethernet, f32", "arXiv:1706.02677",
                           0.90, big_step, 4, big_basin(), 8, 256));
  big_step.step_ms = 205, big_step.backward = 2.0 / 3;
  checks.push_back(scaling("ResNet-50, 1,024 P100, InfiniBand FDR (f32 gradients assumed)",
                           "arXiv:1711.04325 as in arXiv:1811.05233", 0.80, big_step, 4, mn1(), 1,
                           1024));
  checks.push_back(scaling("Inception V3, 512 Pascal, 25 Gb/s RoCE, f32", "Horovod's benchmarks",
                           0.90, inception_v3(), 4, pascal_roce(), 1, 512));
  checks.push_back(
      scaling("VGG-16, the same", "Horovod's benchmarks", 0.68, vgg16(), 4, pascal_roce(), 1, 512));
  checks.push_back(scaling("ResNet-50, 768 H100, 42 images each, beside 8 with large batches",
                           "MLPerf Training 3.0", 0.633, resnet50(42), 2, h100_cluster(), 1, 768));
  checks.push_back(speedrun());
  return checks;
}

std::string paper_text() {
  const Cluster& c = h100_cluster();
  std::string text = str("modelled, not measured: ", c.name, "; buckets of 25 MiB\n\n");
  text += algorithms_text(c) + "\ntraining, each step as long as one GPU's:\n\n";
  char line[160];
  std::snprintf(line, sizeof line, "%-26s %-5s %6s  %-12s %10s %10s %12s\n", "network, of a GPU",
                "dtype", "GPUs", "algorithm", "comm. ms", "exposed ms", "efficiency");
  text += line;
  for (const PaperRow& r : paper_rows()) text += table_line(r);
  text += "\nbeside published measurements:\n\n";
  for (const PaperCheck& k : paper_checks()) text += check_lines(k);
  return text;
}

std::string paper_json() {
  std::string lines;
  for (const PaperRow& r : paper_rows()) {
    JsonObject j;
    j.add("bench", "allreduce_paper").add("impl", "modelled").add("device", "cuda");
    j.add("shape", r.network).add("dtype", r.dtype).add_null("median_us");
    j.add("commit", build_info().commit).add("ranks", r.gpus);
    j.add("algorithm", to_string(r.algorithm));
    j.add("communication_us", r.time.communication_us).add("exposed_us", r.time.exposed_us);
    j.add("efficiency", r.efficiency);
    lines += j.str() + "\n";
  }
  return lines;
}

}  // namespace wt::tools
