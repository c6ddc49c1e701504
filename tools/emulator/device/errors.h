// The last error of each thread, as cudaGetLastError gives it, and where it came from.
#pragma once
#include "basic.h"

namespace emu {

void set_last_error(int error, const char* call, bool of_launch = false);
int peek_last_error();
int take_last_error();
// A launch went well: an older error that is still there will be taken for this launch's.
void launched_with(const std::string& kernel);
// At the end: a launch that failed, and nobody asked.
void report_unseen_error();

const char* error_name(int error);  // null: there is no such error
const char* error_text(int error);

}  // namespace emu
