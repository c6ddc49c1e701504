// main() of `wt`, by itself: wt_gpu has all of the command beside its tests
// (tools/gate/wt_gpu.cpp).
#include "warptape/tools/wt/run_command.h"

int main(int argc, char** argv) { return wt::tools::run_command(argc, argv); }
