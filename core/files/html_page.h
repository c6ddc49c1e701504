// The frame that every page of warptape has: one HTML file that asks no network for anything, which
// its policy says too, with the colours of both schemes and what all pages look alike in. Internal.
#pragma once
#include <string>
#include <string_view>

#include "warptape/core/macros.h"

namespace wt {

struct PageHead {
  std::string title;      // text: is escaped
  std::string style{};    // behind the sheet that all pages have
  bool script = false;    // the page has one
  bool pictures = false;  // the page has pictures, as data: URLs
};
// A page's text up to the beginning of its body.
WT_API std::string page_begin(const PageHead& head);
// From the end of its body on. The script, which may be empty, runs in a function of its own, with
// $(id), element(tag, text, parent, class), place_tip(tip, x, y, width, height) in a frame of that
// size, and numbers for people: num, time (of nanoseconds), bytes, count.
WT_API std::string page_end(std::string_view script = {});
// A script element, #data, that holds `json`, in which no tag can begin: "<" in JSON can only be a
// part of a text.
WT_API std::string page_data(std::string_view json);

}  // namespace wt
