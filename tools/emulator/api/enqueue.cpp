// Work that another stand-in library queues on a stream.
#include "api/enqueue.h"

#include "api/api.h"
#include "device/copy.h"

using namespace emu;

namespace {

struct ExternalWork : Work {
  ExternalWork(const char* n, const EmuAccess* a, size_t count, void (*f)(void*), void* s)
      : Work(WorkKind::external), text(n), accesses(a, a + count), function(f), state(s) {}

  void run(QueuedOp& op) override {
    for (const EmuAccess& a : accesses) {
      if (!usable(op, a.address, a.bytes, a.write ? "destination" : "operand")) return;
      Conflict c;
      if (!note_range(op, a.address, a.bytes, a.write, &c))
        finding(text + (a.write ? " writes" : " reads") + " memory that another operation " +
                    (c.other_wrote ? "writes" : "reads") + ", and nothing orders them",
                describe_address(a.address) + "\n  " + describe_op(&op) + "\n  the other is " +
                    describe_op(c.other));
    }
    function(state);
    u64 bytes = 0;
    for (const EmuAccess& a : accesses) bytes += a.bytes;
    op.nanoseconds = 5000 + double(bytes) / gpu_model().bytes_per_ns();
  }
  std::string name() const override { return text; }
  Touch touches(u64 begin, u64 end) const override {
    Touch touch = Touch::no;
    for (const EmuAccess& a : accesses) {
      if (a.address >= end || begin >= a.address + a.bytes) continue;
      if (a.write) return Touch::writes;
      touch = Touch::reads;
    }
    return touch;
  }

  const std::string text;
  const std::vector<EmuAccess> accesses;
  void (*const function)(void*);
  void* const state;
};

}  // namespace

#define EXPORT __attribute__((visibility("default")))

EXPORT void __wt_emu_enqueue(void* stream, const char* name, const EmuAccess* accesses, size_t n,
                             void (*run)(void*), void* state) {
  call(name, kLaunch, [&] {
    const StreamRef s = stream_or_note(name, static_cast<cudaStream_t>(stream));
    if (!s) return cudaErrorInvalidResourceHandle;
    return put(name, s, std::make_shared<ExternalWork>(name, accesses, n, run, state));
  });
}

EXPORT int64_t __wt_emu_alias(uint64_t address, uint64_t bytes) {
  const Locked lock;
  const Block* b = find_block(address, bytes);
  return b ? b->alias : INT64_MIN;
}

EXPORT uint64_t __wt_emu_findings() {
  const Locked lock;
  return findings();
}
EXPORT void __wt_emu_forget_findings() {
  const Locked lock;
  forget_findings();
}
