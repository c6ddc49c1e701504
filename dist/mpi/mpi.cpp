#include "warptape/dist/mpi.h"

#include "warptape/config.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/frame.h"

#if WARPTAPE_HAS_MPI
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>

#include "warptape/core/async_copy.h"
#include "warptape/core/stream.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/dist/captured_call.h"
#include "warptape/dist/launcher.h"
#include "warptape/dist/mpi/mpi_worker.h"

namespace wt::dist {

namespace {

class Begun : public Work::Pending {
 public:
  Begun(std::shared_ptr<MpiWorker> w, std::shared_ptr<MpiJob> j)
      : worker_(std::move(w)), job_(std::move(j)) {}
  bool done() override { return worker_->done(*job_); }
  void wait() override {
    refuse_wait_in_graph();
    worker_->wait(*job_);
  }

 private:
  std::shared_ptr<MpiWorker> worker_;
  std::shared_ptr<MpiJob> job_;
};

// Nothing that is queued for the tensor's device, or copies it, is under way.
void settle_tensor(const Tensor& t) {
  if (!t.defined()) return;
  wt::detail::wait_for_host_access(t.impl());
  if (const StreamBackend* b = stream_backend(t.device()); b && b->stream_wait)
    b->stream_wait(t.device(), wt::detail::native_stream(t.device()));
}

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(std::unique_ptr<MpiLink> link, std::unique_ptr<Pulse> pulse, MpiOptions options)
      : Communicator(link->rank(), link->size()),
        options_(std::move(options)),
        worker_(std::make_shared<MpiWorker>(std::move(link), std::move(pulse))) {
    set_deadline(options_.deadline);
    if (worker_->pulse()) MpiWorker::start(worker_);
  }
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > unwinding_ && !worker_->failure())
      abort("ended by an exception");
    const bool ended = worker_->end();
    if (worker_->failure()) abandon_mpi();
    if (Pulse* p = worker_->pulse()) p->farewell();
    // A thread that is stuck in MPI keeps all that it uses, for good.
    if (!ended) new std::shared_ptr<MpiWorker>(worker_);
  }

  const char* backend() const override { return "mpi"; }
  bool takes(Device d) const override {
    return d.kind == DeviceKind::cpu || d.kind == DeviceKind::simt;
  }
  Communicator& control() override { return *this; }
  void at_step(i64 step) override {
    if (Pulse* p = worker_->pulse()) p->at_step(step);
  }
  void abort(const std::string& reason) noexcept override {
    if (Pulse* p = worker_->pulse()) p->fail(rank(), -1, "gave up: " + reason);
  }
  bool failed() const noexcept override { return worker_->pulse() && worker_->pulse()->failed(); }
  bool captures() const override { return true; }
  Work start(const Call& call) override {
    if (const auto f = worker_->failure()) throw failure_of(*f, call);
    if (goes_into_graph(call)) return record_call(*this, call);
    settle_tensor(call.in);
    settle_tensor(call.out);
    return Work(std::make_shared<Begun>(worker_, worker_->begin(call, deadline())));
  }
  std::unique_ptr<Communicator> make_group(const Group& g) override;

 private:
  const MpiOptions options_;
  const std::shared_ptr<MpiWorker> worker_;
  const int unwinding_ = std::uncaught_exceptions();
};

// What ranks tell each other before there is a pulse.
struct Introduction {
  char host[64] = {};
  char network[64] = {};
};

std::string chosen_interfaces(const MpiOptions& options) {
  if (!options.interfaces.empty()) return options.interfaces;
  const char* const told = std::getenv("OMPI_MCA_btl_tcp_if_include");
  return told ? told : "";
}

std::vector<std::string> addresses_of(const std::vector<Introduction>& ranks,
                                      const MpiOptions& options) {
  bool apart = !options.interfaces.empty();
  for (const Introduction& r : ranks)
    apart = apart || std::memcmp(r.network, ranks[0].network, sizeof r.network) != 0;
  std::vector<std::string> found;
  if (apart) found = host_addresses(chosen_interfaces(options));
  if (apart && found.empty())
    throw UsageError(str("[mpi_world] rank 0 has no address that other hosts reach: interfaces '",
                         chosen_interfaces(options), "' of ", host_name()));
  if (!apart) found = {"127.0.0.1"};
  return found;
}

[[noreturn]] void absent(int rank, const std::vector<std::string>& hosts, const std::string& what) {
  const std::string& host = hosts[size_t(rank)];
  throw PeerFailure(str("[mpi_world] rank ", rank, " on ", host, " ", what), rank, host, -1, what);
}

std::unique_ptr<Pulse> make_pulse(MpiLink& link, const MpiOptions& options,
                                  PulseClock::time_point until) {
  Introduction mine;
  std::strncpy(mine.host, host_name().c_str(), sizeof mine.host - 1);
  std::strncpy(mine.network, network_identity().c_str(), sizeof mine.network - 1);
  std::vector<Introduction> ranks(static_cast<size_t>(link.size()));
  link.gather(&mine, ranks.data(), int(sizeof mine));
  std::vector<std::string> hosts;
  for (const Introduction& r : ranks) hosts.emplace_back(r.host, ::strnlen(r.host, sizeof r.host));

  std::vector<Socket> links;
  if (link.rank() == 0) {
    PulseDoor door(addresses_of(ranks, options));
    PulseInvite invite = door.invite();
    link.share(&invite, int(sizeof invite));
    links = door.admit(link.size(), until);
    for (size_t r = 1; r < links.size(); ++r)
      if (!links[r]) absent(int(r), hosts, "did not connect to the pulse of rank 0");
  } else {
    PulseInvite invite;
    link.share(&invite, int(sizeof invite));
    std::string why;
    links.push_back(knock(invite, link.rank(), until, why));
    if (!links[0]) absent(0, hosts, "did not answer a connection of the pulse: " + why);
  }
  return std::make_unique<Pulse>(link.rank(), std::move(hosts), std::move(links), options.deadline);
}

// What `link` makes, with a pulse of its own.
std::unique_ptr<Communicator> connect(
    const char* name, const MpiOptions& options,
    const std::function<std::unique_ptr<MpiLink>(PulseClock::time_point until)>& make_link) {
  const auto until = PulseClock::now() + options.deadline;
  try {
    auto link = make_link(until);
    std::unique_ptr<Pulse> pulse;
    if (link->size() > 1) pulse = make_pulse(*link, options, until);
    return std::make_unique<MpiCommunicator>(std::move(link), std::move(pulse), options);
  } catch (const Stopped& s) {
    abandon_mpi();
    const std::string reason =
        s.text.empty() ? str("ranks did not come within ", options.deadline.count(), " ms")
                       : s.text;
    throw PeerFailure(str("[", name, "] ", reason), -1, "", -1, reason);
  }
}

std::unique_ptr<Communicator> MpiCommunicator::make_group(const Group& g) {
  MpiOptions options = options_;
  options.deadline = deadline();
  return connect("split", options, [&](PulseClock::time_point until) {
    return std::make_unique<MpiLink>(worker_->link(), g.members, int(g.number), until);
  });
}

}  // namespace

std::unique_ptr<Communicator> mpi_world(MpiOptions options, Frame at) {
  const FrameScope frame(at);
  if (options.deadline.count() < 1)
    throw UsageError(str("[mpi_world] the deadline must be at least 1 ms, got ",
                         options.deadline.count(), " ms"));
  start_mpi();
  return connect("mpi_world", options,
                 [](PulseClock::time_point until) { return std::make_unique<MpiLink>(until); });
}

std::string mpi_library() { return mpi_words(); }

}  // namespace wt::dist

#else

namespace wt::dist {

std::unique_ptr<Communicator> mpi_world(MpiOptions, Frame) {
  throw NotAvailable(str("[mpi_world] this build has no MPI: ", why_without("mpi")));
}

std::string mpi_library() { return {}; }

}  // namespace wt::dist
#endif
