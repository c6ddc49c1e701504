// The file of `wt bench machine`: lines of columns that tabs separate, the number of figures and a
// check sum at the end.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "warptape/core/error.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/core/files/tab_fields.h"
#include "warptape/core/machine.h"

namespace wt::machine {
namespace {

using detail::as_field, detail::fields_of, detail::reads_as;

constexpr const char* kFirstLine = "warptape machine 1";
constexpr const char* kNames = "place\twhat\thow\tdtype\tvalue\tunit\tspread\tsize\tnote";

// The shortest text that reads back as the same number.
std::string as_number(double v) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, v);
  return std::string(text, end);
}

bool reads_figure(const std::vector<std::string_view>& f, Figure& to) {
  if (f.size() != 9) return false;
  to.place = f[0], to.what = f[1], to.how = f[2], to.dtype = f[3], to.unit = f[5], to.note = f[8];
  return reads_as(f[4], to.value) && reads_as(f[6], to.spread) && reads_as(f[7], to.size) &&
         std::isfinite(to.value) && to.value >= 0 && std::isfinite(to.spread) && to.size >= 0;
}

// The lines of a text, one after another.
class Lines {
 public:
  Lines(std::string_view text, const std::string& source) : rest_(text), source_(source) {}
  bool at_end() const { return rest_.empty(); }
  std::string_view next() {
    ++number_;
    const size_t end = rest_.find('\n');
    if (end == rest_.npos) fail("is missing");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }
  std::string value(const char* key) {
    const std::vector<std::string_view> f = fields_of(next());
    if (f.size() != 2 || f[0] != key) fail("is another than expected");
    return std::string(f[1]);
  }
  [[noreturn]] void fail(const char* what) const {
    throw DataError(str(source_, ": line ", number_, " of a file of wt bench machine ", what));
  }

 private:
  std::string_view rest_;
  const std::string& source_;
  int number_ = 0;
};

void read_head(Lines& lines, Measured& m) {
  m.processor = lines.value("processor");
  if (!reads_as(lines.value("processors"), m.processors)) lines.fail("has no number");
  if (!reads_as(lines.value("memory bytes"), m.memory_bytes)) lines.fail("has no number");
  m.version = lines.value("warptape");
  m.date = lines.value("date");
}

}  // namespace

std::string Measured::text() const {
  std::string out = str(kFirstLine, "\nprocessor\t", as_field(processor), "\nprocessors\t",
                        processors, "\nmemory bytes\t", memory_bytes, "\nwarptape\t",
                        as_field(version), "\ndate\t", as_field(date), "\n");
  for (const MeasuredDevice& d : devices)
    out += str("device\t", as_field(d.place), "\t", as_field(d.name), "\t",
               d.stands_in ? "stands in" : "", "\n");
  out += str(kNames, "\n");
  for (const Figure& f : figures)
    out += str(as_field(f.place), "\t", as_field(f.what), "\t", as_field(f.how), "\t",
               as_field(f.dtype), "\t", as_number(f.value), "\t", as_field(f.unit), "\t",
               as_number(f.spread), "\t", f.size, "\t", as_field(f.note), "\n");
  out += str("end\t", figures.size(), "\t");
  return out + str(crc32c(out.data(), out.size()), "\n");
}

Measured Measured::parse(const std::string& text, const std::string& source) {
  if (!text.starts_with("warptape machine "))
    throw DataError(str(source, " is no file of wt bench machine"));
  Lines lines(text, source);
  if (lines.next() != kFirstLine) lines.fail("is of another version than 1");
  Measured m;
  read_head(lines, m);
  std::string_view line;
  while ((line = lines.next()) != kNames) {
    const std::vector<std::string_view> f = fields_of(line);
    if (f.size() != 4 || f[0] != "device") lines.fail("is another than expected");
    m.devices.push_back({std::string(f[1]), std::string(f[2]), f[3] == "stands in"});
  }
  while (!(line = lines.next()).starts_with("end\t")) {
    Figure f;
    if (!reads_figure(fields_of(line), f)) lines.fail("is no figure");
    m.figures.push_back(std::move(f));
  }
  const std::vector<std::string_view> end = fields_of(line);
  size_t count = 0;
  u32 crc = 0;
  if (end.size() != 3 || !reads_as(end[1], count) || count != m.figures.size())
    lines.fail("counts other figures");
  const size_t before = text.size() - end[2].size() - 1;
  if (!lines.at_end()) lines.fail("is not the last one");
  if (!reads_as(end[2], crc) || crc != crc32c(text.data(), before))
    lines.fail("has another check sum: the file was damaged or edited");
  return m;
}

}  // namespace wt::machine
