# The rankings that the library ships with: bench/results/<device>/tune.tsv, what `wt tune` has found on it, as
# texts (kernels/dispatch/run_shipped.h).

function(wt_shipped_tuning)
  wt_files(files bench/results/*/tune.tsv)
  set(texts "")
  foreach(name IN LISTS files)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${name})
    file(READ ${name} text)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\t" "\\t" text "${text}")
    # A literal a line: some compilers take no longer ones.
    string(REGEX REPLACE "([^\n]*)\n" "    \"\\1\\\\n\"\n" text "${text}")
    string(APPEND texts "    // ${name}\n${text}    ,\n")
  endforeach()
  file(CONFIGURE OUTPUT "${WARPTAPE_GENERATED_DIR}/shipped_tuning.cpp" @ONLY CONTENT
    "#include \"warptape/kernels/dispatch/run_shipped.h\"

namespace wt::detail {
const char* const kShippedTuning[] = {
${texts}    nullptr};
}  // namespace wt::detail
")
  wt_part(shipped_tuning HOST "${WARPTAPE_GENERATED_DIR}/shipped_tuning.cpp" FLAVOURS plain)
  set(WT_PARTS ${WT_PARTS} shipped_tuning PARENT_SCOPE)
endfunction()
