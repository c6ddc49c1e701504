# LMDB: LMDB::LMDB.
include("${CMAKE_CURRENT_LIST_DIR}/find_plain.cmake")
wt_find_plain(LMDB lmdb.h lmdb lmdb.h "MDB_VERSION_(MAJOR|MINOR|PATCH)")
