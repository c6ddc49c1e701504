// Meshes in text: OBJ, OFF, XYZ.
#include <algorithm>

#include "warptape/data/bytes.h"
#include "warptape/data/formats/mesh_parts.h"

namespace wt::data {
namespace {

void expect_words(const Lines& lines, const Line& line, size_t got, size_t least, size_t most) {
  if (got < least || got > most)
    lines.fail(line, str(got, " numbers, expected ", least,
                         least == most ? std::string() : str(" to ", most)));
}

// Lines of a mesh, behind a byte order mark if there is one.
Lines mesh_lines(const std::string& path, std::string_view text) {
  const size_t mark = text.starts_with("\xef\xbb\xbf") ? 3 : 0;
  return Lines(path, text.substr(mark), mark);
}

class ObjReader {
 public:
  ObjReader(const std::string& path, std::string_view text)
      : lines_(mesh_lines(path, text)), mesh_(path) {}

  Mesh read() {
    for (Line line; lines_.next(line);) {
      if (line.text.ends_with('\\')) lines_.fail(line, "a line that goes on in the next one");
      split_words(line.text.substr(0, line.text.find('#')), words_);
      if (!words_.empty()) element(line);
    }
    return mesh_.finish();
  }

 private:
  void element(const Line& line) {
    const std::string_view kind = words_[0];
    const size_t numbers = words_.size() - 1;
    if (kind == "v") {
      expect_words(lines_, line, numbers, 3, 7);  // a weight, a colour
      check_numbers(line);
      add_vertex(mesh_, lines_, line, words_, 1);
    } else if (kind == "vt") {
      expect_words(lines_, line, numbers, 1, 3);
      check_numbers(line);
      ++textures_;
    } else if (kind == "vn") {
      expect_words(lines_, line, numbers, 3, 3);
      check_numbers(line);
      ++normals_;
    } else if (kind == "vp") {
      expect_words(lines_, line, numbers, 1, 3);  // of curves, and those are not read
      check_numbers(line);
    } else if (kind == "f") {
      polygon_.clear();
      for (size_t k = 1; k < words_.size(); ++k) corner(line, words_[k]);
      mesh_.face(polygon_, line.byte, at_line_of(line));
    } else {
      static constexpr std::string_view kIgnored[] = {
          "g",      "o",  "s",   "l",     "p",        "usemtl",   "mtllib",     "usemap",
          "maplib", "mg", "lod", "bevel", "c_interp", "d_interp", "shadow_obj", "trace_obj"};
      if (std::find(std::begin(kIgnored), std::end(kIgnored), kind) == std::end(kIgnored))
        lines_.fail(line, str("'", printable(kind, 40), "' is not read"));
    }
  }
  void check_numbers(const Line& line) const {
    for (size_t k = 1; k < words_.size(); ++k) lines_.number<double>(line, words_[k], "value");
  }
  // One of `count` so far, from 1 on; a negative one counts back from the last.
  i64 index(const Line& line, std::string_view word, std::string_view what, i64 count) const {
    const i64 i = lines_.number<i64>(line, word, what);
    if (i == 0 || i > count || i < -count)
      lines_.fail(line, str(what, " ", i, " of a face, there are ", count, " before it"));
    return i < 0 ? count + i : i - 1;
  }
  // v, v/vt, v//vn, v/vt/vn; what is empty is left out, also in v/, v// and v/vt/.
  void corner(const Line& line, std::string_view word) {
    const size_t first = word.find('/');
    polygon_.push_back(index(line, word.substr(0, first), "vertex", mesh_.vertices()));
    if (first == word.npos) return;
    word.remove_prefix(first + 1);
    const size_t second = word.find('/');
    if (const std::string_view texture = word.substr(0, second); !texture.empty())
      index(line, texture, "texture vertex", textures_);
    if (second != word.npos && second + 1 < word.size())
      index(line, word.substr(second + 1), "normal", normals_);
  }

  Lines lines_;
  MeshBuilder mesh_;
  i64 textures_ = 0, normals_ = 0;
  std::vector<std::string_view> words_;
  std::vector<i64> polygon_;
};

// The next line with words, without its comment.
Line words_of_next(Lines& lines, std::string_view what, std::vector<std::string_view>& words) {
  for (;;) {
    const Line line = lines.require(what);
    split_words(line.text.substr(0, line.text.find('#')), words);
    if (!words.empty()) return line;
  }
}

// What follows the header word of an OFF file in its line: a number joined to it, as in much of
// ModelNet40, is the first count. ST, C and N before OFF announce texture coordinates, colours and
// normals behind each vertex's coordinates.
std::string_view behind_off(const Lines& lines, const Line& line, std::string_view word) {
  std::string_view rest = word;
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view has : {"ST", "C", "N"})
      if (rest.starts_with(has)) rest.remove_prefix(has.size()), more = true;
  }
  if (rest.starts_with("4OFF") || rest.starts_with("nOFF") || rest.starts_with("4nOFF"))
    lines.fail(line,
               str("'", printable(word, 40), "': only vertices of three coordinates are read"));
  if (!rest.starts_with("OFF") || (rest.size() > 3 && (rest[3] < '0' || rest[3] > '9')))
    lines.fail(line, str("begins with '", printable(word, 40),
                         "'; OFF is read, also with ST, C and N before it"));
  return rest.substr(3);
}

}  // namespace

Mesh read_obj(const std::string& path, const ParseLimits& limits) {
  const std::vector<u8> bytes = read_text(path, limits);
  return ObjReader(path, text_of(bytes)).read();
}

Mesh read_off(const std::string& path, const ParseLimits& limits) {
  const std::vector<u8> bytes = read_text(path, limits);
  Lines lines = mesh_lines(path, text_of(bytes));
  std::vector<std::string_view> words;
  Line line = words_of_next(lines, "its header", words);
  words[0] = behind_off(lines, line, words[0]);
  if (words[0].empty()) words.erase(words.begin());
  if (!words.empty() && words[0] == "BINARY") lines.fail(line, "binary OFF is not read");
  if (words.empty()) line = words_of_next(lines, "the counts", words);
  expect_words(lines, line, words.size(), 2, 3);
  u64 counts[3] = {};
  for (size_t k = 0; k < words.size(); ++k) counts[k] = lines.number<u64>(line, words[k], "count");
  MeshBuilder mesh(path);
  for (u64 i = 0; i < counts[0]; ++i) {
    line = words_of_next(lines, "the last vertex", words);
    if (words.size() < 3) lines.fail(line, str(words.size(), " numbers, a vertex has 3"));
    for (size_t k = 3; k < words.size(); ++k) lines.number<double>(line, words[k], "value");
    add_vertex(mesh, lines, line, words, 0);
  }
  std::vector<i64> polygon;
  for (u64 i = 0; i < counts[1]; ++i) {
    line = words_of_next(lines, "the last face", words);
    const u64 n = lines.number<u64>(line, words[0], "count");
    if (n > words.size() - 1)
      lines.fail(line, str("a face of ", n, " vertices has ", words.size() - 1, " numbers"));
    polygon.clear();
    for (size_t k = 1; k < words.size(); ++k)
      if (k <= n)
        polygon.push_back(lines.number<i64>(line, words[k], "vertex"));
      else
        lines.number<double>(line, words[k], "colour");
    mesh.face(polygon, line.byte, at_line_of(line));
  }
  while (lines.next(line)) {
    split_words(line.text.substr(0, line.text.find('#')), words);
    if (!words.empty()) lines.fail(line, "text after the last face");
  }
  return mesh.finish();
}

Mesh read_xyz(const std::string& path, const ParseLimits& limits) {
  const std::vector<u8> bytes = read_text(path, limits);
  Lines lines = mesh_lines(path, text_of(bytes));
  std::vector<std::string_view> words;
  MeshBuilder mesh(path);
  size_t width = 0;
  for (Line line; lines.next(line);) {
    split_words(line.text.substr(0, line.text.find('#')), words);
    if (words.empty()) continue;
    if (words.size() < 3) lines.fail(line, str(words.size(), " numbers, a point has 3"));
    if (width == 0) width = words.size();
    if (words.size() != width)
      lines.fail(line, str(words.size(), " numbers, the first point has ", width));
    for (size_t k = 3; k < width; ++k) lines.number<double>(line, words[k], "value");
    add_vertex(mesh, lines, line, words, 0);
  }
  return mesh.finish();
}

}  // namespace wt::data
