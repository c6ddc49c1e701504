# wt_gpu, the program of tools/gpu_gate.sh: the tests that walk cuda, wt_gpu_bench and the wt command in one,
# so that every kernel is in it, and travels, once. A shared library under three programs would do the
# same, but tests and benchmark are of what it would hide, and all objects would have to be compiled a
# second time, position independent.

function(wt_gpu_program)
  if(NOT TARGET wt_gpu_test_files OR NOT TARGET wt_command OR NOT WARPTAPE_HAS_CUDA OR
     NOT WT_PLAIN STREQUAL "plain")
    return()
  endif()
  wt_objects(objects plain ${WT_BENCH_PARTS} test_simt tool_parts ${WT_PARTS})
  add_executable(wt_gpu tools/gate/wt_gpu.cpp $<TARGET_OBJECTS:wt_command> ${objects}
    $<TARGET_OBJECTS:wt_gpu_test_files>)
  set_target_properties(wt_gpu PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(wt_gpu PRIVATE wt_common wt_features Catch2::Catch2)
  target_compile_options(wt_gpu PRIVATE ${WT_TESTS})  # nearly all of it is Catch2
  target_link_options(wt_gpu PRIVATE ${WT_LINK_plain})
  if(TARGET wt_emulated_cudart)
    wt_command_test(tools/gpu_gate_emulated ptx tests/tools/gate/gpu_gate_test.sh emulated
      "${PROJECT_BINARY_DIR}")
  endif()
endfunction()
