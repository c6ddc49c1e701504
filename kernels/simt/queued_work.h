// Launches and copies that run later than they are asked for: in a stream's queue, or each time
// that a graph is launched. They own all that they need. Internal to kernels/simt/.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "warptape/core/in.h"
#include "warptape/core/mode.h"
#include "warptape/kernels/simt/queues.h"

namespace wt::simt_runtime {

// Where the user asked for it; text is made only when there is something to say.
struct Place {
  const OpInfo* op = mode.op;
  Frame at = mode.frame ? frame_of(mode.frame) : mode.operand ? mode.operand->frame() : Frame{};
  const ModulePath* module = mode.module;

  std::string text() const;
};

// A pointer that the work uses, and what it was then.
struct HeldPointer {
  const void* pointer;
  int argument;  // counted from 1
  Allocation memory;
};

class QueuedLaunch {
 public:
  explicit QueuedLaunch(const GridLaunch& g);
  void run(const SimtOptions& options) const;
  void* stream() const { return grid_.stream; }

 private:
  GridLaunch grid_;
  Place place_;
  std::vector<HeldPointer> held_;
  std::unique_ptr<unsigned char[]> memory_;
};

struct QueuedCopy {
  explicit QueuedCopy(const Copy& c);
  void run() const;
  const void* host() const { return copy.host_from ? copy.from : copy.to; }

  Copy copy;
  Place place;
  std::vector<HeldPointer> held;
  bool compare = false;  // the host's bytes with their checksum
  u32 sum = 0;

 private:
  const char* title() const;
};

}  // namespace wt::simt_runtime
