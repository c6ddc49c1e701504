// What every byte of a device was for, over time: each allocation and release with who asked for
// it.
//
//   memory::Trace trace(Device::cpu());
//   step(batch, loss_of);
//   trace.peak().bytes;                         // the highest level, and of what it consisted
//   for (const memory::Holder& h : trace.at_peak()) ... h.title(), h.bytes
//
// While a trace exists every allocation of the process makes a detour; without one none does.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "warptape/core/memory.h"
#include "warptape/core/profiler.h"

namespace wt::memory {

using ByCategory = std::array<i64, kNumCategories>;

// A level of live bytes; the categories add up to it.
struct Level {
  i64 bytes = 0;
  ByCategory by_category{};
};

// Blocks that were asked for from one place.
struct Holder {
  Category category = Category::other;
  const OpInfo* op = nullptr;        // null: no operator asked (an optimizer, a module, a loader)
  const OpInfo* backward = nullptr;  // the node whose backward asked
  u32 mode_id = 0;                   // module_path_of(mode_id)
  FrameId frame = 0;                 // the user's line; 0: unknown
  bool before = false;               // it was there when the trace began: nothing else is known
  i64 bytes = 0, blocks = 0;

  // "block0.up.linear <- charlm.cpp:71", "block0.up.linear.backward <- ...", "parameter, from
  // before".
  WT_API std::string title() const;
};

struct TraceOptions {
  bool history = true;  // false: only what is live now is kept; peak() and timeline() throw
};

class WT_API Trace {
 public:
  // Of the real or the meta device `d`, from now on: what this thread allocates, and other threads
  // from their next operator on. Up to four observers at a time (core/profiler.h), else UsageError.
  explicit Trace(Device d, TraceOptions options = {});
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  Level now() const;
  // The highest level so far.
  Level peak() const;
  // Who held the bytes then, the largest first; they add up to peak().bytes.
  std::vector<Holder> at_peak() const;
  // Who holds what was allocated since the trace began and is still there, the largest first.
  std::vector<Holder> live() const;
  // Allocations and releases so far.
  i64 events() const;
  // The levels, for a chart: the highest of each of `columns` stretches of equal numbers of events
  // (fewer where there are fewer events).
  std::vector<Level> timeline(i64 columns) const;

 private:
  struct Recorder;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<profiler::ObserverScope> watch_;
};

}  // namespace wt::memory
