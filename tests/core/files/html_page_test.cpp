// The frame of HTML pages: what its policy allows, and that titles and data end nothing.
#include "warptape/core/files/html_page.h"

#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;

TEST_CASE("html page: a page allows itself what it has, and nothing from elsewhere") {
  const std::string plain = page_begin({.title = "a <b> & c", .style = ".x{color:red}"});
  CHECK(plain.starts_with("<!doctype html>\n<html lang=\"en\">"));
  CHECK(mentions(plain, "<title>a &lt;b&gt; &amp; c</title>"));
  CHECK(mentions(plain, "default-src 'none'; style-src 'unsafe-inline'\">"));
  CHECK(plain.find(".x{color:red}") > plain.find("prefers-color-scheme:dark"));
  CHECK(plain.ends_with("<body>"));
  CHECK(mentions(page_begin({.title = "t", .script = true}), "; script-src 'unsafe-inline'\">"));
  CHECK(mentions(page_begin({.title = "t", .pictures = true}), "; img-src data:\">"));
}

TEST_CASE("html page: no tag can begin in its data, and only what was asked for is a script") {
  const std::string data = page_data("{\"x\":\"</script><!--\"}");
  CHECK(data ==
        "<script type=\"application/json\" id=\"data\">"
        "{\"x\":\"\\u003c/script>\\u003c!--\"}</script>\n");
  CHECK(page_end() == "</body></html>\n");
  const std::string end = page_end("let own=1;");
  CHECK(mentions(end, "let own=1;})();</script></body></html>\n"));
  CHECK(mentions(end, "<script>'use strict';"));
}
