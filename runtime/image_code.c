/* image_code.c: host code of an image in this process.
 *
 * The code lies in memory of its own, into which the addresses that it asks for are written; then it may be executed and no
 * longer written. What it asks for: functions of the C library, by the table image_imports.def, and places in itself. No
 * symbol is looked up by name in the process, so that a program that defines its own expf changes nothing.
 */
#define _GNU_SOURCE /* roundeven */
#include "runtime/image.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#define IMPORT(name) #name,
static const char *const import_names[] = {
#include "runtime/image_imports.def"
};
#undef IMPORT

/* Functions have several types; as addresses they are alike on every system with mmap. */
static uintptr_t import_address(size_t i) {
#define IMPORT(name) (uintptr_t)&name,
    const uintptr_t addresses[] = {
#include "runtime/image_imports.def"
    };
#undef IMPORT
    return addresses[i];
}

static bool find_import(size_t *out, const char *name) {
    for (*out = 0; *out < SN_COUNT(import_names); (*out)++)
        if (!strcmp(import_names[*out], name)) return true;
    return false;
}

bool sn_image_has_import(const char *name) {
    size_t i;
    return find_import(&i, name);
}

/* ---- the processor ---- */

/* Registers of an answer of cpuid; bits of the system's word for what it saves. */
enum { EAX, EBX, ECX, EDX, YMM = 0x06, ZMM = 0xe6 };

typedef struct feature {
    const char *llvm;
    unsigned leaf, subleaf, word, bit, saved;
} feature;
static const feature features[] = {
#define FEATURE(llvm, leaf, subleaf, word, bit, saved) {llvm, leaf, subleaf, word, bit, saved},
#include "runtime/image_features.def"
#undef FEATURE
};

uint64_t sn_image_features_of(const char *llvm) {
    uint64_t bits = 0;
    for (const char *word = llvm; *word;) {
        size_t n = strcspn(word, ",");
        for (size_t i = 0; i < SN_COUNT(features) && *word == '+'; i++)
            if (strlen(features[i].llvm) == n - 1 && !memcmp(features[i].llvm, word + 1, n - 1))
                bits |= UINT64_C(1) << i;
        word += n + (word[n] == ',');
    }
    return bits;
}

#if defined(__x86_64__)
static bool has_feature(const feature *f, unsigned saved) {
    unsigned words[4];
    if (!__get_cpuid_count(f->leaf, f->subleaf, &words[EAX], &words[EBX], &words[ECX], &words[EDX])) return false;
    return (words[f->word] >> f->bit & 1) && (saved & f->saved) == f->saved;
}

/* Registers that the system saves for us; 0 where it does not say. */
static unsigned saved_registers(void) {
    enum { OSXSAVE = 27 };
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> OSXSAVE & 1)) return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}
#endif

uint64_t sn_image_features_here(void) {
    uint64_t bits = 0;
#if defined(__x86_64__)
    unsigned saved = saved_registers();
    for (size_t i = 0; i < SN_COUNT(features); i++) bits |= (uint64_t)has_feature(&features[i], saved) << i;
#endif
    return bits;
}

const char *sn_image_feature_name(uint64_t bits) {
    for (size_t i = 0; i < SN_COUNT(features); i++)
        if (bits >> i & 1) return features[i].llvm;
    return "";
}

/* ---- code ---- */

static sn_status fill_slots(char *at, sn_env *env, const sn_image_part *part) {
    for (uint32_t i = 0; i < part->n_slots; i++) {
        const sn_image_slot *slot = &part->slots[i];
        size_t import;
        uintptr_t address = (uintptr_t)at + slot->target;
        if (slot->import) {
            if (!find_import(&import, slot->import))
                return sn_fail(env, SN_ERROR_UNSUPPORTED, "the image's code calls %s, which this Sinter has not",
                               slot->import);
            address = import_address(import);
        }
        memcpy(at + slot->at, &address, sizeof address);
    }
    return SN_OK;
}

sn_status sn_image_code_load(sn_image_code *out, sn_env *env, const sn_image_part *part) {
    *out = (sn_image_code){0};
    if (!part->code.size) return SN_OK;
    void *at = mmap(NULL, (size_t)part->code.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return sn_fail(env, SN_ERROR_MEMORY, "no memory for %llu bytes of code", (unsigned long long)part->code.size);
    *out = (sn_image_code){at, (size_t)part->code.size};
    memcpy(at, part->code.at, out->size);
    sn_status status = fill_slots(at, env, part);
    if (status == SN_OK && mprotect(at, out->size, PROT_READ | PROT_EXEC) != 0)
        status = sn_fail(env, SN_ERROR_DEVICE, "the system lets no code be loaded: %s", strerror(errno));
    if (status != SN_OK) sn_image_code_free(out);
    return status;
}

void sn_image_code_free(sn_image_code *code) {
    if (code->at) munmap(code->at, code->size);
    *code = (sn_image_code){0};
}
