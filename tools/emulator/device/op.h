// Queued operations: what a call of the program asked a device to do, not yet done.
#pragma once
#include <memory>

#include "device/clock.h"
#include "device/memory.h"
#include "report.h"

namespace emu {

struct QueuedOp;
using OpRef = std::shared_ptr<QueuedOp>;

enum class WorkKind : u8 { kernel, copy, fill, host, external, record, wait, join, take, give };

// What is to be done. A graph's node shares it with the graph's launches: it does not change once
// it is queued; other parameters are another Work.
struct Work {
  explicit Work(WorkKind k) : kind(k) {}
  virtual ~Work() = default;
  // Under the runtime's lock. Sets op.nanoseconds where it took modelled time.
  virtual void run(QueuedOp& op) = 0;
  virtual std::string name() const = 0;
  virtual bool runs_on_lost_device() const { return false; }
  // Whether it may touch these bytes of the host; kernels are asked by their arguments.
  enum class Touch : u8 { no, reads, writes };
  virtual Touch touches(u64 /*begin*/, u64 /*end*/) const { return Touch::no; }

  const WorkKind kind;
};
using WorkRef = std::shared_ptr<Work>;

struct QueuedOp {
  u64 serial = 0;
  u32 lane = 0;
  int device = 0;
  WorkRef work;
  std::vector<OpRef> after;  // not done yet, when this was queued
  std::vector<OpRef> next;   // that wait for this
  u32 waiting = 0;           // operations of `after` not done
  bool done = false, running = false;
  ClockRef clock;     // what is over before it begins
  double issued = 0;  // modelled nanoseconds: when the host asked for it
  double end = 0;     // when it was over, once it is done
  double nanoseconds = 0;
  std::string stream;  // "stream 3": for findings
  CallSite from;
};

// The name stays after the work is done, for findings about what came later.
std::string name_of(const QueuedOp& op);

}  // namespace emu
