#include "warptape/tools/wt/grade/grade.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/core/suggest.h"
#include "warptape/tools/wt/confined/scratch.h"
#include "warptape/tools/wt/grade/build.h"
#include "warptape/tools/wt/grade/checks.h"
#include "warptape/tools/wt/grade/hints.h"

namespace wt::grade {
namespace {

namespace fs = std::filesystem;

// Where it is compiled: what --keep names, or a folder that is gone at the end.
class Folder {
 public:
  explicit Folder(const std::string& keep) {
    if (keep.empty()) {
      path_ = scratch_.emplace().path();
      return;
    }
    std::error_code error;
    fs::create_directories(keep, error);
    if (error) throw CheckpointError(str("--keep ", printable_path(keep), ": ", error.message()));
    path_ = fs::absolute(keep).string();
  }
  const std::string& path() const { return path_; }

 private:
  std::optional<confined::Scratch> scratch_;
  std::string path_;
};

// What the program says that its file has: of the contract, and all contracts that it has any of.
struct Listed {
  std::vector<Found> variants;
  std::vector<std::string> contracts;
};
Listed listed(const std::string& text, const std::string& contract) {
  Listed all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string of, name, rank, deterministic;
    std::getline(words, of, '\t'), std::getline(words, name, '\t');
    std::getline(words, rank, '\t'), std::getline(words, deterministic, '\t');
    if (all.contracts.empty() || all.contracts.back() != of) all.contracts.push_back(of);
    if (of == contract)
      all.variants.push_back({int(all.variants.size()), name, deterministic == "1"});
  }
  return all;
}

void check_names(const GradeOptions& o, const std::vector<Found>& found) {
  std::vector<std::string> names;
  for (const Found& f : found) names.push_back(f.name);
  for (const std::string& wanted : o.variants)
    if (std::find(names.begin(), names.end(), wanted) == names.end())
      throw UsageError(str("no variant of ", printable_path(o.file), " is called '",
                           printable(wanted), "'", did_you_mean(wanted, names)));
}

class Grading {
 public:
  Grading(const GradeOptions& o, const std::function<void(const Verdict&)>& say)
      : o_(o),
        op_(graded_op(o.op)),
        say_(say),
        folder_(o.keep),
        own_(o.file, folder_.path(), o.compile_seconds),
        build_(o.build ? *o.build : own_) {}

  bool run() {
    const Compiled& plain = build_.in(Flavour::plain);
    if (plain.program.empty()) return none(of_compiler(plain, o_.file));
    Session s({.program = plain.program,
               .folder = folder_.path(),
               .cpu_seconds = o_.seconds,
               .deadline = confined::Clock::now() + std::chrono::seconds(i64(o_.seconds) + 1)});
    const Session::Reply reply = s.list();
    if (!reply.done()) return none(of_failure(reply, o_.file, o_.seconds));
    const Listed all = listed(reply.text, op_.contract);
    if (all.variants.empty()) return none(of_nothing(all));
    check_names(o_, all.variants);
    bool passed = true;
    for (const Found& f : all.variants)
      if (o_.variants.empty() ||
          std::find(o_.variants.begin(), o_.variants.end(), f.name) != o_.variants.end())
        passed = variant(f) && passed;
    return passed;
  }

 private:
  Verdict empty() const {
    Verdict v{.file = o_.file, .op = o_.op};
    v.seed = o_.seed;
    return v;
  }
  bool none(Finding f) {
    Verdict v = empty();
    if (f.file.empty()) f.file = o_.file;
    v.findings = {std::move(f)};
    say_(v);
    return false;
  }
  bool variant(const Found& f) {
    Verdict v = empty();
    v.variant = f.name;
    v.deterministic = f.deterministic;
    v.passed = Checks(o_, op_, f, build_, v).run();
    say_(v);
    return v.passed;
  }
  Finding of_nothing(const Listed& all) const {
    Finding f{.kind = "empty", .file = o_.file};
    f.sentence = "it has no variant of " + op_.contract;
    for (const std::string& c : all.contracts)
      f.sentence += (&c == &all.contracts.front() ? ", but of " : ", ") + c;
    f.hint = str("its table is WT_VARIANTS(WT_DEVICE_NS, ", op_.contract,
                 ", ...), in namespace wt; the contract is in ", op_.header);
    return f;
  }

  const GradeOptions& o_;
  const GradedOp& op_;
  const std::function<void(const Verdict&)>& say_;
  Folder folder_;
  Build own_;
  Build& build_;
};

}  // namespace

bool grade_file(const GradeOptions& o, const std::function<void(const Verdict&)>& say) {
  (void)graded_op(o.op);
  const confined::HiddenMemory hidden;
  constexpr u64 kMostBytes = u64{4} << 20;
  if (InputFile(o.file).size() > kMostBytes)
    data_error(o.file, 0, "a kernel file of more than 4 MiB");
  return Grading(o, say).run();
}

}  // namespace wt::grade
