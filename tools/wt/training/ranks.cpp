#include "warptape/tools/wt/training/ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>

#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/machine/cpu_threads.h"
#include "warptape/core/warning.h"
#include "warptape/dist/init.h"
#include "warptape/dist/launcher.h"
#include "warptape/dist/nccl.h"
#include "warptape/dist/spawn.h"
#include "warptape/tools/wt/recipes/recipe_device.h"

namespace wt::tools {

namespace {

std::string prefix;

void warn_with_rank(std::string_view line) noexcept {
  std::fprintf(stderr, "%s%.*s\n", prefix.c_str(), int(line.size()), line.data());
}

// One of several processes: they share the machine's processors, unless the launcher has given each
// its own or OMP_NUM_THREADS says how many each has; and it is told whose words are whose.
void begin_process(dist::Communicator& comm) {
  const int share = int(std::thread::hardware_concurrency()) / dist::local_place(comm).size;
  if (wt::detail::threads_of_environment() == 0)
    set_num_threads(std::clamp(share, 1, wt::detail::processors()));
  if (comm.rank() == 0) return;
  prefix = str("[rank ", comm.rank(), "] ");
  set_warning_handler(warn_with_rank);
}

bool are_threads(const dist::Communicator& comm) {
  return std::strcmp(const_cast<dist::Communicator&>(comm).control().backend(), "local") == 0;
}

// f with what moves tensors of this rank's device.
int run_on_device(dist::Communicator& comm, const std::string& name,
                  const std::function<int(dist::Communicator&, Device)>& f) {
  const bool own_gpu = comm.size() > 1 && (name == "auto" || name == "cuda");
  const Device device = own_gpu ? dist::device_for_rank(comm) : device_for(name);
  if (own_gpu && name == "cuda" && device.kind != DeviceKind::cuda)
    require_available(Device::cuda());
  if (comm.takes(device)) return f(comm, device);
  const std::unique_ptr<dist::Communicator> over =
      dist::nccl_communicator(comm, device, {.deadline = comm.deadline()});
  if (comm.rank() == 0) std::fprintf(stderr, "%s\n", dist::describe_transport(*over).c_str());
  return f(*over, device);
}

}  // namespace

int run_ranks(const RankOptions& o, const std::function<int(dist::Communicator&, Device)>& f) {
  const auto deadline = std::max(std::chrono::milliseconds(1),
                                 std::chrono::milliseconds(i64(1e3 * std::min(o.deadline, 1e9))));
  if (dist::launched()) {
    const std::unique_ptr<dist::Communicator> comm = dist::init({.deadline = deadline});
    if (o.ranks > 0 && o.ranks != comm->size()) {
      comm->barrier();  // the others are to say so too, not that this one has ended
      throw UsageError(str("--ranks ", o.ranks, " beside a launcher that started ", comm->size(),
                           " processes\n  Try without --ranks"));
    }
    begin_process(*comm);
    return run_on_device(*comm, o.device, f);
  }
  int code = 0;
  const auto run_one = [&](dist::Communicator& comm) {
    const int own = run_on_device(comm, o.device, f);
    if (comm.rank() == 0) code = own;
  };
  dist::spawn(std::max(1, o.ranks), run_one, {.local = {.deadline = deadline}});
  return code;
}

bool first_of_process(const dist::Communicator& comm) {
  return comm.rank() == 0 || !are_threads(comm);
}

bool rank_0_says(dist::Communicator& comm, bool own) {
  const Tensor said = tensor(own ? 1 : 0, {.dtype = DType::i32, .device = Device::cpu()});
  comm.control().broadcast(said);
  return said.item<i32>() != 0;
}

const std::string& rank_prefix() { return prefix; }

std::string describe_ranks(const dist::Communicator& comm) {
  if (comm.size() == 1) return {};
  return str(comm.size(), " ranks, ",
             are_threads(comm) ? "threads of this process" : str("over ", comm.backend()));
}

SharedSignals::SharedSignals(dist::Communicator& comm) : comm_(comm) {
  if (first_of_process(comm)) own_.emplace();
}

int SharedSignals::signal_received() const noexcept {
  return comm_.size() == 1 ? own_->signal_received() : agreed_;
}

void SharedSignals::agree(bool done) {
  if (comm_.size() == 1) {
    done_ = done;
    return;
  }
  const i32 mine[] = {own_ ? own_->signal_received() : 0,
                      own_ && own_->take_checkpoint_request() ? 1 : 0,
                      comm_.rank() == 0 && done ? 1 : 0};
  const Tensor all = tensor(std::span<const i32>(mine), {.device = Device::cpu()});
  comm_.control().all_reduce(all, dist::ReduceOp::max);
  const std::vector<i32> agreed = all.to_vector<i32>();
  if (agreed_ == 0) agreed_ = agreed[0];
  checkpoint_ = checkpoint_ || agreed[1] != 0;
  done_ = agreed[2] != 0;
}

bool SharedSignals::take_checkpoint_request() noexcept {
  if (comm_.size() == 1) return own_->take_checkpoint_request();
  return std::exchange(checkpoint_, false);
}

}  // namespace wt::tools
