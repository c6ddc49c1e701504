#!/usr/bin/env bash
# What setup.sh, quickstart.sh and test.sh say where something is wrong with the machine or the checkout:
# one line, an exit code that is not 0, and nothing installed, removed or overwritten. In a PATH of
# its own with stand-ins for all that installs and builds: no network, no rights, no compiler.
set -u
root=$(cd "${0%/*}/../.." && pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
tree=$here/tree bin=$here/bin
mkdir -p "$tree/tools" "$bin"
cd "$tree" || exit 1
cp "$root"/tools/{checks,quickstart,setup,test}.sh tools/
for name in awk basename bash cat chmod dirname env find flock grep head id mkdir mktemp nproc realpath rm \
  sed sort tail touch uname; do
  ln -s "$(command -v $name)" "$bin/$name"
done
stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"; chmod +x "$bin/$1"; }
for name in ccache clang-format-14 gdb git ld.lld mpirun nvidia-smi pkg-config python3 valgrind; do stand_in $name 'exit 1'; done

# reset: a machine on which all is well; the run of an earlier quickstart lies there.
reset() {
  rm -rf build runs "$bin/sudo" "$bin/id" "$bin/df" "$here/calls" "$here/cmake_says" "$here/apt_says"
  ln -s "$(command -v id)" "$bin/id"
  stand_in df 'printf "head\nx 9 9 9999 9%% /\n"'
  stand_in cmake 'case $* in
    --version) echo "cmake version 3.25.1" ;;
    --build*) cat "$HERE/cmake_says" 2>/dev/null && exit 1
      printf "#!/bin/sh\necho \"wt \$*\"\n" >build/quickstart/wt; chmod +x build/quickstart/wt ;;
  esac'
  stand_in g++ 'case $1 in -dumpversion) echo 12 ;; *) echo "g++ (Debian) 12.2.0" ;; esac'
  stand_in ninja 'exit 0'
  stand_in apt-get 'echo "apt-get $*" >>"$HERE/calls"; cat "$HERE/apt_says" 2>/dev/null && exit 100; exit 0'
  mkdir -p runs/quickstart
  echo old >runs/quickstart/report.html
  touch runs/quickstart/.quickstart
}
listing() { find . \( -name .in_use -o -path ./build/ci -o -path ./build \) -prune -o -type f -exec head {} +; }
run() { PATH=$bin HERE=$here CXX=${CXX_IS:-} bash "tools/$1.sh" "${@:2}" >"$here/out" 2>"$here/err"; }
# refused NAME LINE SCRIPT OPTIONS...: it ends with LINE, the only one of its own on stderr.
refused() {
  local name=$1 line=$2 before rc
  shift 2
  before=$(listing)
  run "$@"
  rc=$?
  [ $rc = 1 ] || fail "$name: exit code $rc: $(cat "$here/out" "$here/err")"
  [ "$(grep -c "^$1: " "$here/err")" = 1 ] || fail "$name: not one line: $(cat "$here/err")"
  grep "^$1: " "$here/err" | grep -qF -- "$line" || fail "$name: no '$line' in: $(cat "$here/err")"
  [ "$(listing)" = "$before" ] || fail "$name: something has changed: $(listing)"
}
installs_nothing() { ! grep -q install "$here/calls" 2>/dev/null || fail "$1: $(cat "$here/calls")"; }

reset
run quickstart || fail "all is well: $(cat "$here/out" "$here/err")"
[ -e runs/quickstart/.quickstart ] && [ ! -e runs/quickstart/report.html ] || fail "the run was not begun anew"
grep -q '^wt train charlm --out runs/quickstart .* --steps 400$' "$here/out" || fail "said: $(cat "$here/out")"

# --- setup.sh ---
reset
rm "$bin/ninja"
echo "E: Failed to fetch http://x/ninja.deb  Temporary failure resolving 'x'" >"$here/apt_says"
refused "no network" "could not install ninja-build: there is no network" setup
reset
rm "$bin/ninja" "$bin/ccache" "$bin/mpirun"
stand_in apt-get 'echo "apt-get $*" >>"$HERE/calls"
  case $* in *openmpi-bin*) echo "E: Unable to locate package openmpi-bin"; exit 100 ;; esac'
if run setup; then
  grep -q 'going on without openmpi-bin: ' "$here/out" || fail "unknown package: $(cat "$here/out")"
  [ "$(grep -c 'install.* ccache$' "$here/calls")" = 2 ] || fail "not together, then alone: $(cat "$here/calls")"
  grep 'install' "$here/calls" | grep -q -- '--no-install-recommends ccache$' || fail "ccache is lost: $(cat "$here/calls")"
else
  fail "unknown package: exit code: $(cat "$here/out" "$here/err")"
fi
stand_in ccache 'exit 1'
stand_in mpirun 'exit 1'
reset
rm "$bin/ninja"
echo "E: You don't have enough free space in /var/cache/apt/archives/." >"$here/apt_says"
refused "no room for packages" "could not install ninja-build: the disk is full" setup
reset
rm "$bin/ninja"
echo "E: Unable to locate package ninja-build" >"$here/apt_says"
refused "no such package" "it said first: E: Unable to locate package ninja-build" setup
reset
rm "$bin/ninja" "$bin/id"
stand_in id 'echo 1000'
refused "no root and no sudo" "not root and no sudo. As root: apt-get install ninja-build" setup
installs_nothing "no root and no sudo"
stand_in sudo 'echo "sudo: a password is required" >&2; exit 1'
refused "sudo refuses" "sudo refuses: run tools/setup.sh as root" setup
reset
rm "$bin/ninja"
stand_in cmake 'echo "cmake version 3.18.4"'
refused "old cmake" "cmake is 3.18, 3.25 or newer is needed: pip install cmake" setup
installs_nothing "old cmake"
refused "old cmake" "cmake is 3.18, 3.25 or newer is needed" test --no-setup
reset
rm "$bin/ninja"
stand_in g++ 'case $1 in -dumpversion) echo 10 ;; *) echo "g++ (Debian) 10.2.1" ;; esac'
refused "old g++" "g++ is 10, 12 or newer is needed: apt-get install g++-12" setup
installs_nothing "old g++"
stand_in g++-12 'case $1 in -dumpversion) echo 12 ;; *) echo "g++ (Debian) 12.2.0" ;; esac'
CXX_IS=g++-12 run setup || fail "CXX=g++-12: $(cat "$here/out" "$here/err")"

# A browser is installed where it is asked for, and only there.
reset
run setup --tests --check
grep -q chromium "$here/out" "$here/err" && fail "a browser that nobody asked for: $(cat "$here/out")"
run setup --browser --check
grep -qE '^setup: useful and missing: .*chromium' "$here/out" || fail "--browser: $(cat "$here/out" "$here/err")"
installs_nothing "--browser --check"
stand_in chromium 'exit 0'
run setup --browser --check
grep -q chromium "$here/out" && fail "it is there: $(cat "$here/out")"
rm "$bin/chromium"

# --- the build folder and the checkout ---
reset
echo "fatal error: error writing to /tmp/x.s: No space left on device" >"$here/cmake_says"
refused "full disk" "cmake failed: the disk is full" quickstart
echo "x.cpp:1:2: error: expected ';'" >"$here/cmake_says"
refused "a build that fails" "cmake failed: it said first: x.cpp:1:2: error: expected ';'" quickstart
stand_in df 'printf "head\nx 9 9 7 9%% /\n"'
refused "full disk of which CMake says nothing" "cmake failed: the disk is full" quickstart
for script in quickstart test; do
  build=build/quickstart
  [ $script = quickstart ] || build=build/ci
  reset
  ln -s /proc/sys build  # nobody can make a file there, root neither
  refused "read-only" "cannot write to build (" $script
  reset
  stand_in df 'printf "head\nx 9 9 7 9%% /\n"'
  refused "too little room" ". has 7 MiB free and $build takes " $script
  reset
  mkdir -p $build
  printf 'CMAKE_%s\n' "HOME_DIRECTORY:INTERNAL=/elsewhere" "CACHEFILE_DIR:INTERNAL=$tree/$build" \
    "GENERATOR:INTERNAL=Ninja" >$build/CMakeCache.txt
  refused "another tree's build" "$build was configured for /elsewhere, as" $script
  sed -i "s|/elsewhere|$tree|; s|Ninja|Unix Makefiles|" $build/CMakeCache.txt
  refused "another generator" "with Unix Makefiles: remove it (rm -r $build)" $script
  rm $build/CMakeCache.txt
  exec 8>$build/.in_use
  flock -n 8
  refused "at work" "another build is at work in $build: wait" $script
  exec 8>$build/.ninja_log
  refused "ninja at work" "another build is at work in $build: wait" $script
  exec 8>&-
done

# --- what is the user's ---
reset
rm runs/quickstart/.quickstart
refused "a run of the user's" "runs/quickstart is not of this script: move it away" quickstart
installs_nothing "a run of the user's"
[ -e build/quickstart ] && fail "it built before it asked"
exit $bad
