// An NCCL in memory behind the table: ranks are threads of one process, each with a device of a
// FakeCuda, whose streams are stuck at a collective until every rank's has come to it. It computes
// (sums in the order of the ranks, f16 and bf16 in f32), notes the order of calls, and goes wrong
// when it is told to.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "warptape/dist/nccl/nccl_api.h"
#include "warptape/tests/support/fake_cuda.h"

namespace wt_test {

struct FakeNcclComm;
struct FakeNcclWorld;

class FakeNccl {
 public:
  explicit FakeNccl(FakeCuda& cuda);  // makes the device work by itself
  ~FakeNccl();
  static const wt::dist::NcclApi& api();
  // What the library file has under a name; null: nothing.
  static void* symbol(const char* name);

  int version = 22809;
  int init_polls = 2;        // kNcclInProgress so often, once all ranks are there
  int call_polls = 0;        // the same of every call
  bool init_hangs = false;   // for ever
  bool calls_hang = false;   // answer kNcclInProgress for ever
  bool abort_hangs = false;  // until the fake ends; so do the two others
  bool destroy_hangs = false;
  bool finalize_hangs = false;
  // Collectives, sends and receives are numbered from 0 on each communicator: with this one comes
  // an asynchronous error, and its kernel is stuck.
  int async_error_at = -1;
  int async_error_rank = -1;  // on one rank only; -1: on all
  // `name` ("all_reduce") returns the code.
  void fail(const std::string& name, int code) { failing_[name] = code; }

  // "all_reduce f32 3 sum", "record e2 s1", of the calling thread; forgets them.
  std::vector<std::string> take_journal();
  int calls(const std::string& name) const;
  int live_comms() const;
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  friend struct FakeNcclCalls;
  friend struct FakeNcclComm;
  int enter(const char* name);
  void note(const std::string& text) { journal_[std::this_thread::get_id()].push_back(text); }

  FakeCuda& cuda_;
  int ids_ = 0;
  std::map<std::string, std::shared_ptr<FakeNcclWorld>> worlds_;  // by unique id
  std::map<void*, std::shared_ptr<FakeNcclComm>> comms_;
  std::map<std::string, int> failing_, calls_;
  std::map<std::thread::id, std::vector<std::string>> journal_;
  std::vector<std::string> violations_;
  std::shared_ptr<struct FakeNcclGate> gate_;  // where threads that hang are held
};

}  // namespace wt_test
