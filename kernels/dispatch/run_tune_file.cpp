#include "warptape/kernels/dispatch/run_tune_file.h"

#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "warptape/core/error.h"
#include "warptape/core/files/tab_fields.h"

namespace wt {
namespace {

constexpr const char* kFirstLine = "warptape tune 1";
constexpr const char* kColumns =
    "contract\tdtype\tsize\tshape\tbytes\tvariant\tverdict\tmedian us\tspread\tfraction\tof";

using detail::as_field, detail::fields_of, detail::reads_as;

bool read_verdict(std::string_view text, TuneVerdict& v) {
  for (int i = 0; i < 4; ++i)
    if (text == tune_verdict_name(TuneVerdict(i))) {
      v = TuneVerdict(i);
      return true;
    }
  return false;
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", v);
  return text;
}

bool read_row(std::string_view line, TuneRow& r) {
  const std::vector<std::string_view> f = fields_of(line);
  if (f.size() != 11) return false;
  r.contract = f[0], r.dtype = f[1], r.size = f[2], r.shape = f[3], r.variant = f[5];
  r.bound = f[10];
  return reads_as(f[4], r.bytes) && r.bytes >= 0 && read_verdict(f[6], r.verdict) &&
         reads_as(f[7], r.median_us) && reads_as(f[8], r.spread) && reads_as(f[9], r.fraction) &&
         std::isfinite(r.median_us) && r.median_us >= 0;
}

}  // namespace

const char* tune_verdict_name(TuneVerdict v) {
  static constexpr const char* kNames[] = {"right", "wrong", "unequal", "failed"};
  return kNames[int(v)];
}

bool timed_at_first_use(const TuneRow& r) { return r.size.starts_with(kTimedAtFirstUse); }

std::string TuneFile::text() const {
  std::string out = str(kFirstLine, "\ndevice\t", as_field(device), "\ndriver\t", as_field(driver),
                        "\nruntime\t", as_field(runtime), "\nwarptape\t", as_field(version),
                        "\ndate\t", as_field(date), "\ncopy GB/s\t", number(copy_gb_s), "\nstate\t",
                        complete ? "complete" : "partial", "\n", kColumns, "\n");
  for (const TuneRow& r : rows)
    out += str(as_field(r.contract), "\t", as_field(r.dtype), "\t", as_field(r.size), "\t",
               as_field(r.shape), "\t", r.bytes, "\t", as_field(r.variant), "\t",
               tune_verdict_name(r.verdict), "\t", number(r.median_us), "\t", number(r.spread),
               "\t", number(r.fraction), "\t", as_field(r.bound), "\n");
  return out + str("end\t", rows.size(), "\n");
}

TuneFile TuneFile::parse(const std::string& text, const std::string& source) {
  int at = 0;
  const auto damaged = [&](const char* what) {
    throw DataError(str(source, ": line ", at, " of a tune file ", what));
  };
  if (!text.ends_with('\n'))
    throw DataError(str(source, " is no tune file, or its end is missing"));
  const std::vector<std::string_view> lines =
      fields_of(std::string_view(text).substr(0, text.size() - 1), '\n');
  const auto next = [&]() -> std::string_view {
    if (size_t(at) == lines.size()) damaged("is missing");
    return lines[size_t(at++)];
  };
  if (next() != kFirstLine) damaged("is not \"warptape tune 1\"");
  TuneFile file;
  std::string copy, state;
  const std::pair<const char*, std::string*> head[] = {
      {"device", &file.device},   {"driver", &file.driver},
      {"runtime", &file.runtime}, {"warptape", &file.version},
      {"date", &file.date},       {"copy GB/s", &copy},
      {"state", &state}};
  for (const auto& [key, value] : head) {
    const std::vector<std::string_view> f = fields_of(next());
    if (f.size() != 2 || f[0] != key) damaged("is another than expected");
    *value = f[1];
  }
  if (!reads_as(copy, file.copy_gb_s)) damaged("has no number");
  if (state != "complete" && state != "partial") damaged("has no such state");
  file.complete = state == "complete";
  if (next() != kColumns) damaged("has other columns");
  for (;;) {
    const std::string_view line = next();
    if (line.starts_with("end\t")) {
      size_t rows = 0;
      if (!reads_as(line.substr(4), rows) || rows != file.rows.size()) damaged("counts other rows");
      break;
    }
    TuneRow r;
    if (!read_row(line, r)) damaged("is no row");
    file.rows.push_back(std::move(r));
  }
  if (size_t(at) != lines.size()) damaged("comes after the end");
  return file;
}

}  // namespace wt
