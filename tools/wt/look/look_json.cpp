#include "warptape/tools/wt/look/look_json.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <set>

#include "warptape/core/files/json.h"
#include "warptape/core/str.h"
#include "warptape/tools/wt/look/access_picture.h"
#include "warptape/tools/wt/look/look_figures.h"
#include "warptape/tools/wt/look/phase_picture.h"
#include "warptape/tools/wt/look/ptx_listing.h"
#include "warptape/tools/wt/look/roof_picture.h"
#include "warptape/tools/wt/look/source_counts.h"
#include "warptape/tools/wt/look/source_lines.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

// "[...]" of what `one` makes of each.
template <class Items, class F>
std::string look_list(const Items& items, F one) {
  std::string all;
  for (const auto& item : items) all += (all.empty() ? "" : ",") + std::string(one(item));
  return "[" + all + "]";
}
std::string texts_list(const std::vector<std::string>& texts) {
  return look_list(texts, [](const std::string& t) { return json_quote(t); });
}
std::string sizes_list(const std::array<unsigned, 3>& sizes) {
  return look_list(sizes, [](unsigned n) { return std::to_string(n); });
}
// The numbers of the lanes that a bit stands for.
std::string lanes_list(u32 lanes) {
  std::vector<int> all;
  for (int i = 0; i < 32; ++i)
    if (lanes >> i & 1) all.push_back(i);
  return look_list(all, [](int i) { return std::to_string(i); });
}

// --- source ---

std::string sector_json(const PicturedSector& s) {
  return JsonObject()
      .add("offset", s.offset)
      .add("bytes", std::popcount(s.bytes))
      .add_raw("lanes", lanes_list(s.lanes))
      .str();
}

std::string pass_json(const PicturedPass& p) {
  std::string banks;
  for (size_t bank = 0; bank < p.banks.size(); ++bank) {
    const PicturedWord& w = p.banks[bank];
    if (w.lanes == 0) continue;
    JsonObject one;
    one.add("bank", u64{bank}).add("word", w.word).add_raw("lanes", lanes_list(w.lanes));
    banks += (banks.empty() ? "" : ",") + one.str();
  }
  return JsonObject().add("conflict", p.conflict).add_raw("banks", "[" + banks + "]").str();
}

std::string access_json(const LineAccess& a) {
  static const char* const kinds[] = {"load", "store", "atomic"};
  JsonObject j;
  j.add("memory", a.shared ? "shared" : "device").add("kind", kinds[int(a.kind)]);
  j.add("bytes", u64{a.bytes}).add("via", a.via).add("requests", a.requests);
  j.add("lanes", a.lanes).add("units", a.units).add("least_units", a.least);
  j.add("waste", a.wasteful());
  if (a.shared)
    j.add_raw(
        "first_passes",
        look_list(passes_of(a.first, a.bytes, a.kind == SimtAccess::Kind::atomic), pass_json));
  else
    j.add_raw("first_sectors", look_list(sectors_of(a.first, a.bytes), sector_json));
  return j.str();
}

std::string line_json(const ListedLine& l, const std::vector<std::string>& text) {
  static const CountedLine none;
  const CountedLine& c = l.counts ? *l.counts : none;
  JsonObject j;
  j.add("line", l.number).add("text", line_text(text, l.number));
  j.add_raw("accesses", look_list(c.accesses, access_json));
  j.add_raw("waits", look_list(c.waits, [](const LineWait& w) {
              return JsonObject().add("what", w.what).add("warps", w.warps).str();
            }));
  return j.str();
}

std::string source_json(const CountedFile& f, const FindSource& find) {
  const std::vector<std::string> text = find(f.path);
  JsonObject j;
  j.add("path", f.path).add("found", !text.empty());
  j.add_raw("lines", look_list(listed_lines(f, text),
                               [&](const ListedLine& l) { return line_json(l, text); }));
  return j.str();
}

// --- a kernel's other sections ---

std::string total_json(const AccessTotal& t) {
  JsonObject j;
  j.add("what", t.what).add("requests", t.sum.requests).add("lanes", t.sum.lanes);
  j.add("units", t.sum.units).add("least_units", t.sum.least);
  return j.add("waste", is_waste(t.sum.units, t.sum.least)).str();
}

std::string occupancy_json(const LookKernel& k) {
  const BlockNeeds needs = needs_of(k);
  if (needs.threads < 1) return "null";
  const Occupancy o = occupancy_of(needs);
  JsonObject j;
  j.add("blocks", o.blocks).add("warps", o.warps).add("most_warps", o.most_warps);
  j.add("threads_a_block", needs.threads).add("shared_bytes_a_block", needs.shared);
  if (k.code)
    j.add("registers_a_thread", needs.registers);
  else
    j.add_null("registers_a_thread");
  j.add_raw("limits", look_list(o.limits, [](const OccupancyLimit& l) {
              return JsonObject().add("what", l.what).add("blocks", l.blocks).str();
            }));
  return j.add_raw("limited_by", texts_list(o.limiters)).str();
}

std::string phase_json(const SimtPhase& p) {
  const u32 most = longest_of(p);
  JsonObject j;
  if (p.barrier.empty())
    j.add_null("barrier");
  else
    j.add("barrier", p.barrier);
  j.add_raw("warps", look_list(p.warps, [&](const SimtWarpWork& w) {
              JsonObject one;
              one.add("device", u64{w.device}).add("shared", u64{w.shared});
              one.add("exchanges", u64{w.exchanges});
              return one.add("fewer", u64{p.barrier.empty() ? 0 : most - w.all()}).str();
            }));
  return j.str();
}

std::string mix_json(const std::string& mix) {
  JsonObject j;
  for (const auto& [pipe, instructions] : parts_of_mix(mix))
    j.add(pipe, std::strtod(instructions.c_str(), nullptr));
  return j.str();
}

std::string code_json(const LookCode& c) {
  JsonObject j;
  j.add("kernel", c.kernel).add("registers", c.registers).add("stack_bytes", c.stack);
  j.add("load_bytes", c.load).add("store_bytes", c.store).add("slots_a_kib", c.slots);
  j.add("pipe", c.pipe).add_raw("mix", mix_json(c.mix)).add("flight_kib", c.flight);
  j.add_raw("modelled", look_list(c.modelled, [](const LookCode::Modelled& m) {
              JsonObject one;
              one.add("gpu", m.gpu).add("fraction", m.fraction);
              return one.add("of", m.of_product ? "peak" : "copy").add("bound", m.bound).str();
            }));
  return j.str();
}

std::string kernel_json(const LookKernel& k, const FindSource& find) {
  const SimtKernelCounts& c = k.counts;
  JsonObject j;
  j.add("kernel", c.kernel).add("launches", c.launches);
  j.add_raw("grid", sizes_list(c.grid)).add_raw("block", sizes_list(c.block));
  j.add("shared_bytes", c.shared_bytes).add("blocks", c.blocks).add("threads", c.threads);
  j.add("barriers", c.barriers).add("read_bytes", c.read).add("written_bytes", c.written);
  j.add_raw("totals", look_list(totals_of(c), total_json));
  j.add_raw("occupancy", occupancy_json(k));
  j.add_raw("source", look_list(counts_by_line(c),
                                [&](const CountedFile& f) { return source_json(f, find); }));
  j.add("stretches", c.all_phases).add_raw("timeline", look_list(c.phases, phase_json));
  return j.add_raw("machine_code", k.code ? code_json(*k.code) : "null").str();
}

// --- PTX and roofline ---

std::string ptx_line_json(const LookPtxLine& l) {
  JsonObject j;
  j.add("text", l.text).add("executed", l.executed).add("lanes", l.lanes);
  j.add("requests", l.requests).add("units", l.units);
  return j.add("file", l.file).add("line", l.line).str();
}

// Text of the source that instructions are of, each line once.
std::string ptx_source_json(const LookPtx& p, const FindSource& find) {
  std::set<std::pair<std::string, int>> places;
  for (const LookPtxLine& l : p.lines)
    if (l.line > 0) places.emplace(l.file, l.line);
  return look_list(places, [&](const auto& at) {
    JsonObject j;
    j.add("file", at.first).add("line", at.second);
    return j.add("text", line_text(find(at.first), at.second)).str();
  });
}

std::string ptx_json(const LookPtx& p, const FindSource& find) {
  JsonObject j;
  j.add("kernel", p.kernel).add("launches", p.launches).add("registers", p.registers);
  j.add_raw("mix", look_list(ptx_mix(p), [](const PtxMix& m) {
              return JsonObject().add("what", m.kind).add("executed", m.executed).str();
            }));
  j.add_raw("lines", look_list(p.lines, ptx_line_json));
  return j.add_raw("source", ptx_source_json(p, find)).str();
}

std::string roof_point_json(const RoofPoint& p) {
  if (p.intensity <= 0) return "null";
  JsonObject j;
  j.add("flops_a_byte", p.intensity).add("gflop_s", p.gflop_s);
  return j.add("bound", p.by_memory ? "memory" : "arithmetic").str();
}

std::string roof_json(const Look& look) {
  const LookGpu gpu;
  const bool tensor = on_tensor_cores(look);
  const auto point = [&](double bytes) {
    return roof_point_json(under_roof(look.flops, bytes, look.dtype, tensor, gpu));
  };
  JsonObject j;
  j.add("gpu", gpu.name).add("memory_gb_s", gpu.memory_gb_s);
  j.add("peak_gflop_s", peak_of(look.dtype, tensor, gpu)).add("tensor_cores", tensor);
  j.add_raw("contract", point(look.bytes));
  return j.add_raw("touched", point(figures_of(look).touched)).str();
}

std::string tile_json(const LookTile& t) {
  return JsonObject().add("name", t.name).add("value", t.value).add("waste", t.waste).str();
}

}  // namespace

std::string look_json(const Look& look, const FindSource& find) {
  JsonObject j;
  j.add("warptape", WARPTAPE_VERSION_STRING).add("contract", look.contract);
  j.add("variant", look.variant).add("shape", look.shape).add("dtype", look.dtype);
  j.add("chosen", look.chosen).add_raw("also", texts_list(look.also));
  j.add("contract_bytes", look.bytes).add("contract_flops", look.flops);
  j.add_raw("tiles", look_list(tiles_of(look), tile_json));
  j.add_raw("kernels",
            look_list(look.kernels, [&](const LookKernel& k) { return kernel_json(k, find); }));
  j.add_raw("ptx", look_list(look.ptx, [&](const LookPtx& p) { return ptx_json(p, find); }));
  if (look.ptx.empty() && !look.no_ptx.empty())
    j.add("no_ptx", look.no_ptx);
  else
    j.add_null("no_ptx");
  return j.add_raw("roofline", roof_json(look)).str();
}

}  // namespace wt::tools
