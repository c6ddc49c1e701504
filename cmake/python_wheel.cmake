# wt_python_wheel(module out): the folder of an installed Python package, "" without one. NVIDIA's
# wheels hold headers and libraries; machines without root often have them only there.
function(wt_python_wheel module out)
  set(folder "")
  find_program(WARPTAPE_PYTHON NAMES python3 python)
  mark_as_advanced(WARPTAPE_PYTHON)
  if(WARPTAPE_PYTHON)
    execute_process(
      COMMAND "${WARPTAPE_PYTHON}" -c "import ${module} as m; print(list(m.__path__)[0])"
      OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()
