#include "warptape/tools/wt/grade/checks.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/tools/wt/grade/compare.h"
#include "warptape/tools/wt/grade/hints.h"
#include "warptape/tools/wt/grade/lines.h"

namespace wt::grade {
namespace {

constexpr int kMoreSeeds = 12, kStreamSeeds = 4;

std::vector<std::vector<double>> results_of(const Problem& p) {
  std::vector<std::vector<double>> all;
  for (const Operand& o : p.operands) all.push_back(o.want);
  return all;
}

const char* order_text(Order order) {
  return order == Order::reverse  ? "with blocks and threads in reverse order"
         : order == Order::random ? "with blocks and threads in a random order"
                                  : "in the usual order";
}

// Whether the table that a line begins is this contract's; its second argument may be on the next.
bool begins_table(const std::string& text, size_t at, const std::string& contract) {
  const size_t name = text.find_first_not_of(" \t\r\n", text.find(',', at) + 1);
  return name != text.npos && text.compare(name, contract.size(), contract) == 0 &&
         text.find_first_of(", \t\r\n", name) == name + contract.size();
}

// Where the file has the variant's row, or else a function of its name; 0: nowhere that can be
// found. Tables of other contracts may have rows of this name, too.
int variant_line(const std::string& file, const std::string& contract, const std::string& variant) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::istringstream lines(text);
  int number = 0, function = 0;
  bool own = false;
  size_t begin = 0;
  for (std::string line; std::getline(lines, line); begin += line.size() + 1) {
    ++number;
    if (const size_t table = line.find("WT_VARIANTS("); table != line.npos)
      own = begins_table(text, begin + table, contract);
    if (own && line.find(".name") != line.npos && line.find('"' + variant + '"') != line.npos)
      return number;
    const size_t at = line.find(variant + "(");
    if (at != line.npos && at > 0 && line[at - 1] == ' ' && !function) function = number;
  }
  return function;
}

// Kinds whose cause the race checker may know better.
bool may_be_more(const Finding& f) {
  for (const char* const kind : {"values", "nan", "order", "outside", "tail", "unwritten"})
    if (f.kind == kind && f.line == 0) return true;
  return false;
}

// Of what every variant has to take.
Finding of_refusal(const std::string& why, const std::string& label) {
  return {.kind = "refuses",
          .sentence = str("why_not says '", why, "' (", label, ")"),
          .hint = "every variant takes contiguous operands of the operator's dtype, of any size"};
}

}  // namespace

Checks::Checks(const GradeOptions& o, const GradedOp& op, const Found& variant, Build& build,
               Verdict& verdict)
    : o_(o),
      op_(op),
      variant_(variant),
      build_(build),
      v_(verdict),
      limit_(std::chrono::milliseconds(i64(o.seconds * 1000)) - build.spent()) {
  Draws draws(o.seed);
  plans_ = op.plans(draws);
}

bool Checks::fail(Finding f) {
  if (f.file.empty()) f.file = o_.file;
  if (f.line == 0) f.line = variant_line(o_.file, op_.contract, variant_.name);
  v_.findings.push_back(std::move(f));
  return false;
}

Problem Checks::problem_of(const Plan& plan, Draws& draws) const {
  Problem p = op_.make(plan, draws);
  p.data.contract = contract_number(op_.contract);
  lay_out(p);
  op_.solve(p);
  return p;
}
Problem Checks::problem(size_t plan, Draws& draws) const { return problem_of(plans_[plan], draws); }

Request Checks::request(const Problem& p) const {
  Request r{.ask = Ask::launch, .variant = variant_.number};
  r.data = p.data;
  return r;
}

Session Checks::session(Flavour f, bool lazy, u64 seed) {
  return Session({.program = build_.in(f).program,
                  .folder = build_.folder(),
                  .flavour = f,
                  .lazy = lazy,
                  .seed = seed,
                  .cpu_seconds = o_.seconds,
                  .deadline = deadline()});
}

Checks::Launched Checks::launch(Session& s, const Problem& p, const Request& r, u8 poison,
                                const std::vector<std::vector<double>>& before, bool required) {
  const Images begun = images_of(p, poison);
  Launched l{s.launch(r, begun), {}};
  if (l.reply.status == Status::refused) return l;
  if (l.reply.status != Status::done) {
    l.reply.text = with_lines(l.reply.text, s.program(), o_.file);
    l.finding = of_failure(l.reply, o_.file, o_.seconds);
    if (l.reply.status) l.finding->sentence += " (" + p.label + ")";
  } else if (const auto fault = find_fault(p, begun, l.reply.images, before)) {
    l.finding = of_fault(*fault, p.label, required);
  }
  return l;
}

Checks::Launched Checks::relaunch(Session& s, const Problem& p, const Request& r, u8 poison,
                                  const std::vector<std::vector<double>>& before, bool required) {
  Launched l = launch(s, p, r, poison, before, required);
  if (l.reply.status == Status::refused)
    l.finding = Finding{.kind = "refuses",
                        .sentence = str("why_not says '", l.reply.text,
                                        "' to a launch that it took before (", p.label, ")"),
                        .hint = "why_not depends on its arguments alone"};
  return l;
}

bool Checks::run() {
  const bool passed = values() && streams() && flavour(Flavour::asan) && flavour(Flavour::race) &&
                      (!o_.nvcc || device());
  v_.cases = int(plans_.size());
  v_.taken = int(taken_.size());
  for (const auto& [why, labels] : refused_)
    v_.refused.push_back(str(why, " (", labels.front(),
                             labels.size() > 1 ? str("; ", labels.size(), " in all") : "", ")"));
  return passed;
}

// --- values ---

bool Checks::values() {
  v_.flavours.push_back("plain");
  Session s = session(Flavour::plain, false, 1);
  for (size_t i = 0; i < plans_.size(); ++i)
    if (!value_case(s, i)) return false;
  if (!taken_.empty()) return true;
  return fail({.kind = "refuses", .sentence = "it takes no launch at all"});
}

bool Checks::value_case(Session& s, size_t plan) {
  Draws draws = draws_of(plan);
  const bool required = plans_[plan].required;
  const Problem first = problem(plan, draws), second = problem(plan, draws);
  Request r = request(first);
  const Launched a = launch(s, first, r, kPoisonNumber, {}, required);
  if (a.reply.status == Status::refused) {
    if (required) return fail(of_refusal(a.reply.text, first.label));
    refused_[a.reply.text].push_back(first.label);
    return true;
  }
  if (a.finding) return fail(explained(*a.finding, first, r));
  taken_.push_back(plan);
  // The same values again, in memory that was used: what depends on the order of threads shows.
  r.fresh = 0, r.order = Order::reverse;
  const auto again = [&](u8 poison) -> bool {
    const Launched b = relaunch(s, first, r, poison, {}, required);
    Finding f;
    if (b.finding) {
      f = *b.finding;
      if (f.kind == "values" || f.kind == "tail" || f.kind == "nan") {
        f.kind = "order";
        f.sentence += str(", right in the usual order, wrong ", order_text(r.order));
        f.hint = "one thread reads what another one writes, and nothing is between them";
      }
      return fail(explained(f, first, r));
    }
    if (!variant_.deterministic || same_results(first, a.reply.images, b.reply.images)) return true;
    f.kind = "order";
    f.sentence = str("its bits differ ", order_text(r.order), " (", first.label, ")");
    f.hint =
        "the contract wants equal bits from equal calls: add in a fixed order instead of by "
        "atomics, or say .deterministic = false in the table";
    return fail(explained(f, first, r));
  };
  if (!again(kPoisonNaN)) return false;
  r.order = Order::random;
  for (int k = 0; k < (plan == 0 ? kMoreSeeds : 1); ++k) {
    r.seed = o_.seed + u64(k);
    if (!again(kPoisonNaN)) return false;
  }
  // Other values in the same memory: what was kept of the launch before shows.
  r = request(second);
  r.fresh = 0;
  const Launched c = relaunch(s, second, r, kPoisonNumber, results_of(first), required);
  return !c.finding || fail(explained(*c.finding, second, r));
}

// The race checker's words, where it has some, are worth more: they have lines.
Finding Checks::explained(Finding f, const Problem& p, const Request& asked) {
  if (!may_be_more(f)) return f;
  const Compiled& race = build_.in(Flavour::race);
  if (race.program.empty()) return f;
  Session s = session(Flavour::race, false, 1);
  Request r = asked;
  r.fresh = 1;
  Session::Reply reply = s.launch(r, images_of(p, kPoisonNaN));
  if (reply.status != Status::kernel_error) return f;
  reply.text = with_lines(reply.text, race.program, o_.file);
  Finding better = of_kernel_error(reply.text, o_.file);
  better.sentence += "; so " + f.sentence;
  return better;
}

// --- streams ---

bool Checks::streams() {
  int tried = 0;
  for (const size_t plan : taken_) {
    if (!plans_[plan].required || tried == 3) continue;
    ++tried;
    for (u64 seed = 1; seed <= u64(kStreamSeeds); ++seed) {
      Draws draws = draws_of(plan);
      Session s = session(Flavour::plain, true, o_.seed + seed);
      std::vector<std::vector<double>> before;
      for (int turn = 0; turn < 2; ++turn) {
        const Problem p = problem(plan, draws);
        Request r = request(p);
        r.fresh = turn == 0;
        const Launched l = relaunch(s, p, r, kPoisonNaN, before, true);
        before = results_of(p);
        if (!l.finding) continue;
        Finding f = *l.finding;
        if (l.reply.done()) {
          f.kind = "stream";
          f.sentence += ", right where work runs at once, wrong where a stream's work runs late";
          f.hint = "launch on l.stream, every kernel (grid_of(l, ...) does)";
        }
        return fail(f);
      }
    }
  }
  return true;
}

// --- flavours ---

bool Checks::flavour(Flavour flavour) {
  const Compiled& c = build_.in(flavour);
  if (c.program.empty() && c.absent) {
    v_.notes.push_back(
        str("not run as ", flavour_name(flavour), ": this build or machine has not what it needs"));
    return true;
  }
  if (c.program.empty()) {
    Finding f = of_compiler(c, o_.file);
    f.sentence += str("; it compiles as plain, and has to as ", flavour_name(flavour), " too");
    return fail(std::move(f));
  }
  v_.flavours.push_back(flavour_name(flavour));
  Session s = session(flavour, false, 1);
  for (const size_t plan : taken_) {
    Draws draws = draws_of(plan);
    const Problem p = problem(plan, draws);
    const Launched l = relaunch(s, p, request(p), kPoisonNaN, {}, plans_[plan].required);
    if (l.finding) return fail(*l.finding);
  }
  return flavour != Flavour::race || score();
}

bool Checks::score() {
  const Compiled& c = build_.in(Flavour::race);
  Draws draws(o_.seed);
  const Problem p = problem_of(op_.score, draws);
  Request r = request(p);
  r.count = 1;
  Session s = session(Flavour::race, false, 1);
  const Launched l = launch(s, p, r, kPoisonNaN, {}, true);
  if (l.reply.status == Status::refused) return fail(of_refusal(l.reply.text, p.label));
  if (l.finding) return fail(*l.finding);
  v_.score = score_of(l.reply.text, contract_bytes(p.data), c.program, o_.file);
  if (v_.score.touched >= v_.score.contract_bytes * 0.999) {
    auto unmet = of_demands(op_.demands, v_.score, p.label, o_.file);
    return unmet ? fail(std::move(*unmet)) : true;
  }
  Finding f{.kind = "too_little"};
  f.sentence = str("its kernels touch ", i64(v_.score.touched), " bytes where the contract has ",
                   i64(v_.score.contract_bytes),
                   " to be moved: the result was not computed by them (", p.label, ")");
  f.hint = "every input is read and every output written, in kernels";
  v_.score = {};
  return fail(f);
}

}  // namespace wt::grade
