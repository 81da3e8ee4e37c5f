/* Types shared by every native part of kgen's GPU executors. */
#ifndef KGEN_COMMON_H
#define KGEN_COMMON_H
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;

#define KG_INLINE static inline __attribute__((always_inline))
#define KG_LIKELY(x) __builtin_expect(!!(x), 1)

/* Visit each set bit of a lane mask. */
#define FOR_LANES(l, mask) \
    for (u32 l##_rest = (mask), l; l##_rest && ((l = (u32)__builtin_ctz(l##_rest)), 1); l##_rest &= l##_rest - 1)

#endif
