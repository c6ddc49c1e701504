#include "warptape/tools/wt/grade/verdict.h"

#include <filesystem>

#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"

namespace wt::grade {
namespace {

std::string list_json(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& s : list) text += (text.empty() ? "" : ",") + json_quote(s);
  return "[" + text + "]";
}

std::string place(const Finding& f) {
  return printable_path(f.file) + (f.line ? ":" + std::to_string(f.line) : "");
}

std::string kernel_text(const DeviceKernel& k) {
  std::string text = str("    ", k.name, ": ", k.registers, " registers");
  if (k.shared) text += str(", ", k.shared, " bytes of shared memory");
  if (k.stack) text += str(", ", k.stack, " bytes of stack");
  if (k.spill_stores || k.spill_loads)
    text += str(", spills ", k.spill_stores, " bytes, reads ", k.spill_loads, " back");
  return text + "\n";
}

std::string device_text(const DevicePart& d) {
  if (!d.launches) return "";
  std::string text = str("  ", d.launches, " launches on the emulated device");
  if (d.refused) text += str("; ", d.refused, " kinds are taken on simt alone");
  if (d.left_out) text += str("; ", d.left_out, " left out for want of time");
  text += "\n";
  if (!d.kernels.empty()) text += str("  as machine code for ", d.code, ":\n");
  for (const DeviceKernel& k : d.kernels) text += kernel_text(k);
  return text;
}

std::string device_json(const DevicePart& d) {
  JsonObject j;
  j.add("launches", d.launches).add("refused", d.refused).add("left_out", d.left_out);
  j.add("code", d.code);
  std::string kernels;
  for (const DeviceKernel& k : d.kernels) {
    JsonObject one;
    one.add("kernel", k.name).add("registers", k.registers).add("shared_bytes", k.shared);
    one.add("stack_bytes", k.stack).add("spill_store_bytes", k.spill_stores);
    one.add("spill_load_bytes", k.spill_loads);
    kernels += (kernels.empty() ? "" : ",") + one.str();
  }
  j.add_raw("kernels", "[" + kernels + "]");
  return j.str();
}

}  // namespace

std::string verdict_text(const Verdict& v) {
  std::string text = str(v.passed ? "PASSED" : "FAILED", "  ", printable(v.op));
  if (!v.variant.empty()) text += ", " + printable(v.variant);
  text += "\n";
  for (const Finding& f : v.findings) {
    text += str("  ", place(f), ": ", f.kind, ": ", printable_lines(f.sentence), "\n");
    if (!f.hint.empty()) text += str("  hint: ", f.hint, "\n");
  }
  if (v.cases) text += str("  ", v.taken, " of ", v.cases, " kinds of launches taken");
  if (v.cases && !v.flavours.empty()) {
    text += ", run as ";
    for (const std::string& f : v.flavours) text += f + (&f == &v.flavours.back() ? "" : ", ");
  }
  if (v.cases) text += str("; seed ", v.seed, "\n");
  for (const std::string& r : v.refused) text += str("  not taken: ", printable_lines(r), "\n");
  for (const std::string& n : v.notes) text += str("  note: ", n, "\n");
  if (v.score.counted) {
    text += str("  score ", v.score.points, " of 100\n");
    for (const std::string& r : v.score.reasons) text += str("    ", r, "\n");
  }
  return text + device_text(v.device);
}

std::string verdict_json(const Verdict& v) {
  JsonObject j;
  j.add("file", v.file).add("op", v.op).add("variant", v.variant);
  j.add("passed", v.passed).add("seed", v.seed);
  j.add("cases", v.cases).add("taken", v.taken);
  std::string findings;
  for (const Finding& f : v.findings) {
    JsonObject one;
    one.add("kind", f.kind).add("sentence", f.sentence).add("file", f.file);
    one.add("line", f.line).add("hint", f.hint);
    findings += (findings.empty() ? "" : ",") + one.str();
  }
  j.add_raw("findings", "[" + findings + "]");
  j.add_raw("flavours", list_json(v.flavours)).add_raw("refused", list_json(v.refused));
  j.add_raw("notes", list_json(v.notes));
  if (v.score.counted) {
    JsonObject s;
    s.add("points", v.score.points).add("contract_bytes", v.score.contract_bytes);
    s.add("asked_bytes", v.score.asked).add("touched_bytes", v.score.touched);
    s.add("lanes", v.score.lanes).add("shared_passes", v.score.passes);
    s.add("least_shared_passes", v.score.least_passes);
    s.add_raw("reasons", list_json(v.score.reasons));
    j.add_raw("score", s.str());
  }
  if (v.device.launches) j.add_raw("device", device_json(v.device));
  return j.str();
}

}  // namespace wt::grade
