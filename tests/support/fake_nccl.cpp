#include "warptape/tests/support/fake_nccl.h"

#include <condition_variable>
#include <cstring>
#include <utility>

#include "warptape/core/str.h"
#include "warptape/tests/support/fake_nccl_compute.h"

namespace wt_test {

using namespace wt::dist;
using Op = FakeNcclOp;
using Ops = std::vector<std::shared_ptr<Op>>;

namespace {

FakeNccl* in_use = nullptr;  // one at a time
thread_local int group_depth = 0;

struct Pending {
  std::shared_ptr<FakeNcclComm> comm;
  void* stream;
  Op op;
};
thread_local std::vector<Pending> grouped;

}  // namespace

struct FakeNcclGate {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
  void wait() {
    std::unique_lock lock(mutex);
    opened.wait(lock, [this] { return open; });
  }
};

struct FakeNcclWorld {
  int size = 0;
  int joined = 0;
  // Collective i of each rank, and what one rank sends another: matched in their order.
  std::vector<std::vector<std::shared_ptr<Op>>> collectives;
  std::map<std::pair<int, int>, std::vector<std::shared_ptr<Op>>> sends, recvs;
  std::vector<FakeNcclComm*> ranks;
};

struct FakeNcclComm : std::enable_shared_from_this<FakeNcclComm> {
  std::shared_ptr<FakeNcclWorld> world;
  int rank = 0;
  int polls = 0;     // still to answer kNcclInProgress
  int launched = 0;  // operations
  int begun = 0;     // collectives
  bool aborted = false, finalized = false, hangs = false;
  int async = kNcclSuccess;
  void* stream = nullptr;

  // One launch: its parts take their places when it is queued.
  FakeCuda::Kernel kernel(const std::vector<Op>& of);
  bool finished(Op& op, size_t place);
};

FakeCuda::Kernel FakeNcclComm::kernel(const std::vector<Op>& of) {
  Ops ops;
  std::vector<size_t> places;
  bool stuck = false;
  for (const Op& o : of) {
    const auto op = std::make_shared<Op>(o);
    ops.push_back(op);
    const bool fails = in_use->async_error_rank < 0 || in_use->async_error_rank == rank;
    if (launched++ == in_use->async_error_at) {
      stuck = true;
      if (fails) async = kNcclRemoteError;
    }
    FakeNcclWorld& w = *world;
    if (o.kind == Op::Kind::send || o.kind == Op::Kind::recv) {
      auto& list = o.kind == Op::Kind::send ? w.sends[{rank, o.peer}] : w.recvs[{o.peer, rank}];
      places.push_back(list.size());
      list.push_back(op);
      continue;
    }
    const size_t i = size_t(begun++);
    if (w.collectives.size() <= i) w.collectives.resize(i + 1);
    w.collectives[i].resize(size_t(w.size));
    w.collectives[i][size_t(rank)] = op;
    places.push_back(i);
  }
  const auto self = shared_from_this();
  const auto ready = [self, ops, places, stuck] {
    if (self->aborted) return true;
    for (const auto& op : ops) op->arrived = true;
    bool all = !stuck;
    for (size_t i = 0; i < ops.size(); ++i) all = self->finished(*ops[i], places[i]) && all;
    return all;
  };
  return {[] {}, ready};
}

// Makes the other ranks' streams come to their parts; does the work once all have.
bool FakeNcclComm::finished(Op& op, size_t place) {
  if (op.done) return true;
  FakeNcclWorld& w = *world;
  FakeCuda& cuda = FakeCuda::in_use();
  const auto arrived = [&](const std::shared_ptr<Op>& other, int other_rank) {
    if (!other) return false;
    if (!other->arrived && w.ranks[size_t(other_rank)])
      cuda.run(w.ranks[size_t(other_rank)]->stream);
    return other->arrived && agree(op, *other);
  };
  if (op.kind == Op::Kind::send || op.kind == Op::Kind::recv) {
    const bool sends = op.kind == Op::Kind::send;
    auto& others = sends ? w.recvs[{rank, op.peer}] : w.sends[{op.peer, rank}];
    if (others.size() <= place || !w.ranks[size_t(op.peer)]) return false;
    const std::shared_ptr<Op> other = others[place];
    if (!other->arrived) cuda.run(w.ranks[size_t(op.peer)]->stream);
    if (op.done) return true;
    if (!other->arrived || other->count != op.count || other->type != op.type) return false;
    const size_t bytes = op.count * fake_nccl_bytes(op.type);
    const Op &from = sends ? op : *other, &to = sends ? *other : op;
    cuda.check_range(from.in, bytes, "send from");
    cuda.check_range(to.out, bytes, "recv to");
    std::memmove(to.out, from.in, bytes);
    op.done = other->done = true;
    return true;
  }
  std::vector<Op*> parts;
  for (int r = 0; r < w.size; ++r) {
    const std::shared_ptr<Op> other = w.collectives[place][size_t(r)];
    if (!arrived(other, r)) return op.done;
    parts.push_back(other.get());
  }
  if (op.done) return true;  // by another rank's stream, which ran meanwhile
  for (const Op* p : parts) {
    cuda.check_range(p->in, p->count * fake_nccl_bytes(p->type), to_string(*p).c_str());
    cuda.check_range(p->out, p->count * fake_nccl_bytes(p->type), to_string(*p).c_str());
  }
  fake_nccl_compute(parts);
  for (Op* p : parts) p->done = true;
  return true;
}

int FakeNccl::enter(const char* name) {
  ++calls_[name];
  const auto it = failing_.find(name);
  return it == failing_.end() ? 0 : it->second;
}

// The table's functions. Each counts itself and fails if told to.
struct FakeNcclCalls {
  static FakeNccl& f() { return *in_use; }
#define WT_FAKE_NCCL(name)                                             \
  const std::lock_guard<std::recursive_mutex> lock(f().cuda_.mutex()); \
  if (const int code = f().enter(#name)) return code

  static int version(int* v) {
    *v = in_use ? f().version : 22809;
    return 0;
  }
  static const char* error_text(int code) {
    constexpr const char* kTexts[] = {
        "no error",         "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
    return kTexts[code];
  }
  static const char* last_error(void*) { return "the fake\nsays so"; }
  static int unique_id(NcclUniqueId* id) {
    WT_FAKE_NCCL(unique_id);
    *id = {};
    std::snprintf(id->bytes, sizeof id->bytes, "world %d", ++f().ids_);
    return 0;
  }
  static int comm_init(void** comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
    WT_FAKE_NCCL(comm_init);
    const NcclConfig like;
    if (config->size != 48 || config->magic != 0xcafebeef || config->version != 21800 ||
        config->blocking != 0 || config->split_share != like.split_share)
      f().violations_.push_back("a configuration that NCCL would not understand");
    auto& world = f().worlds_[id.bytes];
    if (!world) world = std::make_shared<FakeNcclWorld>();
    world->size = ranks;
    world->ranks.resize(size_t(ranks));
    ++world->joined;
    const auto made = std::make_shared<FakeNcclComm>();
    made->world = world;
    made->rank = rank;
    made->polls = f().init_polls;
    made->hangs = f().init_hangs;
    world->ranks[size_t(rank)] = made.get();
    *comm = made.get();
    f().comms_[*comm] = made;
    f().note(wt::str("init rank ", rank, " of ", ranks, " on cuda:", f().cuda_.device()));
    return kNcclInProgress;
  }
  // Null: not a live one.
  static FakeNcclComm* of(void* comm, const char* call) {
    const auto it = f().comms_.find(comm);
    if (it != f().comms_.end()) return it->second.get();
    f().violations_.push_back(wt::str(call, " of a communicator that is gone"));
    return nullptr;
  }
  static int comm_async_error(void* comm, int* result) {
    WT_FAKE_NCCL(comm_async_error);
    FakeNcclComm* c = of(comm, "comm_async_error");
    if (!c) return kNcclInvalidArgument;
    const bool waits = c->hangs || c->world->joined < c->world->size || c->polls > 0;
    if (c->world->joined == c->world->size && c->polls > 0) --c->polls;
    *result = c->async != kNcclSuccess ? c->async : waits ? kNcclInProgress : kNcclSuccess;
    return 0;
  }
  static void gone(void* comm) {
    const auto it = f().comms_.find(comm);
    if (it == f().comms_.end()) return;
    it->second->aborted = true;
    it->second->world->ranks[size_t(it->second->rank)] = nullptr;
    f().comms_.erase(it);
  }
  static int comm_abort(void* comm) {
    std::shared_ptr<FakeNcclGate> gate;
    {
      WT_FAKE_NCCL(comm_abort);
      of(comm, "comm_abort");
      if (f().abort_hangs)
        gate = f().gate_;
      else
        gone(comm);
    }
    if (gate) gate->wait();
    return 0;
  }
  static int comm_finalize(void* comm) {
    WT_FAKE_NCCL(comm_finalize);
    f().note("finalize");
    FakeNcclComm* c = of(comm, "comm_finalize");
    if (!c) return kNcclInvalidArgument;
    c->finalized = true;
    c->polls = 1;
    c->hangs = f().finalize_hangs;
    return kNcclInProgress;
  }
  static int comm_destroy(void* comm) {
    std::shared_ptr<FakeNcclGate> gate;
    {
      WT_FAKE_NCCL(comm_destroy);
      FakeNcclComm* c = of(comm, "comm_destroy");
      if (c && !c->finalized) f().violations_.push_back("comm_destroy before comm_finalize");
      if (c && c->polls) f().violations_.push_back("comm_destroy before finalize was done");
      if (f().destroy_hangs)
        gate = f().gate_;
      else
        gone(comm);
    }
    if (gate) gate->wait();
    return 0;
  }

  static int add(const char* name, const Op& op, void* comm, void* stream) {
    const std::lock_guard<std::recursive_mutex> lock(f().cuda_.mutex());
    const int code = f().enter(name);
    f().note(wt::str(to_string(op), " on ", f().cuda_.name_of(stream)));
    if (code) return code;
    FakeNcclComm* c = of(comm, name);
    if (!c) return kNcclInvalidArgument;
    if (c->polls || c->hangs) f().violations_.push_back(wt::str(name, " while another is begun"));
    if (!stream) f().violations_.push_back(wt::str(name, " on the default stream"));
    if (op.count == 0) f().violations_.push_back(wt::str(name, " of nothing"));
    grouped.push_back({c->shared_from_this(), stream, op});
    return group_depth ? kNcclInProgress : launch();
  }
  // All that is grouped, a communicator each.
  static int launch() {
    std::map<std::shared_ptr<FakeNcclComm>, std::vector<Op>> ops;
    for (const Pending& p : grouped) {
      ops[p.comm].push_back(p.op);
      p.comm->stream = p.stream;
    }
    grouped.clear();
    int result = kNcclSuccess;
    for (const auto& [comm, list] : ops) {
      f().cuda_.queue(comm->stream, [comm = comm, list = list] { return comm->kernel(list); });
      comm->polls = f().call_polls;
      comm->hangs = f().calls_hang;
      if (comm->polls || comm->hangs) result = kNcclInProgress;
    }
    return result;
  }
  static int all_reduce(const void* in, void* out, size_t n, int type, int op, void* comm,
                        void* stream) {
    return add("all_reduce", {Op::Kind::all_reduce, in, out, n, type, op}, comm, stream);
  }
  static int reduce_scatter(const void* in, void* out, size_t n, int type, int op, void* comm,
                            void* stream) {
    return add("reduce_scatter", {Op::Kind::reduce_scatter, in, out, n, type, op}, comm, stream);
  }
  static int all_gather(const void* in, void* out, size_t n, int type, void* comm, void* stream) {
    return add("all_gather", {Op::Kind::all_gather, in, out, n, type}, comm, stream);
  }
  static int broadcast(const void* in, void* out, size_t n, int type, int root, void* comm,
                       void* stream) {
    return add("broadcast", {Op::Kind::broadcast, in, out, n, type, 0, root}, comm, stream);
  }
  static int send(const void* in, size_t n, int type, int peer, void* comm, void* stream) {
    return add("send", {Op::Kind::send, in, nullptr, n, type, 0, peer}, comm, stream);
  }
  static int recv(void* out, size_t n, int type, int peer, void* comm, void* stream) {
    return add("recv", {Op::Kind::recv, nullptr, out, n, type, 0, peer}, comm, stream);
  }
  static int group_start() {
    WT_FAKE_NCCL(group_start);
    f().note("group_start");
    ++group_depth;
    return 0;
  }
  static int group_end() {
    const std::lock_guard<std::recursive_mutex> lock(f().cuda_.mutex());
    const int code = f().enter("group_end");
    f().note("group_end");
    if (group_depth-- != 1) f().violations_.push_back("group_end without its group_start");
    if (code) {
      grouped.clear();
      return code;
    }
    return launch();
  }
#undef WT_FAKE_NCCL
};

static constexpr NcclApi kFakeNccl = {
    .version = FakeNcclCalls::version,
    .error_text = FakeNcclCalls::error_text,
    .last_error = FakeNcclCalls::last_error,
    .unique_id = FakeNcclCalls::unique_id,
    .comm_init = FakeNcclCalls::comm_init,
    .comm_async_error = FakeNcclCalls::comm_async_error,
    .comm_abort = FakeNcclCalls::comm_abort,
    .comm_finalize = FakeNcclCalls::comm_finalize,
    .comm_destroy = FakeNcclCalls::comm_destroy,
    .all_reduce = FakeNcclCalls::all_reduce,
    .reduce_scatter = FakeNcclCalls::reduce_scatter,
    .all_gather = FakeNcclCalls::all_gather,
    .broadcast = FakeNcclCalls::broadcast,
    .send = FakeNcclCalls::send,
    .recv = FakeNcclCalls::recv,
    .group_start = FakeNcclCalls::group_start,
    .group_end = FakeNcclCalls::group_end,
};

const NcclApi& FakeNccl::api() { return kFakeNccl; }

void* FakeNccl::symbol(const char* name) {
  const auto is = [name](const char* other) { return std::strcmp(name, other) == 0; };
  const auto p = [](auto* function) { return reinterpret_cast<void*>(function); };
  if (is("ncclGetVersion")) return p(kFakeNccl.version);
  if (is("ncclGetErrorString")) return p(kFakeNccl.error_text);
  if (is("ncclGetLastError")) return p(kFakeNccl.last_error);
  if (is("ncclGetUniqueId")) return p(kFakeNccl.unique_id);
  if (is("ncclCommInitRankConfig")) return p(kFakeNccl.comm_init);
  if (is("ncclCommGetAsyncError")) return p(kFakeNccl.comm_async_error);
  if (is("ncclCommAbort")) return p(kFakeNccl.comm_abort);
  if (is("ncclCommFinalize")) return p(kFakeNccl.comm_finalize);
  if (is("ncclCommDestroy")) return p(kFakeNccl.comm_destroy);
  if (is("ncclAllReduce")) return p(kFakeNccl.all_reduce);
  if (is("ncclReduceScatter")) return p(kFakeNccl.reduce_scatter);
  if (is("ncclAllGather")) return p(kFakeNccl.all_gather);
  if (is("ncclBroadcast")) return p(kFakeNccl.broadcast);
  if (is("ncclSend")) return p(kFakeNccl.send);
  if (is("ncclRecv")) return p(kFakeNccl.recv);
  if (is("ncclGroupStart")) return p(kFakeNccl.group_start);
  if (is("ncclGroupEnd")) return p(kFakeNccl.group_end);
  return nullptr;
}

FakeNccl::FakeNccl(FakeCuda& cuda) : cuda_(cuda), gate_(std::make_shared<FakeNcclGate>()) {
  in_use = this;
  cuda.works = true;
  cuda.heard = [this](const std::string& text) { note(text); };
  replace_nccl(&kFakeNccl);
}

FakeNccl::~FakeNccl() {
  restore_nccl();
  {
    const std::lock_guard lock(gate_->mutex);
    gate_->open = true;
    gate_->opened.notify_all();
  }
  const std::lock_guard<std::recursive_mutex> lock(cuda_.mutex());
  for (const auto& [p, comm] : comms_) comm->aborted = true;  // streams are no longer stuck
  cuda_.heard = nullptr;
  cuda_.run_all();
  in_use = nullptr;
}

std::vector<std::string> FakeNccl::take_journal() {
  const std::lock_guard<std::recursive_mutex> lock(cuda_.mutex());
  return std::exchange(journal_[std::this_thread::get_id()], {});
}
int FakeNccl::calls(const std::string& name) const {
  const std::lock_guard<std::recursive_mutex> lock(cuda_.mutex());
  const auto it = calls_.find(name);
  return it == calls_.end() ? 0 : it->second;
}
int FakeNccl::live_comms() const {
  const std::lock_guard<std::recursive_mutex> lock(cuda_.mutex());
  return int(comms_.size());
}

}  // namespace wt_test
