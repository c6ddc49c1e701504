"""How tools/course.sh builds the course: Sphinx and MyST as Debian has them, a language a build (-t zh: Chinese)."""
import re

from sphinx.search import SearchLanguage
from sphinx.search.en import SearchEnglish

chinese = tags.has("zh")  # noqa: F821 (Sphinx has it)
project = "warptape：课程" if chinese else "warptape: a course"
author = "warptape"
extensions = ["myst_parser"]
myst_heading_anchors = 3
language = "zh_CN" if chinese else "en"
html_search_language = "zh" if chinese else "en"
exclude_patterns = ["zh"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_theme = "basic"
html_style = "course.css"
html_title = project
pygments_style = "bw"  # colours are course.css's, light and dark
html_use_index = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses to a file
html_context = {"chinese": chinese}


class SearchPairs(SearchLanguage):
    """Chinese without a dictionary: every two neighbouring characters are a word, in the index and in what is
    searched for, so that any phrase is found that a page has. Latin words as in English."""

    lang = "zh"
    language_name = "Chinese"
    stopwords = SearchEnglish.stopwords
    js_stemmer_code = SearchEnglish.js_stemmer_code
    js_splitter_code = r"""
function splitQuery(query) {
  const words = [];
  for (const part of query.match(/[\u3400-\u9fff]+|[^\s\p{P}\p{S}\u3400-\u9fff]+/gu) || []) {
    if (!/[\u3400-\u9fff]/.test(part) || part.length === 1) words.push(part);
    else for (let i = 0; i + 1 < part.length; ++i) words.push(part.slice(i, i + 2));
  }
  return words;
}
"""

    def init(self, options):
        self.english = SearchEnglish({})

    def split(self, text):
        for part in re.findall(r"[\u3400-\u9fff]+|[^\W\u3400-\u9fff]+", text):
            if re.match(r"[\u3400-\u9fff]", part):
                yield from part
                yield from (part[i:i + 2] for i in range(len(part) - 1))
            else:
                yield part

    def stem(self, word):
        return self.english.stem(word)


def setup(app):
    app.add_search_language(SearchPairs)
