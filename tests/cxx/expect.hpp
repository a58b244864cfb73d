// SPDX-License-Identifier: Apache-2.0
#ifndef CRMM_TESTS_CXX_EXPECT_HPP
#define CRMM_TESTS_CXX_EXPECT_HPP

// The tests of the C++ headers are programs of their own: they pass by exiting with 0.

#include <cstdio>
#include <cstdlib>

#define expect(condition)                                                                      \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                                      \
        }                                                                                      \
    } while (0)

// The expression throws just this type, with this status, and says this.
#define expect_throw(expression, type, expected, part)                          \
    do {                                                                        \
        bool thrown_ = false;                                                   \
        try {                                                                   \
            (void)(expression);                                                 \
        } catch (const type &caught) {                                          \
            thrown_ = true;                                                     \
            expect(caught.status() == (expected));                              \
            expect(std::string(caught.what()).find(part) != std::string::npos); \
        }                                                                       \
        expect(thrown_);                                                        \
    } while (0)

// Leaves with "skipped" where there is no device and none is required.
#define need_device()                                                            \
    do {                                                                         \
        int count_ = 0;                                                          \
        if (crmm_get_num_cuda_devices(&count_) != CRMM_SUCCESS || count_ == 0) { \
            std::fprintf(stderr, "no device: %s\n", crmm_last_error()->message); \
            return std::getenv("CRMM_TEST_REQUIRE_GPU") != nullptr ? 1 : 77;     \
        }                                                                        \
    } while (0)

#endif
