// The paper model of all-reduce against figures made by hand, and what `wt bench allreduce --paper`
// claims of it.
#include "warptape/tools/wt/measure/comm_model.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tools/wt/measure/comm_networks.h"
#include "warptape/tools/wt/measure/comm_paper.h"

using namespace wt;
using namespace wt::tools;

namespace {

using A = CommAlgorithm;

// 100 GB/s inside, 50 between; a step is 1 us inside, 10 between, of a tree 2 and 20.
Cluster small_cluster() {
  Cluster c;
  c.name = "test";
  c.gpus_a_node = 4;
  c.inside = {1, 100};
  c.tree = {2, 80};
  c.between = {10, 50};
  c.tree_between_us = 20;
  c.begin_us = 3;
  return c;
}
// The same without latencies.
Cluster wide_cluster() {
  Cluster c = small_cluster();
  c.inside.us = c.tree.us = c.between.us = c.tree_between_us = c.begin_us = 0;
  return c;
}

// But for rounding.
bool same(double a, double b) {
  UNSCOPED_INFO(a << " and " << b);
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(b), 1.0);
}

}  // namespace

TEST_CASE("comm_model: bytes over the links of each algorithm") {
  const Cluster c = wide_cluster();
  const double bytes = 8e6;
  // A ring: 2 (n-1)/n over the slowest link.
  REQUIRE(same(all_reduce_us(bytes, 4, c, A::ring), 1.5 * 80));
  REQUIRE(same(all_reduce_us(bytes, 16, c, A::ring), 1.875 * 160));
  // Whatever the number of ranks, its bus bandwidth is the link's.
  for (const int gpus : {2, 4})
    REQUIRE(same(bus_gb_s(bytes, all_reduce_us(bytes, gpus, c, A::ring), gpus), 100));
  for (const int gpus : {8, 16, 1024})
    REQUIRE(same(bus_gb_s(bytes, all_reduce_us(bytes, gpus, c, A::ring), gpus), 50));
  // Trees: twice, but once between two nodes (2 x 100 us inside are then more).
  REQUIRE(same(all_reduce_us(bytes, 16, c, A::tree), 2 * 160));
  REQUIRE(same(all_reduce_us(bytes, 8, c, A::tree), 2 * 100));
  // Inside, then between: 1.5 x 80 and 2 x 3/4 x 160.
  REQUIRE(same(all_reduce_us(bytes, 16, c, A::hierarchical), 120 + 240));
}

TEST_CASE("comm_model: steps of each algorithm") {
  const Cluster c = small_cluster();
  // 4 nodes of 4: 30 steps round the ring, of which 6 are between nodes.
  REQUIRE(all_reduce_us(0, 16, c, A::ring) == 3 + 6 * 10 + 24 * 1);
  REQUIRE(all_reduce_us(0, 16, c, A::tree) == 3 + 2 * 3 * 2 + 2 * 2 * 20);
  REQUIRE(all_reduce_us(0, 16, c, A::hierarchical) == 3 + 6 * 1 + 6 * 10);
  // 5 nodes need a tree of 3 levels.
  REQUIRE(all_reduce_us(0, 20, c, A::tree) == 3 + 2 * 3 * 2 + 2 * 3 * 20);
  REQUIRE(all_reduce_us(0, 4, c, A::ring) == 3 + 6);
  REQUIRE(all_reduce_us(1e9, 1, c, A::ring) == 0);
}

TEST_CASE("comm_model: the cheapest one changes with size and GPUs") {
  Cluster c = small_cluster();
  REQUIRE(best_algorithm(1e3, 64, c) == A::tree);
  REQUIRE(best_algorithm(1e9, 4, c) == A::ring);
  REQUIRE(best_all_reduce_us(1e3, 64, c) == all_reduce_us(1e3, 64, c, A::tree));
  c.switch_gb_s = 200;
  REQUIRE(best_algorithm(1e9, 4, c) == A::in_switch);
  // Two nodes: 2 x 3/4 x 8e6 bytes at 200 GB/s are less than 8e6 at 50.
  Cluster wide = wide_cluster();
  wide.switch_gb_s = 200;
  REQUIRE(same(all_reduce_us(8e6, 8, wide, A::in_switch), 160));
}

TEST_CASE("comm_model: GPUs that are no whole nodes, switches that do not add up") {
  const Cluster c = small_cluster();
  REQUIRE_THROWS_AS(all_reduce_us(1, 0, c, A::ring), UsageError);
  REQUIRE(message_of([&] { all_reduce_us(1, 6, c, A::ring); }) ==
          "UsageError: [all_reduce_us] 6 GPUs in nodes of 4");
  REQUIRE_THROWS_AS(all_reduce_us(1, 4, c, A::in_switch), UsageError);
  REQUIRE(all_reduce_us(0, 3, c, A::ring) == 3 + 4);  // a part of one node is one
}

TEST_CASE("comm_model: buckets are cut where they are full") {
  const std::vector<GradientPart> parts = {{100, 0, 0.5}, {50, 0.5, 1}};
  const auto b = cut_buckets(parts, 4, 160);
  REQUIRE(b.size() == 4);
  REQUIRE(b[0].bytes == 160);
  REQUIRE(same(b[0].ready, 0.2));
  REQUIRE(same(b[1].ready, 0.4));
  REQUIRE(same(b[2].ready, 0.7));  // 80 of the first part, 80 of 200
  REQUIRE(b[3].bytes == 120);
  REQUIRE(b[3].ready == 1);
  REQUIRE(cut_buckets({}, 4, 160).empty());
  REQUIRE(cut_buckets({{0, 0, 1}}, 4, 160).empty());
  REQUIRE(cut_buckets(parts, 4, 1e9).size() == 1);
  REQUIRE_THROWS_AS(cut_buckets(parts, 4, 0), UsageError);
}

TEST_CASE("comm_model: what a backward does not hide") {
  const Cluster c = wide_cluster();  // 4 GPUs: 15 us a MB
  const auto of = [&](std::vector<GradientBucket> b) { return overlap(b, 100, 4, c); };
  REQUIRE(same(of({{1e6, 1}}).exposed_us, 15));
  REQUIRE(of({{1e6, 0.5}}).exposed_us == 0);
  // The second waits for the first: 90 + 15 + 15 - 100.
  const Overlapped o = of({{1e6, 0.9}, {1e6, 0.95}});
  REQUIRE(same(o.exposed_us, 20));
  REQUIRE(same(o.communication_us, 30));
  // More communication than backward: all of it but what fits.
  REQUIRE(same(of({{8e6, 0.2}, {1e6, 1}}).exposed_us, 20 + 120 + 15 - 100));
  REQUIRE(of({}).exposed_us == 0);
}

TEST_CASE("comm_paper: the networks have the parameters they are known by") {
  REQUIRE(resnet50(256).parameters() == 25557032);
  REQUIRE(gpt2_small().parameters() == 124475904);  // vocabulary padded to 50,304
  REQUIRE(gpt2_xl().parameters() == 1557686400);
  REQUIRE(vgg16().parameters() == 138357544);
  for (const PaperNetwork& n : {resnet50(32), gpt2_small(), gpt2_xl(), inception_v3(), vgg16()}) {
    double at = 0;
    for (const GradientPart& p : n.parts) {
      REQUIRE(p.from >= at);
      REQUIRE(p.to >= p.from);
      at = p.to;
    }
    REQUIRE(at == 1);
  }
}

TEST_CASE("comm_paper: more GPUs take longer, bf16 half of f32's bytes") {
  const auto rows = paper_rows();
  REQUIRE(rows.size() == 4 * 2 * 3);
  for (size_t i = 0; i < rows.size(); ++i) {
    const PaperRow& r = rows[i];
    REQUIRE(r.time.exposed_us <= r.time.communication_us);
    REQUIRE(r.efficiency > 0.5);
    REQUIRE(r.efficiency < 1);
    if (r.gpus != 8) REQUIRE(r.time.communication_us > rows[i - 1].time.communication_us);
    if (r.dtype == "bf16") {
      const double f32 = rows[i - 3].time.communication_us;
      REQUIRE(r.time.communication_us < 0.6 * f32);
      REQUIRE(r.time.communication_us > 0.49 * f32);
    }
  }
}

TEST_CASE("comm_paper: its checks say how far it is off") {
  const std::string text = paper_text();
  REQUIRE(text.starts_with("modelled, not measured"));
  for (const PaperCheck& k : paper_checks()) {
    REQUIRE(k.published > 0);
    REQUIRE(k.modelled > 0);
    REQUIRE(text.find("[" + k.source + "]") != std::string::npos);
    if (k.without_overlap > 0) REQUIRE(k.without_overlap < k.modelled);
  }
}
