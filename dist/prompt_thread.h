// Threads that hardly compute and should come quickly to do it. Internal.
#pragma once

namespace wt::dist {

// The calling thread, on waking up, goes before one that has computed all the time on its processor
// (Linux 6.12; before that it may have to wait for that one's slice, 3 ms), and its timers go off
// in time instead of 50 us later. Needs no rights; what cannot be had is left.
void be_prompt() noexcept;

}  // namespace wt::dist
