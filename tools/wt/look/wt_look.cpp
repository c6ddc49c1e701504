// wt look
#include <cstdio>
#include <optional>

#include "warptape/bench/counters.h"
#include "warptape/bench/model.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/tools/wt/look/look_json.h"
#include "warptape/tools/wt/look/look_page.h"
#include "warptape/tools/wt/look/look_problem.h"
#include "warptape/tools/wt/look/look_ptx.h"
#include "warptape/tools/wt/look/source_lines.h"
#include "warptape/tools/wt/profile/instrumented.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct LookOptions {
  LookRequest at;
  std::string out;
  bool ptx = true, json = false;
};

std::optional<LookCode> code_of(const std::string& title) {
  const std::string name = machine_code_name(title);
  for (const bench::MachineCode& c : bench::committed_machine_code()) {
    if (c.kernel != name) continue;
    LookCode code{.kernel = c.kernel,
                  .registers = int(c.registers),
                  .stack = int(c.stack),
                  .load = int(c.load),
                  .store = int(c.store),
                  .pipe = c.pipe,
                  .mix = c.mix,
                  .slots = c.slots,
                  .flight = c.flight_kib,
                  .products = c.products};
    if (c.reads + c.writes > 0)
      for (const bench::Gpu& gpu : bench::modelled_gpus()) {
        const bench::Modelled m = model(c, gpu);
        code.modelled.push_back({gpu.name, m.bound, m.fraction, m.of_product});
      }
    return code;
  }
  return {};
}

Look look_at(const LookOptions& o, const Wanted& w) {
  const bench::Problem p = problem_of(o.at, w);
  const bench::VariantRun& v = variant_of(p, w.variant);
  bench::CounterRow row = bench::count_variant(p, v);
  Look look{.contract = p.contract,
            .variant = v.name,
            .shape = p.shape,
            .dtype = dtype_name(p.dtype),
            .chosen = v.name == p.chosen,
            .also = w.beside,
            .bytes = p.bytes,
            .flops = p.flops};
  std::vector<std::string> titles;
  for (const SimtKernelCounts& k : row.kernels) titles.push_back(k.kernel);
  check_launched(w, p, v.name, titles);
  for (SimtKernelCounts& k : row.kernels) {
    std::optional<LookCode> code = code_of(k.kernel);
    look.kernels.push_back({std::move(k), std::move(code)});
  }
  return look;
}

void look(const LookOptions& o) {
  const Wanted w = wanted_of(o.at.kernel);
  if (is_ptx_launch()) return launch_for_ptx(o.at, w);
  become_instrumented();
  Look seen = look_at(o, w);
  if (o.ptx) add_ptx(seen);
  const FindSource find = [&](const std::string& file) { return source_lines(o.at.source, file); };
  if (o.json) {
    std::printf("%s\n", look_json(seen, find).c_str());
    return;
  }
  const std::string path = o.out.empty() ? str(seen.contract, "-", seen.variant, ".html") : o.out;
  write_file_atomically(path, look_page(seen, find));
  std::printf("%s:%s, %s, %s: %zu kernel%s on simt\n%s\n", seen.contract.c_str(),
              seen.variant.c_str(), seen.shape.c_str(), seen.dtype.c_str(), seen.kernels.size(),
              seen.kernels.size() == 1 ? "" : "s", path.c_str());
  if (!seen.also.empty())
    std::printf("%s: %s\n",
                w.function.empty() ? "the operator also launches"
                                   : str(w.function, " is also launched by").c_str(),
                joined(seen.also).c_str());
}

}  // namespace

void add_look(Command app, int& code) {
  const Command c = app.add_subcommand(
      "look",
      "one page about a kernel: its source with sectors, bank conflicts, active lanes and waits "
      "at every line, its accesses drawn, warps and barriers, occupancy and roofline");
  auto o = std::make_shared<LookOptions>();
  add_look_options(c, o->at);
  const Option out =
      c.add_option("--out", o->out, "the page's file; without it CONTRACT-VARIANT.html");
  c.add_flag("--ptx,!--no-ptx", o->ptx,
             "nvcc's PTX with counts, from the emulated device where it is built")
      .show_default();
  c.add_flag("--json", o->json, "what the page shows as one JSON object, and no page")
      .excludes(out);
  c.callback([o, &code] {
    look(*o);
    flush_stdout();
    code = 0;
  });
}

}  // namespace wt::tools
