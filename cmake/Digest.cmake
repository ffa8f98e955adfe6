# Digest.cmake: the sources that generated code depends on, as one number for its cache (codegen-llvm/key.c).
#
#   sinter_digest(OUT NAME HEADER FOLDER...)   OUT: a C file with the text NAME, which HEADER declares; made anew when a source in
#                                              one of the folders changes
#   cmake -DROOT=DIR -DOUT=FILE -DNAME=n -DHEADER=h -DFOLDERS=a,b -P Digest.cmake    makes it
#
# It follows from the names below the root and from what is in the files, not from where the root is.
if(CMAKE_SCRIPT_MODE_FILE)
  string(REPLACE "," ";" FOLDERS "${FOLDERS}")
  set(text)
  foreach(folder IN LISTS FOLDERS)
    file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${folder}/*.c ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.def)
    list(SORT files COMPARE STRING)
    foreach(name IN LISTS files)
      file(SHA256 ${ROOT}/${name} sum)
      string(APPEND text "${name} ${sum}\n")
    endforeach()
  endforeach()
  string(SHA256 digest "${text}")
  file(WRITE ${OUT} "/* Made by cmake/Digest.cmake. */\n#include \"${HEADER}\"\n\n"
                    "const char ${NAME}[] = \"${digest}\";\n")
  return()
endif()

function(sinter_digest out name header)
  set(sources)
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c ${CMAKE_SOURCE_DIR}/${folder}/*.h
                                              ${CMAKE_SOURCE_DIR}/${folder}/*.def)
    list(APPEND sources ${found})
  endforeach()
  list(JOIN ARGN "," folders)
  set(script ${CMAKE_SOURCE_DIR}/cmake/Digest.cmake)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} -DOUT=${out} -DNAME=${name} -DHEADER=${header} -DFOLDERS=${folders} -P ${script}
    DEPENDS ${sources} ${script}
    COMMENT "Digest of the sources that code depends on"
    VERBATIM)
endfunction()
