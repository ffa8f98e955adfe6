/* link.c: the objects of a program's kernels as one piece of code that may lie anywhere, for images.
 *
 *     object 1   .text .rodata     object 2   .text .rodata     ...   cells: jmp *slot; slot
 *
 * What a linker does, for what our objects have: sections that are only read lie one after the other, references within them
 * are resolved here, since all of them are relative. A function of the C library is called through a cell, whose slot the
 * loader fills in (runtime/image_code.c); absolute addresses, which tables of constants may hold, are slots too. Objects that
 * have variables, or relocations beyond those that position-independent code of x86-64 makes, are refused. Knows nothing of
 * LLVM: ELF in, bytes out. Relies on objects of jit.c, which are whole.
 */
#include "backend-host/host.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 16, SLOT_IN_CELL = 8 };
static const uint64_t nowhere = UINT64_MAX;

/* A place with an address: of an import, or of the code. */
typedef struct cell {
    const char *import;
    uint64_t target;
    bool is_read; /* its slot is, not only its jump */
} cell;

typedef struct linker {
    sn_env *env;
    sn_arena *arena;
    char *bytes;
    uint64_t size, cells_at;
    SN_VEC(cell) cells;
    SN_VEC(sn_host_slot) slots;
} linker;

/* One object, and where its sections went. */
typedef struct piece {
    const sn_host_object *o;
    const Elf64_Ehdr *elf;
    const Elf64_Shdr *sections;
    uint64_t *at; /* by section; nowhere: left out */
    const Elf64_Sym *symbols;
    uint32_t n_symbols;
    const char *names;
} piece;

static const char *section_name(const piece *p, uint32_t i) {
    return (const char *)p->o->bytes + p->sections[p->elf->e_shstrndx].sh_offset + p->sections[i].sh_name;
}

static sn_status refuse(const linker *l, const char *what, const char *which) {
    return sn_fail(l->env, SN_ERROR_UNSUPPORTED, "an image cannot have this code: %s%s", what, which);
}

static sn_status open_piece(piece *p, const linker *l) {
    p->elf = p->o->bytes;
    if (p->o->size < sizeof *p->elf || memcmp(p->elf->e_ident, ELFMAG, SELFMAG) != 0 ||
        p->elf->e_ident[EI_CLASS] != ELFCLASS64 || p->elf->e_machine != EM_X86_64)
        return refuse(l, "machine code in images is that of x86-64", "");
    p->sections = (const Elf64_Shdr *)((const char *)p->o->bytes + p->elf->e_shoff);
    p->at = SN_NEWN(l->arena, uint64_t, p->elf->e_shnum + 1u);
    for (uint32_t i = 0; i < p->elf->e_shnum; i++) {
        const Elf64_Shdr *s = &p->sections[i];
        p->at[i] = nowhere;
        if (s->sh_type != SHT_SYMTAB) continue;
        p->symbols = (const Elf64_Sym *)((const char *)p->o->bytes + s->sh_offset);
        p->n_symbols = (uint32_t)(s->sh_size / sizeof *p->symbols);
        p->names = (const char *)p->o->bytes + p->sections[s->sh_link].sh_offset;
    }
    return SN_OK;
}

/* Tables for unwinding and debuggers stay behind. */
static bool is_loaded(const piece *p, uint32_t i) {
    return (p->sections[i].sh_flags & SHF_ALLOC) && p->sections[i].sh_size &&
           strcmp(section_name(p, i), ".eh_frame") != 0;
}

static sn_status place_sections(piece *p, linker *l) {
    for (uint32_t i = 0; i < p->elf->e_shnum; i++) {
        const Elf64_Shdr *s = &p->sections[i];
        if (!is_loaded(p, i)) continue;
        const char *name = section_name(p, i);
        if ((s->sh_flags & (SHF_WRITE | SHF_TLS)) && strncmp(name, ".data.rel.ro", 12) != 0)
            return refuse(l, "it has variables, in ", name);
        uint64_t align = s->sh_addralign > CELL ? s->sh_addralign : CELL;
        l->size = (l->size + align - 1) / align * align;
        p->at[i] = l->size;
        l->size += s->sh_size;
    }
    return SN_OK;
}

static void copy_sections(const piece *p, linker *l) {
    for (uint32_t i = 0; i < p->elf->e_shnum; i++)
        if (p->at[i] != nowhere && p->sections[i].sh_type != SHT_NOBITS)
            memcpy(l->bytes + p->at[i], (const char *)p->o->bytes + p->sections[i].sh_offset, p->sections[i].sh_size);
}

/* ---- references ---- */

/* Where a symbol is, or which import it is. */
static sn_status find_symbol(cell *out, const piece *p, const linker *l, uint32_t number) {
    const Elf64_Sym *s = &p->symbols[number];
    const char *name = p->names + s->st_name;
    *out = (cell){0};
    if (s->st_shndx == SHN_UNDEF) {
        out->import = sn_strdup(l->arena, name);
        return SN_OK;
    }
    if (s->st_shndx >= p->elf->e_shnum || p->at[s->st_shndx] == nowhere) return refuse(l, "it refers to ", name);
    out->target = p->at[s->st_shndx] + s->st_value;
    return SN_OK;
}

/* The cell with that address. */
static uint64_t cell_of(linker *l, const cell *want) {
    uint32_t i = 0;
    for (; i < l->cells.n; i++) {
        const cell *c = &l->cells.at[i];
        if (want->import ? c->import && !strcmp(c->import, want->import) : !c->import && c->target == want->target)
            break;
    }
    if (i == l->cells.n) SN_PUSH(l->arena, &l->cells, *want);
    l->cells.at[i].is_read |= want->is_read;
    return l->cells_at + (uint64_t)i * CELL;
}

static sn_status put_relative(linker *l, uint64_t at, uint64_t to, int64_t addend, size_t size) {
    int64_t distance = (int64_t)to + addend - (int64_t)at;
    if (size == 4 && distance != (int32_t)distance) return refuse(l, "it is larger than 2 GB", "");
    memcpy(l->bytes + at, &distance, size);
    return SN_OK;
}

static sn_status put_address(linker *l, uint64_t at, const cell *to, int64_t addend) {
    if (to->import && addend) return refuse(l, "it has an address within ", to->import);
    SN_PUSH(l->arena, &l->slots, ((sn_host_slot){at, to->import, to->target + (uint64_t)addend, false}));
    return SN_OK;
}

static sn_status relocate(const piece *p, linker *l, uint64_t base, const Elf64_Rela *r) {
    cell to;
    char number[16];
    uint64_t at = base + r->r_offset;
    SN_TRY(find_symbol(&to, p, l, (uint32_t)ELF64_R_SYM(r->r_info)));
    switch (ELF64_R_TYPE(r->r_info)) {
    case R_X86_64_NONE: return SN_OK;
    case R_X86_64_64: return put_address(l, at, &to, r->r_addend);
    case R_X86_64_PC32:
    case R_X86_64_PLT32: return put_relative(l, at, to.import ? cell_of(l, &to) : to.target, r->r_addend, 4);
    case R_X86_64_PC64:
        if (to.import) return refuse(l, "it refers from afar to ", to.import);
        return put_relative(l, at, to.target, r->r_addend, 8);
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        to.is_read = true;
        return put_relative(l, at, cell_of(l, &to) + SLOT_IN_CELL, r->r_addend, 4);
    default: snprintf(number, sizeof number, "%u", (unsigned)ELF64_R_TYPE(r->r_info));
    }
    return refuse(l, "it has a relocation of type ", number);
}

static sn_status relocate_all(const piece *p, linker *l) {
    for (uint32_t i = 0; i < p->elf->e_shnum; i++) {
        const Elf64_Shdr *s = &p->sections[i];
        if (s->sh_type != SHT_RELA || p->at[s->sh_info] == nowhere) continue;
        const Elf64_Rela *r = (const Elf64_Rela *)((const char *)p->o->bytes + s->sh_offset);
        for (uint64_t k = 0; k < s->sh_size / sizeof *r; k++) SN_TRY(relocate(p, l, p->at[s->sh_info], &r[k]));
    }
    return SN_OK;
}

/* ---- the whole ---- */

static sn_status find_entries(uint64_t *entries, const piece *p, const linker *l) {
    char name[SN_HOST_SYMBOL + 16];
    for (uint32_t i = 0; i < p->n_symbols; i++) {
        const Elf64_Sym *s = &p->symbols[i];
        if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC) continue;
        for (uint32_t k = 0; k < p->o->n; k++) {
            snprintf(name, sizeof name, "%s.%u", p->o->symbols, k);
            if (!strcmp(name, p->names + s->st_name)) entries[p->o->first + k] = p->at[s->st_shndx] + s->st_value;
        }
    }
    for (uint32_t k = 0; k < p->o->n; k++)
        if (entries[p->o->first + k] == nowhere) return refuse(l, "a kernel is not in its object", "");
    return SN_OK;
}

/* jmp *2(%rip), and the slot. */
static void put_cells(linker *l, char *bytes) {
    static const unsigned char jump[SLOT_IN_CELL] = {0xff, 0x25, 2, 0, 0, 0, 0x66, 0x90};
    for (uint32_t i = 0; i < l->cells.n; i++) {
        const cell *c = &l->cells.at[i];
        uint64_t at = l->cells_at + (uint64_t)i * CELL;
        memcpy(bytes + at, jump, sizeof jump);
        SN_PUSH(l->arena, &l->slots, ((sn_host_slot){at + SLOT_IN_CELL, c->import, c->target, !c->is_read}));
    }
}

static sn_status link_pieces(linker *l, uint64_t *entries, piece *pieces, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        SN_TRY(open_piece(&pieces[i], l));
        SN_TRY(place_sections(&pieces[i], l));
    }
    l->cells_at = (l->size + CELL - 1) / CELL * CELL;
    l->bytes = sn_zalloc(l->arena, (size_t)l->cells_at);
    for (uint32_t i = 0; i < n; i++) {
        copy_sections(&pieces[i], l);
        SN_TRY(find_entries(entries, &pieces[i], l));
    }
    for (uint32_t i = 0; i < n; i++) SN_TRY(relocate_all(&pieces[i], l));
    return SN_OK;
}

sn_status sn_host_link(sn_host_image *out, sn_env *env, const sn_host_object *objects, uint32_t n, uint32_t n_kernels,
                       sn_arena *arena) {
    linker l = {.env = env, .arena = arena};
    piece *pieces = SN_NEWN(arena, piece, n + 1);
    out->entries = SN_NEWN(arena, uint64_t, n_kernels + 1);
    for (uint32_t i = 0; i < n_kernels; i++) out->entries[i] = nowhere;
    for (uint32_t i = 0; i < n; i++) pieces[i].o = &objects[i];
    SN_TRY(link_pieces(&l, out->entries, pieces, n));
    out->size = (size_t)l.cells_at + (size_t)l.cells.n * CELL;
    out->bytes = sn_zalloc(arena, out->size);
    if (l.cells_at) memcpy(out->bytes, l.bytes, (size_t)l.cells_at);
    put_cells(&l, out->bytes);
    out->slots = l.slots.at;
    out->n_slots = l.slots.n;
    return SN_OK;
}
