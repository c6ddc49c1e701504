#!/usr/bin/env bash
# No two files of one program define a type of one name (one_definition.py), and the check sees it
# where they do.
set -u
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0
python3 "$here/one_definition.py" || bad=1

# expect MESSAGE FILE TEXT FILE TEXT: of a tree of two files; the message is empty where that is
# right.
expect() {
  rm -rf "$scratch/tree"
  mkdir -p "$scratch/tree/$(dirname "$2")" "$scratch/tree/$(dirname "$4")"
  printf '%s\n' "$3" >"$scratch/tree/$2"
  printf '%s\n' "$5" >"$scratch/tree/$4"
  local said
  said=$(python3 "$here/one_definition.py" "$scratch/tree")
  local rc=$?
  if [ "$said" != "$1" ] || [ "$rc" != "$([ -z "$1" ] && echo 0 || echo 1)" ]; then
    echo "FAILED $3 beside $5: exit code $rc, said: $said, wanted: $1"
    bad=1
  fi
}
x='namespace wt { struct X { int a; }; }'
expect 'wt::X is defined in core/a.h and in tests/b.h' core/a.h "$x" tests/b.h "$x"
expect 'wt::X is defined in core/a.h and in tools/b.cpp' core/a.h "$x" tools/b.cpp "$x"
expect 'wt::X is defined in tests/a.h and in tests/b.cpp' tests/a.h "$x" tests/b.cpp \
  'namespace wt { class WT_GUARD X final : public Y<int> { }; }'
expect 'wt::a::X is defined in nn/a.h and in nn/b.h' nn/a.h 'namespace wt::a { enum class X : u8 { one }; }' \
  nn/b.h 'namespace wt { namespace a { union alignas(16) X { int a; }; } }'
expect '' core/a.h "$x" core/b.h 'namespace wt { struct X; class Y { struct X {}; }; }'
expect '' core/a.h "$x" core/b.h 'namespace wt { namespace { struct X {}; } }'
expect '' core/a.h "$x" core/b.h '// struct X {};
namespace wt { const char* s = "struct X {"; template <> struct X<int> {}; }'
expect '' tests/a.h "$x" tools/b.h "$x"
expect '' core/a.h "$x" tools/examples/b.cpp "$x"
exit $bad
