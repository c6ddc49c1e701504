#include "warptape/dist/data_parallel.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "warptape/core/at_line.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/random.h"
#include "warptape/dist/agreement.h"
#include "warptape/dist/data_parallel/data_parallel_state.h"
#include "warptape/dist/data_parallel/replicas.h"

namespace wt::dist {

using optim::detail::Arena;
using optim::detail::Slot;

namespace {

void check_options(const DataParallelOptions& o) {
  if (o.bucket_bytes < 1 || o.first_bucket_bytes < 1)
    throw UsageError(str("[DataParallel] bucket_bytes and first_bucket_bytes must be at least 1, ",
                         "got ", o.bucket_bytes, " and ", o.first_bucket_bytes, at_line()));
  if (o.compress != DType::f32 && !is_half(o.compress))
    throw UsageError(str("[DataParallel] compress must be f32 (not at all), f16 or bf16, got ",
                         dtype_name(o.compress), at_line()));
  if (o.zero < 0 || o.zero > 2)
    throw UsageError(str("[DataParallel] zero must be 0, 1 or 2, got ", o.zero, at_line()));
  if (o.check_every < 0)
    throw UsageError(
        str("[DataParallel] check_every must be at least 0, got ", o.check_every, at_line()));
}

std::string describe(const DataParallelOptions& o) {
  return str("bucket_bytes ", o.bucket_bytes, "\nfirst_bucket_bytes ", o.first_bucket_bytes,
             "\ncompress ", dtype_name(o.compress), "\nunused ", int(o.unused), "\nbuffers ",
             int(o.buffers), "\ncheck_every ", o.check_every, "\nzero ", o.zero);
}

void check_start(Communicator& comm, const nn::ModuleBase& net, const optim::Optimizer& opt,
                 const DataParallelOptions& o) {
  const detail::Fact facts[] = {{"version of warptape", build_info().version},
                                {"number of ranks", str(comm.size())},
                                {"number of parameters", str(net.parameter_count())},
                                {"model", detail::describe_model(net, opt)},
                                {"DataParallelOptions", describe(o)}};
  detail::check_agreement(comm, facts, opt.attempted());
}

}  // namespace

DataParallel::State::State(const nn::ModuleBase& module, optim::Optimizer& optimizer,
                           Communicator& c, const DataParallelOptions& o)
    : net(module),
      opt(optimizer),
      comm(c),
      options(o),
      shards(o.zero > 0 && c.size() > 1
                 ? std::make_shared<ZeroShards>(
                       c, ZeroOptions{o.bucket_bytes,
                                      std::min(o.first_bucket_bytes, o.bucket_bytes), o.zero == 2})
                 : nullptr),
      buckets(c, {o.bucket_bytes, std::min(o.first_bucket_bytes, o.bucket_bytes), o.compress,
                  shards.get()}) {}

DataParallel::DataParallel(const nn::ModuleBase& net, optim::Optimizer& opt, Communicator& comm,
                           const DataParallelOptions& options, Frame at) {
  const FrameScope frame(at);
  check_options(options);
  opt.prepare();
  if (!comm.takes(opt.device()))
    throw PlacementError(str("[DataParallel] the parameters are on ", to_string(opt.device()),
                             ", whose memory the backend ", comm.backend(), " does not send",
                             at_line()));
  s_ = std::make_unique<State>(net, opt, comm, options);
  s_->step = opt.attempted();
  if (comm.size() == 1) return;
  if (s_->shards) opt.shard(s_->shards);
  s_->buckets.follow(opt.arenas());
  check_start(comm, net, opt, options);
  detail::broadcast_parameters(comm, net, opt);
  detail::share_buffers(comm, net, Buffers::broadcast);
}

DataParallel::~DataParallel() = default;

Communicator& DataParallel::comm() const { return s_->comm; }

// --- optim::Reducer ---

void DataParallel::sum(const Tensor& t) {
  if (s_->comm.size() > 1) s_->waiting([&] { s_->comm.all_reduce(t, ReduceOp::sum, Frame{}); });
}

void DataParallel::max(const Tensor& t) {
  if (s_->comm.size() > 1) s_->waiting([&] { s_->comm.all_reduce(t, ReduceOp::max, Frame{}); });
}

void DataParallel::begin_backward(bool last) {
  if (last && s_->no_sync > 0)
    throw UsageError(
        "[DataParallel] a TrainStep inside no_sync(): ranks that step without the others' "
        "gradients "
        "differ from then on\n  Try TrainStep's micro_batches");
  s_->begin_backward(last, ReduceOp::sum);
}

void DataParallel::State::begin_backward(bool last, ReduceOp op) {
  if (buckets.in_parts() && buckets.armed()) end_rounds();
  buckets.disarm();
  if (!last && !buckets.in_parts()) return;
  if (comm.size() == 1) return;
  comm.at_step(step);
  buckets.follow(opt.arenas());
  buckets.arm(op, rounds > 0);
  ++rounds;
}

// The backward before is summed, and what it was lent is free.
void DataParallel::State::end_rounds() {
  buckets.begin_rest();
  buckets.wait();
}

void DataParallel::begin_step(i64 micro_batches) {
  State& s = *s_;
  if (!s.buckets.in_parts()) return;
  s.rounds = 0;
  s.rounds_of_step = micro_batches;
  if (!s.first_step) return;
  const SyncGuard counted(OnSync::allow);
  const detail::Fact facts[] = {{"number of micro-batches", str(micro_batches)}};
  s.on_all_ranks([&] { detail::check_agreement(s.comm, facts, s.step); });
}

void DataParallel::any(std::span<char> reached) {
  State& s = *s_;
  // Where control() is the communicator itself every rank has to have begun the same by now.
  if (s.comm.size() > 1) s.buckets.begin_rest();
  if (s.buckets.in_parts()) {
    s.buckets.wait();
    for (; s.rounds < s.rounds_of_step; ++s.rounds) s.buckets.add_nothing();
    s.rounds = s.rounds_of_step = 0;
  }
  const bool recorded = wt::detail::recording_graph();
  if (recorded && s.first_step)
    wt::detail::not_in_a_graph("DataParallel", "ranks compare the first step on the host");
  if (s.first_step) s.before_first_step();
  if (!recorded) s.check_when_due();
  if (s.first_step || s.options.unused == Unused::agree) {
    s.waiting([&] { s.agree_on_reached(reached); });
    if (s.options.unused != Unused::agree) s.first_reached.assign(reached.begin(), reached.end());
  } else {
    s.keep_to_first(reached);
    std::copy(s.first_reached.begin(), s.first_reached.end(), reached.begin());
  }
  s.first_step = false;
  if (!recorded) ++s.step;
}

bool DataParallel::sum_gradients() {
  State& s = *s_;
  if (s.comm.size() == 1) return true;
  s.waiting([&] { s.buckets.wait(); });
  detail::share_buffers(s.comm, s.net, s.options.buffers);
  return true;
}

// --- captured steps ---

void DataParallel::require_capture() const {
  const State& s = *s_;
  if (s.comm.size() == 1) return;
  if (!s.comm.captures())
    throw NotAvailable(str("[DataParallel] TrainStep{.graph = true}: calls of the backend ",
                           s.comm.backend(), " cannot be nodes of a graph\n  Try graph = false"));
  if (s.options.unused == Unused::agree)
    throw UsageError(
        "[DataParallel] TrainStep{.graph = true}: unused = dist::Unused::agree compares on the "
        "host what each step reached, which a replay does not\n  Try dist::Unused::fixed, or "
        "refuse");
}

std::vector<u64> DataParallel::gather(u64 mine) {
  State& s = *s_;
  if (s.comm.size() == 1) return {mine};
  char bytes[sizeof mine];
  std::memcpy(bytes, &mine, sizeof mine);
  s.comm.at_step(s.step);
  const SyncGuard counted(OnSync::allow);
  const std::vector<char> all = detail::gather_bytes(s.comm, bytes);
  std::vector<u64> words(all.size() / sizeof mine);
  std::memcpy(words.data(), all.data(), all.size());
  return words;
}

void DataParallel::replay(const std::function<void()>& launch) {
  State& s = *s_;
  if (s.comm.size() > 1) s.check_when_due();
  s.comm.replay(launch);
  ++s.step;
}

void DataParallel::State::check_when_due() {
  if (options.check_every > 0 && step % options.check_every == 0 && !first_step)
    on_all_ranks([&] { detail::check_replicas(comm, opt, step); });
}

void DataParallel::give_up() noexcept {
  State& s = *s_;
  s.buckets.disarm();
  if (s.comm.size() == 1) return;
  s.rounds = s.rounds_of_step = 0;
  if (std::exchange(s.alike, false)) {
    try {
      s.buckets.wait();  // the next backward writes where these sums are made
    } catch (...) {      // it is thrown by that step
    }
    s.buckets.drop();
    return;
  }
  std::string reason = "gave up its step";
  try {
    if (const std::exception_ptr e = std::current_exception()) std::rethrow_exception(e);
  } catch (const std::exception& e) {
    const std::string text = e.what();
    reason += ": " + text.substr(0, text.find('\n'));
  } catch (...) {}
  s.comm.abort(reason);
  s.buckets.drop();
}

// --- which parameters ---

void DataParallel::State::before_first_step() {
  if (comm.size() == 1) return;
  const SyncGuard counted(OnSync::allow);
  const detail::Fact facts[] = {{"seed", str(generator().seed())},
                                {"precision", detail::precision_of(opt)},
                                {"optimizer", detail::describe_optimizer(opt)}};
  on_all_ranks([&] { detail::check_agreement(comm, facts, step); });
  buckets.learn_order();
}

std::string DataParallel::State::name_of(size_t slot) const {
  for (const Arena& a : opt.arenas().all()) {
    if (slot < a.slots.size()) return a.slots[slot].entry.name;
    slot -= a.slots.size();
  }
  return "";
}

bool DataParallel::State::is_frozen(size_t slot) const {
  for (const Arena& a : opt.arenas().all()) {
    if (slot < a.slots.size()) return !leaf_of(a.slots[slot].entry.tensor.impl());
    slot -= a.slots.size();
  }
  return false;
}

namespace {

// Bytes that come out of a maximum as x and ~x where all ranks have the same.
constexpr size_t kStepBytes = sizeof(i64);

std::vector<u8> reached_or_not(std::span<const char> reached, i64 step) {
  const size_t n = reached.size();
  std::vector<u8> v(2 * n + 2 * kStepBytes);
  for (size_t i = 0; i < n; ++i) {
    v[i] = reached[i] != 0;
    v[n + i] = reached[i] == 0;
  }
  u8* const at = v.data() + 2 * n;
  std::memcpy(at, &step, kStepBytes);
  for (size_t i = 0; i < kStepBytes; ++i) at[kStepBytes + i] = u8(~at[i]);
  return v;
}

std::vector<u8> maximum(Communicator& comm, const std::vector<u8>& mine) {
  if (comm.size() == 1) return mine;
  const Tensor t = empty({i64(mine.size())}, {.dtype = DType::u8, .device = Device::cpu()});
  std::copy(mine.begin(), mine.end(), t.mutable_data<u8>());
  comm.control().all_reduce(t, ReduceOp::max, Frame{});
  const u8* const from = t.data<u8>();
  return {from, from + mine.size()};
}

}  // namespace

void DataParallel::State::agree_on_reached(std::span<char> reached) {
  const size_t n = reached.size();
  const std::vector<u8> all = maximum(comm, reached_or_not(reached, step));
  for (size_t i = 0; i < kStepBytes; ++i)
    if (u8(all[2 * n + i]) != u8(~all[2 * n + kStepBytes + i])) {
      alike = true;
      detail::throw_disagreement(-1, step, str("ranks are at different steps, this one at ", step));
    }
  missing.clear();
  bool differ = false;
  for (size_t i = 0; i < n; ++i) differ |= all[i] && all[n + i];
  std::vector<char> of_ranks(reached.begin(), reached.end());
  if (differ) of_ranks = detail::gather_bytes(comm, of_ranks);
  for (size_t i = 0; i < n; ++i) {
    reached[i] = char(all[i]);
    if (!all[n + i] || (!all[i] && is_frozen(i))) continue;
    Missing m{name_of(i), {}};
    for (int r = 0; r < comm.size(); ++r)
      if (!all[i] || !of_ranks[size_t(r) * n + i]) m.ranks.push_back(r);
    missing.push_back(std::move(m));
  }
  if (options.unused == Unused::refuse) on_all_ranks([&] { refuse_missing(); });
}

void DataParallel::State::refuse_missing() const {
  if (missing.empty()) return;
  std::string names;
  for (const Missing& m : missing)
    names += str(names.empty() ? "" : ", ", m.parameter, " on ", detail::rank_list(m.ranks));
  throw UsageError(str("[DataParallel] the first backward has not reached ", names,
                       "\n  Try unused = dist::Unused::agree, or freezing what has no part in the "
                       "loss"));
}

// Every rank goes by the first step's answer, so this is one rank's error.
void DataParallel::State::keep_to_first(std::span<const char> reached) const {
  for (size_t i = 0; i < reached.size(); ++i) {
    const bool misses = !reached[i] && first_reached[i] && options.unused == Unused::refuse;
    if (!misses && (!reached[i] || first_reached[i])) continue;
    throw UsageError(str("[DataParallel] step ", step, " on rank ", comm.rank(), " has ",
                         misses ? "not reached " : "reached ", name_of(i),
                         ", unlike the first one\n  Try unused = dist::Unused::agree"));
  }
}

// --- what it did ---

const std::vector<DataParallel::Missing>& DataParallel::unused() const { return s_->missing; }
double DataParallel::waited() const { return s_->waited; }
i64 DataParallel::launched_early() const { return s_->buckets.launched_early(); }

std::vector<DataParallel::Bucket> DataParallel::buckets() const {
  std::vector<Bucket> all;
  for (const detail::Buckets::Range& r : s_->buckets.ranges()) {
    Bucket b{{}, r.bytes};
    for (size_t i = 0; i < r.n_slots; ++i)
      b.parameters.push_back(r.arena->slots[r.first_slot + i].entry.name);
    all.push_back(std::move(b));
  }
  return all;
}

void DataParallel::check_replicas(Frame at) {
  const FrameScope frame(at);
  s_->opt.prepare();
  detail::check_replicas(s_->comm, s_->opt, s_->step);
}

}  // namespace wt::dist
