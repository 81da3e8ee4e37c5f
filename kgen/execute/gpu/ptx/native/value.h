/* Scalar semantics used by the handlers: number formats, roundings, bit operations.
 * Every function is exact and independent of the compiler's floating-point contraction (the build sets -ffp-contract=off). */
#ifndef KGEN_PTX_VALUE_H
#define KGEN_PTX_VALUE_H
#include "common.h"
#include <immintrin.h>
#include <math.h>

/* PTX type names double as C types. */
typedef u8 b8;
typedef u16 b16;
typedef u32 b32;
typedef u64 b64;
typedef u8 pred;

KG_INLINE f32 as_f32(u32 x) { f32 f; memcpy(&f, &x, 4); return f; }
KG_INLINE u32 as_u32(f32 f) { u32 x; memcpy(&x, &f, 4); return x; }
KG_INLINE f64 as_f64(u64 x) { f64 f; memcpy(&f, &x, 8); return f; }
KG_INLINE u64 as_u64(f64 f) { u64 x; memcpy(&x, &f, 8); return x; }

/* ---- 16-bit formats. NaN results are canonical (0x7fff), as PTX ISA 9.7.4 states. ---- */
KG_INLINE f32 bf16_to_f32(u16 h) { return as_f32((u32)h << 16); }
KG_INLINE f32 f16_to_f32(u16 h) { return _cvtsh_ss(h); }
KG_INLINE u16 f32_to_bf16(f32 f)
{
    u32 x = as_u32(f);
    return (x & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u16)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}
KG_INLINE u16 f32_to_bf16_rz(f32 f)
{
    u32 x = as_u32(f);
    return (x & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u16)(x >> 16);
}
KG_INLINE u16 f32_to_f16(f32 f) { return f != f ? 0x7fff : _cvtss_sh(f, 0); }
KG_INLINE u16 f32_to_f16_rz(f32 f) { return f != f ? 0x7fff : _cvtss_sh(f, 3); }

/* Round to odd: keeps enough of an inexact result for one later correct rounding to a narrower format. */
KG_INLINE f64 odd(f64 value, f64 error)
{
    u64 x = as_u64(value);
    if (error == 0 || (x & 1) || !(fabs(value) <= 0x1.fffffffffffffp1023))
        return value;
    return as_f64((error > 0) == !(x >> 63) ? x + 1 : x - 1);
}
KG_INLINE f64 add_odd(f64 a, f64 b)
{
    f64 s = a + b, bb = s - a;
    f64 error = (a - (s - bb)) + (b - bb);
    return odd(s, error);
}
/* f64 to f32, rounded to odd. */
KG_INLINE f32 narrow_odd(f64 d)
{
    f32 f = (f32)d;
    u32 x = as_u32(f);
    if ((f64)f == d || d != d || (x & 1) || (x & 0x7f800000) == 0x7f800000)
        return f;
    return as_f32(((f64)f < d) == !(x >> 31) ? x + 1 : x - 1);
}
KG_INLINE u16 f64_to_f16(f64 d) { return f32_to_f16(narrow_odd(d)); }
KG_INLINE u16 f64_to_bf16(f64 d) { return f32_to_bf16(narrow_odd(d)); }

/* ---- directed roundings of f64 to f32; rn is the plain conversion ---- */
KG_INLINE f32 f64_to_f32_rn(f64 d) { return (f32)d; }
KG_INLINE f32 f64_to_f32_rz(f64 d)
{
    f32 f = (f32)d;
    return d == d && fabs((f64)f) > fabs(d) ? as_f32(as_u32(f) - 1) : f;
}
KG_INLINE f32 f64_to_f32_rm(f64 d)
{
    f32 f = (f32)d;
    return (f64)f > d ? nextafterf(f, -INFINITY) : f;
}
KG_INLINE f32 f64_to_f32_rp(f64 d)
{
    f32 f = (f32)d;
    return (f64)f < d ? nextafterf(f, INFINITY) : f;
}

/* ---- flush, saturate, minimum, maximum (PTX ISA 9.7.3) ---- */
KG_INLINE f32 ftz(f32 f) { u32 x = as_u32(f); return x & 0x7f800000 ? f : as_f32(x & 0x80000000u); }
KG_INLINE f32 ftz_f16(f32 f) { return __builtin_fabsf(f) < 0x1p-14f ? __builtin_copysignf(0.0f, f) : f; }
KG_INLINE f32 sat01(f32 f) { return f > 0 ? (f < 1 ? f : 1.0f) : 0.0f; }
KG_INLINE f64 sat01d(f64 f) { return f > 0 ? (f < 1 ? f : 1.0) : 0.0; }
KG_INLINE f32 relu(f32 f) { return f != f ? f : f > 0 ? f : 0.0f; }
#define DEFINE_MINMAX(T, suffix, quiet, signbit_of)                                                     \
    KG_INLINE T min_num_##suffix(T a, T b)                                                              \
    {                                                                                                   \
        return a != a ? (b != b ? quiet : b) : b != b ? a : a == b ? (signbit_of(a) ? a : b) : a < b ? a : b; \
    }                                                                                                   \
    KG_INLINE T max_num_##suffix(T a, T b)                                                              \
    {                                                                                                   \
        return a != a ? (b != b ? quiet : b) : b != b ? a : a == b ? (signbit_of(a) ? b : a) : a > b ? a : b; \
    }                                                                                                   \
    KG_INLINE T min_nan_##suffix(T a, T b) { return a != a || b != b ? quiet : min_num_##suffix(a, b); } \
    KG_INLINE T max_nan_##suffix(T a, T b) { return a != a || b != b ? quiet : max_num_##suffix(a, b); }
DEFINE_MINMAX(f32, f32, as_f32(0x7fffffff), __builtin_signbitf)
DEFINE_MINMAX(f64, f64, as_f64(0x7fffffffffffffffull), __builtin_signbit)

/* ---- float to integer: round first, then clamp; NaN gives 0 (PTX ISA 9.7.9 cvt) ---- */
#define DEFINE_CLAMP(T, LO, HI) \
    KG_INLINE T f64_to_##T(f64 d) { return d != d ? 0 : d <= (f64)(LO) ? LO : d >= (f64)(HI) ? HI : (T)d; }
DEFINE_CLAMP(s8, INT8_MIN, INT8_MAX)
DEFINE_CLAMP(u8, 0, UINT8_MAX)
DEFINE_CLAMP(s16, INT16_MIN, INT16_MAX)
DEFINE_CLAMP(u16, 0, UINT16_MAX)
DEFINE_CLAMP(s32, INT32_MIN, INT32_MAX)
DEFINE_CLAMP(u32, 0, UINT32_MAX)
DEFINE_CLAMP(s64, INT64_MIN, INT64_MAX)
DEFINE_CLAMP(u64, 0, UINT64_MAX)
typedef __int128 wide128;
#define DEFINE_CLAMP_INT(T, LO, HI) \
    KG_INLINE T int_to_##T(wide128 v) { return v <= (wide128)(LO) ? LO : v >= (wide128)(HI) ? HI : (T)v; }
DEFINE_CLAMP_INT(s8, INT8_MIN, INT8_MAX)
DEFINE_CLAMP_INT(u8, 0, UINT8_MAX)
DEFINE_CLAMP_INT(s16, INT16_MIN, INT16_MAX)
DEFINE_CLAMP_INT(u16, 0, UINT16_MAX)
DEFINE_CLAMP_INT(s32, INT32_MIN, INT32_MAX)
DEFINE_CLAMP_INT(u32, 0, UINT32_MAX)
DEFINE_CLAMP_INT(s64, INT64_MIN, INT64_MAX)
DEFINE_CLAMP_INT(u64, 0, UINT64_MAX)
/* 64-bit integer to f32 with a directed rounding, exact by way of round to odd. */
KG_INLINE f64 int_to_f64_odd(wide128 v) { f64 d = (f64)v; return odd(d, (f64)(v - (wide128)d)); }

/* ---- bit operations (PTX ISA 9.7.1, 9.7.8, 9.7.9) ---- */
KG_INLINE u16 shl16(u16 a, u32 n) { return n > 15 ? 0 : (u16)(a << n); }
KG_INLINE u32 shl32(u32 a, u32 n) { return n > 31 ? 0 : a << n; }
KG_INLINE u64 shl64(u64 a, u32 n) { return n > 63 ? 0 : a << n; }
KG_INLINE u16 shr_u16(u16 a, u32 n) { return n > 15 ? 0 : (u16)(a >> n); }
KG_INLINE u32 shr_u32(u32 a, u32 n) { return n > 31 ? 0 : a >> n; }
KG_INLINE u64 shr_u64(u64 a, u32 n) { return n > 63 ? 0 : a >> n; }
KG_INLINE s16 shr_s16(s16 a, u32 n) { return (s16)(a >> (n > 15 ? 15 : n)); }
KG_INLINE s32 shr_s32(s32 a, u32 n) { return a >> (n > 31 ? 31 : n); }
KG_INLINE s64 shr_s64(s64 a, u32 n) { return a >> (n > 63 ? 63 : n); }
KG_INLINE u32 funnel_l(u32 lo, u32 hi, u32 n) { return (u32)((((u64)hi << 32 | lo) << n) >> 32); }
KG_INLINE u32 funnel_r(u32 lo, u32 hi, u32 n) { return (u32)((u64)((u64)hi << 32 | lo) >> n); }
KG_INLINE u32 least(u32 a, u32 b) { return a < b ? a : b; }
KG_INLINE u64 low_mask(u32 n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }
KG_INLINE u32 lop3(u32 a, u32 b, u32 c, u32 table)
{
    u32 r = 0;
    for (u32 i = 0; i < 8; i++)
        r |= (0u - (table >> i & 1)) & (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}
KG_INLINE u64 bfe(u64 a, u32 pos, u32 len, u32 width, int is_signed)
{
    pos &= 255;
    len &= 255;
    u32 top = least(pos + len - (len != 0), width - 1);
    u64 sign = is_signed && len ? a >> top & 1 : 0;
    u32 kept = pos >= width ? 0 : least(len, width - pos);
    u64 field = kept ? (a >> pos) & low_mask(kept) : 0;
    return sign ? field | ~low_mask(kept) : field;
}
KG_INLINE u64 bfi(u64 a, u64 b, u32 pos, u32 len, u32 width)
{
    pos &= 255;
    len &= 255;
    if (pos >= width || !len)
        return b;
    u64 mask = low_mask(least(len, width - pos)) << pos;
    return (b & ~mask) | (a << pos & mask);
}
KG_INLINE u32 reverse32(u32 x)
{
    x = (x & 0x55555555) << 1 | (x >> 1 & 0x55555555);
    x = (x & 0x33333333) << 2 | (x >> 2 & 0x33333333);
    x = (x & 0x0f0f0f0f) << 4 | (x >> 4 & 0x0f0f0f0f);
    return __builtin_bswap32(x);
}
KG_INLINE u64 reverse64(u64 x) { return (u64)reverse32((u32)x) << 32 | reverse32((u32)(x >> 32)); }
KG_INLINE u32 permute_byte(u64 source, u32 selector)
{
    u32 byte = (u32)(source >> 8 * (selector & 7)) & 255;
    return selector & 8 ? (byte & 128 ? 255 : 0) : byte;
}
KG_INLINE u32 prmt(u32 a, u32 b, u32 s)
{
    u64 v = (u64)b << 32 | a;
    return permute_byte(v, s) | permute_byte(v, s >> 4) << 8 | permute_byte(v, s >> 8) << 16 | permute_byte(v, s >> 12) << 24;
}
/* The six byte-select modes of prmt.mode. */
KG_INLINE u32 prmt_select(const char *mode, u32 c)
{
    c &= 3;
    if (!strcmp(mode, "f4e")) return c | (c + 1) << 4 | (c + 2) << 8 | (c + 3) << 12;
    if (!strcmp(mode, "b4e")) return c | ((c - 1) & 7) << 4 | ((c - 2) & 7) << 8 | ((c - 3) & 7) << 12;
    if (!strcmp(mode, "rc8")) return c * 0x1111;
    if (!strcmp(mode, "rc16")) return (c & 1) ? 0x3232 : 0x1010;
    if (!strcmp(mode, "ecl")) return c | (c > 1 ? c : 1) << 4 | (c > 2 ? c : 2) << 8 | 3 << 12;
    return 0 | (c < 1 ? c : 1) << 4 | (c < 2 ? c : 2) << 8 | c << 12; /* ecr */
}
KG_INLINE s32 dot4(u32 a, u32 b, s32 c, int a_signed, int b_signed)
{
    for (int i = 0; i < 32; i += 8)
        c += (a_signed ? (s8)(a >> i) : (s32)(u8)(a >> i)) * (b_signed ? (s8)(b >> i) : (s32)(u8)(b >> i));
    return c;
}
#endif
