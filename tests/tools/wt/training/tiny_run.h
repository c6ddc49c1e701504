// A run of `wt train` that takes no time.
#pragma once
#include <string>

#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/training/train.h"

namespace wt_test {

// Of text that lies in dir / "text". A rate that waits for a plateau sees every evaluation once, or
// the numbers part.
inline wt::tools::TrainOptions tiny_run(const TempDir& dir, const std::string& out,
                                        const std::string& dropout = "0.1") {
  wt::tools::TrainOptions o;
  o.recipe = "charlm";
  o.set = {"layers=1", "heads=2", "channels=8", "context=8", "dropout=" + dropout};
  o.data = dir / "text";
  o.sample = 0;
  o.out = dir / out;
  o.batch = 8;
  o.steps = 8;
  o.eval_every = 2;
  o.save_every = 3;
  o.log_every = 1;
  o.schedule = "plateau";
  o.lr = 0.01;
  o.quiet = true;
  return o;
}

}  // namespace wt_test
