# LLVM 22 by its llvm-config. Only codegen-llvm/ and backend-*/ are compiled with its headers.
#   SINTER_LLVM_INCLUDE   folder of the headers
#   SINTER_LLVM_LINK      what a program or library that holds those folders links
set(SINTER_LLVM_MAJOR 22)
find_program(SINTER_LLVM_CONFIG NAMES llvm-config-${SINTER_LLVM_MAJOR} PATHS /usr/lib/llvm-${SINTER_LLVM_MAJOR}/bin)
if(NOT SINTER_LLVM_CONFIG)
  message(FATAL_ERROR "llvm-config-${SINTER_LLVM_MAJOR} not found: install llvm-${SINTER_LLVM_MAJOR}-dev "
                      "or set SINTER_LLVM_CONFIG")
endif()

function(llvm_config out)
  execute_process(COMMAND ${SINTER_LLVM_CONFIG} ${ARGN} OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "[ \n]+" ";" text "${text}")
  set(${out} ${text} PARENT_SCOPE)
endfunction()

llvm_config(SINTER_LLVM_VERSION --version)
if(NOT SINTER_LLVM_VERSION MATCHES "^${SINTER_LLVM_MAJOR}\\.")
  message(FATAL_ERROR "LLVM ${SINTER_LLVM_MAJOR} is needed; ${SINTER_LLVM_CONFIG} is ${SINTER_LLVM_VERSION}")
endif()
llvm_config(SINTER_LLVM_INCLUDE --includedir)
llvm_config(SINTER_LLVM_LIBDIR --libdir)
message(STATUS "LLVM ${SINTER_LLVM_VERSION} (${SINTER_LLVM_CONFIG})")

if(SINTER_STATIC_LLVM)
  # Archive members are pulled in on demand, so libraries that only unused parts of LLVM need (z3, xml2, tinfo) are left out.
  llvm_config(libs --link-static --libs nvptx native orcjit passes irreader linker)
  set(SINTER_LLVM_LINK -L${SINTER_LLVM_LIBDIR} ${libs} -l:libz.a -l:libzstd.a -static-libstdc++ -static-libgcc
                       -Wl,--gc-sections -Wl,--exclude-libs,ALL)
else()
  set(SINTER_LLVM_LINK -L${SINTER_LLVM_LIBDIR} -lLLVM-${SINTER_LLVM_MAJOR})
endif()
