#include "device/queue.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "device/context.h"
#include "device/copy.h"
#include "device/lock.h"
#include "device/random.h"
#include "device/settings.h"

namespace emu {
namespace {

constexpr size_t kMostPending = 512;  // a real queue is full at about a thousand
constexpr size_t kRecent = 8192;

struct Queue {
  std::vector<OpRef> pending;  // not run, oldest first
  std::vector<OpRef> ready;    // of them: nothing before them is missing
  std::vector<OpRef> recent = std::vector<OpRef>(kRecent);
  u64 newest = 0;
  double host_time = 0;
  Dice dice{settings().seed};
};
Queue& queue() {
  static Queue* q = new Queue;
  return *q;
}

void trace_run(const QueuedOp& op) {
  char text[64];
  std::snprintf(text, sizeof text, "%8" PRIu64 "  cuda:%d  %-10s %9.2f us  ", op.serial, op.device,
                op.stream.c_str(), op.nanoseconds / 1e3);
  trace(text + op.work->name() + (device_error(op.device) ? "  (device lost)" : ""));
}

void finish(const OpRef& op) {
  Queue& q = queue();
  op->end = std::max(op->issued, op->end) + op->nanoseconds;
  op->done = true;
  op->running = false;
  for (const OpRef& n : op->next) {
    n->end = std::max(n->end, op->end);  // until it is done: when it can begin
    if (--n->waiting == 0) q.ready.push_back(n);
  }
  op->next.clear();
  op->after.clear();
  std::erase(q.pending, op);
  if (tracing()) trace_run(*op);
  tell_change();
}

// Short functions are over before anything else is chosen, so that a seed says what happens; what a
// long one waits for goes on beside it.
void call_host(const OpRef& op) {
  constexpr int kTurns = 40, kMilliseconds = 5;
  const auto& work = static_cast<const HostWork&>(*op->work);
  run_on_host_thread([&work, error = device_error(op->device)] { work.call(error); },
                     [op] {
                       op->work->run(*op);
                       finish(op);
                     });
  for (int turn = 0; turn < kTurns && !op->done; ++turn) wait_for_change(kMilliseconds);
}

void run(size_t index) {
  Queue& q = queue();
  const OpRef op = q.ready[index];
  // The others keep their places: a choice depends on what was asked, not on how it was stored.
  q.ready.erase(q.ready.begin() + i64(index));
  op->running = true;
  // After a fault nothing runs any more, but joins and callbacks, which have to be told.
  if (!device_error(op->device) || op->work->runs_on_lost_device()) {
    if (op->work->kind == WorkKind::host) return call_host(op);
    op->work->run(*op);
  }
  finish(op);
}

// Something that can run and that `target` needs; -1: it runs in another thread.
i64 needed(const OpRef& target) {
  Queue& q = queue();
  QueuedOp* op = target.get();
  while (op->waiting > 0) {
    std::vector<QueuedOp*> missing;
    for (const OpRef& a : op->after)
      if (!a->done) missing.push_back(a.get());
    op = missing[q.dice.below(u32(missing.size()))];
  }
  for (size_t i = 0; i < q.ready.size(); ++i)
    if (q.ready[i].get() == op) return i64(i);
  return -1;
}

void remember(const OpRef& op) {
  host_learns(*op->clock, op->lane, op->serial);
  queue().host_time = std::max(queue().host_time, op->end);
}

}  // namespace

void submit(const OpRef& op, std::vector<OpRef> after) {
  Queue& q = queue();
  op->serial = q.newest = new_serial(op->lane);
  op->issued = q.host_time;
  op->from = CallSite::here();
  ClockRef clock = host_clock();
  std::shared_ptr<Clock> own;
  const auto join = [&](const QueuedOp& a) {
    if (clock->has(a.lane, a.serial) && (a.clock == clock || clock->covers(*a.clock))) return;
    if (!own) clock = own = std::make_shared<Clock>(*clock);
    own->join(*a.clock);
    own->add(a.lane, a.serial);
  };
  for (const OpRef& a : after) {
    join(*a);
    if (a->done) {
      op->end = std::max(op->end, a->end);
    } else {
      if (std::find(op->after.begin(), op->after.end(), a) != op->after.end()) continue;
      op->after.push_back(a);
      a->next.push_back(op);
      ++op->waiting;
    }
  }
  op->clock = clock;
  q.recent[op->serial % kRecent] = op;
  q.pending.push_back(op);
  if (op->waiting == 0) q.ready.push_back(op);
}

void wait_for(const OpRef& op) {
  Queue& q = queue();
  while (!op->done) {
    // Half of the time anything may come first: what is waited for is as late as it can be.
    if (!q.ready.empty() && q.dice.below(2)) {
      run(q.dice.below(u32(q.ready.size())));
      continue;
    }
    const i64 next = needed(op);
    if (next >= 0)
      run(size_t(next));
    else
      wait_for_change();
  }
  remember(op);
}

bool poll(const OpRef& op) {
  if (!op->done && (settings().eager || queue().dice.below(4))) {
    const i64 next = needed(op);
    if (next >= 0) run(size_t(next));
  }
  if (op->done) remember(op);
  return op->done;
}

void progress() {
  Queue& q = queue();
  if (settings().eager) {
    while (!q.ready.empty()) run(0);
    return;
  }
  if (!q.ready.empty() && q.dice.below(4) == 0) do
      run(q.dice.below(u32(q.ready.size())));
    while (!q.ready.empty() && q.dice.below(3));
  while (q.pending.size() > kMostPending && !q.ready.empty())
    run(q.dice.below(u32(q.ready.size())));
}

const std::vector<OpRef>& pending() { return queue().pending; }
u64 newest_serial() { return queue().newest; }

const QueuedOp* recent_op(u64 serial) {
  const OpRef& op = queue().recent[serial % kRecent];
  return op && op->serial == serial ? op.get() : nullptr;
}

std::string describe_op(const QueuedOp* op) {
  if (!op) return "an operation of long ago";
  return name_of(*op) + ", operation " + std::to_string(op->serial) + " on " + op->stream +
         " of cuda:" + std::to_string(op->device) + ", queued" + describe(op->from);
}

std::string name_of(const QueuedOp& op) { return op.work ? op.work->name() : "an operation"; }

double host_time() { return queue().host_time; }
void spend_host_time(double nanoseconds) { queue().host_time += nanoseconds; }

}  // namespace emu
