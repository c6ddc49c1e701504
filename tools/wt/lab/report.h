// One file for the teacher: what a check found, and of which source. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/lab/class_key.h"
#include "warptape/tools/wt/lab/outcome.h"

namespace wt::labs {

struct TakenHint {
  std::string id{};
  int levels = 0;
  std::string text{};  // of the first level
  bool operator==(const TakenHint&) const = default;
};

struct Report {
  Outcome outcome{};
  std::string student{}, source{};
  std::string made{};     // "2031-05-04 10:20 UTC"
  std::string version{};  // warptape's, with commit and compiler
  std::string class_id{};
  std::vector<TakenHint> hints{};
};

std::string utc_now();
std::string version_text();

// The page, with a digest of all of it, keyed by the class's key (which may be empty).
std::string report_page(const Report& r, const std::string& key);

struct ReadReport {
  Report report{};
  // Whether the file is as it was written: only known with the key that it was written with.
  bool intact(const std::string& key) const;

  std::string text{}, digest{};
};
// DataError for a file that is no report.
ReadReport read_report(const std::string& path);
ReadReport parse_report(std::string text, const std::string& path);

}  // namespace wt::labs
