// A student's folder of a lab: what is handed out into it, and what is remembered there. Internal.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "warptape/tools/wt/lab/lab.h"

namespace wt::labs {

// .wt_lab.json of the folder.
struct LabState {
  std::string lab{};   // its id
  std::string labs{};  // the folder of labs that it was started from
  std::string hint{};  // of what failed last, an ID
  std::string said{};  // its first level, or what the check said where the lab has none
  std::string reason{};
  std::vector<std::pair<std::string, int>> taken{};  // hints, and how many of each

  int taken_of(const std::string& id) const;
  void take(const std::string& id);
};

// Page, stub and headers in a new folder. UsageError, with what is there, if there is one; nothing
// is overwritten. Ended in the middle it leaves nothing.
void start_lab(const Lab& lab, const std::string& labs, const std::string& folder);
// Restores what is missing in a folder of this lab, from where it was started, and gives the names.
// UsageError where the folder is another lab's.
std::vector<std::string> restore_lab(const Lab& lab, const std::string& labs,
                                     const std::string& folder);

// "`wt lab start 5 --again --folder F`".
std::string again_command(const Lab& lab, const std::string& folder);

// Where a lab's work lies, of a folder or of the student's file.
struct Work {
  Lab lab{};
  std::string folder{}, file{}, labs{};
  LabState state{};
  bool started = false;  // the folder has a state
  bool gone = false;     // the labs that it was started from; `labs` are those of this wt
};
// `path`: a folder, or a file; `lab`: its number or name, empty to find it out. UsageError,
// DataError.
Work find_work(const std::string& path, const std::string& lab);
// Does nothing in a folder that was not started.
void write_state(const Work& w);

}  // namespace wt::labs
