#include "warptape/dist/nccl/nccl_engine.h"

#include <exception>

#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/memory_footprint.h"
#include "warptape/core/tensor_impl.h"

namespace wt::dist {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kSpareEvents = 64;

bool is_exchange(Call::Kind k) { return k == Call::Kind::send || k == Call::Kind::recv; }

}  // namespace

// Calls that begin together, and what their Works come to.
class NcclEngine::Group : public Work::Pending {
 public:
  Group(NcclEngine& e, std::chrono::milliseconds deadline)
      : engine(&e),
        deadline(deadline),
        captured(e.in_graph()),
        failure_(e.failure_),
        device_(e.device_) {}

  bool done() override {
    if (captured) wt::detail::not_in_a_graph("Work::done", "it asks the device");
    begin("Work::done");
    return end->done();
  }
  void wait() override {
    begin("Work::wait");
    end->before(wt::detail::native_stream(device_));
  }
  void check_place(const char* what) const {
    if (!captured) wt::detail::not_in_a_graph(what, "the call was begun outside of it");
    if (captured && !wt::detail::recording_graph())
      throw UsageError(str("[", what, "] the call was begun inside a graph, which has ended"));
  }

  NcclEngine* engine;       // null: has begun, or never will
  std::vector<Call> calls;  // until they have begun: they hold the tensors
  std::vector<std::shared_ptr<NcclEvent>> begins;
  std::shared_ptr<NcclEvent> end;  // null: has not begun
  const std::chrono::milliseconds deadline;
  const bool captured;

 private:
  void begin(const char* what) {
    failure_->check();
    check_place(what);
    if (engine) engine->flush();
    if (!end) throw UsageError(str("[", what, "] the call never began: its communicator is gone"));
  }
  const std::shared_ptr<NcclFailure> failure_;
  const Device device_;
};

NcclEngine::NcclEngine(const NcclApi& api, Communicator& control, Device device,
                       const NcclOptions& options, const NcclUniqueId& id)
    : control_(control),
      device_(device),
      backend_(stream_backend(device)),
      comm_(api, options.give_up),
      stream_(device),
      deadline_(options.deadline) {
  for (size_t i = 0; i < kSpareEvents; ++i) spare_.push_back(std::make_shared<NcclEvent>(device));
  try {
    connect(id, options.deadline);
    watch_ = std::make_unique<NcclWatch>(comm_, control_, failure_);
  } catch (...) {
    comm_.abort();
    keep_stream();
    throw;
  }
}

void NcclEngine::connect(const NcclUniqueId& id, std::chrono::milliseconds deadline) {
  backend_->use(device_, nullptr, nullptr);  // NCCL takes the thread's current device
  const memory::ExternalScope outside(device_, "NCCL");
  const auto until = Clock::now() + deadline;
  int result = comm_.begin(control_.size(), id, control_.rank());
  std::string text;
  {
    const std::lock_guard lock(comm_.mutex());
    result = comm_.settled(result, [&] {
      check_control(control_);
      return Clock::now() < until;
    });
    text = comm_.describe("ncclCommInitRankConfig", result);
  }
  if (result == kNcclSuccess) return;
  if (result == kNcclInProgress) {
    text =
        str("NCCL has not connected ", control_.size(), " ranks within ", seconds_text(deadline));
    control_.abort(text);
    throw PeerFailure(str("[nccl_communicator] rank ", control_.rank(), ": ", text,
                          "\n  Try NCCL_DEBUG=INFO, which tells how far it came"),
                      -1, "", -1, text);
  }
  control_.abort(text);
  throw DeviceError(str("[nccl_communicator] rank ", control_.rank(), " on ", to_string(device_),
                        ": ", text, "\n  Try NCCL_DEBUG=WARN, which tells more"));
}

NcclEngine::~NcclEngine() {
  // While an exception passes, or after a failure, other ranks may never come to what was begun,
  // nor to the end, at which NCCL's ranks of one process meet: then nothing is waited for.
  bool together = std::uncaught_exceptions() == 0;
  try {
    if (together) check();
    if (together) flush();
  } catch (const std::exception&) {  // a failure; or a group whose graph was never made
    together = false;
  }
  if (open_) open_->engine = nullptr;
  // What waits for other ranks has its deadline; this is for what waits for this device.
  together = together && watch_->wait_idle(deadline_);
  watch_.reset();
  if (together && !failure_->seen())
    comm_.close();
  else
    comm_.abort();
  keep_stream();
}

void NcclEngine::check() {
  failure_->check();
  try {
    check_control(control_);
  } catch (const PeerFailure& e) {
    failure_->set(e);
    throw;
  }
}

// A thread that was left behind in NCCL may use it yet: it is not lent again.
void NcclEngine::keep_stream() {
  if (!comm_.left_behind()) return;
  static auto* const kept = new std::vector<Stream>;
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  kept->push_back(stream_);
}

bool NcclEngine::in_graph() const {
  return wt::detail::recording_graph() && mode.capture->device == device_;
}

std::shared_ptr<NcclEvent> NcclEngine::take_event() {
  if (in_graph())
    for (const auto& e : spare_)
      if (e.use_count() == 1) return e;
  return std::make_shared<NcclEvent>(device_);
}

Work NcclEngine::start(const Call& call, std::chrono::milliseconds deadline) {
  check();
  deadline_ = deadline;
  if (is_exchange(call.kind)) {
    if (open_) open_->check_place(to_string(call.kind));
    if (!open_) open_ = std::make_shared<Group>(*this, deadline);
    append(*open_, call);
    return Work(open_);
  }
  flush();
  const auto g = std::make_shared<Group>(*this, deadline);
  append(*g, call);
  launch(*g);
  return Work(g);
}

void NcclEngine::append(Group& g, const Call& call) {
  const std::shared_ptr<NcclEvent> now = take_event();
  now->record(wt::detail::native_stream(device_));
  g.begins.push_back(now);
  g.calls.push_back(call);
}

void NcclEngine::flush() {
  if (!open_) return;
  const std::shared_ptr<Group> g = std::exchange(open_, nullptr);
  g->engine = nullptr;
  g->check_place(to_string(g->calls[0].kind));
  launch(*g);
}

void NcclEngine::launch(Group& g) {
  g.engine = nullptr;
  const std::shared_ptr<NcclEvent> end = take_event();
  void* const stream = stream_.native();
  NcclAnswer answer;
  std::string text;
  {
    const std::lock_guard lock(comm_.mutex());
    check();
    for (const auto& e : g.begins) e->before(stream);
    for (const Call& c : g.calls)  // their memory waits for this stream before it is used again
      for (const Tensor* t : {&c.in, &c.out}) backend_->use(device_, t->impl()->data, stream);
    answer = queue(g);
    if (answer.result == kNcclSuccess)
      end->record(stream);
    else if (answer.result != kNcclInProgress)
      text = comm_.describe(answer.function, answer.result);
  }
  const NcclCallNote first = NcclCallNote::of(g.calls[0]);
  const size_t calls = g.calls.size();
  g.calls.clear();
  if (answer.result != kNcclSuccess) {
    check();  // somebody else's failure was seen first
    if (text.empty())
      text = str("call ", first.number, ", ", to_string(first), ", has not begun within ",
                 seconds_text(g.deadline), ": another rank is late or hangs");
    fail(to_string(first.kind), text, first.frame);
    check();
  }
  g.end = end;
  if (g.captured)
    g.begins.clear();  // free for the capture's next calls
  else
    watch_->add({first, calls, std::move(g.begins), end, g.deadline});
}

// The events lie around the graph: none inside of it can be asked.
void NcclEngine::replay(const std::function<void()>& launch, std::chrono::milliseconds deadline) {
  check();
  flush();
  deadline_ = deadline;
  const auto begin = std::make_shared<NcclEvent>(device_),
             end = std::make_shared<NcclEvent>(device_);
  begin->record(wt::detail::native_stream(device_));
  {
    const std::lock_guard lock(comm_.mutex());
    check();
    launch();
  }
  end->record(wt::detail::native_stream(device_));
  watch_->add({.first = {.frame = mode.frame},
               .calls = 0,
               .begins = {begin},
               .end = end,
               .deadline = deadline});
}

NcclAnswer NcclEngine::queue(const Group& g) {
  const NcclApi& api = comm_.api;
  const auto until = Clock::now() + g.deadline;
  const bool several = g.calls.size() > 1;
  NcclAnswer answer{kNcclSuccess, "ncclGroupStart"};
  if (several) answer.result = api.group_start();
  if (answer.result != kNcclSuccess) return answer;
  for (const Call& c : g.calls) {
    answer = issue(api, c, comm_.get(), stream_.native());
    if (answer.result != kNcclSuccess && answer.result != kNcclInProgress) break;
  }
  if (several) {
    const int end = api.group_end();  // after an error too: the thread's group must end
    if (answer.result == kNcclSuccess || answer.result == kNcclInProgress)
      answer = {end, "ncclGroupEnd"};
  }
  answer.result =
      comm_.settled(answer.result, [&] { return !failure_->seen() && Clock::now() < until; });
  return answer;
}

void NcclEngine::wait() {
  check();
  flush();
  NcclEvent now(device_);
  now.record(wt::detail::native_stream(device_));
  std::chrono::microseconds pause{20};
  while (!watch_->idle() || !now.done()) {
    check();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
  check();
}

}  // namespace wt::dist
