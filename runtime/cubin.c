/* cubin.c: registers, stack and shared memory of a kernel, from the ELF file that an assembler of NVIDIA's makes.
 *
 *     .symtab          kernels are functions; their numbers are what attributes name
 *     .nv.info         attributes of functions: | format u8 | attribute u8 | size u16 | payload |  ...
 *                        format 4: size bytes of payload; others: the size's place is the payload
 *                        attribute 0x2f  (function u32, registers u32)
 *                        attribute 0x11  (function u32, bytes of its own frame u32)
 *                        attribute 0x12  (function u32, least stack with what it calls u32)
 *     .nv.shared.NAME  its size: static shared memory
 *
 * The format is not documented; these attributes are what `cuobjdump -res-usage` prints, with which tests/ptxas compares them
 * for all generations. What is not found is 0. Relies on nothing but the bytes, whose every offset and length is checked.
 */
#include "runtime/cubin.h"

#include <elf.h>
#include <string.h>

enum {
    FORMAT_SIZED = 4,
    ATTRIBUTE_REGISTERS = 0x2f,
    ATTRIBUTE_FRAME = 0x11,
    ATTRIBUTE_STACK = 0x12,
    EM_CUDA_GPU = 190
};

typedef struct reader {
    const char *at;
    size_t size;
    Elf64_Ehdr head;
    Elf64_Shdr names; /* section of the sections' names */
} reader;

/* ---- bytes ---- */

static bool copy(void *out, const reader *r, uint64_t offset, size_t n) {
    if (offset > r->size || n > r->size - offset) return false;
    memcpy(out, r->at + offset, n);
    return true;
}

static bool section(Elf64_Shdr *out, const reader *r, uint32_t k) {
    return k < r->head.e_shnum && r->head.e_shentsize == sizeof *out &&
           copy(out, r, r->head.e_shoff + (uint64_t)k * sizeof *out, sizeof *out);
}

/* A text in a section of texts; "" where it is not whole. */
static const char *text(const reader *r, const Elf64_Shdr *in, uint64_t at) {
    if (at >= in->sh_size || in->sh_offset > r->size || in->sh_size > r->size - in->sh_offset) return "";
    const char *s = r->at + in->sh_offset + at;
    return memchr(s, 0, in->sh_size - at) ? s : "";
}

static bool open_file(reader *r) {
    if (!copy(&r->head, r, 0, sizeof r->head) || memcmp(r->head.e_ident, ELFMAG, SELFMAG) != 0) return false;
    if (r->head.e_ident[EI_CLASS] != ELFCLASS64 || r->head.e_machine != EM_CUDA_GPU) return false;
    return section(&r->names, r, r->head.e_shstrndx);
}

static bool find_section(Elf64_Shdr *out, const reader *r, const char *name, const char *of) {
    size_t n = strlen(name);
    for (uint32_t k = 0; section(out, r, k); k++) {
        const char *own = text(r, &r->names, out->sh_name);
        if (!strncmp(own, name, n) && !strcmp(own + n, of)) return true;
    }
    return false;
}

/* ---- symbols ---- */

static bool find_kernel(uint32_t *number, const char **name, const reader *r, const char *wanted) {
    Elf64_Shdr table, names;
    Elf64_Sym symbol;
    if (!find_section(&table, r, ".symtab", "") || !section(&names, r, table.sh_link)) return false;
    for (uint32_t k = 0; k < table.sh_size / sizeof symbol; k++) {
        if (!copy(&symbol, r, table.sh_offset + (uint64_t)k * sizeof symbol, sizeof symbol)) return false;
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
        *number = k;
        *name = text(r, &names, symbol.st_name);
        if (!wanted || !strcmp(*name, wanted)) return true;
    }
    return false;
}

/* ---- attributes ---- */

static void take(sn_cubin_figures *out, uint8_t attribute, uint32_t value) {
    if (attribute == ATTRIBUTE_REGISTERS) out->registers = value;
    if ((attribute == ATTRIBUTE_FRAME || attribute == ATTRIBUTE_STACK) && value > out->stack) out->stack = value;
}

static void read_attributes(sn_cubin_figures *out, const reader *r, const Elf64_Shdr *info, uint32_t function) {
    uint8_t head[4];
    uint32_t pair[2];
    for (uint64_t at = 0; at + sizeof head <= info->sh_size;) {
        if (!copy(head, r, info->sh_offset + at, sizeof head)) return;
        at += sizeof head;
        if (head[0] != FORMAT_SIZED) continue;
        uint32_t size = head[2] | (uint32_t)head[3] << 8;
        if (size >= sizeof pair && copy(pair, r, info->sh_offset + at, sizeof pair) && pair[0] == function)
            take(out, head[1], pair[1]);
        at += size;
    }
}

bool sn_cubin_read(sn_cubin_figures *out, const void *bytes, size_t size, const char *kernel) {
    reader r = {.at = bytes, .size = size};
    Elf64_Shdr found;
    uint32_t number;
    const char *name;
    *out = (sn_cubin_figures){0};
    if (!open_file(&r) || !find_kernel(&number, &name, &r, kernel)) return false;
    if (find_section(&found, &r, ".nv.info", "")) read_attributes(out, &r, &found, number);
    if (find_section(&found, &r, ".nv.shared.", name) && found.sh_size <= UINT32_MAX)
        out->shared = (uint32_t)found.sh_size;
    return true;
}
