#include <fstream>
#include <map>

#include "warptape/bench/gpu/ceilings.h"
#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"

namespace wt::bench {
namespace {

using Fields = std::map<std::string, JsonScalar>;

Fields fields_of(const std::string& line, const std::string& path) {
  JsonReader j(line, path);
  Fields fields;
  j.expect('{');
  while (!j.accept('}')) {
    const std::string key = j.string();
    j.expect(':');
    if (j.peek() == '{' || j.peek() == '[')
      j.skip_value();
    else
      fields[key] = j.scalar();
    if (!j.accept(',') && j.peek() != '}') j.fail("',' or '}' is missing");
  }
  return fields;
}

// The member of `c` that a row measures, and the key of its figure.
double* measured_by(Ceilings& c, Fields& row, std::string& key) {
  const std::string what = row["bench"].text, impl = row["impl"].text, dtype = row["dtype"].text;
  key = what == "ceiling_gemm" ? "tflop_s" : what == "ceiling_copy" ? "gb_s" : "median_us";
  if (what == "ceiling_copy") return &c.copy_gb_s;
  if (what == "ceiling_launch") return impl == "back_to_back" ? &c.launch_us : nullptr;
  if (what != "ceiling_gemm") return nullptr;
  return dtype == "bf16"   ? &c.gemm_16_tflop_s
         : dtype == "f16"  ? &c.gemm_f16_tflop_s
         : dtype == "tf32" ? &c.gemm_tf32_tflop_s
         : dtype == "f32"  ? &c.gemm_32_tflop_s
                           : nullptr;
}

}  // namespace

Ceilings read_ceilings(const std::string& path, Device d) {
  std::ifstream file(path);
  if (!file) throw UsageError("--ceilings: " + printable_path(path) + " cannot be read");
  Ceilings c;
  for (std::string line, key; std::getline(file, line);) {
    Fields row;
    try {
      row = fields_of(line, path);
    } catch (const DataError&) {  // the line that a killed process was writing
      continue;
    }
    if (row["device"].text != to_string(d)) continue;
    double* const to = measured_by(c, row, key);
    if (const double v = to ? row[key].number() : 0; v > 0) *to = v;
  }
  return c;
}

}  // namespace wt::bench
