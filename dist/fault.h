// Faults on purpose: what a training run does when a rank is slow, dead or wrong is tried by giving
// it a communicator that fails at a chosen call.
//
//   dist::spawn(4, train, {.wrap = [](auto local) {
//     return dist::with_faults(std::move(local), {{.what = dist::Fault::What::die, .rank = 2,
//                                                  .call = 100}});
//   }});
#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/dist/communicator.h"

namespace wt::dist {

// What goes wrong, on which rank and at which call.
struct Fault {
  // What happens at the call.
  enum class What : u8 {
    delay,    // the call is begun `time` late
    hang,     // the rank stands still until somebody gave up: abort() here, or another rank's end
              // of the world where the backend tells (Communicator::failed)
    die,      // RankDied is thrown: the rank ends as by any exception
    kill,     // the process ends by SIGKILL, as if the machine had gone
    drop,     // the call is not made; this rank takes it for done
    corrupt,  // the lowest bit of the middle element flips: in what this rank gets, or sends
  };
  What what = What::delay;            // what happens
  int rank = -1;                      // whose call it is; -1: each
  i64 call = -1;                      // the number of the call (Call::number); -1: each
  std::chrono::milliseconds time{0};  // of delay
};
// The fault's name: "delay".
WT_API const char* to_string(Fault::What w);

// What a fault throws on the rank that is to die.
class WT_API RankDied : public Error {
 public:
  // An error of exit code 1 with this message.
  explicit RankDied(const std::string& message) : Error("RankDied", 1, message) {}
};

// A communicator that passes calls on to `inner` but for the faults that name its rank. A corrupt
// call is waited for when it begins. Its groups have no faults, and captures() is
// false.
WT_API std::unique_ptr<Communicator> with_faults(std::unique_ptr<Communicator> inner,
                                                 std::vector<Fault> faults);

}  // namespace wt::dist
