/* mma_sync.c: nests that instructions of a warp stand for (ir/loop/mma.h): mma.sync and what loads its operands.
 *
 * A warp has the operands of a block in registers of 32 bits (64 for f64). In each of them thread 4*r + c has 4 bytes of row r
 * (of the left operand; column of the right one), number c of 16 bytes along the sum: 8 rows of 16 bytes are a part. Parts of
 * the left operand come row by row, then along the sum; those of the right one along the sum (PTX ISA, "matrix fragments
 * for mma"). ldmatrix loads up to four of them, each thread naming a row of one; of 16-bit elements that lie across it
 * transposes. All else is loaded element by element.
 *
 * Rows are permuted as access.c does it: a function of the byte's offset, which offsets that are multiples of 1024 leave as it
 * is. So what is different between blocks is a constant of the instruction.
 */
#include "codegen-llvm/gen.h"

#include <stdio.h>

enum { WARP = 32, PART_ROWS = 8, PART_BYTES = 16, MOST_PARTS = 4, PERIOD = 1024, MOST_REGISTERS = 8 };

typedef struct operand {
    const sn_mma_operand *o;
    lv first;       /* row of the group's first block; NULL: 0 */
    uint32_t block; /* rows of a block */
    lv *registers;  /* parts of all blocks at one step: block by block */
} operand;

typedef struct warps {
    sn_gen *g;
    const sn_mma_nest *n;
    const sn_mma_info *info;
    int64_t bytes; /* of an element */
    uint32_t deep; /* parts along the sum */
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

static lv permuted(const warps *w, const operand *op, lv offset) {
    enum { ROW_SHIFT = 7, PIECE_SHIFT = 4 };
    sn_em *em = &w->g->em;
    uint32_t swizzle = sn_buf_get(w->g->m, op->o->buf)->swizzle;
    if (!swizzle) return offset;
    lv number = em_and(em, em_lshr(em, offset, c32(w, ROW_SHIFT)), c32(w, swizzle / PART_BYTES - 1));
    return em_xor(em, offset, em_shl(em, number, c32(w, PIECE_SHIFT)));
}

/* Of the element that is `spot` away from row `row` of the group's and step q. */
static lv address(const warps *w, const operand *op, int64_t row, int64_t q, spot s) {
    const sn_mma_operand *o = op->o;
    sn_em *em = &w->g->em;
    int64_t line = o->width * w->bytes, same;
    lv offset, at = op->first ? plus(w, op->first, s.row) : s.row;
    if (o->across) {
        at = plus(w, at, c32(w, row));
        same = q * line;
        offset = plus(w, scaled(w, divided(w, at, o->width), w->n->depth * line), scaled(w, s.q, line));
        offset = plus(w, offset, scaled(w, rest(w, at, o->width), w->bytes));
    } else {
        same = (q / o->width * o->rows + row) * line + q % o->width * w->bytes;
        offset = plus(w, scaled(w, at, line), scaled(w, s.q, w->bytes));
    }
    offset = permuted(w, op, plus(w, offset, c32(w, same % PERIOD)));
    lv p = LLVMBuildInBoundsGEP2(em->b, em->cg->i8, w->g->memory[o->buf.i], &offset, 1, "");
    lv far = c32(w, same - same % PERIOD);
    return LLVMBuildInBoundsGEP2(em->b, em->cg->i8, p, &far, 1, "");
}

/* ---- operands ---- */

/* Does a part follow the one before it along the sum, or by rows? */
static uint32_t side_by_side(const warps *w, const operand *op) { return op->block == PART_ROWS ? w->deep : 0; }

/* Where part number i begins. */
static spot begin_of(const warps *w, const operand *op, lv i) {
    uint32_t along = side_by_side(w, op), down = op->block / PART_ROWS;
    lv row = along ? divided(w, i, along) : rest(w, i, down), q = along ? rest(w, i, along) : divided(w, i, down);
    return (spot){scaled(w, row, PART_ROWS), scaled(w, q, PART_BYTES / w->bytes)};
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

static lv load_element(const warps *w, const operand *op, int64_t row, int64_t q, uint32_t part) {
    enum { PER_ROW = 4 };
    spot s = begin_of(w, op, c32(w, part));
    s.row = plus(w, s.row, divided(w, w->lane, PER_ROW));
    s.q = plus(w, s.q, rest(w, w->lane, PER_ROW));
    lv x = LLVMBuildLoad2(w->g->em.b, w->in, address(w, op, row, q, s), "");
    LLVMSetAlignment(x, (unsigned)w->bytes);
    return x;
}

static uint32_t parts_of_block(const warps *w, const operand *op) { return op->block / PART_ROWS * w->deep; }

/* All blocks of the group at step q. */
static void load_operand(const warps *w, const operand *op, uint32_t blocks, int64_t q) {
    uint32_t each = parts_of_block(w, op), all = blocks * each, n;
    for (uint32_t i = 0; i < all; i += n) {
        int64_t row = (int64_t)(i / each) * op->block;
        n = 1;
        if (!by_matrices(w, op)) {
            op->registers[i] = load_element(w, op, row, q, i % each);
            continue;
        }
        uint32_t most = side_by_side(w, op) ? MOST_PARTS : each;
        while (2 * n <= most && i + 2 * n <= all) n *= 2;
        load_matrices(w, op, &op->registers[i], row, q, n);
    }
}

static operand make_operand(const warps *w, const sn_mma_operand *o, uint32_t block, uint32_t blocks, lv group) {
    operand op = {.o = o, .block = block};
    if (group) op.first = scaled(w, group, (int64_t)block * blocks);
    op.registers = SN_NEWN(w->g->arena, lv, blocks * parts_of_block(w, &op));
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

static lv state_address(const warps *w, uint32_t element) {
    lv offset = c32(w, element);
    return LLVMBuildInBoundsGEP2(w->g->em.b, w->state, w->g->memory[w->n->state.i], &offset, 1, "");
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
    for (uint32_t i = 0; i < sums; i++) args[n++] = LLVMBuildLoad2(em->b, w->state, state_address(w, first + i), "");
    lv out = LLVMBuildCall2(em->b, function, code, args, n, "");
    for (uint32_t i = 0; i < sums; i++)
        LLVMBuildStore(em->b, LLVMBuildExtractValue(em->b, out, i, ""), state_address(w, first + i));
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

static warps start(sn_gen *g, const sn_mma_nest *n) {
    const sn_mma_info *info = &sn_mmas[n->mma];
    warps w = {.g = g, .n = n, .info = info, .bytes = sn_dtype_bytes(info->operand)};
    lv x = g->index == g->em.cg->i32 ? g->thread_x : LLVMBuildTrunc(g->em.b, g->thread_x, g->em.cg->i32, "");
    w.deep = info->operand == SN_F64 ? 1 : (uint32_t)(info->k * w.bytes / PART_BYTES);
    w.lane = rest(&w, x, WARP);
    w.in = info->operand == SN_F64 ? g->em.cg->f64 : g->em.cg->i32;
    w.state = register_of(g, info->state);
    return w;
}

void sn_gen_mma_sync(sn_gen *g, const sn_mma_nest *n) {
    warps w = start(g, n);
    lv group = n->threads > WARP ? sn_gen_group_number(g, WARP) : NULL, down = group, right = NULL;
    if (group && n->columns > 1) {
        right = rest(&w, group, n->columns);
        down = divided(&w, group, n->columns);
    }
    operand a = make_operand(&w, &n->a, w.info->m, n->tiles_m, down);
    operand b = make_operand(&w, &n->b, w.info->n, n->tiles_n, right);
    uint32_t n_a = parts_of_block(&w, &a), n_b = parts_of_block(&w, &b);
    LLVMTypeRef function = type_of(&w, n_a + n_b);
    lv code = make_code(&w, function, n_a, n_b);
    for (int64_t q = 0; q < n->depth; q += w.info->k) {
        load_operand(&w, &a, n->tiles_m, q);
        load_operand(&w, &b, n->tiles_n, q);
        for (uint32_t h = 0; h < n->tiles_m; h++)
            for (uint32_t j = 0; j < n->tiles_n; j++) put_product(&w, function, code, &a, &b, h, j);
    }
}
