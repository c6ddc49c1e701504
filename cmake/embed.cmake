# cmake -DIN=FILE -DOUT=FILE.cpp -DNAME=name -P embed.cmake: a text file as `const char* const
# wt::bench::name`, so that a program finds it wherever it is installed. Comments (#) are left out
# and runs of blanks are one: the file is for people too.
file(READ "${IN}" text)
string(REGEX REPLACE "#[^\n]*\n" "" text "${text}")
string(REGEX REPLACE " +" " " text "${text}")
# A string literal of any length is more than some compilers take: lines are literals of their own.
string(REGEX REPLACE "([^\n]*)\n" "    \"\\1\\\\n\"\n" text "${text}")
file(WRITE "${OUT}" "// Made of ${IN} by cmake/embed.cmake.
namespace wt::bench {
extern const char* const ${NAME};
const char* const ${NAME} =
${text};
}  // namespace wt::bench
")
