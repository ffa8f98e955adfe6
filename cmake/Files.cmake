# Libraries that files are read and written with. Libsinter.so alone links the first two; of the third, xxHash, a header is enough.
#   SINTER_FILES_LINK      what a program or library that holds the frontend links
#   SINTER_FILES_DEFINES   SN_HAVE_ZIP where .npz can be read
option(SINTER_NPZ "Read .npz files (needs libzip)" ON)

find_library(SINTER_JANSSON_LIBRARY jansson)
if(NOT SINTER_JANSSON_LIBRARY)
  message(FATAL_ERROR "jansson not found: install libjansson-dev")
endif()
find_path(SINTER_XXHASH_INCLUDE xxhash.h)
if(NOT SINTER_XXHASH_INCLUDE)
  message(FATAL_ERROR "xxhash.h not found: install libxxhash-dev")
endif()
set(SINTER_FILES_LINK ${SINTER_JANSSON_LIBRARY})
set(SINTER_FILES_DEFINES)

if(SINTER_NPZ)
  find_library(SINTER_ZIP zip)
  if(NOT SINTER_ZIP)
    message(FATAL_ERROR "libzip not found: install libzip-dev, or build without .npz files: -DSINTER_NPZ=OFF")
  endif()
  list(APPEND SINTER_FILES_LINK ${SINTER_ZIP})
  list(APPEND SINTER_FILES_DEFINES SN_HAVE_ZIP)
endif()
