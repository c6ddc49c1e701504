// The ranks that `wt bench allreduce` and `overlap` run on: the processes of mpirun or srun where
// there are some, else threads of this one.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "warptape/dist/local.h"

namespace wt::bench {

struct WorldOptions {
  int ranks = 4;  // threads; of processes the launcher has decided
  dist::Algorithm algorithm = dist::Algorithm::automatic;
  // The model of the wires between threads (dist::LocalOptions). 0 GB/s: as fast as memory is.
  double latency_us = 0, gb_s = 0;
  std::shared_ptr<dist::Timeline> timeline = nullptr;  // of threads
};

// Were several processes launched?
bool ranks_are_processes();
// fn(communicator of the rank), on every rank of this process. What the first one to fail throws.
void on_each_rank(const WorldOptions& o, const std::function<void(dist::Communicator&)>& fn);
// The same on threads, whoever launched this process.
void on_each_thread(const WorldOptions& o, const std::function<void(dist::Communicator&)>& fn);
// "5 us a message, 1 GB/s a link", "none: as fast as memory is"
std::string wires_text(const WorldOptions& o);

}  // namespace wt::bench
