# Compiler flags. sinter-warnings: every target; sinter-flags: targets that see the internal headers.
find_package(Threads REQUIRED)

add_library(sinter-warnings INTERFACE)
target_compile_options(sinter-warnings INTERFACE -Wall -Wextra -Wswitch)
if(SINTER_WERROR)
  target_compile_options(sinter-warnings INTERFACE -Werror)
endif()
if(SINTER_SANITIZE)
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # Instrumented code confuses gcc's flow analysis.
  target_compile_options(sinter-warnings INTERFACE ${sanitize} -Wno-maybe-uninitialized)
  target_link_options(sinter-warnings INTERFACE ${sanitize})
endif()
if(SINTER_FUZZ)
  target_compile_options(sinter-warnings INTERFACE -fsanitize=fuzzer-no-link)
endif()

add_library(sinter-flags INTERFACE)
target_include_directories(sinter-flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(sinter-flags INTERFACE sinter-warnings)
