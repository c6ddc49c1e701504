#include "warptape/core/mailbox.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/frame.h"
#include "warptape/core/half.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/memory/mailbox_lane.h"
#include "warptape/core/op_info.h"
#include "warptape/core/slices.h"
#include "warptape/core/storage.h"

namespace wt {
namespace {

constexpr i64 kBoxBytes = i64(sizeof(MailboxRecord)) * detail::kMailboxLanes;

// The records of all lanes.
struct Box {
  Device device;
  Storage* storage;
};
struct Boxes {
  std::mutex mutex;
  std::vector<Box> list;
  std::vector<const OpInfo*> ops;
  std::array<bool, detail::kMailboxLanes> taken{true};
};
Boxes& boxes() {
  static Boxes* b = new Boxes;
  return *b;
}
constinit MailboxRecord cpu_records[detail::kMailboxLanes] = {};
constinit thread_local u32 lane = 0;

MailboxRecord* record_in(const Box& b) {
  return static_cast<MailboxRecord*>(b.storage->data) + lane;
}
MailboxRecord* existing(Device d) {
  if (d.kind == DeviceKind::cpu) return &cpu_records[lane];
  Boxes& b = boxes();
  const std::lock_guard lock(b.mutex);
  for (const Box& box : b.list)
    if (box.device == d) return record_in(box);
  return nullptr;
}

}  // namespace

void detail::forget_mailboxes(DeviceKind k) {
  Boxes& b = boxes();
  const std::lock_guard lock(b.mutex);
  std::erase_if(b.list, [&](const Box& box) {
    if (box.device.kind != k) return false;
    release(box.storage);
    return true;
  });
}

MailboxRecord* mailbox_of(Device d) {
  if (d.is_meta) return nullptr;
  if (MailboxRecord* r = existing(d)) return r;
  const CategoryScope scope(Category::other);
  const detail::SliceScope one({});  // whatever operator is the first to ask
  Storage* s = allocate(d, kBoxBytes);
  fill_zero(s->data, d, kBoxBytes);
  synchronize(d);  // kernels of other streams may raise it next
  Boxes& b = boxes();
  std::unique_lock lock(b.mutex);
  const auto at =
      std::find_if(b.list.begin(), b.list.end(), [&](const Box& box) { return box.device == d; });
  if (at == b.list.end()) {
    b.list.push_back({d, s});
    return record_in(b.list.back());
  }
  MailboxRecord* const r = record_in(*at);  // another thread was first
  lock.unlock();
  release(s);
  return r;
}

u32 mailbox_op_id(const OpInfo& info) {
  Boxes& b = boxes();
  const std::lock_guard lock(b.mutex);
  for (u32 i = 0; i < b.ops.size(); ++i)
    if (b.ops[i] == &info) return i;
  b.ops.push_back(&info);
  return u32(b.ops.size() - 1);
}

// 10 bits for the operator, the rest for the line; a line beyond that is left out.
constexpr u32 kOpBits = 10, kOpMask = (1u << kOpBits) - 1;

u32 mailbox_source(u32 op_id, u32 at) {
  return op_id | (at < (1u << (32 - kOpBits)) ? at << kOpBits : 0);
}

void clear_mailbox(Device d) {
  if (d.is_meta) return;
  if (d.kind == DeviceKind::cpu) {
    MailboxRecord& r = cpu_records[lane];
    if (r.raised) r = {};  // other threads read lane 0
  } else if (MailboxRecord* r = existing(d)) {
    fill_zero(r, d, sizeof(MailboxRecord));
  }
}

const i32* mailbox_flag(Device d) {
  MailboxRecord* r = mailbox_of(d);
  return r ? &r->raised : nullptr;
}

bool read_mailbox(Device d, MailboxRecord& record) {
  if (d.is_meta) return false;
  const MailboxRecord* r = existing(d);
  if (!r) return false;
  copy_bytes(&record, Device::cpu(), r, d, sizeof(MailboxRecord));
  return record.raised != 0;
}

void check_mailbox(Device d) {
  MailboxRecord r;
  if (!read_mailbox(d, r)) return;
  clear_mailbox(d);
  const char* op = "?";
  {
    Boxes& b = boxes();
    const std::lock_guard lock(b.mutex);
    if ((r.op_id & kOpMask) < b.ops.size()) op = b.ops[r.op_id & kOpMask]->name;
  }
  const FrameId at = r.op_id >> kOpBits;
  const MailboxCode code = MailboxCode(r.raised);
  const std::string where = at ? "\n  at " + describe_frame(at) : std::string();
  if (code == MailboxCode::pixel_out_of_range)
    throw UsageError(str("[", op, "] pixel ", detail::bits_float(u32(r.value)), " at position ",
                         r.position, " is outside [0, 1]", where));
  const char* what = code == MailboxCode::label_out_of_range   ? "label"
                     : code == MailboxCode::token_out_of_range ? "token id"
                                                               : "index";
  const char* place = code == MailboxCode::label_out_of_range ? "sample" : "position";
  throw IndexError(str("[", op, "] ", what, " ", r.value, " at ", place, " ", r.position,
                       " is outside [0, ", r.limit, ")", where));
}

namespace detail {

u32 mailbox_lane() { return lane; }
void set_mailbox_lane(u32 l) { lane = l; }

namespace {

std::vector<Device> devices_with_mailbox() {
  std::vector<Device> all{Device::cpu()};
  Boxes& b = boxes();
  const std::lock_guard lock(b.mutex);
  for (const Box& box : b.list) all.push_back(box.device);
  return all;
}

}  // namespace

MailboxLane::MailboxLane() : before_(lane) {
  Boxes& b = boxes();
  const std::lock_guard lock(b.mutex);
  const auto at = std::find(b.taken.begin(), b.taken.end(), false);
  if (at == b.taken.end()) {
    lane = 0;
    return;
  }
  *at = true;
  lane = u32(at - b.taken.begin());
}

MailboxLane::~MailboxLane() {
  const u32 mine = lane;
  if (mine != 0) {
    try {
      MailboxRecord r;  // reading it waits for the kernels that may still raise it
      for (const Device d : devices_with_mailbox())
        if (read_mailbox(d, r)) clear_mailbox(d);
    } catch (...) {  // a device that is lost
    }
    Boxes& b = boxes();
    const std::lock_guard lock(b.mutex);
    b.taken[mine] = false;
  }
  lane = before_;
}

void check_all_mailboxes() {
  for (const Device d : devices_with_mailbox()) check_mailbox(d);
}

}  // namespace detail

}  // namespace wt
