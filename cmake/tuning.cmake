# The rankings that the library ships with: bench/results/<device>/tune.tsv, what `wt tune` has found on it, and
# simt's own, as texts (kernels/dispatch/run_shipped.h).

# wt_text_literal(out FILE): its text as literals of C++, one a line: some compilers take no longer ones.
function(wt_text_literal out file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\t" "\\t" text "${text}")
  string(REGEX REPLACE "([^\n]*)\n" "    \"\\1\\\\n\"\n" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(wt_shipped_tuning)
  wt_files(files bench/results/*/tune.tsv)
  set(texts "")
  foreach(name IN LISTS files)
    wt_text_literal(text ${name})
    string(APPEND texts "    // ${name}\n${text}    ,\n")
  endforeach()
  wt_text_literal(simt "${PROJECT_SOURCE_DIR}/kernels/dispatch/simt_tune.tsv")
  file(CONFIGURE OUTPUT "${WARPTAPE_GENERATED_DIR}/shipped_tuning.cpp" @ONLY CONTENT
    "#include \"warptape/kernels/dispatch/run_shipped.h\"

namespace wt::detail {
const char* const kShippedTuning[] = {
${texts}    nullptr};
const char kSimtTuning[] =
${simt}    ;
}  // namespace wt::detail
")
  wt_part(shipped_tuning HOST "${WARPTAPE_GENERATED_DIR}/shipped_tuning.cpp" FLAVOURS plain)
  set(WT_PARTS ${WT_PARTS} shipped_tuning PARENT_SCOPE)
endfunction()
