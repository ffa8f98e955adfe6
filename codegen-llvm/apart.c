/* apart.c: vectors of the CPU whose elements lie at equal distances in memory, as one channel of pixels does.
 *
 *     x[3*v + 1], v in 4      | . a . . | b . . c | . . d . |      ->  | a b c d |      three loads, two shuffles
 *     y[3*v + k], k in 3      | x y z x | y z x y | z x y z |      <-  x, y, z          three stores, six shuffles
 *
 * What lies between the elements of a load is loaded, too: it is in memory between two that are wanted, so that no address is
 * one that nobody may read. Loads of one region that lie next to each other, as the channels of pixels do, have their parts in common. A
 * store fills all places between its elements, or it is none of these (store.c). Knows vectors
 * alone.
 */
#include "codegen-llvm/gen.h"

/* One lane each of x and y, which have as many: from[i] counts through x, then y; negative: of neither. */
static lv shuffle(sn_em *em, lv x, lv y, const int64_t *from, uint32_t n) {
    lv places[SN_GEN_LANES];
    for (uint32_t i = 0; i < n; i++)
        places[i] = from[i] < 0 ? LLVMGetPoison(em->cg->i32) : sn_em_ci(em->cg->i32, from[i]);
    return LLVMBuildShuffleVector(em->b, x, y, LLVMConstVector(places, n), "");
}

lv sn_gen_pick_apart(sn_em *em, const lv *parts, uint32_t size, uint32_t first, uint32_t step) {
    uint32_t lanes = sn_em_lanes(parts[0]), n = (size + lanes - 1) / lanes;
    int64_t from[SN_GEN_LANES];
    lv all = parts[0];
    for (uint32_t k = 1; k < n; k++) {
        int64_t begin = k + 1 < n ? k * lanes : size - lanes;
        for (uint32_t i = 0; i < lanes; i++) {
            int64_t place = first + i * step, part = place / lanes;
            from[i] = part == k ? lanes + place - begin : part > k ? -1 : k == 1 ? place : i;
        }
        all = shuffle(em, all, parts[k], from, lanes);
    }
    return all;
}

void sn_gen_weave(sn_em *em, lv *out, const lv *x, uint32_t n) {
    uint32_t lanes = sn_em_lanes(x[0]);
    int64_t from[SN_GEN_LANES];
    for (uint32_t part = 0; part < n; part++) {
        out[part] = x[0];
        for (uint32_t k = 1; k < n; k++) {
            for (uint32_t i = 0; i < lanes; i++) {
                uint32_t place = part * lanes + i, of = place % n, lane = place / n;
                from[i] = of == k ? lanes + lane : of > k ? -1 : (int64_t)(k == 1 ? lane : i);
            }
            out[part] = shuffle(em, out[part], x[k], from, lanes);
        }
    }
}
