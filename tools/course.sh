#!/usr/bin/env bash
# Builds the course, docs/course and the pages of labs/, as a static site in English and Chinese that
# needs no network and no server: open build/course/index.html.
#
#   tools/course.sh               into build/course
#   tools/course.sh --out FOLDER  into another one
#   tools/course.sh --check       in a temporary folder; a warning of Sphinx, or a page without its
#                                 Chinese, fails
#
# Sphinx and MyST are Debian's and Ubuntu's packages (tools/setup.sh --course). Exit code 77: they are missing.
set -euo pipefail
started=$PWD
cd "$(dirname "$0")/.."
out=$PWD/build/course check=0
while [ $# -gt 0 ]; do
  case $1 in
    --out)
      case ${2:?--out: which folder?} in /*) out=$2 ;; *) out=$started/$2 ;; esac
      shift ;;
    --check) check=1 ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "course: unknown option $1 (there are --out, --check, --help)" >&2; exit 2 ;;
  esac
  shift
done

# The packages are of the system's Python, which need not be the first in PATH.
python=
for candidate in "${WT_SPHINX_PYTHON:-}" /usr/bin/python3 python3; do
  [ -n "$candidate" ] && "$candidate" -c 'import sphinx, myst_parser' 2>/dev/null && python=$candidate && break
done
if [ -z "$python" ]; then
  for package in sphinx myst_parser; do
    /usr/bin/python3 -c "import $package" 2>/dev/null ||
      echo "course: no python3-${package//_/-}: tools/setup.sh --course installs it" >&2
  done
  exit 77
fi

here=$(mktemp -d "${TMPDIR:-/tmp}/wt-course-XXXXXX")
trap 'rm -rf "$here"' EXIT
[ $check = 0 ] || out=$here/site
bad=0

# take LANGUAGE FILE ENGLISH: the page, or where it has no Chinese the English one.
take() {
  local page=$3
  if [ "$1" = zh ]; then
    page=docs/course/zh/$2
    if [ ! -e "$page" ]; then
      echo "course: $page is missing: the English page stands in for it" >&2
      bad=1 page=$3
    fi
  fi
  cp "$page" "$here/$1/$2"
}

# stage LANGUAGE: what Sphinx reads. A link from a chapter to a lab's page leads to its copy.
stage() {
  local to=$here/$1 page lab
  mkdir -p "$to/labs"
  cp -r docs/course/{conf.py,_static,_templates,figures} "$to/"
  for page in docs/course/*.md; do take "$1" "$(basename "$page")" "$page"; done
  for page in labs/[0-9]*/page.md; do
    lab=$(basename "$(dirname "$page")")
    take "$1" "labs/$lab.md" "$page"
  done
  sed -i -E 's#\]\(\.\./\.\./labs/([0-9a-z_]+)/page\.md#](labs/\1.md#g; s#\]\(\.\./figures/#](figures/#g' "$to"/*.md
  {
    printf '\n```{toctree}\n:hidden:\n:caption: %s\n\n' "$([ "$1" = en ] && echo Chapters || echo 章节)"
    (cd "$to" && ls [0-9]*.md)
    printf '```\n\n```{toctree}\n:hidden:\n:caption: %s\n\n' "$([ "$1" = en ] && echo Labs || echo 实验)"
    (cd "$to" && ls labs/*.md)
    printf '```\n'
  } >>"$to/index.md"
}

build() {  # build LANGUAGE FOLDER
  local options=(-q -b html -d "$here/doctrees-$1")
  [ "$1" = en ] || options+=(-t "$1")
  [ $check = 0 ] || options+=(-n -W --keep-going)
  "$python" -B -m sphinx "${options[@]}" "$here/$1" "$2"
  rm -rf "$2/.buildinfo" "$2/objects.inv"
  if [ "$1" = zh ]; then  # the one sentence that Sphinx does not translate
    # shellcheck disable=SC2016  # JavaScript's own $
    sed -i 's/Search finished, found ${resultCount} page(s) matching the search query\./找到 ${resultCount} 个页面。/' \
      "$2/_static/searchtools.js"
  fi
}

stage en
stage zh
rm -rf "$here/site"
build en "$here/site"
build zh "$here/site/zh"
if [ $check = 1 ]; then
  exit $bad
fi
mkdir -p "$(dirname "$out")"
if [ -e "$out" ] && [ ! -e "$out/searchindex.js" ] && [ -n "$(ls -A "$out")" ]; then
  echo "course: $out is there and is no course: name another folder" >&2
  exit 2
fi
rm -rf "$out"
cp -r "$here/site" "$out"
echo "course: $out/index.html and $out/zh/index.html"
