/* criterion.h: the little of Criterion that the tests with threads use, for the program that the thread sanitizer watches:
 * Criterion itself maps memory where that sanitizer allows none. Tests run one after the other in one process (main.c);
 * one that fails an assertion ends it.
 */
#ifndef SN_TESTS_TSAN_CRITERION_H
#define SN_TESTS_TSAN_CRITERION_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

void test_add(const char *name, void (*body)(void));
/* Notes a failure, with what the caller says about it. */
void test_failed(bool fatal, const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#define Test(suite, name)                                                                                              \
    static void suite##_##name(void);                                                                                  \
    __attribute__((constructor)) static void add_##suite##_##name(void) {                                              \
        test_add(#suite "/" #name, suite##_##name);                                                                    \
    }                                                                                                                  \
    static void suite##_##name(void)

#define TEST_CHECK(fatal, condition, ...)                                                                              \
    ((condition) ? (void)0 : test_failed(fatal, __FILE__, __LINE__, #condition, " " __VA_ARGS__))

#define cr_assert(c, ...) TEST_CHECK(true, c, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) TEST_CHECK(true, (a) == (b), __VA_ARGS__)
#define cr_assert_gt(a, b, ...) TEST_CHECK(true, (a) > (b), __VA_ARGS__)
#define cr_assert_lt(a, b, ...) TEST_CHECK(true, (a) < (b), __VA_ARGS__)
#define cr_assert_leq(a, b, ...) TEST_CHECK(true, (a) <= (b), __VA_ARGS__)
#define cr_assert_null(p, ...) TEST_CHECK(true, (p) == NULL, __VA_ARGS__)
#define cr_assert_not_null(p, ...) TEST_CHECK(true, (p) != NULL, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) TEST_CHECK(true, (a) >= (b), __VA_ARGS__)
#define cr_expect(c, ...) TEST_CHECK(false, c, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) TEST_CHECK(false, (a) == (b), __VA_ARGS__)
#define cr_expect_gt(a, b, ...) TEST_CHECK(false, (a) > (b), __VA_ARGS__)
#define cr_expect_null(p, ...) TEST_CHECK(false, (p) == NULL, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) TEST_CHECK(false, strcmp(a, b) == 0, __VA_ARGS__)
#define cr_expect_str_empty(s, ...) TEST_CHECK(false, (s)[0] == 0, __VA_ARGS__)

#endif
