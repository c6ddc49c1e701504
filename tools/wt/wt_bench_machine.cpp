// wt bench machine
#include <cstdio>

#include "warptape/bench/kernels_cpu.h"
#include "warptape/bench/machine/measure_machine.h"
#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct MachineCommand {
  bench::MachineOptions measure;
  std::vector<std::string> devices;
  bool json = false, show = false, no_file = false;
};

void print_figure(const machine::Figure& f, bool json) {
  if (json) {
    JsonObject j;
    j.add("bench", "machine").add("place", f.place).add("what", f.what).add("how", f.how);
    j.add("dtype", f.dtype).add("value", f.value).add("unit", f.unit).add("spread", f.spread);
    j.add("size", f.size).add("note", f.note);
    std::printf("%s\n", j.str().c_str());
  } else {
    const std::string size = f.what == "product" ? str(f.size, "^3")
                             : f.size > 1        ? bytes_text(f.size)
                                                 : "";
    const std::string value = f.value > 0 ? three_digits(f.value) + " " + f.unit : "-";
    const std::string spread = f.spread > 0 ? str(i64(100 * f.spread + 0.5), " %") : "";
    std::printf("%-8s %-10s %-13s %-5s %10s %16s %7s  %s\n", printable(f.place).c_str(),
                printable(f.what).c_str(), printable(f.how).c_str(), printable(f.dtype).c_str(),
                size.c_str(), printable(value).c_str(), spread.c_str(),
                printable(f.note, 200).c_str());
  }
  flush_stdout();
}

void print_titles(const machine::Measured& m) {
  std::printf("%s, %d processors, %s of memory; %s\n", printable(m.processor).c_str(), m.processors,
              bytes_text(m.memory_bytes).c_str(), printable(m.date).c_str());
  for (const machine::MeasuredDevice& d : m.devices)
    if (d.place != d.name)
      std::printf("%s: %s\n", printable(d.place).c_str(), printable(d.name).c_str());
  std::printf("\n%-8s %-10s %-13s %-5s %10s %16s %7s\n", "place", "what", "how", "dtype", "size",
              "median", "spread");
}

int show_kept(bool json) {
  const machine::Known known = machine::measured();
  if (!known.there()) throw DataError(known.why_not);
  if (!json) print_titles(known.figures);
  for (const machine::Figure& f : known.figures.figures) print_figure(f, json);
  return 0;
}

std::vector<Device> devices_of(const std::vector<std::string>& names) {
  std::vector<Device> devices;
  for (const std::string& name : names) {
    devices.push_back(Device::parse(name.c_str()));
    if (devices.back().is_meta) throw UsageError("--device meta: it has no memory to be measured");
  }
  if (devices.empty()) devices.push_back(Device::cpu());
  for (int i = 0; names.empty() && i < cuda::device_count(); ++i)
    devices.push_back(Device::cuda(i));
  return devices;
}

int measure(MachineCommand& c) {
  c.measure.devices = devices_of(c.devices);
  const machine::Known before = machine::measured();
  machine::Measured head = machine::this_machine();
  for (const Device d : c.measure.devices) {
    require_available(d);
    head.devices.push_back(bench::describe_measured(d));
  }
  const double load = bench::load_average();
  std::vector<machine::Figure> figures;
  const bool first = bench::measure_machine(c.measure, [&](machine::Figure f) {
    if (figures.empty() && !c.json) print_titles(head);
    print_figure(f, c.json);
    figures.push_back(std::move(f));
  });
  if (first && !c.json && load > 0.5 * head.processors)
    std::printf(
        "\nThe load was %.1f on %d processors at the beginning: other work makes rates lower "
        "and times longer.\n",
        load, head.processors);
  if (!first || c.no_file || (before.path.empty() && c.json)) return 0;
  if (before.path.empty()) {
    std::printf("\nnot kept: %s\n", before.why_not.c_str());
  } else {
    machine::keep_measured(bench::merged(before, c.measure, figures));
    if (!c.json)
      std::printf("\nkept in %s, where the library and wt look for it\n",
                  printable_path(before.path).c_str());
  }
  flush_stdout();
  return 0;
}

}  // namespace

void add_bench_machine(Command bench, int& code) {
  const Command c = bench.add_subcommand(
      "machine",
      "what this machine can do: its disk, memory, the way to a GPU and back, products by dtype, "
      "launches, an all-reduce; kept in a file (WT_MACHINE) that machine::measured() and "
      "data::plan() read");
  auto o = std::make_shared<MachineCommand>();
  const Option devices =
      c.add_option("--device", o->devices,
                   "cpu, simt or cuda:N, and those of further --device; else cpu and "
                   "all GPUs");
  c.add_option("--disk", o->measure.disk, "a folder on the disk to be measured").show_default();
  const auto size = [&c](const char* name, i64& bytes, const char* what) {
    c.add_option_function(
        name, [name, &bytes](const std::string& text) { bytes = bytes_of_text(text, name); }, what);
  };
  size("--disk-size", o->measure.disk_bytes,
       "of the file, as 4GiB; default: 1 GiB, or what three seconds write");
  size("--copy-size", o->measure.copy_bytes, "of copies, transfers and the all-reduce, as 256MiB");
  c.add_option("--matrix", o->measure.matrix, "n of products of n x n").check(at_least(1));
  c.add_option("--seconds", o->measure.seconds, "of one measurement")
      .check(positive())
      .show_default();
  c.add_option("--ranks", o->measure.ranks, "threads of the all-reduce; under mpirun its processes")
      .check(from_to(1, 64));
  c.add_option("--only", o->measure.only, "this part, and those of further --only")
      .check(one_of(bench::machine_parts()));
  c.add_flag("--no-file", o->no_file, "measure, and keep nothing");
  c.add_flag("--show", o->show, "what was kept; measure nothing").excludes(devices);
  c.add_flag("--json", o->json, "one JSON object a line");
  c.callback([o, &code] { code = o->show ? show_kept(o->json) : measure(*o); });
}

}  // namespace wt::tools
