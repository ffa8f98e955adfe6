/* mma_sync.c: nests that instructions of a warp stand for (ir/loop/mma.h): mma.sync and what loads its operands.
 *
 * A warp has the operands of a block in registers of 32 bits (64 for f64). In each of them thread 4*r + c has 4 bytes of row r
 * (of the left operand; column of the right one), number c of 16 bytes along the sum: 8 rows of 16 bytes are a part; of f64, 8
 * rows of 4 elements. Parts of the left operand come row by row, then along the sum; those of the right one along the sum (PTX
 * ISA, "matrix fragments for mma"). ldmatrix loads up to four of them, each thread naming a row of one; of 16-bit elements that
 * lie across it transposes. All else is loaded element by element, but for f64.
 *
 * Which step of the sum is whose is free as long as both operands agree. Of 16 steps of f64, thread c has in part i step
 *
 *     8*(c div 2) + c mod 2 + 2*(c xor i)
 *
 * so that half a warp, which loads 128 bytes, meets itself in no bank of permuted lines: 4 rows of an operand along the sum, whose
 * places are permuted within either half of a line, have a half of a pair in one of the halves each; and 4 lines of one across
 * it have their pairs of columns at four places.
 *
 * What the next products take is loaded in front of these ones, which cover its latency.
 *
 * Of rows that overlap a part is 128 bytes that lie together, and a block may find it in the registers of a block or step before. What was
 * taken long ago is loaded again: registers that wait are registers.
 *
 * Rows are permuted as access.c does it: by exclusive or of bits of the byte's offset, which offsets that are multiples of 1024
 * leave as it is. So what is different between blocks is a constant of the instruction, after an exclusive or with a constant.
 */
#include "codegen-llvm/gen.h"

#include <stdio.h>

enum { WARP = 32, PART_ROWS = 8, PART_BYTES = 16, MOST_PARTS = 4, PERIOD = 1024, MOST_REGISTERS = 16, ACROSS = 4 };
enum { PAIR = 2, KEPT_RUNS = 2 };

/* A part of rows that overlap which is in a register, and the run of steps in which it was taken last. */
typedef struct known_part {
    lv part;
    int64_t run;
} known_part;

typedef struct operand {
    const sn_mma_operand *o;
    lv first;          /* row of the group's first block; NULL: 0 */
    uint32_t block;    /* rows of a block ... */
    uint32_t all;      /* ... and of all blocks of a group */
    lv *registers;     /* parts of all blocks at one step: block by block */
    known_part *known; /* rows that overlap: by where a part begins, in parts; NULL: no */
} operand;

typedef struct warps {
    sn_gen *g;
    const sn_mma_nest *n;
    const sn_mma_info *info;
    int64_t bytes;  /* of an element */
    int64_t length; /* elements of a part along the sum */
    uint32_t deep;  /* parts along the sum */
    bool mixed;     /* steps of f64 are shared as the head says */
    lv lane;
    LLVMTypeRef in, state; /* of registers */
} warps;

/* Part number i of a load: which row and step it begins at, of a thread's own part where i is one. */
typedef struct spot {
    lv row, q;
} spot;

static lv c32(const warps *w, int64_t x) { return sn_em_ci(w->g->em.cg->i32, x); }

static lv divided(const warps *w, lv x, int64_t by) { return LLVMBuildUDiv(w->g->em.b, x, c32(w, by), ""); }
static lv rest(const warps *w, lv x, int64_t by) { return LLVMBuildURem(w->g->em.b, x, c32(w, by), ""); }
static lv scaled(const warps *w, lv x, int64_t by) { return em_imul(&w->g->em, x, c32(w, by)); }
static lv plus(const warps *w, lv x, lv y) { return em_iadd(&w->g->em, x, y); }

/* ---- addresses ---- */

enum { ROW_SHIFT = 7, PIECE_SHIFT = 4 };

static uint32_t rows_moved(const warps *w, const operand *op) {
    uint32_t swizzle = sn_buf_get(w->g->m, op->o->buf)->swizzle;
    return swizzle ? swizzle / PART_BYTES - 1 : 0;
}

static lv permuted(const warps *w, const operand *op, lv offset) {
    sn_em *em = &w->g->em;
    if (!rows_moved(w, op)) return offset;
    lv number = em_and(em, em_lshr(em, offset, c32(w, ROW_SHIFT)), c32(w, rows_moved(w, op)));
    return em_xor(em, offset, em_shl(em, number, c32(w, PIECE_SHIFT)));
}

/* Where the operand begins, if that is no arithmetic. */
static lv begin_of_operand(const warps *w, const operand *op) {
    int64_t at = 0;
    lv p = w->g->memory[op->o->buf.i];
    if (op->o->at.i && !sn_ix_is_const(w->g->m, op->o->at, &at)) return p;
    lv far = c32(w, at * w->bytes);
    return at ? LLVMBuildInBoundsGEP2(w->g->em.b, w->g->em.cg->i8, p, &far, 1, "") : p;
}

/* Of a byte below 1024. */
static int64_t permuted_constant(const warps *w, const operand *op, int64_t offset) {
    return offset ^ ((offset >> ROW_SHIFT & rows_moved(w, op)) << PIECE_SHIFT);
}

/* Do the bits of a block's offset stand apart from those of a thread's in it? */
static bool is_apart(const warps *w, const operand *op) {
    int64_t lines = op->o->across ? w->n->depth : op->o->rows;
    bool powers = !(op->all & (op->all - 1)) && !(op->o->width & (op->o->width - 1));
    return lines * op->o->width * w->bytes % PERIOD == 0 && powers;
}

/* Of the element that is `spot` away from row `row` of the group's and step q; where blocks stand apart, bits of q that the spot has
 * too are inverted in it. */
static lv address(const warps *w, const operand *op, int64_t row, int64_t q, spot s) {
    const sn_mma_operand *o = op->o;
    sn_em *em = &w->g->em;
    int64_t line = o->width * w->bytes, same;
    lv offset, at = op->first ? plus(w, op->first, s.row) : s.row;
    if (op->all & (op->all - 1)) {
        at = plus(w, at, c32(w, row));
        row = 0;
    }
    if (o->across) {
        same = row / o->width * (w->n->depth * line) + q * line + row % o->width * w->bytes;
        offset = plus(w, scaled(w, divided(w, at, o->width), w->n->depth * line), scaled(w, s.q, line));
        offset = plus(w, offset, scaled(w, rest(w, at, o->width), w->bytes));
    } else {
        same = (q / o->width * o->rows + row) * line + q % o->width * w->bytes;
        offset = plus(w, scaled(w, at, line), scaled(w, s.q, w->bytes));
    }
    if (is_apart(w, op)) {
        offset = em_xor(em, permuted(w, op, offset), c32(w, permuted_constant(w, op, same % PERIOD)));
        same -= same % PERIOD;
    } else {
        offset = permuted(w, op, plus(w, offset, c32(w, same)));
        same = 0;
    }
    lv p = LLVMBuildInBoundsGEP2(em->b, em->cg->i8, begin_of_operand(w, op), &offset, 1, "");
    lv far = c32(w, same);
    return LLVMBuildInBoundsGEP2(em->b, em->cg->i8, p, &far, 1, "");
}

/* ---- operands ---- */

/* Does a part follow the one before it along the sum, or by rows? */
static uint32_t side_by_side(const warps *w, const operand *op) { return op->block == PART_ROWS ? w->deep : 0; }

/* Where part number i begins. */
static spot begin_of(const warps *w, const operand *op, lv i) {
    uint32_t along = side_by_side(w, op), down = op->block / PART_ROWS;
    lv row = along ? divided(w, i, along) : rest(w, i, down), q = along ? rest(w, i, along) : divided(w, i, down);
    return (spot){scaled(w, row, PART_ROWS), scaled(w, q, w->length)};
}

static bool by_matrices(const warps *w, const operand *op) { return op->o->across ? w->bytes == 2 : w->bytes <= 4; }

/* n parts: 1, 2 or 4. */
static void load_matrices(const warps *w, const operand *op, lv *out, int64_t row, int64_t q, uint32_t n) {
    sn_em *em = &w->g->em;
    char name[64];
    spot s = begin_of(w, op, rest(w, divided(w, w->lane, PART_ROWS), n));
    lv line = rest(w, w->lane, PART_ROWS);
    if (op->o->across) s.q = plus(w, s.q, line);
    else s.row = plus(w, s.row, line);
    lv p = address(w, op, row, q, s);
    snprintf(name, sizeof name, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x%u%s.b16", n, op->o->across ? ".trans" : "");
    lv x = sn_em_call(em, name, LLVMTypeOf(p), &p, 1);
    for (uint32_t i = 0; i < n; i++) out[i] = n == 1 ? x : LLVMBuildExtractValue(em->b, x, i, "");
}

static lv load_element(const warps *w, const operand *op, int64_t row, int64_t q) {
    enum { STEPS = ACROSS * ACROSS };
    sn_em *em = &w->g->em;
    lv c = rest(w, w->lane, ACROSS);
    spot s = {divided(w, w->lane, ACROSS), c};
    if (w->mixed) {
        s.q = plus(w, plus(w, scaled(w, em_lshr(em, c, c32(w, 1)), 8), em_and(em, c, c32(w, 1))), scaled(w, c, 2));
        q = q - q % STEPS + 2 * (q % STEPS / ACROSS);
    }
    lv x = LLVMBuildLoad2(em->b, w->in, address(w, op, row, q, s), "");
    LLVMSetAlignment(x, (unsigned)w->bytes);
    return x;
}

static uint32_t parts_of_block(const warps *w, const operand *op) { return op->block / PART_ROWS * w->deep; }

static void load_elements(const warps *w, const operand *op, uint32_t blocks, int64_t q) {
    uint32_t each = parts_of_block(w, op), down = op->block / PART_ROWS;
    for (uint32_t i = 0; i < blocks * each; i++) {
        int64_t row = (int64_t)(i / each) * op->block + (int64_t)(i % each % down) * PART_ROWS;
        op->registers[i] = load_element(w, op, row, q + i % each / down * w->length);
    }
}

/* All blocks of the group at step q. */
static void load_operand(const warps *w, const operand *op, uint32_t blocks, int64_t q) {
    uint32_t each = parts_of_block(w, op), all = blocks * each, n;
    if (!by_matrices(w, op)) {
        load_elements(w, op, blocks, q);
        return;
    }
    for (uint32_t i = 0; i < all; i += n) {
        uint32_t most = side_by_side(w, op) ? MOST_PARTS : each;
        n = 1;
        while (2 * n <= most && i + 2 * n <= all) n *= 2;
        load_matrices(w, op, &op->registers[i], (int64_t)(i / each) * op->block, q, n);
    }
}

/* ---- rows that overlap ---- */

/* Where the part of row `row` and step q of the group begins, in parts along the sum: c elements. */
static int64_t place_of(const warps *w, const operand *op, int64_t row, int64_t q) {
    const sn_mma_operand *o = op->o;
    return q / o->run * (o->jump / o->width) + row + q % o->run / w->length;
}

/* Number i of four parts that are loaded together, in parts: those of an operand of 16 rows are of 8 rows and of the 8 behind them, then further
 * along the sum; those of one of 8 rows follow each other along it. So they lie side by side in registers, as an instruction takes them. */
static uint32_t part_place(const operand *op, uint32_t i) {
    return op->block == PART_ROWS ? i / PAIR * PART_ROWS + i % PAIR : i % PAIR * PART_ROWS + i / PAIR;
}

/* n parts from place `place` on; of two the other is further along the sum. */
static void load_overlap(const warps *w, const operand *op, int64_t place, uint32_t n, lv *out) {
    sn_em *em = &w->g->em;
    char name[64];
    lv i = rest(w, divided(w, w->lane, PART_ROWS), n), low = rest(w, i, PAIR), high = divided(w, i, PAIR);
    bool by_rows = n > PAIR && op->block > PART_ROWS;
    lv rows = by_rows ? low : n > PAIR ? high : c32(w, 0), along = by_rows ? high : n > PAIR ? low : i;
    lv at = plus(w, scaled(w, rows, PART_ROWS), along);
    at = plus(w, at, rest(w, w->lane, PART_ROWS));
    if (op->first) at = plus(w, at, op->first);
    lv offset = scaled(w, at, PART_BYTES), far = c32(w, place * PART_BYTES);
    lv p = LLVMBuildInBoundsGEP2(em->b, em->cg->i8, begin_of_operand(w, op), &offset, 1, "");
    p = LLVMBuildInBoundsGEP2(em->b, em->cg->i8, p, &far, 1, "");
    snprintf(name, sizeof name, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x%u.b16", n);
    lv x = sn_em_call(em, name, LLVMTypeOf(p), &p, 1);
    for (uint32_t k = 0; k < n; k++) out[k] = LLVMBuildExtractValue(em->b, x, k, "");
}

static bool is_known(const operand *op, int64_t place, int64_t run) {
    const known_part *k = &op->known[place];
    return k->part && run - k->run <= KEPT_RUNS;
}

/* Both parts of 8 rows at step q; where those of the next 8 are not known either, these too. */
static void know_pairs(const warps *w, const operand *op, int64_t row, int64_t q, bool next) {
    int64_t place = place_of(w, op, row, q), run = q / op->o->run;
    lv parts[2 * PAIR];
    if (is_known(op, place, run) && is_known(op, place + 1, run)) return;
    bool both = next && !(is_known(op, place + PART_ROWS, run) && is_known(op, place + PART_ROWS + 1, run));
    load_overlap(w, op, place, both ? 2 * PAIR : PAIR, parts);
    for (uint32_t i = 0; i < (both ? 2 * PAIR : PAIR); i++)
        op->known[place + (both ? part_place(op, i) : i)] = (known_part){parts[i], run};
}

static void take_overlap(const warps *w, const operand *op, uint32_t blocks, int64_t q) {
    uint32_t down = op->block / PART_ROWS, all = blocks * down, n = 0;
    for (uint32_t i = 0; i < all; i++) know_pairs(w, op, (int64_t)i * PART_ROWS, q, i + 1 < all);
    for (uint32_t h = 0; h < blocks; h++)
        for (uint32_t j = 0; j < w->deep; j++)
            for (uint32_t i = 0; i < down; i++) {
                int64_t row = (int64_t)h * op->block + (int64_t)i * PART_ROWS;
                known_part *k = &op->known[place_of(w, op, row, q) + j];
                k->run = q / op->o->run;
                op->registers[n++] = k->part;
            }
}

static void make_known(const warps *w, operand *op) {
    if (!op->o->run) return;
    int64_t places = place_of(w, op, op->all, w->n->depth - w->info->k) + w->deep;
    op->known = SN_NEWN(w->g->arena, known_part, places);
}

static operand make_operand(const warps *w, const sn_mma_operand *o, uint32_t block, uint32_t blocks, lv group) {
    operand op = {.o = o, .block = block, .all = block * blocks};
    if (group) op.first = scaled(w, group, (int64_t)block * blocks);
    op.registers = SN_NEWN(w->g->arena, lv, blocks * parts_of_block(w, &op));
    make_known(w, &op);
    return op;
}

/* ---- products ---- */

static const char *operand_name(sn_dtype dtype) {
    switch ((int)dtype) {
    case SN_BF16: return "bf16";
    case SN_F16: return "f16";
    case SN_F32: return "tf32";
    case SN_I8: return "s8";
    case SN_U8: return "u8";
    default: return "f64";
    }
}

static char constraint_of(const warps *w, LLVMTypeRef type) {
    return type == w->g->em.cg->i32 ? 'r' : type == w->g->em.cg->f32 ? 'f' : 'd';
}

static void put_registers(sn_text *text, uint32_t *at, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) sn_text_printf(text, "%s$%u", i ? ", " : "{", (*at)++);
    sn_text_put(text, "}");
}

/* `mma.. {sums}, {left}, {right}, {sums before}` of n_a and n_b registers. */
static lv make_code(const warps *w, LLVMTypeRef function, uint32_t n_a, uint32_t n_b) {
    const sn_mma_info *info = w->info;
    sn_gen *g = w->g;
    uint32_t sums = sn_mma_elements(w->n->mma), at = 0;
    const char *name = operand_name(info->operand);
    const char *state = info->state == SN_I32 ? "s32" : info->state == SN_F64 ? "f64" : "f32";
    sn_text text, constraints;
    sn_text_init(&text, g->env);
    sn_text_init(&constraints, g->env);
    sn_text_printf(&text, "mma.sync.aligned.m%un%uk%u.row.col.%s.%s.%s.%s ", info->m, info->n, info->k, state, name,
                   name, state);
    put_registers(&text, &at, sums);
    sn_text_put(&text, ", ");
    put_registers(&text, &at, n_a);
    sn_text_put(&text, ", ");
    put_registers(&text, &at, n_b);
    sn_text_put(&text, ", ");
    put_registers(&text, &at, sums);
    sn_text_put(&text, ";");
    for (uint32_t i = 0; i < sums; i++) sn_text_printf(&constraints, "=%c,", constraint_of(w, w->state));
    for (uint32_t i = 0; i < n_a + n_b; i++) sn_text_printf(&constraints, "%c,", constraint_of(w, w->in));
    for (uint32_t i = 0; i < sums; i++) sn_text_printf(&constraints, "%s%u", i ? "," : "", i);
    lv code =
        LLVMGetInlineAsm(function, text.s, text.n, constraints.s, constraints.n, 1, 0, LLVMInlineAsmDialectATT, 0);
    sn_text_free(&text);
    sn_text_free(&constraints);
    return code;
}

/* The instruction for block (h, j). */
static void put_product(const warps *w, LLVMTypeRef function, lv code, const operand *a, const operand *b, uint32_t h,
                        uint32_t j) {
    sn_em *em = &w->g->em;
    uint32_t sums = sn_mma_elements(w->n->mma), n_a = parts_of_block(w, a), n_b = parts_of_block(w, b), n = 0;
    uint32_t first = (h * w->n->tiles_n + j) * sums;
    lv args[2 * MOST_REGISTERS + MOST_PARTS];
    for (uint32_t i = 0; i < n_a; i++) args[n++] = a->registers[h * n_a + i];
    for (uint32_t i = 0; i < n_b; i++) args[n++] = b->registers[j * n_b + i];
    for (uint32_t i = 0; i < sums; i++) args[n++] = sn_gen_register(w->g, w->n->state, first + i, 1);
    lv out = LLVMBuildCall2(em->b, function, code, args, n, "");
    for (uint32_t i = 0; i < sums; i++)
        sn_gen_set_register(w->g, w->n->state, first + i, LLVMBuildExtractValue(em->b, out, i, ""));
}

static LLVMTypeRef type_of(const warps *w, uint32_t n_in) {
    LLVMTypeRef types[2 * MOST_REGISTERS + MOST_PARTS];
    uint32_t sums = sn_mma_elements(w->n->mma);
    for (uint32_t i = 0; i < sums; i++) types[i] = w->state;
    LLVMTypeRef result = LLVMStructTypeInContext(w->g->em.cg->cx, types, sums, 0);
    for (uint32_t i = 0; i < n_in + sums; i++) types[i] = i < n_in ? w->in : w->state;
    return LLVMFunctionType(result, types, n_in + sums, 0);
}

static LLVMTypeRef register_of(const sn_gen *g, sn_dtype dtype) {
    return dtype == SN_F64 ? g->em.cg->f64 : dtype == SN_F32 ? g->em.cg->f32 : g->em.cg->i32;
}

/* Can steps of f64 be shared as the head says? */
static bool is_mixed(const warps *w) {
    enum { STEPS = ACROSS * ACROSS };
    const operand ops[] = {{.o = &w->n->a, .all = w->info->m * w->n->tiles_m},
                           {.o = &w->n->b, .all = w->info->n * w->n->tiles_n}};
    bool fits = w->info->operand == SN_F64 && w->n->depth % STEPS == 0;
    for (size_t i = 0; i < SN_COUNT(ops); i++) fits &= is_apart(w, &ops[i]) && ops[i].o->width % STEPS == 0;
    return fits;
}

static warps start(sn_gen *g, const sn_mma_nest *n) {
    const sn_mma_info *info = &sn_mmas[n->mma];
    warps w = {.g = g, .n = n, .info = info, .bytes = sn_dtype_bytes(info->operand)};
    lv x = g->index == g->em.cg->i32 ? g->thread_x : LLVMBuildTrunc(g->em.b, g->thread_x, g->em.cg->i32, "");
    w.length = info->operand == SN_F64 ? ACROSS : PART_BYTES / w.bytes;
    w.deep = (uint32_t)(info->k / w.length);
    w.mixed = is_mixed(&w);
    w.lane = rest(&w, x, WARP);
    w.in = info->operand == SN_F64 ? g->em.cg->f64 : g->em.cg->i32;
    w.state = register_of(g, info->state);
    return w;
}

/* Both operands at one step. */
typedef struct factors {
    operand a, b;
} factors;

static factors make_factors(const warps *w, lv group) {
    const sn_mma_nest *n = w->n;
    lv down = group, right = NULL;
    if (group && n->columns > 1) {
        right = rest(w, group, n->columns);
        down = divided(w, group, n->columns);
    }
    return (factors){.a = make_operand(w, &n->a, w->info->m, n->tiles_m, down),
                     .b = make_operand(w, &n->b, w->info->n, n->tiles_n, right)};
}

static void load_factor(const warps *w, const operand *op, uint32_t blocks, int64_t q) {
    if (op->known) take_overlap(w, op, blocks, q);
    else load_operand(w, op, blocks, q);
}

static void load_factors(const warps *w, const factors *f, int64_t q) {
    if (q >= w->n->depth) return;
    load_factor(w, &f->a, w->n->tiles_m, q);
    load_factor(w, &f->b, w->n->tiles_n, q);
}

void sn_gen_mma_sync(sn_gen *g, const sn_mma_nest *n) {
    warps w = start(g, n);
    lv group = n->threads > WARP ? sn_gen_group_number(g, WARP) : NULL;
    factors now = make_factors(&w, group), next = make_factors(&w, group);
    next.a.known = now.a.known, next.b.known = now.b.known;
    uint32_t n_a = parts_of_block(&w, &now.a), n_b = parts_of_block(&w, &now.b);
    LLVMTypeRef function = type_of(&w, n_a + n_b);
    lv code = make_code(&w, function, n_a, n_b);
    load_factors(&w, &now, 0);
    for (int64_t q = 0; q < n->depth; q += w.info->k) {
        load_factors(&w, &next, q + w.info->k);
        for (uint32_t h = 0; h < n->tiles_m; h++)
            for (uint32_t j = 0; j < n->tiles_n; j++) put_product(&w, function, code, &now.a, &now.b, h, j);
        factors done = now;
        now = next;
        next = done;
    }
}
