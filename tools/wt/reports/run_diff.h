// Two recordings of wt train --log-tensors beside each other: where they first part, and how the
// difference grows from there. docs/run_diff.md says what the numbers mean.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "warptape/autograd/recording.h"
#include "warptape/tools/wt/reports/run_alignment.h"

namespace wt::tools {

// How far two results of one computation in this dtype may lie apart, relative to the larger
// 2-norm: some hundred roundings of f32 and f64, some ten of 16 bits. 0 for integers.
double bound_of(DType t);
// The larger of two dtypes' rounding; integers round nothing.
DType coarser(DType a, DType b);

// A result or gradient in one of the runs.
struct DiffSide {
  std::string line, kernel;
  DType dtype = DType::f32;
  std::vector<i64> shape;
  record::Digest digest;
};
// The same one in both.
struct DiffPlace {
  i64 step = 0;
  i64 place = 0;       // of run A's results in the step, from 1
  std::string what;    // "gradient of input 1 of linear"
  std::string module;  // "" at top level
  bool backward = false;
  DiffSide a, b;
  bool same_bits = true;
  bool comparable = true;  // equal shapes
  // |a - b| / max(|a|, |b|) by the sketches; infinity where other elements are finite.
  double relative = 0;
  // Of the coarsest dtype that either run has computed in so far: what came out of f16 is no better
  // than f16 in whatever dtype it is kept.
  DType judged_as = DType::f32;
  double bound = 0;
  bool beyond() const { return !comparable || relative > bound; }
};

struct DiffStep {
  i64 step = 0, aligned = 0, only_a = 0, only_b = 0;
  i64 other_bits = 0, beyond = 0;               // of those aligned
  double forward = 0, backward = 0, noted = 0;  // the largest relative differences
};

struct RunDiff {
  std::optional<DiffPlace> first_bits, first_beyond;
  // From the first that differs at all on, in its step: each that is further apart than all before.
  std::vector<DiffPlace> growth;
  // Of that step: place and relative difference, of what differs.
  std::vector<std::pair<double, double>> forward, backward;
  std::vector<DiffStep> steps;  // that both have
  i64 steps_only_a = 0, steps_only_b = 0;
  // Of the first common step: how many results have a counterpart, and where that ends.
  i64 results_a = 0, results_b = 0, aligned = 0;
  std::string ends;              // empty: it reaches to the end
  bool related = true;           // at least half of the shorter step has a counterpart
  bool partial_batches = false;  // the runs have other numbers of ranks
  bool cut_a = false, cut_b = false;
};

struct RunDiffOptions {
  double bound = 1;  // times the dtype's bound
};

// DataError for damage in either file.
RunDiff diff_runs(record::RecordingFile& a, record::RecordingFile& b, const RunDiffOptions& o = {});

}  // namespace wt::tools
