/* test_join.c: PTX texts that go as one: which, how large, and what becomes of them when it is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "runtime/assemble.h"

#define HEAD(version) "//\n// by hand\n//\n\n.version " version "\n.target sm_90\n.address_size 64\n\n\t// .globl\n"
#define KERNEL(name) ".visible .entry " name "()\n{\n$L:\n\tret;\n}\n"
#define GIVEN ".extern .shared .align 16 .b8 sn_shared[];\n"

typedef struct texts {
    sn_env env;
    sn_arena arena;
    sn_assembly jobs[8];
    uint32_t n;
} texts;

static void add(texts *t, const char *name, const char *ptx) {
    t->jobs[t->n++] = (sn_assembly){.name = name, .ptx = ptx, .ptx_size = strlen(ptx)};
}

static void begin(texts *t) {
    *t = (texts){0};
    sn_env_init(&t->env);
    sn_arena_init(&t->arena, &t->env);
}

static void end(texts *t) {
    sn_arena_free(&t->arena);
    cr_assert_eq(t->env.bytes_now, 0);
}

Test(join, those_with_the_same_head) {
    texts t;
    begin(&t);
    add(&t, "a", HEAD("8.0") KERNEL("a"));
    add(&t, "given", HEAD("8.0") GIVEN KERNEL("given"));
    add(&t, "b", HEAD("8.0") KERNEL("b"));
    add(&t, "newer", HEAD("8.1") KERNEL("newer"));
    add(&t, "table", HEAD("8.0") ".global .b32 table[4];\n" KERNEL("table"));
    add(&t, "whole", HEAD("8.0") KERNEL("whole"));
    add(&t, "two", HEAD("8.0") KERNEL("two") KERNEL("more"));
    add(&t, "c", HEAD("8.0") KERNEL("c"));
    t.jobs[5].whole = true;
    const sn_assembly before = t.jobs[0];
    sn_assemblies_join(t.jobs, t.n, 1, &t.arena);
    const char *all = ".version 8.0\n.target sm_90\n.address_size 64\n\n" KERNEL("a") "\n" KERNEL("b") "\n" KERNEL("c");
    cr_assert_str_eq(t.jobs[0].ptx, all);
    cr_assert_eq(t.jobs[0].ptx_size, strlen(all));
    for (uint32_t i = 0; i < t.n; i++) {
        bool joined = i == 2 || i == 7;
        cr_assert(t.jobs[i].is_joined == joined && t.jobs[i].left_out == joined && (i == 0) == !!t.jobs[i].alone, "%u",
                  i);
        cr_assert_eq(t.jobs[i].first, 0);
    }
    sn_assemblies_part(t.jobs, 0);
    cr_assert(t.jobs[0].ptx == before.ptx && t.jobs[0].ptx_size == before.ptx_size);
    for (uint32_t i = 0; i < t.n; i++)
        cr_assert(!t.jobs[i].is_joined && !t.jobs[i].left_out && !t.jobs[i].next, "%u", i);
    end(&t);
}

/* With more threads a text is a part of what each of them has to do. */
Test(join, as_many_as_can_be_shared_out) {
    texts t;
    begin(&t);
    char name[8][8], text[8][256];
    for (uint32_t i = 0; i < 8; i++) {
        snprintf(name[i], sizeof name[i], "k%u", i);
        snprintf(text[i], sizeof text[i], HEAD("8.0") ".visible .entry %s()\n{\n\tret;\n}\n", name[i]);
        add(&t, name[i], text[i]);
    }
    t.jobs[3].left_out = true; /* it has a cubin */
    sn_assemblies_join(t.jobs, t.n, 2, &t.arena);
    for (uint32_t i = 0; i < t.n; i++) cr_assert(!t.jobs[i].is_joined && t.jobs[i].left_out == (i == 3), "%u", i);
    sn_assemblies_join(t.jobs, t.n, 1, &t.arena);
    for (uint32_t i = 1; i < t.n; i++) cr_assert_eq(t.jobs[i].is_joined, i != 3, "%u", i);
    cr_assert_null(strstr(t.jobs[0].ptx, "k3"));
    end(&t);
}
