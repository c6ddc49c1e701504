// tf.Example: Example {1: Features {1: map entry {1: name, 2: Feature}}}, Feature {1: bytes, 2:
// floats, 3: integers}, each a list {1: values}. tensorflow/core/example/{example,feature}.proto
#include <algorithm>
#include <cstring>
#include <map>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/data/tfrecord.h"

namespace wt::data {
namespace {

enum Wire : u32 {
  kVarint = 0,
  kFixed64 = 1,
  kLengthed = 2,
  kGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

// Fields of one message, in the order of its bytes.
class WireReader {
 public:
  WireReader(std::string_view bytes, const std::string& path, u64 offset)
      : bytes_(bytes), path_(path), offset_(offset) {}

  u32 field = 0, wire = 0;

  bool next() {
    if (at_ == bytes_.size()) return false;
    const u64 tag = varint();
    if (tag >> 3 == 0 || tag >> 32) fail(str("field number ", tag >> 3, " is not possible"));
    field = u32(tag >> 3);
    wire = u32(tag & 7);
    if (wire == kGroup || wire == kEndGroup) fail("a group, which is not read");
    if (wire > kFixed32) fail(str("wire type ", wire, ", expected 0, 1, 2 or 5"));
    return true;
  }
  u64 varint() {
    u64 v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const u8 byte = u8(take(1)[0]);
      if (shift == 63 && byte > 1) break;
      v |= u64(byte & 127) << shift;
      if (byte < 128) return v;
    }
    fail("a varint of more than 64 bits");
  }
  std::string_view lengthed() { return take(varint()); }
  float fixed32() {
    float v;
    std::memcpy(&v, take(4).data(), 4);
    return v;
  }
  WireReader message() {
    const std::string_view inner = lengthed();
    return {inner, path_, offset_ + at_ - inner.size()};
  }
  void skip() {
    if (wire == kVarint) varint();
    if (wire == kFixed64) take(8);
    if (wire == kLengthed) lengthed();
    if (wire == kFixed32) take(4);
  }
  bool empty() const { return at_ == bytes_.size(); }
  [[noreturn]] void fail(const std::string& what) const {
    data_error(path_, offset_ + at_, "tf.Example: " + what);
  }

 private:
  std::string_view take(u64 n) {
    if (n > bytes_.size() - at_)
      fail(str(n, " bytes are needed, ", bytes_.size() - at_, " are left"));
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  std::string_view bytes_;
  const std::string& path_;
  u64 offset_, at_ = 0;
};

// The list of this type that `f` has, or a new one: another type is replaced, as in a oneof.
template <class T>
std::vector<T>& list_of(TfFeature& f) {
  if (!std::holds_alternative<std::vector<T>>(f)) f = std::vector<T>();
  return std::get<std::vector<T>>(f);
}

void read_bytes_list(WireReader m, std::vector<std::string>& to, u64 most) {
  while (m.next()) {
    if (m.field != 1 || m.wire != kLengthed) {
      m.skip();
      continue;
    }
    if (to.size() >= most) m.fail(str("more than ", most, " values (ParseLimits::max_items)"));
    to.emplace_back(m.lengthed());
  }
}
void read_floats(WireReader m, std::vector<float>& to) {
  while (m.next()) {
    if (m.field == 1 && m.wire == kFixed32) {
      to.push_back(m.fixed32());
    } else if (m.field == 1 && m.wire == kLengthed) {
      WireReader packed = m.message();
      while (!packed.empty()) to.push_back(packed.fixed32());
    } else {
      m.skip();
    }
  }
}
void read_integers(WireReader m, std::vector<i64>& to) {
  while (m.next()) {
    if (m.field == 1 && m.wire == kVarint) {
      to.push_back(i64(m.varint()));
    } else if (m.field == 1 && m.wire == kLengthed) {
      WireReader packed = m.message();
      while (!packed.empty()) to.push_back(i64(packed.varint()));
    } else {
      m.skip();
    }
  }
}

void read_feature(WireReader m, TfFeature& f, u64 most) {
  while (m.next()) {
    if (m.wire != kLengthed || m.field > 3)
      m.skip();
    else if (m.field == 1)
      read_bytes_list(m.message(), list_of<std::string>(f), most);
    else if (m.field == 2)
      read_floats(m.message(), list_of<float>(f));
    else
      read_integers(m.message(), list_of<i64>(f));
  }
}

void read_entry(WireReader m, std::map<std::string, TfFeature>& to, const ParseLimits& limits) {
  std::string name;
  TfFeature value;
  while (m.next()) {
    if (m.field == 1 && m.wire == kLengthed) {
      name = m.lengthed();
      if (!is_utf8(name)) m.fail("a feature's name is not UTF-8");
    } else if (m.field == 2 && m.wire == kLengthed) {
      read_feature(m.message(), value, limits.max_items);
    } else {
      m.skip();
    }
  }
  to[name] = std::move(value);
  if (to.size() > limits.max_items) m.fail("too many features (ParseLimits::max_items)");
}

void put_varint(std::string& to, u64 v) {
  for (; v >= 128; v >>= 7) to += char(v | 128);
  to += char(v);
}
void put_field(std::string& to, u32 field, std::string_view content) {
  put_varint(to, field << 3 | kLengthed);
  put_varint(to, content.size());
  to += content;
}

std::string feature_bytes(const TfFeature& f) {
  std::string list, out;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&f)) {
    for (const std::string& t : *texts) put_field(list, 1, t);
    put_field(out, 1, list);
  } else if (const auto* floats = std::get_if<std::vector<float>>(&f)) {
    if (!floats->empty())
      put_field(list, 1, {reinterpret_cast<const char*>(floats->data()), 4 * floats->size()});
    put_field(out, 2, list);
  } else if (const auto* integers = std::get_if<std::vector<i64>>(&f)) {
    std::string packed;
    for (const i64 v : *integers) put_varint(packed, u64(v));
    if (!packed.empty()) put_field(list, 1, packed);
    put_field(out, 3, list);
  }
  return out;
}

}  // namespace

const TfFeature* find_feature(const TfExample& example, std::string_view name) {
  const auto at = std::lower_bound(example.begin(), example.end(), name,
                                   [](const auto& e, std::string_view n) { return e.first < n; });
  return at != example.end() && at->first == name ? &at->second : nullptr;
}

TfExample parse_tf_example(std::string_view bytes, const std::string& path, u64 offset,
                           const ParseLimits& limits) {
  std::map<std::string, TfFeature> features;
  WireReader example(bytes, path, offset);
  while (example.next()) {
    if (example.field != 1 || example.wire != kLengthed) {
      example.skip();
      continue;
    }
    WireReader list = example.message();
    while (list.next())
      if (list.field == 1 && list.wire == kLengthed)
        read_entry(list.message(), features, limits);
      else
        list.skip();
  }
  return {std::make_move_iterator(features.begin()), std::make_move_iterator(features.end())};
}

std::string tf_example_bytes(const TfExample& example) {
  std::string features, out;
  for (const auto& [name, feature] : example) {
    std::string entry;
    put_field(entry, 1, name);
    put_field(entry, 2, feature_bytes(feature));
    put_field(features, 1, entry);
  }
  put_field(out, 1, features);
  return out;
}

}  // namespace wt::data
