/* contract.h: what contract.c, which chooses, and contract_bind.c, which binds, know of a matrix product on a GPU. */
#ifndef SN_PASSES_SCHEDULE_PRODUCTS_CONTRACT_H
#define SN_PASSES_SCHEDULE_PRODUCTS_CONTRACT_H

#include "ir/loop/box.h"
#include "ir/loop/mma.h"
#include "passes/schedule/products/contraction.h"
#include "passes/schedule/base/schedules.h"

/* Taps along an axis of an image that read the same lines, from another one on (contract_halo.c). */
typedef struct sn_contract_halo {
    int64_t taps;     /* 0: none do */
    uint32_t operand; /* the image */
    uint32_t axis;    /* of its pixels among the outer ones; longer than its loop ... */
    int64_t results;  /* ... which has so many iterations ... */
    int64_t over;     /* ... by what the last tap reaches over */
    int64_t phases;   /* boxes: tap t reads that of t mod phases ... */
    int64_t lines;    /* ... so many lines further on than tap t - phases */
    int64_t line;     /* elements of one: the channels that a tap has in a step of the pipe ... */
    int64_t channels; /* ... of so many */
} sn_contract_halo;

/* The same, of an image whose pixels are summed (contract_strip.c). */
typedef struct sn_contract_strip {
    int64_t taps;     /* of an axis among the columns; 0: none */
    uint32_t operand; /* the image */
    int64_t lines;    /* from a tap to the next */
    int64_t results;  /* pixels of a row that have products; the sum counts those that taps reach over as well */
} sn_contract_strip;

typedef struct sn_contract {
    sn_pass_ctx *cx;
    sn_module *m;
    sn_kern k;
    sn_contraction c;
    sn_mma mma; /* none: products without an instruction for matrices */
    bool
        in_registers; /* left operands pass through registers: as terms, or because the instruction wants them otherwise */
    bool made;        /* left operands are computed on their way through registers (contract_made.c) ... */
    int64_t together; /* ... from elements that are for so many steps each */
    uint32_t n_terms; /* bfloat16 terms that operands of f32 are taken apart into: contract_terms.c; 0: none */
    bool across[SN_MOST_OPERANDS]; /* which operand lies across the sum in memory */
    bool pixels[SN_MOST_OPERANDS]; /* whose boxes have pixels for lines: contract_pixels.c */
    bool images;                   /* any operand is made of those, so that results are, too */
    sn_contract_halo halo;
    sn_contract_strip strip;
    int64_t line;  /* elements of a line of operands that lie along the sum; 0: of 128 bytes */
    double behind; /* sn_contract_behind */
    /* Where threads bring operands to shared memory, or compute them in registers: */
    sn_dtype operand;                 /* what stands there ... */
    sn_val sources[SN_MOST_OPERANDS]; /* ... made of that value, before it was widened; so are left ones */
    int64_t pieces[SN_MOST_OPERANDS]; /* of how many elements it can be copied */
    double work[SN_MOST_OPERANDS];    /* instructions with which that is computed for an element; 0: it is loaded */
    bool reads_only;                  /* the kernel stores to nothing that it loads */
} sn_contract;

/* Neighbours of a right operand that a thread takes apart at a time, where it lies across the sum or along it
 * (contract_terms.c). */
enum { SN_TERMS_ACROSS = 4, SN_TERMS_ALONG = 8 };
/* How often terms of right operands lie in shared memory. */
enum { SN_TERMS_COPIES = 3 };
/* Of a step, if left operands pass through registers. */
enum { SN_PIECES = 2 };

/* Is the kernel a product of which tensor copies can bring the operands, and that matrix instructions of this target
 * do? */
bool sn_contract_find(sn_contract *ct, const char **why_not, sn_pass_ctx *cx, sn_kern k);

/* Headers that agree with the pinned one, the best by the model first (contract_tiles.c). */
void sn_contract_tiles(sn_sched_list *out, const sn_contract *ct, const sn_sched *pinned);
/* What their model counts for a header, of any tile. */
double sn_contract_tiles_cycles(const sn_contract *ct, const sn_sched *sc);
/* Instructions with which a thread computes a result from its sum; few are counted with storing it: 0. Walks the kernel:
 * models, which ask for each of hundreds of tiles, read `behind`. */
double sn_contract_behind(const sn_contract *ct);
/* Shared memory of a block, of as many as are on a multiprocessor. */
int64_t sn_contract_shared_bytes(const sn_target *t, const sn_sched *sc);
/* The same for a product of no more columns than an instruction has rows (contract_narrow.c). */
void sn_contract_narrow(sn_sched_list *out, const sn_contract *ct, const sn_sched *pinned);
/* Is the kernel one that boxes bring in tiles of few columns? */
bool sn_contract_is_narrow(sn_pass_ctx *cx, sn_kern k);
/* Can boxes bring its operands, by tiles of that header? */
bool sn_contract_fits(const char **why_not, const sn_contract *ct, const sn_sched *sc);

/* With `shared`, an operand of which a tile has all rows or columns is brought once for all tiles of a block. Is it
 * that one? */
bool sn_contract_stays(const sn_contract *ct, const sn_sched *sc, uint32_t operand);
/* Its elements in shared memory: those of whole steps. */
int64_t sn_contract_stay_space(const sn_contract *ct, const sn_sched *sc, uint32_t operand);

/* ---- contract_pixels.c: operands that are images ---- */

/* Rows and columns are numbered along operands that lie across the sum. */
void sn_contract_order_sides(sn_contract *ct);
/* Rows or columns that are not neighbours in an operand across the sum (images of x[n, c, hw]) are products of a
 * batch instead. */
void sn_contract_straighten(sn_contract *ct);
/* Find them, and how long lines of their channels are. */
bool sn_contract_find_pixels(const char **why_not, sn_contract *ct);
/* Is a side that of pixels across the sum, of which no test says where it ends? Then tiles have to divide it, or boxes
 * would reach over the array. */
bool sn_contract_wants_whole_tiles(const sn_contract *ct, bool right);
/* Do those of a header, where they have to? */
bool sn_contract_has_whole_tiles(const sn_contract *ct, const sn_sched *sc);
/* Elements of a line of an operand that lies along the sum. */
int64_t sn_contract_line(const sn_contract *ct);
/* Elements of a step of the pipe, at most so many, if nobody says so; 0: there is no such step. */
int64_t sn_contract_depth(const sn_contract *ct, int64_t most);
/* Where steps have taps: are they as many as there are? */
bool sn_contract_divides(const sn_contract *ct, const sn_sched *sc);
/* Are lines of channels longer than there are channels? */
bool sn_contract_pads_channels(const sn_contract *ct);
/* The mask, where the step of the sum is a channel too: lines may be longer than there are. */
sn_val sn_contract_in_channels(const sn_contract *ct, sn_cursor at, sn_val mask, const sn_axis *axes, const sn_ix *with,
                               uint32_t n);

/* ---- contract_halo.c: pixels that taps share ---- */

enum { SN_MOST_PHASES = 4 };
/* Have taps share pixels, where there are such: then rows or columns are more. */
bool sn_contract_find_halo(sn_contract *ct);
/* Lines of the operand that boxes bring in a step of the pipe, and elements of a line. */
int64_t sn_contract_lines(const sn_contract *ct, const sn_sched *sc, uint32_t operand);
int64_t sn_contract_lanes(const sn_contract *ct, const sn_sched *sc, uint32_t operand);
/* Elements that it has room for in shared memory. */
int64_t sn_contract_space(const sn_contract *ct, const sn_sched *sc, uint32_t operand);

/* Pixels whose axis is `x` and taps along `t`: `shift` lines are from a tap to the `phases`-th one behind it. */
typedef struct sn_contract_motion {
    sn_axis x, t;
    int64_t phases, shift;
} sn_contract_motion;
/* Of axes x and t: do the offset of the load and its tests move alike along them? */
bool sn_contract_find_motion(sn_contract_motion *v, const sn_contract *ct, const sn_stmt_rec *load);

/* ---- contract_strip.c: sums over pixels that taps share ---- */

/* Have taps share pixels, where there are such: then the sum is longer. */
bool sn_contract_find_strip(sn_contract *ct);
/* Does a tile have several whole taps, where they share pixels? */
bool sn_contract_has_taps(const sn_contract *ct, const sn_sched *sc);
/* Lines of the image that a step of the pipe brings, and elements that it has room for. */
int64_t sn_contract_strip_lines(const sn_contract *ct, const sn_sched *sc);
int64_t sn_contract_strip_space(const sn_contract *ct, const sn_sched *sc);

/* ---- contract_terms.c: products of f32 by terms ---- */

/* Are sums so long, or so exact, that they are taken in runs, which totals in f32 add up? */
bool sn_contract_has_totals(const sn_contract *ct);

/* ---- contract_made.c: left operands that are computed from what boxes bring ---- */

/* What the value was before it was widened. */
sn_val sn_contract_narrowed(const sn_contract *ct, sn_val v);
/* Are there such? They are on the left then, and their loads those of what boxes bring. */
bool sn_contract_find_made(sn_contract *ct);
/* Do parts of the sum of so many steps, times so many blocks, end where it does? Where nothing is computed they need not. */
bool sn_contract_made_fits(const sn_contract *ct, int64_t depth, int64_t split);
/* Steps of the operand that an element is for, as boxes bring it. */
int64_t sn_contract_together(const sn_contract *ct, uint32_t operand);
/* Instructions for an element; and cycles in which so many blocks compute all. */
double sn_contract_made_work(const sn_contract *ct);
double sn_contract_made_cycles(const sn_contract *ct, int64_t blocks);

/* ---- contract_split.c: sums that blocks share ---- */

/* Groups of parts that are added up side by side; and cycles of all that. */
int64_t sn_contract_groups(const sn_sched *sc);
double sn_contract_share_cycles(const sn_sched *sc);

/* ---- contract_threads.c: operands that threads bring ---- */

/* Is the kernel a product at all? The header says whether it may have an instruction, and the precision. */
bool sn_contract_find_threads(sn_contract *ct, const char **why_not, sn_pass_ctx *cx, sn_kern k, const sn_sched *sc);
/* Cycles that no schedule of threads is below. */
double sn_contract_threads_least(const sn_contract *ct);
/* Choose what is open in *sc, and count the cycles; false: what is pinned does not go together. */
bool sn_contract_complete_threads(sn_sched *sc, double *cycles, const sn_contract *ct);
/* Does operand i lie across the sum in shared memory, in tiles of that header? */
bool sn_contract_across(const sn_contract *ct, const sn_sched *sc, uint32_t i);
/* Bytes of a line of it there. */
uint32_t sn_contract_swizzle(const sn_contract *ct, const sn_sched *sc, uint32_t i);
/* Warps side by side in a tile; 0: warps cannot share it. */
uint32_t sn_contract_columns(const sn_contract *ct, const sn_sched *sc);

/* How threads share a tile where there is no instruction: in `parts` groups, each of which has some steps of the
 * sum; in a group by `across` times `down` of them, in turn by runs. */
typedef struct sn_contract_plain {
    int64_t parts;
    int64_t across, down;          /* threads */
    int64_t rows, columns;         /* of a thread ... */
    int64_t run_rows, run_columns; /* ... and so many of them next to each other */
    int64_t end_rows, end_runs; /* rows and runs of columns that it stores results of: of parts as many as there are */
} sn_contract_plain;
bool sn_contract_plain_find(sn_contract_plain *out, const sn_contract *ct, const sn_sched *sc);

#endif
