#include "warptape/tools/wt/training/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/core/files/json.h"
#include "warptape/tools/wt/training/tensorboard_history.h"

namespace wt::tools {
namespace {

// Protocol buffers, the little of them that is needed
// (https://protobuf.dev/programming-guides/encoding/).
enum WireType : u32 { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, u64 value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <class T>
void put_little(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i));
}

void put_key(std::string& out, u32 field, WireType type) { put_varint(out, field << 3 | type); }

void put_bytes(std::string& out, u32 field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// tensorboard.Event (tensorflow/core/util/event.proto): wall_time = 1, step = 2, and one of
// file_version = 3, summary = 5, session_log = 7.
std::string event_at(double wall_time, i64 step, u32 field, std::string_view content) {
  std::string out;
  put_key(out, 1, kFixed64);
  put_little(out, std::bit_cast<u64>(wall_time));
  if (step != 0) {
    put_key(out, 2, kVarint);
    put_varint(out, static_cast<u64>(step));
  }
  put_bytes(out, field, content);
  return out;
}

std::string event(i64 step, u32 field, std::string_view content) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return event_at(std::chrono::duration<double>(now).count(), step, field, content);
}

// tensorboard.Summary: value = 1 {tag = 1, simple_value = 2}.
void put_scalar(std::string& summary, std::string_view tag, float v) {
  std::string value;
  put_bytes(value, 1, tag);
  put_key(value, 2, kFixed32);
  put_little(value, std::bit_cast<u32>(v));
  put_bytes(summary, 1, value);
}

// TFRecord: length, its checksum, data, its checksum.
u32 masked_crc(std::string_view data) { return masked_crc32c(data.data(), data.size()); }

std::string record(std::string_view data) {
  std::string out;
  put_little(out, u64{data.size()});
  put_little(out, masked_crc(out));
  out += data;
  put_little(out, masked_crc(data));
  return out;
}

// TensorBoard takes no other bytes for certain, and a string of protobuf must be UTF-8.
std::string clean_tag(std::string_view tag) {
  if (tag.empty()) throw UsageError("[tensorboard] a tag must not be empty");
  const bool utf8 = is_utf8(tag);
  std::string out;
  for (const char c : tag) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::strchr("-_./ ", c) != nullptr;
    out += (plain && c != 0) || (utf8 && (c & 0x80)) ? c : '_';
  }
  return out;
}

// Names sort in the order of the starts, also when the clock was set back or a run starts twice
// within a second.
std::string new_name(const std::string& directory) {
  namespace fs = std::filesystem;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  long long seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kEventFilePrefix)) continue;
    const long long taken = std::strtoll(name.c_str() + kEventFilePrefix.size(), nullptr, 10);
    if (taken >= seconds && taken < 99'999'999'999) seconds = taken + 1;
  }
  char host[256] = "host";
  ::gethostname(host, sizeof host - 1);
  std::string name = std::string(kEventFilePrefix) + std::to_string(seconds) + "." + host;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

std::string make_path(const std::string& directory) {
  std::error_code made;  // what matters is whether the file can be opened there
  std::filesystem::create_directories(directory, made);
  return directory + "/" + new_name(directory);
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::string& directory, i64 first_step)
    : path_(make_path(directory)), file_(path_, true) {
  std::string start;  // tensorboard.SessionLog: status = 1, START = 1
  put_key(start, 1, kVarint);
  put_varint(start, 1);
  try {
    std::string head = record(event(0, 3, "brain.Event:2")) + record(event(first_step, 7, start));
    if (first_step > 0)
      for (const TensorBoardPoint& p : last_points_before(directory, first_step)) {
        std::string summary;
        put_scalar(summary, p.tag, p.value);
        head += record(event_at(p.wall_time, p.step, 5, summary));
      }
    file_.append(head);
  } catch (...) {
    ::unlink(path_.c_str());
    throw;
  }
}

void TensorBoardWriter::add(i64 step, std::span<const TensorBoardScalar> scalars) {
  if (scalars.empty()) return;
  std::string summary;
  for (const TensorBoardScalar& s : scalars)
    put_scalar(summary, clean_tag(s.tag), static_cast<float>(s.value));
  file_.append(record(event(step, 5, summary)));
}

void TensorBoardWriter::log(const StepRecord& r, std::optional<double> step_ms) {
  std::vector<TensorBoardScalar> all{{"train/loss", r.loss}, {"opt/lr", r.lr}};
  if (r.grad_norm) all.push_back({"opt/grad_norm", *r.grad_norm});
  if (r.scale) all.push_back({"amp/scale", *r.scale});
  if (r.items_per_second) all.push_back({"sys/items_per_second", *r.items_per_second});
  if (r.bytes) all.push_back({"sys/mem_gib", double(*r.bytes) / double(u64{1} << 30)});
  if (step_ms) all.push_back({"sys/step_ms", *step_ms});
  add(r.step, all);
}

void TensorBoardWriter::log(const EvalRecord& r) {
  std::vector<TensorBoardScalar> all{{"val/loss", r.eval_loss}};
  if (r.accuracy) all.push_back({"val/acc", *r.accuracy});
  if (r.top5) all.push_back({"val/top5", *r.top5});
  if (r.bleu) all.push_back({"val/bleu", *r.bleu});
  if (r.sample) all.push_back({"val/samples", double(r.sample->taken)});
  add(r.step, all);
}

}  // namespace wt::tools
