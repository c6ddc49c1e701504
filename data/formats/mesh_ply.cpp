// PLY: a header in text that says which numbers of which elements follow, in text or binary.
// Paul Bourke, http://paulbourke.net/dataformats/ply/
#include <algorithm>
#include <bit>
#include <optional>

#include "warptape/data/bytes.h"
#include "warptape/data/formats/mesh_parts.h"

namespace wt::data {
namespace {

enum class PlyFormat { ascii, little, big };
enum class PlyType { i8, u8, i16, u16, i32, u32, f32, f64 };

std::optional<PlyType> ply_type(std::string_view name) {
  static constexpr std::pair<std::string_view, PlyType> kNames[] = {
      {"char", PlyType::i8},    {"int8", PlyType::i8},     {"uchar", PlyType::u8},
      {"uint8", PlyType::u8},   {"short", PlyType::i16},   {"int16", PlyType::i16},
      {"ushort", PlyType::u16}, {"uint16", PlyType::u16},  {"int", PlyType::i32},
      {"int32", PlyType::i32},  {"uint", PlyType::u32},    {"uint32", PlyType::u32},
      {"float", PlyType::f32},  {"float32", PlyType::f32}, {"double", PlyType::f64},
      {"float64", PlyType::f64}};
  for (const auto& [known, type] : kNames)
    if (known == name) return type;
  return std::nullopt;
}
size_t ply_size(PlyType t) {
  static constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 8};
  return kSizes[size_t(t)];
}
bool is_whole(PlyType t) { return t != PlyType::f32 && t != PlyType::f64; }

struct Property {
  std::string name;
  PlyType type;
  std::optional<PlyType> count;  // of a list
};
struct Element {
  std::string name;
  u64 count = 0;
  std::vector<Property> properties = {};
};

class PlyHeader {
 public:
  PlyHeader(const std::string& path, std::string_view text, const ParseLimits& limits)
      : lines_(path, text), limits_(limits) {
    Line line = lines_.require("its header");
    if (line.text != "ply") lines_.fail(line, "a PLY file begins with the line 'ply'");
    for (line = next(); words_[0] != "end_header"; line = next()) read(line);
    if (!format_) lines_.fail(line, "the header has no format");
  }
  PlyFormat format() const { return *format_; }
  const std::vector<Element>& elements() const { return elements_; }
  u64 end() const { return lines_.byte(); }
  i64 lines() const { return lines_.read(); }

 private:
  // The next line with words that is no comment.
  Line next() {
    for (;;) {
      const Line line = lines_.require("'end_header'");
      if (line.byte > limits_.max_header || line.text.size() > limits_.max_header)
        lines_.fail(line, str("a header of more than ", limits_.max_header, " bytes"));
      split_words(line.text, words_);
      if (words_.empty()) lines_.fail(line, "an empty line in the header");
      if (words_[0] != "comment" && words_[0] != "obj_info") return line;
    }
  }
  void read(const Line& line) {
    if (words_[0] == "format" && words_.size() == 3 && !format_) {
      if (words_[2] != "1.0") lines_.fail(line, "only version 1.0 is read");
      if (words_[1] == "ascii") format_ = PlyFormat::ascii;
      if (words_[1] == "binary_little_endian") format_ = PlyFormat::little;
      if (words_[1] == "binary_big_endian") format_ = PlyFormat::big;
      if (!format_)
        lines_.fail(line, str("'", printable(words_[1], 40), "' is no format of version 1.0"));
    } else if (words_[0] == "element" && words_.size() == 3) {
      for (const Element& e : elements_)
        if (e.name == words_[1]) lines_.fail(line, "an element is there twice");
      elements_.push_back({std::string(words_[1]), lines_.number<u64>(line, words_[2], "count")});
    } else if (words_[0] == "property" && !elements_.empty() &&
               (words_.size() == 3 || (words_.size() == 5 && words_[1] == "list"))) {
      property(line);
    } else {
      lines_.fail(line, "neither format nor element, property, comment or end_header");
    }
  }
  void property(const Line& line) {
    Property p{std::string(words_.back()), type(line, words_[words_.size() - 2]), {}};
    if (words_.size() == 5) {
      p.count = type(line, words_[2]);
      if (!is_whole(*p.count)) lines_.fail(line, "the length of a list must be a whole number");
    }
    for (const Property& other : elements_.back().properties)
      if (other.name == p.name) lines_.fail(line, "a property is there twice");
    elements_.back().properties.push_back(std::move(p));
  }
  PlyType type(const Line& line, std::string_view name) const {
    const auto t = ply_type(name);
    if (!t) lines_.fail(line, str("'", printable(name, 40), "' is no type"));
    return *t;
  }

  Lines lines_;
  const ParseLimits& limits_;
  std::optional<PlyFormat> format_;
  std::vector<Element> elements_;
  std::vector<std::string_view> words_;
};

// The numbers behind the header, one after the other.
class PlyBody {
 public:
  PlyBody(const std::string& path, const std::vector<u8>& bytes, const PlyHeader& header)
      : path_(path),
        bytes_(bytes),
        format_(header.format()),
        at_(header.end()),
        lines_(path, text_of(bytes).substr(std::min<u64>(header.end(), bytes.size())),
               header.end()),
        first_line_(header.lines()) {}

  u64 byte() const { return format_ == PlyFormat::ascii ? line_.byte : at_; }
  std::string where() const {
    return format_ == PlyFormat::ascii ? at_line_of(line_) : std::string();
  }

  void begin_row() {
    if (format_ != PlyFormat::ascii) return;
    do {
      line_ = lines_.require("its last element");
      line_.number += first_line_;
      split_words(line_.text, words_);
    } while (words_.empty());
    word_ = 0;
  }
  void end_row() const {
    if (format_ == PlyFormat::ascii && word_ < words_.size())
      lines_.fail(line_, str(words_.size(), " numbers, expected ", word_));
  }
  double number(PlyType t) {
    if (format_ != PlyFormat::ascii) return binary(t);
    if (word_ == words_.size())
      lines_.fail(line_, str("more than the ", word_, " numbers of this line are needed"));
    const std::string_view word = words_[word_++];
    return is_whole(t) ? double(lines_.number<i64>(line_, word, "value"))
                       : lines_.number<double>(line_, word, "value");
  }
  void finish() {
    if (format_ != PlyFormat::ascii) {
      const auto rest = bytes_.begin() + i64(at_);
      if (std::any_of(rest, bytes_.end(), [](u8 c) { return c != '\n' && c != '\r'; }))
        data_error(path_, at_, str(bytes_.size() - at_, " bytes behind the last element"));
      return;
    }
    while (lines_.next(line_)) {
      line_.number += first_line_;
      split_words(line_.text, words_);
      if (!words_.empty()) lines_.fail(line_, "text behind the last element");
    }
  }

 private:
  double binary(PlyType t) {
    const size_t n = ply_size(t);
    if (bytes_.size() - at_ < n)
      data_error(path_, at_, "the file ends before its last element (truncated download?)");
    u8 p[8] = {};
    std::copy_n(bytes_.begin() + i64(at_), n, p);
    if (format_ == PlyFormat::big) std::reverse(p, p + n);
    at_ += n;
    switch (t) {
      case PlyType::i8:
        return little<i8>(p);
      case PlyType::u8:
        return p[0];
      case PlyType::i16:
        return little<i16>(p);
      case PlyType::u16:
        return little<u16>(p);
      case PlyType::i32:
        return little<i32>(p);
      case PlyType::u32:
        return little<u32>(p);
      case PlyType::f32:
        return double(little<float>(p));
      case PlyType::f64:
        break;
    }
    return little<double>(p);
  }

  const std::string& path_;
  const std::vector<u8>& bytes_;
  PlyFormat format_;
  u64 at_;
  Lines lines_;
  i64 first_line_;
  Line line_;
  std::vector<std::string_view> words_;
  size_t word_ = 0;
};

class PlyReader {
 public:
  PlyReader(const std::string& path, const std::vector<u8>& bytes, const ParseLimits& limits)
      : path_(path),
        header_(path, text_of(bytes), limits),
        body_(path, bytes, header_),
        mesh_(path) {}

  Mesh read() {
    bool vertices = false;
    for (const Element& e : header_.elements()) {
      // Nothing would end a count of rows that take no bytes.
      if (e.properties.empty() && e.count > 0)
        data_error(path_, 0, str("element '", printable(e.name, 40), "' has no properties"));
      if (e.name == "vertex") {
        if (e.count > 0) require_scalars(e, {"x", "y", "z"});
        vertices = true;
      } else if (e.count > 0 && (e.name == "face" || e.name == "tristrips")) {
        if (!vertices) data_error(path_, 0, "faces before the vertices");
        if (std::none_of(e.properties.begin(), e.properties.end(), is_polygon))
          data_error(path_, 0,
                     str("element '", e.name, "' has no list vertex_indices of whole numbers"));
      }
      for (u64 i = 0; i < e.count; ++i) row(e);
    }
    if (!vertices) data_error(path_, 0, "there is no element 'vertex'");
    body_.finish();
    return mesh_.finish();
  }

 private:
  static bool is_polygon(const Property& p) {
    return p.count && is_whole(p.type) && (p.name == "vertex_indices" || p.name == "vertex_index");
  }
  void require_scalars(const Element& e, std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names)
      if (std::none_of(e.properties.begin(), e.properties.end(),
                       [&](const Property& p) { return p.name == name && !p.count; }))
        data_error(path_, 0, str("element 'vertex' has no property '", name, "'"));
  }

  void row(const Element& e) {
    body_.begin_row();
    const u64 byte = body_.byte();
    const bool vertex = e.name == "vertex", face = e.name == "face", strips = e.name == "tristrips";
    double xyz[3] = {};
    for (const Property& p : e.properties) {
      if (!p.count) {
        const double x = body_.number(p.type);
        if (vertex && p.name.size() == 1 && p.name[0] >= 'x' && p.name[0] <= 'z')
          xyz[p.name[0] - 'x'] = x;
        continue;
      }
      const double n = body_.number(*p.count);
      if (n < 0) data_error(path_, byte, str(body_.where(), "a list of ", n, " numbers"));
      const bool polygon = (face || strips) && is_polygon(p);
      if (polygon) polygon_.clear();
      for (double k = 0; k < n; ++k) {
        const double x = body_.number(p.type);
        if (polygon) polygon_.push_back(i64(x));
      }
    }
    body_.end_row();
    if (vertex) mesh_.vertex(xyz, byte, body_.where());
    if (face) mesh_.face(polygon_, byte, body_.where());
    if (strips) add_strips(byte);
  }

  // Each vertex makes a triangle with the two before it, which are exchanged in every other one so
  // that all have one side in front.
  void add_strips(u64 byte) {
    size_t length = 0;
    for (size_t k = 0; k <= polygon_.size(); ++k) {
      if (k == polygon_.size() || polygon_[k] == -1) {
        if (length == 1 || length == 2)
          data_error(path_, byte,
                     str(body_.where(), "a strip of ", length, " vertices, 3 are needed"));
        length = 0;
        continue;
      }
      if (++length < 3) continue;
      i64 corners[3] = {polygon_[k - 2], polygon_[k - 1], polygon_[k]};
      if (length % 2 == 0) std::swap(corners[0], corners[1]);
      const bool joins =
          corners[0] == corners[1] || corners[1] == corners[2] || corners[2] == corners[0];
      if (joins)
        mesh_.check_vertices(corners, byte, body_.where());
      else
        mesh_.face(corners, byte, body_.where());
    }
  }

  const std::string& path_;
  PlyHeader header_;
  PlyBody body_;
  MeshBuilder mesh_;
  std::vector<i64> polygon_;
};

}  // namespace

Mesh read_ply(const std::string& path, const ParseLimits& limits) {
  const std::vector<u8> bytes = read_bytes(path, limits);
  return PlyReader(path, bytes, limits).read();
}

}  // namespace wt::data
