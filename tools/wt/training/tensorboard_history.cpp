#include "warptape/tools/wt/training/tensorboard_history.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "warptape/core/error.h"
#include "warptape/data/tfrecord.h"

namespace wt::tools {
namespace {

// The fields of a protocol buffer's message, as far as it is one.
class ProtoFields {
 public:
  explicit ProtoFields(std::string_view message) : rest_(message) {}

  u32 field = 0;
  u64 number = 0;          // of a varint, or the bits of a fixed one
  std::string_view bytes;  // of a text or message

  bool next() {
    u64 key = 0;
    if (rest_.empty() || !varint(key)) return false;
    field = u32(key >> 3);
    bytes = {};
    switch (key & 7) {
      case 0:
        return varint(number);
      case 1:
        return fixed(8);
      case 2:
        if (!varint(number) || number > rest_.size()) return false;
        bytes = rest_.substr(0, number);
        rest_.remove_prefix(number);
        return true;
      case 5:
        return fixed(4);
      default:
        return false;
    }
  }

 private:
  bool varint(u64& v) {
    v = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const u8 byte = u8(rest_[0]);
      rest_.remove_prefix(1);
      v |= u64(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return true;
    }
    return false;
  }
  bool fixed(size_t n) {
    if (n > rest_.size()) return false;
    number = 0;
    std::memcpy(&number, rest_.data(), n);
    rest_.remove_prefix(n);
    return true;
  }
  std::string_view rest_;
};

using History = std::map<std::string, std::vector<TensorBoardPoint>>;

void add_value(std::string_view message, TensorBoardPoint point, History& history) {
  bool scalar = false;
  for (ProtoFields f(message); f.next();) {
    if (f.field == 1) point.tag = f.bytes;
    if (f.field == 2) {
      const u32 bits = u32(f.number);
      std::memcpy(&point.value, &bits, sizeof bits);
      scalar = true;
    }
  }
  if (scalar) history[point.tag].push_back(std::move(point));
}

// tensorboard.Event: wall_time = 1, step = 2, summary = 5 {value = 1}, session_log = 7 {status = 1,
// of which 1 is START}. Steps stand before what they are of.
void add_event(std::string_view message, History& history) {
  TensorBoardPoint point;
  for (ProtoFields f(message); f.next();) {
    if (f.field == 1) std::memcpy(&point.wall_time, &f.number, sizeof f.number);
    if (f.field == 2) point.step = i64(f.number);
    if (f.field == 5)
      for (ProtoFields value(f.bytes); value.next();)
        if (value.field == 1) add_value(value.bytes, point, history);
    if (f.field == 7)
      for (ProtoFields log(f.bytes); log.next();)
        if (log.field == 1 && log.number == 1)
          for (auto& [tag, points] : history)
            std::erase_if(points, [&](const auto& p) { return p.step >= point.step; });
  }
}

}  // namespace

std::vector<TensorBoardPoint> last_points_before(const std::string& directory, i64 first_step) {
  namespace fs = std::filesystem;
  std::error_code why;
  std::vector<std::string> files;
  for (fs::directory_iterator at(directory, why), end; !why && at != end; at.increment(why))
    if (at->path().filename().string().starts_with(kEventFilePrefix))
      files.push_back(at->path().string());
  std::sort(files.begin(), files.end());
  History history;
  for (const std::string& file : files) {
    try {
      data::TfRecordReader reader(file, {.allow_partial_tail = true});
      for (std::string record; reader.next(record);) add_event(record, history);
    } catch (const DataError&) {
      continue;  // what stands before the damage counts
    }
  }
  std::vector<TensorBoardPoint> last;
  for (const auto& [tag, points] : history) {
    const TensorBoardPoint* before = nullptr;
    bool later = false;
    for (const TensorBoardPoint& p : points)
      if (p.step >= first_step)
        later = true;
      else if (!before || p.step >= before->step)
        before = &p;
    if (later && before) last.push_back(*before);
  }
  return last;
}

}  // namespace wt::tools
