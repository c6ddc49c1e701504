// What a folder's disk takes and gives back in a second: one file, written, synchronised, read.
#include <chrono>

#include "warptape/bench/gpu/ceilings.h"
#include "warptape/bench/machine/disk_file.h"
#include "warptape/core/error.h"
#include "warptape/core/input_file.h"

namespace wt::bench {
namespace {

using Clock = std::chrono::steady_clock;

Row disk_row(const char* what, const char* how, i64 bytes, Clock::time_point start) {
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  Row r{.bench = "ceiling_disk", .impl = str(what, ", ", how), .shape = std::to_string(bytes)};
  r.dtype = "u8";
  r.time = {us, us, us, us, 1};
  r.bytes = double(bytes);
  return r;
}

}  // namespace

// A disk that cannot be measured is no fault of the device.
void measure_disk(const BenchOptions& o, RowFile& rows) {
  const i64 most = at_full_size(o) ? i64{256} << 20 : DiskFile::kChunk;
  try {
    DiskFile file(o.disk);
    const char* const how = file.direct(true) ? "direct" : "cached";
    auto start = Clock::now();
    const i64 written = file.write(most);
    rows.keep(disk_row("write", how, written, start));
    file.forget();
    start = Clock::now();
    rows.keep(disk_row("read", how, file.read(written), start));
  } catch (const NotAvailable& e) {
    Row r{.bench = "ceiling_disk", .impl = "-", .shape = "-", .dtype = "u8"};
    r.check = str("SKIPPED: ", printable_path(o.disk), ": ", e.what());
    rows.keep(r);
  }
}

}  // namespace wt::bench
