# MPI::MPI_CXX: the C interface of MPI, found by its wrapper mpicc. The C++ interface, which MPI 3
# dropped, is not linked. Hints: MPI_HOME, MPI_CXX_COMPILER (any wrapper).
if(NOT MPI_CXX_COMPILER)
  find_program(MPI_CXX_COMPILER NAMES mpicc mpicc.openmpi mpicc.mpich
    HINTS "${MPI_HOME}" ENV MPI_HOME PATH_SUFFIXES bin)
  mark_as_advanced(MPI_CXX_COMPILER)
endif()
set(MPI_CXX_SKIP_MPICXX TRUE)
find_package(MPI QUIET COMPONENTS CXX)
