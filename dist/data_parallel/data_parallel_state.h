// What a DataParallel holds. Internal.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "warptape/dist/data_parallel.h"
#include "warptape/dist/data_parallel/buckets.h"

namespace wt::dist {

struct DataParallel::State {
  State(const nn::ModuleBase& module, optim::Optimizer& optimizer, Communicator& c,
        const DataParallelOptions& o);

  nn::ModuleBase net;
  optim::Optimizer& opt;
  Communicator& comm;
  DataParallelOptions options;
  std::shared_ptr<ZeroShards> shards;  // of zero = 1 and 2
  detail::Buckets buckets;
  std::vector<Missing> missing;
  std::vector<char> first_reached;  // the first step's, of Unused::refuse and fixed
  bool first_step = true;
  bool alike = false;  // the error that is thrown is every rank's: nobody waits
  // Counted here: what the optimizer attempted leaves out steps that threw on this rank alone.
  i64 step = 0;
  double waited = 0;  // seconds

  // f(), whose time is that of waiting for others.
  template <class F>
  void waiting(F&& f) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  // In a scope all ranks throw, or none does.
  template <class F>
  void on_all_ranks(F&& f) {
    alike = true;
    f();
    alike = false;
  }
  // Of gradients in parts: backwards since the ranks agreed on what they have reached, and how many
  // the present step has on every rank.
  i64 rounds = 0, rounds_of_step = 0;
  void begin_backward(bool last, ReduceOp op);
  void end_rounds();
  void before_first_step();
  void check_when_due();
  // Reached by any rank; fills `missing`.
  void agree_on_reached(std::span<char> reached);
  void keep_to_first(std::span<const char> reached) const;
  void refuse_missing() const;
  std::string name_of(size_t slot) const;
  bool is_frozen(size_t slot) const;

  // Loops of the user's own (data_parallel_loops.cpp).
  enum class Kind : u8 { none, mean, weighted, outside };
  i64 no_sync = 0;
  Kind kind = Kind::none;  // of the backwards since zero_grad()
  u64 seen = 0;            // backwards of all leaves when the last one of them ended
  bool summed = false;     // their gradients are all ranks' already
  Tensor weight;           // of Loss: f64, on the model's device
  void open_window(Kind k);
  template <class F>
  void run_backward(DataParallel& self, Kind k, const Tensor& loss_weight, F&& backward);
  void finish_window(DataParallel& self);
};

}  // namespace wt::dist
