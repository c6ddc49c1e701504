#include "warptape/kernels/simt/queued_work.h"

#include <cstring>

#include "warptape/core/files/crc32c.h"

namespace wt::simt_runtime {
namespace {

[[noreturn]] void fail_with(const std::string& what, const Place& place) {
  throw KernelError(what + place.text());
}

void hold(std::vector<HeldPointer>& list, const void* p, int argument, const std::string& title,
          const Place& place) {
  HeldPointer h{p, argument, {}};
  if (!find_allocation(p, h.memory))
    fail_with(strf("%s: argument %d is %p, memory of simt that has been freed", title.c_str(),
                   argument, p),
              place);
  list.push_back(h);
}

// What the streams of the work did not say to the allocator shows here.
void check_held(const std::vector<HeldPointer>& list, const std::string& title) {
  for (const HeldPointer& h : list)
    if (!still_there(h.memory))
      throw KernelError(
          strf("%s: argument %d, %p, was freed on its own stream before this ran: nobody had "
               "recorded that this stream uses it",
               title.c_str(), h.argument, h.pointer));
}

}  // namespace

std::string Place::text() const {
  if (!at) return {};
  return "\n  queued at " + describe(at) + (module ? ", in " + wt::to_string(module) : "");
}

QueuedLaunch::QueuedLaunch(const GridLaunch& g) : grid_(g) {
  for (int i = 0; i < g.pointer_count; ++i)
    if (g.pointers[i]) hold(held_, g.pointers[i], g.pointer_args[i], kernel_title(g), place_);
  grid_.pointer_count = 0;  // what they point at is looked at before the grid runs
  grid_.pointers = nullptr;
  grid_.pointer_args = nullptr;
  constexpr size_t kAlign = 64;
  memory_ = std::make_unique<unsigned char[]>(g.body_bytes + kAlign);
  auto at = (reinterpret_cast<uintptr_t>(memory_.get()) + kAlign - 1) / kAlign * kAlign;
  grid_.body = reinterpret_cast<void*>(at);
  std::memcpy(grid_.body, g.body, g.body_bytes);
}

void QueuedLaunch::run(const SimtOptions& options) const {
  try {
    check_held(held_, kernel_title(grid_));
    run_launch(grid_, options);
  } catch (const KernelError& e) {
    const std::string text = place_.text(), what = e.what(), kind = "KernelError: ";
    if (text.empty()) throw;
    throw KernelError((what.starts_with(kind) ? what.substr(kind.size()) : what) + text);
  }
}

QueuedCopy::QueuedCopy(const Copy& c) : copy(c) {
  if (!c.host_to) hold(held, c.to, 1, title(), place);
  if (!c.host_from && c.from) hold(held, c.from, 2, title(), place);
}

const char* QueuedCopy::title() const {
  return copy.host_from ? "copy from the host"
         : copy.host_to ? "copy to the host"
         : copy.from    ? "copy within the device"
                        : "fill with zeros";
}

void QueuedCopy::run() const {
  try {
    check_held(held, title());
  } catch (const KernelError&) {
    fail_with(std::string(title()) +
                  ": device memory was freed on its own stream before this ran: nobody had "
                  "recorded that this stream uses it",
              place);
  }
  if (compare && crc32c(host(), copy.bytes) != sum)
    fail_with(str(title(), ": the host changed ", copy.bytes,
                  " bytes of its buffer before the copy had run"),
              place);
  const ArenaOpen open;
  if (copy.from)
    std::memmove(copy.to, copy.from, copy.bytes);
  else
    std::memset(copy.to, 0, copy.bytes);
}

}  // namespace wt::simt_runtime
