// Collectives over sizes, as nccl-tests measures them: the rows of `wt bench allreduce`.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/bench/comm_world.h"
#include "warptape/bench/gpu/measure.h"

namespace wt::bench {

struct AllReduceOptions {
  WorldOptions world;
  dist::Call::Kind collective = dist::Call::Kind::all_reduce;
  std::vector<dist::Algorithm> algorithms{dist::Algorithm::automatic};
  DType dtype = DType::f32;
  i64 from = i64{1} << 10, to = i64{64} << 20, factor = 4;  // bytes
  int samples = 15;
  bool plant_error = false;  // for tests: a wrong value, which the check has to see
};

struct AllReduceRow {
  dist::Algorithm algorithm{};
  std::string backend;
  int ranks = 0;
  // Of one call: each rank's tensor, of all_gather and reduce_scatter all ranks' parts together.
  i64 bytes = 0, elements = 0;
  Timing time;                    // the slowest rank's, from a barrier on
  i64 errors = 0;                 // wrong elements, of all ranks
  double memcpy_gb_s = 0;         // bytes that each rank copies while all do, in the same run
  double algorithm_gb_s() const;  // bytes / time
  double bus_gb_s(dist::Call::Kind collective) const;
};

// What nccl-tests multiplies bytes / time with, so that it is the rate of a link whatever the
// number of ranks: all_reduce 2 (n-1)/n, reduce_scatter and all_gather (n-1)/n, broadcast 1.
double bus_factor(dist::Call::Kind collective, int ranks);

// Bytes that a size takes on all ranks of this process together.
i64 allreduce_memory(i64 bytes, int ranks);

// On every rank, each result checked and then timed; `each` is called on rank 0. Wrong results on
// any rank. Throws UsageError for options out of range, PeerFailure.
i64 measure_allreduce(const AllReduceOptions& o,
                      const std::function<void(const AllReduceRow&)>& each);

}  // namespace wt::bench
