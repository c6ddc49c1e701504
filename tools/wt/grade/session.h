// One run of the program that a student's kernel is linked into: launches are asked for, and what
// comes back is not trusted. Internal.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "warptape/tools/grade/case.h"
#include "warptape/tools/wt/confined/process.h"
#include "warptape/tools/wt/grade/support.h"

namespace wt::grade {

class Session {
 public:
  struct Start {
    std::string program{}, folder{};
    Flavour flavour = Flavour::plain;
    bool lazy = false;   // streams run late, in an order of the seed
    bool trace = false;  // of nvcc: the output names the kernels as they run
    u64 seed = 1;
    double cpu_seconds = 20;
    confined::Clock::time_point deadline{};
  };
  explicit Session(const Start& start);

  struct Reply {
    // Empty: the process has ended, as `ended` says.
    std::optional<Status> status{};
    std::string text{};  // of the status; of a process that ended, what it had printed
    std::vector<std::vector<u8>> images{};
    confined::Ended ended{};
    bool done() const { return status == Status::done || status == Status::late; }
  };
  Reply list();
  Reply launch(const Request& request, const std::vector<std::vector<u8>>& images);
  const std::string& program() const { return start_.program; }
  // What it has printed so far.
  std::string output() const { return process_.output(); }
  // It has nothing more to do: how it ends.
  confined::Ended finish();

 private:
  Reply ask(const Request& request, const std::vector<std::vector<u8>>* images);
  bool take(Reply& reply, const Request& request);
  Start start_;
  confined::Process process_;
};

}  // namespace wt::grade
