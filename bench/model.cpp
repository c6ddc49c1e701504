#include "warptape/bench/model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "warptape/core/error.h"

namespace wt::bench {

extern const char* const sass_table_sm_90a;  // made of bench/sass/sm_90a.txt by cmake/embed.cmake

namespace {

// --- constants: docs/gpu_model.md ---

constexpr double kCopyOfDatasheet = 0.896;
constexpr double kWaitUs = 1.1;        // of a load under full traffic, bunching included
constexpr double kIdleWaitUs = 0.273;  // of a load when the memory is idle
constexpr int kQuarters = 4;           // schedulers of a processor
constexpr double kThreadsMost = 2048, kBlockIfUnbound = 256;
constexpr double kCallSlots = 100;
// Clocks of a quarter for one warp's product: at the full rate, and by mma.sync.
constexpr double kTensorClocks = 4, kMmaSyncRate = 0.62;

struct Traffic {
  double cached = 0;  // of a turn's accesses: parameters that other rows have asked for before
  double walks = 1;   // over a row: the instructions of a KiB are those of as many turns
  double again = 1;   // bytes from memory for each that has to come
};
Traffic traffic_of(const MachineCode& c) {
  const std::string family = c.family();
  const bool forward = c.kernel.find("NormForward") != std::string::npos;
  // Of x, weight, bias and y the parameters are the same for every row; backward has no bias.
  if (family == "layer_norm_warp") return {.cached = forward ? 0.5 : 0.25};
  if (family == "layer_norm_block")
    return {.cached = forward ? 0.5 : 0.25, .walks = forward ? 3.0 : 2.0};
  // The second walk over a row finds it in shared memory or L2: a block a row, 16 KiB each.
  if (family == "softmax_block" || family == "softmax_backward_block") return {.walks = 2};
  // 32 columns a block are more than L2 holds for all blocks that run: read, read, write.
  if (family == "softmax_column") return {.walks = 1.5, .again = 1.5};
  if (family == "softmax_backward_column") return {.walks = 5.0 / 3, .again = 5.0 / 3};
  return {};
}

double minimum_named(std::vector<std::pair<double, std::string>> limits, std::string& name) {
  const auto least = std::min_element(limits.begin(), limits.end());
  name = least->second;
  return least->first;
}

// --- kernels that move memory ---

Modelled of_copy(const MachineCode& c, const Gpu& gpu) {
  const double turn = c.reads + c.writes;
  if (turn == 0) return {};
  const Traffic traffic = traffic_of(c);
  const double processor_gb_s = gpu.copy_gb_s() / gpu.processors;

  // Little's law: what is under way is the rate times the time that it takes.
  const double read_share = c.reads / turn;
  const double needed_kib = processor_gb_s * read_share * kWaitUs * 1e3 / 1024;
  const double in_flight = needed_kib > 0 ? c.flight_kib / needed_kib : 1;
  const bool full_would_do = c.flight_kib * kThreadsMost / c.resident >= needed_kib;

  const double clocks_a_kib = kQuarters * 1024 / (processor_gb_s / gpu.clock_ghz);
  const double kib_a_turn = turn / 32;
  const double fresh = 1 - traffic.cached;
  const double slots = (c.slots + c.calls * kCallSlots / kib_a_turn) * traffic.walks / fresh;
  const double busy = c.clocks * traffic.walks / fresh;

  std::string bound;
  const double fraction =
      minimum_named({{1 / traffic.again, traffic.again > 1 ? "traffic" : "copy"},
                     {in_flight / traffic.again, full_would_do ? "occupancy" : "bytes in flight"},
                     {clocks_a_kib / slots, "issue"},
                     {busy > 0 ? clocks_a_kib / busy : 1, c.pipe}},
                    bound);
  return {.fraction = fraction, .bound = bound};
}

// --- products of tiles ---

Modelled of_product(const MachineCode& c, const Gpu& gpu) {
  const bool tensor = c.kernel.find("mma") != std::string::npos;
  const double warps = c.resident / 32 / kQuarters;
  const double kib_a_turn = (c.reads + c.writes) / 32;
  const double least = c.products * (tensor ? kTensorClocks : 1);
  const double products = tensor ? least / kMmaSyncRate : least;
  std::string bound;
  // Negative: the greatest of them binds.
  const double a_warp = -minimum_named({{-products, tensor ? "mma.sync" : "fma"},
                                        {-c.slots * kib_a_turn, "issue"},
                                        {-c.clocks * kib_a_turn, c.pipe}},
                                       bound);
  const double busy = warps * a_warp;
  // Loads that nothing is computed behind: each round of them is waited for. Other blocks of the
  // processor may compute meanwhile.
  const double rounds = c.flight_kib > 0 ? c.reads / (c.flight_kib * 1024 / c.resident) : 1;
  const double wait = c.ahead > 0 ? 0 : rounds * kIdleWaitUs * 1e3 * gpu.clock_ghz;
  const double blocks = std::max(1.0, std::floor(c.resident / c.block));
  const double turn = std::max(busy, busy / blocks + wait);
  if (turn > busy) bound = "loads not ahead";
  return {.fraction = warps * least / turn, .bound = bound, .of_product = true};
}

}  // namespace

double Gpu::copy_gb_s() const { return kCopyOfDatasheet * memory_gb_s; }

const std::vector<Gpu>& modelled_gpus() {
  static const std::vector<Gpu> gpus{{"H100 SXM", 132, 1.83, 3350}, {"H200", 132, 1.83, 4800}};
  return gpus;
}

std::string MachineCode::dtype() const {
  for (const char* t : {"bf16", "f16", "f32", "f64"}) {
    const std::string name = t;
    for (size_t at = kernel.find('<'); at != std::string::npos; at = kernel.find(name, at + 1)) {
      const size_t end = at + name.size();
      if (kernel.compare(at, name.size(), name) == 0 && !isalnum(kernel[at - 1]) &&
          (end == kernel.size() || !isalnum(kernel[end])))
        return name;
    }
  }
  return "";
}

std::vector<MachineCode> machine_code(std::string_view table) {
  std::istringstream lines{std::string(table)};
  std::vector<std::string> names;
  std::vector<MachineCode> rows;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream cells(line);
    std::vector<std::string> words;
    for (std::string word; cells >> word;) words.push_back(word);
    if (names.empty()) {
      names = words;
      continue;
    }
    if (words.size() != names.size()) throw UsageError("not a table of machine code: " + line);
    std::map<std::string, std::string> cell;
    for (size_t i = 0; i < names.size(); ++i) cell[names[i]] = words[i];
    const auto number = [&](const char* name) {
      return cell[name].empty() || cell[name] == "-" ? 0.0 : std::stod(cell[name]);
    };
    rows.push_back({.kernel = words[0],
                    .pipe = cell["pipe"],
                    .mix = cell["mix"],
                    .registers = number("regs"),
                    .stack = number("stack"),
                    .store = number("st"),
                    .block = number("bound") > 0 ? number("bound") : kBlockIfUnbound,
                    .resident = number("resident"),
                    .load = number("ld"),
                    .reads = number("reads"),
                    .writes = number("writes"),
                    .flight_kib = number("flight"),
                    .slots = number("slots"),
                    .clocks = number("clocks"),
                    .calls = number("calls"),
                    .products = number("mma"),
                    .shared_loads = number("lds"),
                    .ahead = number("ahead")});
  }
  return rows;
}

const std::vector<MachineCode>& committed_machine_code() {
  static const std::vector<MachineCode> rows = machine_code(sass_table_sm_90a);
  return rows;
}

Modelled model(const MachineCode& code, const Gpu& gpu) {
  return code.products > 0 ? of_product(code, gpu) : of_copy(code, gpu);
}

}  // namespace wt::bench
