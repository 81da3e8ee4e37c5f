/* Warp-level matrix instructions (PTX ISA 9.7.14). Compile with -O3: the accumulators must stay in registers.
 *
 * Numerics of mma. Every product of 16-bit or tf32 inputs is exact in f32. The sum is
 *     d = fma(a[K-1], b[K-1], ... fma(a[1], b[1], fma(a[0], b[0], c)) ...)
 * with one f32 rounding (to nearest even) a step and k ascending; with f16 accumulators the chain starts from the exact value of
 * c and is rounded to f16 once, at the end. Hardware adds in another order, with truncation: compare with a tolerance.
 * Integer accumulation is exact and wraps.
 *
 * Fragments. Lane l = 4g + t holds elements of row g. As rows of 32 lanes, a fragment register is therefore an 8 x 8 matrix of
 * 16-bit elements (8 x 4 of 32-bit, 8 x 16 of 8-bit) in row-major order, which is what the code below uses. */
#include "engine.h"

typedef struct {
    f32 a[2][8][16]; /* [upper or lower 8 rows][row][k] */
    f32 b[16][8];    /* [k][column] */
} Operands __attribute__((aligned(32)));

static inline __m256 widen(const u32 *row, int is_f16)
{
    __m128i h = _mm_load_si128((const __m128i *)row);
    return is_f16 ? _mm256_cvtph_ps(h) : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* Transpose eight rows of eight floats. */
static inline void transpose8(__m256 *r)
{
    __m256 t[8], s[8];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        s[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        s[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        s[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        s[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x31);
    }
}

static inline void store_b(Operands *x, int k, __m256 *rows)
{
    transpose8(rows);
    for (int i = 0; i < 8; i++)
        _mm256_store_ps(x->b[k + i], rows[i]);
}

/* 16-bit inputs: register 2q + h of a holds rows 8h.., columns 8q..; register q of b holds k = 8q.. */
static inline void load16(Operands *x, int k, int is_f16, const u32 *const *a, const u32 *const *b)
{
    for (int q = 0; q < k / 8; q++) {
        __m256 rows[8];
        for (int h = 0; h < 2; h++)
            for (int r = 0; r < 8; r++)
                _mm256_store_ps(&x->a[h][r][8 * q], widen(a[2 * q + h] + 4 * r, is_f16));
        for (int r = 0; r < 8; r++)
            rows[r] = widen(b[q] + 4 * r, is_f16);
        store_b(x, 8 * q, rows);
    }
}

/* tf32 inputs: the low 13 bits are ignored. */
static inline __m128 tf32(const u32 *row)
{
    return _mm_castsi128_ps(_mm_and_si128(_mm_load_si128((const __m128i *)row), _mm_set1_epi32((int)0xffffe000)));
}

static inline void load_tf32(Operands *x, int k, const u32 *const *a, const u32 *const *b)
{
    __m256 rows[8];
    for (int q = 0; q < k / 4; q++)
        for (int h = 0; h < 2; h++)
            for (int r = 0; r < 8; r++)
                _mm_store_ps(&x->a[h][r][4 * q], tf32(a[2 * q + h] + 4 * r));
    for (int r = 0; r < 8; r++)
        rows[r] = _mm256_set_m128(k > 4 ? tf32(b[1] + 4 * r) : _mm_setzero_ps(), tf32(b[0] + 4 * r));
    store_b(x, 0, rows);
}

/* Row r of f32 accumulators: registers c0 and c1 hold the even and odd columns. */
static inline __m256 interleave(const u32 *c0, const u32 *c1, int r)
{
    __m128i even = _mm_load_si128((const __m128i *)(c0 + 4 * r)), odd = _mm_load_si128((const __m128i *)(c1 + 4 * r));
    return _mm256_castsi256_ps(_mm256_set_m128i(_mm_unpackhi_epi32(even, odd), _mm_unpacklo_epi32(even, odd)));
}

static inline void deinterleave(u32 *d0, u32 *d1, int r, __m256 v)
{
    __m128 lo = _mm256_castps256_ps128(v), hi = _mm256_extractf128_ps(v, 1);
    _mm_store_ps((f32 *)d0 + 4 * r, _mm_shuffle_ps(lo, hi, 0x88));
    _mm_store_ps((f32 *)d1 + 4 * r, _mm_shuffle_ps(lo, hi, 0xdd));
}

static inline __attribute__((always_inline)) void multiply(const Operands *x, int h, int k, __m256 *sum)
{
    for (int i = 0; i < k; i++) {
        __m256 row = _mm256_load_ps(x->b[i]);
        for (int r = 0; r < 8; r++)
            sum[r] = _mm256_fmadd_ps(_mm256_broadcast_ss(&x->a[h][r][i]), row, sum[r]);
    }
}

static inline __attribute__((always_inline)) void mma_f32(const Operands *x, int k, u32 *const *d, const u32 *const *c)
{
    for (int h = 0; h < 2; h++) {
        __m256 sum[8];
        for (int r = 0; r < 8; r++)
            sum[r] = interleave(c[2 * h], c[2 * h + 1], r);
        multiply(x, h, k, sum);
        for (int r = 0; r < 8; r++)
            deinterleave(d[2 * h], d[2 * h + 1], r, sum[r]);
    }
}

static inline void mma_f16(const Operands *x, int k, u32 *const *d, const u32 *const *c)
{
    for (int h = 0; h < 2; h++) {
        __m256 sum[8];
        for (int r = 0; r < 8; r++)
            sum[r] = widen(c[h] + 4 * r, 1);
        multiply(x, h, k, sum);
        for (int r = 0; r < 8; r++)
            _mm_store_si128((__m128i *)(d[h] + 4 * r), _mm256_cvtps_ph(sum[r], 0));
    }
}

static inline s32 byte_at(const u32 *row, int index, int is_signed)
{
    return is_signed ? ((const s8 *)row)[index] : ((const u8 *)row)[index];
}

/* 8-bit integers: register 2q + h of a holds rows 8h.., k = 16q.. (8 x 16 bytes row-major); register q of b likewise. */
static void mma_s32(int k, int a_signed, int b_signed, u32 *const *d, const u32 *const *a, const u32 *const *b,
                    const u32 *const *c)
{
    s32 sum[16][8];
    for (int r = 0; r < 16; r++)
        for (int n = 0; n < 8; n++) {
            u32 s = c[2 * (r / 8) + n % 2][4 * (r % 8) + n / 2];
            for (int i = 0; i < k; i++)
                s += (u32)(byte_at(a[2 * (i / 16) + r / 8], 16 * (r % 8) + i % 16, a_signed) *
                           byte_at(b[i / 16], 16 * n + i % 16, b_signed));
            sum[r][n] = (s32)s;
        }
    for (int r = 0; r < 16; r++)
        for (int n = 0; n < 8; n++)
            d[2 * (r / 8) + n % 2][4 * (r % 8) + n / 2] = (u32)sum[r][n];
}

void kg_mma(int kind, int k, u32 *const *d, const u32 *const *a, const u32 *const *b, const u32 *const *c)
{
    Operands x;
    if (kind <= MMA_F16_F16)
        load16(&x, k, kind != MMA_F32_BF16, a, b);
    else if (kind == MMA_F32_TF32)
        load_tf32(&x, k, a, b);
    switch (kind) {
    case MMA_F16_F16: mma_f16(&x, k, d, c); break;
    case MMA_S32_S8: mma_s32(k, 1, 1, d, a, b, c); break;
    case MMA_S32_U8: mma_s32(k, 0, 0, d, a, b, c); break;
    case MMA_S32_SU8: mma_s32(k, 1, 0, d, a, b, c); break;
    case MMA_S32_US8: mma_s32(k, 0, 1, d, a, b, c); break;
    default:
        if (k == 16)
            mma_f32(&x, 16, d, c);
        else if (k == 8)
            mma_f32(&x, 8, d, c);
        else
            mma_f32(&x, 4, d, c);
    }
}

/* Transpose an 8 x 8 matrix of 16-bit elements. */
static inline void transpose16(__m128i *r)
{
    __m128i t[8], s[8];
    for (int i = 0; i < 4; i++) {
        t[i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
        t[4 + i] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
    }
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++) {
            s[4 * h + 2 * i] = _mm_unpacklo_epi32(t[4 * h + 2 * i], t[4 * h + 2 * i + 1]);
            s[4 * h + 2 * i + 1] = _mm_unpackhi_epi32(t[4 * h + 2 * i], t[4 * h + 2 * i + 1]);
        }
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++) {
            r[4 * h + 2 * i] = _mm_unpacklo_epi64(s[4 * h + i], s[4 * h + 2 + i]);
            r[4 * h + 2 * i + 1] = _mm_unpackhi_epi64(s[4 * h + i], s[4 * h + 2 + i]);
        }
}

/* Host address of a matrix row; a generic address is accepted as well as a shared one. */
static inline u8 *matrix_row(Warp *w, const Insn *I, u32 lane, u64 address, int write)
{
    return kg_at_shared(w, I, lane, address, 16, 16, write);
}

void kg_ldmatrix(Warp *w, const Insn *I, u32 lanes, int count, int transposed, u32 *const *d, const u64 *address)
{
    (void)lanes;
    for (int i = 0; i < count; i++) {
        __m128i m[8];
        for (u32 r = 0; r < 8; r++)
            m[r] = _mm_loadu_si128((const __m128i *)matrix_row(w, I, 8 * i + r, address[8 * i + r], 0));
        if (transposed)
            transpose16(m);
        for (int r = 0; r < 8; r++)
            _mm_store_si128((__m128i *)(d[i] + 4 * r), m[r]);
    }
}

void kg_stmatrix(Warp *w, const Insn *I, u32 lanes, int count, int transposed, const u32 *const *a, const u64 *address)
{
    (void)lanes;
    for (int i = 0; i < count; i++) {
        __m128i m[8];
        for (int r = 0; r < 8; r++)
            m[r] = _mm_load_si128((const __m128i *)(a[i] + 4 * r));
        if (transposed)
            transpose16(m);
        for (u32 r = 0; r < 8; r++)
            _mm_storeu_si128((__m128i *)matrix_row(w, I, 8 * i + r, address[8 * i + r], 1), m[r]);
    }
}

void kg_movmatrix(u32 *d, const u32 *a)
{
    __m128i m[8];
    for (int r = 0; r < 8; r++)
        m[r] = _mm_load_si128((const __m128i *)(a + 4 * r));
    transpose16(m);
    for (int r = 0; r < 8; r++)
        _mm_store_si128((__m128i *)(d + 4 * r), m[r]);
}
