// The file of a saved graph. Constants are tensors "constant.N" of bytes; "launches" is a list of
// 64-bit numbers, texts among them as their length and their bytes, filled up to 8:
//
//   format, bytes of the pool, number of constants, and the lead of each
//   number of inputs, each: geometry, place     the same for results
//   number of launches, each: contract, operator, fields, operands: [geometry,] place
//   geometry: dtype, axes, then size and stride of each     place: where[, constant], offset
#include <cstring>

#include "warptape/autograd/capture/saved_program.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/safetensors.h"

namespace wt::detail {
namespace {

constexpr u64 kFormat = 1;
constexpr const char* kKey = "wt.graph";
constexpr const char* kLaunches = "launches";
constexpr u64 kMostText = 64;

std::string name_of_constant(size_t i) { return str("constant.", i); }

// --- writing ---

class Writer {
 public:
  void number(u64 v) { words_.push_back(v); }
  void text(std::string_view t) {
    t = t.substr(0, kMostText);
    number(t.size());
    std::vector<u64> words((t.size() + 7) / 8);
    if (!t.empty()) std::memcpy(words.data(), t.data(), t.size());
    words_.insert(words_.end(), words.begin(), words.end());
  }
  void geometry(const Geometry& g) {
    number(u64(g.dtype));
    number(g.ndim);
    for (int i = 0; i < g.ndim; ++i) number(u64(g.shape[i])), number(u64(g.strides[i]));
  }
  void place(const ProgramPlace& p) {
    number(u64(p.where));
    if (p.where == ProgramPlace::Where::constant) number(p.constant);
    if (p.where == ProgramPlace::Where::constant || p.where == ProgramPlace::Where::pool)
      number(p.offset);
  }
  void slots(const std::vector<ProgramSlot>& all) {
    number(all.size());
    for (const ProgramSlot& s : all) geometry(s.geometry), place(s.place);
  }
  void call(ProgramCall& c);
  const std::vector<u64>& words() const { return words_; }

 private:
  std::vector<u64> words_;
};

class FieldWriter final : public LaunchFields {
 public:
  explicit FieldWriter(Writer& to) : to_(to) {}

 private:
  void integer(i64& v) override { to_.number(u64(v)); }
  void real(double& v) override {
    u64 bits;
    std::memcpy(&bits, &v, sizeof bits);
    to_.number(bits);
  }
  void limited(u64& v, u64) override { to_.number(v); }
  Writer& to_;
};

class OperandWriter final : public LaunchOperands {
 public:
  OperandWriter(Writer& to, const ProgramCall& c) : to_(to), places_(c.places) {}

 private:
  void view(View& v, bool) override {
    const ProgramPlace& p = places_[at_++];
    to_.place(p);
    if (p.where != ProgramPlace::Where::absent) to_.geometry(*v.geometry);
  }
  void memory(void*&, i64, DType, bool) override { to_.place(places_[at_++]); }
  Writer& to_;
  const std::vector<ProgramPlace>& places_;
  size_t at_ = 0;
};

void Writer::call(ProgramCall& c) {
  text(c.launch->contract());
  text(c.op);
  FieldWriter fields(*this);
  c.launch->fields(fields);
  OperandWriter operands(*this, c);
  c.launch->operands(operands);
}

std::string slots_text(const std::vector<ProgramSlot>& slots) {
  std::string text;
  for (const ProgramSlot& s : slots)
    text += str(text.empty() ? "" : ", ", shape_of(s.geometry), " ", dtype_name(s.geometry.dtype));
  return text;
}

// --- reading ---

class Reader {
 public:
  Reader(std::string path, std::vector<u64> words)
      : path_(std::move(path)), words_(std::move(words)) {}

  [[noreturn]] void fail(const std::string& why) const {
    data_error(path_, 8 * at_, str("of '", kLaunches, "': ", why));
  }
  bool at_end() const { return at_ == words_.size(); }
  u64 number(u64 most, const char* what) {
    if (at_end()) fail(str("it ends before ", what));
    const u64 v = words_[at_];
    if (v > most) fail(str(what, " is ", v, ", at most ", most, " is possible"));
    ++at_;
    return v;
  }
  // Each of which takes a word at least.
  size_t count(const char* what) { return size_t(number(words_.size() - at_, what)); }
  std::string text(const char* what) {
    const u64 length = number(kMostText, what);
    std::string t(size_t(length), ' ');
    for (u64 i = 0; i < length; i += 8) {
      const u64 word = number(~u64{0}, what);
      std::memcpy(t.data() + i, &word, size_t(std::min<u64>(8, length - i)));
    }
    return t;
  }
  Geometry geometry() {
    Geometry g{};
    g.dtype = DType(number(kNumDTypes - 1, "a dtype"));
    g.ndim = u8(number(kMaxDims, "a number of axes"));
    for (int i = 0; i < g.ndim; ++i) {
      g.shape[i] = i64(number(kMostSavedElements, "a size"));
      g.strides[i] = i64(number(kMostSavedElements, "a stride"));
    }
    if (!sound_geometry(g)) fail("a tensor is too large to address");
    finish_geometry(g);
    return g;
  }
  // Where `elements` lie, which must be inside.
  ProgramPlace place(const SavedProgram& p) {
    using Where = ProgramPlace::Where;
    ProgramPlace at;
    at.where = Where(number(u64(Where::empty), "a place"));
    if (at.where == Where::constant) {
      if (p.constants.empty()) fail("there are no constants");
      at.constant = u32(number(p.constants.size() - 1, "a constant's number"));
    }
    if (at.where == Where::constant || at.where == Where::pool)
      at.offset = number(u64(kMostSavedElements), "an offset");
    return at;
  }
  void check(const SavedProgram& p, const ProgramPlace& at, i64 elements, DType t, bool written) {
    using Where = ProgramPlace::Where;
    if (at.where == Where::absent || elements <= 0) return;
    if (at.where == Where::empty) fail("an operand with elements has no place");
    const bool in_pool = at.where == Where::pool;
    if (written && !in_pool) fail("a constant is written");
    const ProgramConstant* c = in_pool ? nullptr : &p.constants[at.constant];
    const u64 all = c ? c->bytes.size() : p.pool_bytes;
    const u64 bytes = u64(elements) * u64(item_size(t));
    if (at.offset > all || bytes > all - at.offset)
      fail(str("an operand of ", bytes, " bytes at ", at.offset, " in a block of ", all));
    if ((at.offset + (c ? c->lead : 0)) % u64(item_size(t))) fail("an operand is not aligned");
  }
  std::vector<ProgramSlot> slots(const SavedProgram& p, bool written) {
    std::vector<ProgramSlot> all;
    for (size_t n = count("a number of tensors"); n-- > 0;) {
      ProgramSlot& s = all.emplace_back();
      s.geometry = geometry();
      s.place = place(p);
      if (s.place.where == ProgramPlace::Where::absent) fail("a tensor has no place");
      check(p, s.place, extent_of(s.geometry), s.geometry.dtype, written);
    }
    return all;
  }
  ProgramCall call(const SavedProgram& p);

 private:
  std::string path_;
  std::vector<u64> words_;
  size_t at_ = 0;
};

class FieldReader final : public LaunchFields {
 public:
  explicit FieldReader(Reader& from) : from_(from) {}

 private:
  void integer(i64& v) override { v = i64(from_.number(~u64{0}, "a number")); }
  void real(double& v) override {
    const u64 bits = from_.number(~u64{0}, "a number");
    std::memcpy(&v, &bits, sizeof v);
  }
  void limited(u64& v, u64 most) override { v = from_.number(most, "a number of a launch"); }
  Reader& from_;
};

// Pointers are those of operands that are there, and no more.
class OperandReader final : public LaunchOperands {
 public:
  OperandReader(Reader& from, const SavedProgram& p, ProgramCall& c) : from_(from), p_(p), c_(c) {}

 private:
  static void* stand_in() { return reinterpret_cast<void*>(u64{kSavedAlignment}); }
  void view(View& v, bool written) override {
    const ProgramPlace& at = c_.places.emplace_back(from_.place(p_));
    if (at.where == ProgramPlace::Where::absent) return;
    v = {stand_in(), &c_.geometries.emplace_back(from_.geometry())};
    from_.check(p_, at, extent_of(*v.geometry), v.dtype(), written);
  }
  void memory(void*& data, i64 elements, DType t, bool written) override {
    const ProgramPlace& at = c_.places.emplace_back(from_.place(p_));
    if (at.where == ProgramPlace::Where::absent) return;
    data = stand_in();
    from_.check(p_, at, elements, t, written);
  }
  Reader& from_;
  const SavedProgram& p_;
  ProgramCall& c_;
};

ProgramCall Reader::call(const SavedProgram& p) {
  const std::string contract = text("a contract's name");
  ProgramCall c{any_launch(contract, nullptr), text("an operator's name")};
  const std::string name = "'" + printable(contract) + "'";
  if (!c.launch) fail("this version of warptape cannot load the kernel " + name);
  FieldReader fields(*this);
  c.launch->fields(fields);
  if (const char* why = c.launch->why_not_fields()) fail(str(name, ": ", why));
  OperandReader operands(*this, p, c);
  c.launch->operands(operands);
  if (const char* why = c.launch->why_not()) fail(str(name, ": ", why));
  return c;
}

// Refuses files that are something else.
const TensorEntry& launches_of(const SafetensorsFile& file) {
  const std::string* format = file.find_metadata(kKey);
  const TensorEntry* e = file.find(kLaunches);
  if (!format || !e) data_error(file.path(), 8, "it is no saved graph: save_graph() writes those");
  if (*format != str(kFormat)) {
    const std::string* version = file.find_metadata("warptape");
    data_error(file.path(), 8,
               str("a saved graph of format ", printable(*format), ", written by warptape ",
                   version ? printable(*version) : "?", "; this is ", build_info().version,
                   ", which reads format ", kFormat));
  }
  if (!file.has_checksums()) data_error(file.path(), 8, "a saved graph without checksums");
  if (e->dtype != DType::i64 || e->shape.size() != 1)
    data_error(file.path(), 8, str("'", kLaunches, "' is no list of i64"));
  return *e;
}

}  // namespace

void write_program(const std::string& path, SavedProgram& p) {
  Writer w;
  w.number(kFormat);
  w.number(p.pool_bytes);
  w.number(p.constants.size());
  for (const ProgramConstant& c : p.constants) w.number(c.lead);
  w.slots(p.inputs);
  w.slots(p.results);
  w.number(p.calls.size());
  for (ProgramCall& c : p.calls) w.call(c);
  std::vector<SafetensorsItem> items = {
      {kLaunches, DType::i64, {i64(w.words().size())}, w.words().data()}};
  for (size_t i = 0; i < p.constants.size(); ++i)
    items.push_back({name_of_constant(i),
                     DType::u8,
                     {i64(p.constants[i].bytes.size())},
                     p.constants[i].bytes.data()});
  write_safetensors(path, items,
                    {.metadata = {{kKey, str(kFormat)},
                                  {"warptape", build_info().version},
                                  {"inputs", slots_text(p.inputs)},
                                  {"results", slots_text(p.results)},
                                  {"launches", str(p.calls.size())}},
                     .checksums = true});
}

SavedProgram read_program(const std::string& path, const ParseLimits& limits) {
  SafetensorsFile file = SafetensorsFile::open(path, limits);
  const TensorEntry& launches = launches_of(file);
  std::vector<u64> words(size_t(launches.shape[0]));
  file.read(launches, words.data());
  Reader r(file.path(), std::move(words));
  SavedProgram p;
  if (r.number(~u64{0}, "the format") != kFormat) r.fail("another format than the header says");
  p.pool_bytes = r.number(std::min(limits.max_bytes, u64(kMostSavedElements)), "bytes of the pool");
  p.constants.resize(r.count("the number of constants"));
  if (p.constants.size() + 1 != file.entries().size())
    r.fail(
        str("there are ", file.entries().size() - 1, " other tensors, not ", p.constants.size()));
  for (size_t i = 0; i < p.constants.size(); ++i) {
    ProgramConstant& c = p.constants[i];
    c.lead = u32(r.number(kSavedAlignment - 1, "a constant's lead"));
    const TensorEntry* e = file.find(name_of_constant(i));
    if (!e || e->dtype != DType::u8) r.fail(name_of_constant(i) + " is missing");
    c.bytes.resize(size_t(e->bytes()));
    file.read(*e, c.bytes.data());
  }
  p.inputs = r.slots(p, true);
  p.results = r.slots(p, false);
  for (size_t n = r.count("the number of launches"); n-- > 0;) p.calls.push_back(r.call(p));
  if (!r.at_end()) r.fail("something follows the last launch");
  return p;
}

}  // namespace wt::detail
