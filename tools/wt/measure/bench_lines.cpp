#include "warptape/tools/wt/measure/bench_lines.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/input_file.h"

namespace wt::tools {
namespace {

BenchLine parse_line(std::string_view text, const std::string& path, u64 at) {
  JsonReader reader(text, path, at);
  BenchLine line;
  reader.expect('{');
  for (bool first = true; !reader.accept('}'); first = false) {
    if (!first) reader.expect(',');
    const std::string key = reader.string();
    reader.expect(':');
    const char next = reader.peek();
    if (next == '{' || next == '[')
      reader.skip_value();
    else
      line.values[key] = reader.scalar();
  }
  reader.finish();
  if (line.word("bench").empty()) reader.fail("no \"bench\": not a line of wt bench --json");
  return line;
}

}  // namespace

std::string BenchLine::word(const std::string& key) const {
  const auto at = values.find(key);
  const bool is = at != values.end() && at->second.kind == JsonScalar::Kind::string;
  return is ? at->second.text : std::string();
}

double BenchLine::number(const std::string& key) const {
  const auto at = values.find(key);
  const double v = at == values.end() ? 0 : at->second.number();
  return std::isfinite(v) ? v : 0;
}

std::vector<BenchLine> read_bench_lines(std::string_view text, const std::string& path) {
  std::vector<BenchLine> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = text.substr(at, end - at);
    if (one.find_first_not_of(" \t\r") != one.npos) lines.push_back(parse_line(one, path, u64(at)));
    at = end + 1;
  }
  return lines;
}

std::vector<BenchLine> read_bench_file(const std::string& path) {
  const InputFile in(path);
  std::string text(in.size(), '\0');
  in.read(0, text.data(), in.size(), "results");
  return read_bench_lines(text, path);
}

}  // namespace wt::tools
