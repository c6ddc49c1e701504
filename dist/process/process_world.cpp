#include "warptape/dist/process_world.h"

#include <cstring>
#include <exception>

#include "warptape/core/async_copy.h"
#include "warptape/core/error.h"
#include "warptape/core/frame.h"
#include "warptape/core/mode.h"
#include "warptape/core/stream.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/dist/captured_call.h"
#include "warptape/dist/launcher.h"
#include "warptape/dist/process/link_worker.h"

namespace wt::dist {

namespace {

class Begun : public Work::Pending {
 public:
  Begun(std::shared_ptr<LinkWorker> w, std::shared_ptr<LinkJob> j)
      : worker_(std::move(w)), job_(std::move(j)) {}
  bool done() override { return worker_->done(*job_); }
  void wait() override {
    refuse_wait_in_graph();
    worker_->wait(*job_);
  }

 private:
  std::shared_ptr<LinkWorker> worker_;
  std::shared_ptr<LinkJob> job_;
};

// Nothing that is queued for the tensor's device, or copies it, is under way.
void settle_tensor(const Tensor& t) {
  if (!t.defined()) return;
  wt::detail::wait_for_host_access(t.impl());
  if (const StreamBackend* b = stream_backend(t.device()); b && b->stream_wait)
    b->stream_wait(t.device(), wt::detail::native_stream(t.device()));
}

class ProcessCommunicator : public Communicator {
 public:
  ProcessCommunicator(std::unique_ptr<Link> link, std::unique_ptr<Pulse> pulse,
                      ProcessOptions options)
      : Communicator(link->rank(), link->size()),
        options_(std::move(options)),
        worker_(std::make_shared<LinkWorker>(std::move(link), std::move(pulse))) {
    set_deadline(options_.deadline);
    if (worker_->pulse()) LinkWorker::start(worker_);
  }
  ~ProcessCommunicator() override {
    if (std::uncaught_exceptions() > unwinding_ && !worker_->failure())
      abort("ended by an exception");
    const bool ended = worker_->end();
    if (worker_->failure()) worker_->abandon();
    if (Pulse* p = worker_->pulse()) p->farewell();
    // A thread that is stuck in its transport keeps all that it uses, for good.
    if (!ended) new std::shared_ptr<LinkWorker>(worker_);
  }

  const char* backend() const override { return options_.backend; }
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
    if (const auto f = worker_->failure()) throw failure_of(*f, to_string(call.kind), call.frame);
    if (goes_into_graph(call)) return record_call(*this, call);
    settle_tensor(call.in);
    settle_tensor(call.out);
    return Work(std::make_shared<Begun>(worker_, worker_->begin(call, deadline())));
  }
  std::unique_ptr<Communicator> make_group(const Group& g) override {
    ProcessOptions options = options_;
    options.deadline = deadline();
    return connect_processes("split", options, [&](PulseClock::time_point until) {
      try {
        return worker_->link().group(g.members, int(g.number), until);
      } catch (const Stopped&) {
        if (const auto f = worker_->failure()) throw failure_of(*f, "split", mode.frame);
        throw;
      }
    });
  }

 private:
  const ProcessOptions options_;
  const std::shared_ptr<LinkWorker> worker_;
  const int unwinding_ = std::uncaught_exceptions();
};

// What ranks tell each other before there is a pulse.
struct Introduction {
  char host[64] = {};
  char network[64] = {};
};

std::vector<std::string> addresses_of(const std::vector<Introduction>& ranks, const char* name,
                                      const ProcessOptions& options) {
  bool apart = !options.interfaces.empty();
  const std::string& interfaces = apart ? options.interfaces : options.far_interfaces;
  for (const Introduction& r : ranks)
    apart = apart || std::memcmp(r.network, ranks[0].network, sizeof r.network) != 0;
  std::vector<std::string> found;
  if (apart) found = host_addresses(interfaces);
  if (apart && found.empty())
    throw UsageError(str("[", name, "] rank 0 has no address that other hosts reach: interfaces '",
                         interfaces, "' of ", host_name()));
  if (!apart) found = {"127.0.0.1"};
  return found;
}

std::unique_ptr<Pulse> make_pulse(Link& link, const char* name, const ProcessOptions& options,
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
    std::vector<std::string> addresses = link.addresses();
    if (addresses.empty()) addresses = addresses_of(ranks, name, options);
    PulseDoor door(addresses);
    PulseInvite invite = door.invite();
    link.share(&invite, int(sizeof invite));
    links = door.admit(link.size(), until);
    for (size_t r = 1; r < links.size(); ++r)
      if (!links[r]) throw_absent(name, int(r), hosts[r], "did not connect to the pulse of rank 0");
  } else {
    PulseInvite invite;
    link.share(&invite, int(sizeof invite));
    std::string why;
    links.push_back(knock(invite, link.rank(), until, why));
    if (!links[0])
      throw_absent(name, 0, hosts[0], "did not answer a connection of the pulse: " + why);
  }
  return std::make_unique<Pulse>(link.rank(), std::move(hosts), std::move(links), options.deadline);
}

}  // namespace

PeerFailure failure_of(const Failure& f, const char* call, FrameId frame) {
  std::string text = str("[", call, "] ");
  if (f.rank >= 0) {
    text += str("rank ", f.rank, " on ", f.host);
    text += f.step < 0 ? " before its first step " : str(" at step ", f.step, " ");
  }
  text += f.reason;
  if (frame) text += "\n  at " + describe(frame_of(frame));
  return PeerFailure(text, f.rank, f.host, f.step, f.reason);
}

void throw_absent(const char* name, int rank, const std::string& host, const std::string& what) {
  throw PeerFailure(str("[", name, "] rank ", rank, " on ", host, " ", what), rank, host, -1, what);
}

void check_deadline(const char* name, std::chrono::milliseconds deadline) {
  if (deadline.count() < 1)
    throw UsageError(
        str("[", name, "] the deadline must be at least 1 ms, got ", deadline.count(), " ms"));
}

std::unique_ptr<Communicator> process_communicator(std::unique_ptr<Link> link,
                                                   std::unique_ptr<Pulse> pulse,
                                                   ProcessOptions options) {
  return std::make_unique<ProcessCommunicator>(std::move(link), std::move(pulse),
                                               std::move(options));
}

std::unique_ptr<Communicator> connect_processes(
    const char* name, const ProcessOptions& options,
    const std::function<std::unique_ptr<Link>(PulseClock::time_point until)>& make_link) {
  const auto until = PulseClock::now() + options.deadline;
  std::unique_ptr<Link> link;
  try {
    link = make_link(until);
    std::unique_ptr<Pulse> pulse;
    if (link->size() > 1) pulse = make_pulse(*link, name, options, until);
    return process_communicator(std::move(link), std::move(pulse), options);
  } catch (const Stopped& s) {
    if (link) link->abandon();
    const std::string reason =
        s.text.empty() ? str("ranks did not come within ", options.deadline.count(), " ms")
                       : s.text;
    throw PeerFailure(str("[", name, "] ", reason), -1, "", -1, reason);
  }
}

}  // namespace wt::dist
