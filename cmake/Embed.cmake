# Embed.cmake: a file as a constant of C.
#
#   sinter_embed(OUT SYMBOL FILE)   OUT: a C file with `const char SYMBOL[]`, NUL-terminated, made anew when FILE changes
#   cmake -DIN=FILE -DOUT=FILE -DSYMBOL=NAME -P Embed.cmake    makes it
if(CMAKE_SCRIPT_MODE_FILE)
  get_filename_component(name ${IN} NAME)
  file(READ ${IN} bytes HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(WRITE ${OUT} "/* Made by cmake/Embed.cmake of ${name}. */\nextern const char ${SYMBOL}[];\nconst char ${SYMBOL}[] = {\n${bytes}0};\n")
  return()
endif()

function(sinter_embed out symbol file)
  set(script ${CMAKE_SOURCE_DIR}/cmake/Embed.cmake)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DIN=${file} -DOUT=${out} -DSYMBOL=${symbol} -P ${script}
    DEPENDS ${file} ${script}
    COMMENT "Embedding ${symbol}"
    VERBATIM)
endfunction()
