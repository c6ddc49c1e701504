// wt bench allreduce --paper: data parallelism on 8, 64 and 1,024 GPUs by the model of
// comm_model.h, and published measurements beside what it says of them. The same text every time;
// docs/distributed_model.md has it, and where each constant comes from.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/measure/comm_model.h"

namespace wt::tools {

struct PaperNetwork {
  std::string name;           // with the batch of one GPU
  double step_ms = 0;         // of one GPU alone
  double backward = 2.0 / 3;  // its part of the step
  std::vector<GradientPart> parts;
  double parameters() const;
};

struct PaperRow {
  std::string network, dtype;
  int gpus = 0;
  CommAlgorithm algorithm{};  // of a full bucket
  Overlapped time;
  double efficiency = 0;  // of the same step without communication
};
// Of networks, f32 and bf16 gradients, GPUs, in this order: buckets of 25 MiB.
std::vector<PaperRow> paper_rows();

// A published measurement of one all-reduce, or of scaling, and what the model says.
struct PaperCheck {
  std::string what, source, unit;
  double published = 0;
  double modelled = 0;
  double without_overlap = 0;  // 0: an all-reduce alone
};
std::vector<PaperCheck> paper_checks();

const Cluster& h100_cluster();
std::string paper_text();
// One JSON object a line, "impl":"modelled".
std::string paper_json();

}  // namespace wt::tools
