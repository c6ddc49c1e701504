#include "warptape/data/plan.h"

#include <algorithm>
#include <cstdio>

#include "warptape/core/error.h"
#include "warptape/core/machine.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/out_of_memory.h"
#include "warptape/core/memory_limit.h"
#include "warptape/core/str.h"

namespace wt::data {

const char* tier_name(Tier t) {
  constexpr const char* kNames[] = {"device", "pinned", "mapped", "streaming"};
  return kNames[int(t)];
}

Capacity capacity_of(Device d) {
  Capacity c{.host = wt::detail::available_memory(), .device_name = to_string(d)};
  if (d.is_meta) return c;
  c.device = d.kind == DeviceKind::cuda ? cuda::properties(d.index).free_bytes : c.host;
  if (const i64 limit = memory::limit(d)) {
    const i64 left = std::max<i64>(0, limit - memory::stats(d).live);
    c.device = c.device < 0 ? left : std::min(c.device, left);
  }
  return c;
}

namespace {

// "; 60 GiB at 2.1 GB/s are 31 s an epoch"; empty where nobody has measured it.
std::string epoch_text(const char* of, double gb_s, i64 bytes) {
  if (!(gb_s > 0)) return {};
  const double seconds = double(bytes) / gb_s * 1e-9;
  char text[160];
  std::snprintf(text, sizeof text,
                "; at the %.3g GB/s that wt bench machine measured%s an epoch "
                "takes %.3g s at least",
                gb_s, of, seconds);
  return text;
}
// From page-locked memory to the device; nothing of one that stands in for a GPU.
std::string transfer_text(const Capacity& there, i64 bytes) {
  const machine::Measured m = machine::measured().figures;
  const machine::Figure* const f = m.find(there.device_name, "to device", "pinned");
  return f && f->note.empty() ? epoch_text(" from page-locked memory", f->value, bytes) : "";
}
std::string disk_text(i64 bytes) {
  return epoch_text(" of the disk", machine::measured().figures.disk_read_gb_s(true), bytes);
}

}  // namespace

Plan plan(i64 bytes, const Capacity& there, const PlanOptions& o) {
  if (bytes < 0) throw UsageError(str("[plan] a dataset of ", bytes, " bytes"));
  for (const double part : {o.device_part, o.host_part})
    if (!(part > 0 && part <= 1))
      throw UsageError(
          str("[plan] the parts must be in (0, 1], got ", o.device_part, " and ", o.host_part));
  const auto text = [](i64 n) {
    return n < 0 ? "an unknown number of bytes" : memory::bytes_text(n);
  };
  const auto fits = [&](i64 free, double part, bool unknown) {
    return free < 0 ? unknown : double(bytes) <= part * double(free);
  };
  const std::string size = memory::bytes_text(bytes);
  if (fits(there.device, o.device_part, false))
    return {Tier::device, str(size, " are at most ", 100 * o.device_part, " % of the ",
                              text(there.device), " free on ", there.device_name)};
  const std::string too_large = str(size, " are more than ", 100 * o.device_part, " % of the ",
                                    text(there.device), " free on ", there.device_name);
  if (fits(there.host, o.host_part, true))
    return {Tier::pinned, str(too_large, "; host memory has ", text(there.host), " free",
                              transfer_text(there, bytes))};
  const std::string nowhere = str(too_large, " and more than ", 100 * o.host_part, " % of the ",
                                  text(there.host), " free in host memory");
  if (o.plain_file)
    return {Tier::mapped, nowhere + "; the file can be mapped, and the system keeps what it can" +
                              disk_text(bytes)};
  return {Tier::streaming, nowhere + "; it is read again each epoch" + disk_text(bytes)};
}

Plan plan(i64 bytes, Device d, const PlanOptions& o) { return plan(bytes, capacity_of(d), o); }

void detail::check_fits(const char* dataset, i64 bytes, const Capacity& there) {
  if (there.device < 0 || bytes <= there.device) return;
  const Plan p = plan(bytes, there);
  throw OutOfMemory(str("[", dataset, "] the data has ", memory::bytes_text(bytes), ", and ",
                        there.device_name, " has ", memory::bytes_text(there.device),
                        " free\n  Try a data::Loader over the data in host memory (", p.why, ")"));
}

}  // namespace wt::data
