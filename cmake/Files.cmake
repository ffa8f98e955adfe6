# Libraries that the frontend reads files with. Libsinter.so alone links them.
#   SINTER_FILES_LINK      what a program or library that holds the frontend links
#   SINTER_FILES_DEFINES   SN_HAVE_ZIP where .npz can be read
option(SINTER_NPZ "Read .npz files (needs libzip)" ON)

if(SINTER_STATIC_LLVM)
  find_library(SINTER_JANSSON libjansson.a)
else()
  find_library(SINTER_JANSSON jansson)
endif()
if(NOT SINTER_JANSSON)
  message(FATAL_ERROR "jansson not found: install libjansson-dev")
endif()
set(SINTER_FILES_LINK ${SINTER_JANSSON})
set(SINTER_FILES_DEFINES)

if(SINTER_NPZ)
  find_library(SINTER_ZIP zip)
  if(NOT SINTER_ZIP)
    message(FATAL_ERROR "libzip not found: install libzip-dev, or build without .npz files: -DSINTER_NPZ=OFF")
  endif()
  list(APPEND SINTER_FILES_LINK ${SINTER_ZIP})
  list(APPEND SINTER_FILES_DEFINES SN_HAVE_ZIP)
endif()
