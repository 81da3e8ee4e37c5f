/* The warp-vector PTX engine. A register is a row of 32 lanes (128 bytes, two rows for 64-bit registers, one byte a lane for
 * predicates). An instruction is a handler, a function over the active lanes. */
#ifndef KGEN_PTX_ENGINE_H
#define KGEN_PTX_ENGINE_H
#include "common.h"
#include "findings.h"
#include "regions.h"
#include "value.h"

typedef struct Warp Warp;
typedef struct Block Block;
typedef struct Insn Insn;
typedef void (*Handler)(Warp *, const Insn *, u32 lanes);

/* What the interpreter does with an instruction; mirrored in program.py. */
enum { K_LANE, K_MERGE, K_WARP, K_BRANCH, K_EXIT, K_BARRIER, K_BRANCH_TABLE };

#define NO_ROW 0xffffffffu

struct Insn { /* 56 bytes; mirrored in program.py */
    Handler fn;
    s64 imm;        /* address displacement, or flags of a barrier */
    const u16 *rows; /* operand i is register row rows[i] */
    u64 count;      /* times executed */
    u32 guard;      /* row of the guard predicate, or NO_ROW */
    u32 target;     /* branch target; merge point of a warp instruction */
    u32 members;    /* row of the member mask of a warp instruction, or NO_ROW: all live lanes */
    u16 kind, guard_negated;
    const u32 *table; /* branch table: length, then targets */
};

typedef struct { u32 row, bits; u64 value; } Constant;
typedef struct { u32 row, which; } Special;
typedef struct { u32 offset, size; } Extent;

typedef struct {
    const char *name;
    Insn *code;
    const Constant *constants;
    const Special *specials;
    const Extent *params;        /* of the kernel's parameters within parameter space */
    const Extent *shared;        /* static shared variables */
    u32 ncode, nconstants, nspecials, nparams, nshared, nrows;
    u32 param_size, local_size;
    u32 static_size, dynamic_at; /* bytes of static shared memory; address at which dynamic begins */
    u32 max_threads, required[3];
    u32 target, target_exact;    /* 80 for sm_80; exact for sm_90a */
    u32 index;                   /* in the findings */
} Program;

enum { MODE_EAGER = 0, MODE_LATE = 1 };

typedef struct {
    const Program *program;
    u32 grid[3], block[3], dynamic_shared;
    u8 *params;
    u32 mode, shared_poison;
    u64 seed; /* 0: natural order of blocks and warps */
} Launch;

typedef struct { /* an asynchronous copy whose data has been read and not yet written */
    u32 destination, bytes, lane, group;
    const Insn *insn;
    u8 data[16];
} Copy;

struct Warp {
    Block *block;
    u8 *rows;
    u8 *local;       /* local memory of the 32 lanes, one after another */
    u32 id, alive;
    u32 waiting;     /* lanes that wait at a barrier */
    u32 parked;      /* lanes that wait for others of their warp at a warp instruction */
    u32 yielded;     /* lanes that let others go first */
    u32 fuel;        /* backward branches until the warp lets others run */
    u32 pc[32];
    u32 group[32];   /* cp.async groups committed by each lane */
    Copy *copies;
    u32 ncopies, copies_cap;
    u64 executed;    /* warp instructions, the source of %clock */
};

typedef struct {
    u32 arrived, expected, warps_waiting; /* expected 0: all live threads of the block */
    u32 ones, votes;                      /* bar.red: threads whose predicate held; threads that voted */
    u32 lanes[32];
    const Insn *insn[32];
} Barrier;

struct Block {
    const Launch *launch;
    u8 *shared;      /* host address of shared address 0 */
    Regions regions; /* of shared memory */
    u32 id[3], nwarps, threads, alive, ready;
    u64 random;
    Barrier barriers[16];
    Warp *warps;
};

extern Regions kg_global;

#define SHARED_BASE 1024u            /* lowest valid shared address: a null shared pointer is out of bounds */
#define TAG_SHARED 0xfffeull         /* top 16 bits of generic addresses outside global memory */
#define TAG_LOCAL 0xfffdull
#define TAG_PARAM 0xfffcull
#define GENERIC(tag, offset) ((tag) << 48 | (u32)(offset))

#define ROW(type, i) ((type *)__builtin_assume_aligned(w->rows + 128ull * I->rows[i], 128))
/* Run a statement for each active lane l. */
#define EACH(...)                                            \
    do {                                                     \
        if (M == ~0u) {                                      \
            _Pragma("GCC ivdep") for (u32 l = 0; l < 32; l++) { \
                __VA_ARGS__                                  \
            }                                                \
        } else                                               \
            FOR_LANES(l, M)                                  \
            {                                                \
                __VA_ARGS__                                  \
            }                                                \
    } while (0)

/* The same, strictly one lane after another: for accesses to memory. */
#define EACH_IN_ORDER(...)            \
    do {                              \
        FOR_LANES(l, M) { __VA_ARGS__ } \
    } while (0)

KG_INLINE u32 first_lane(u32 mask) { return (u32)__builtin_ctz(mask); }
/* Lanes whose predicate byte is not 0. */
KG_INLINE u32 pred_mask(const u8 *row)
{
    __m256i v = _mm256_load_si256((const __m256i *)row);
    return ~(u32)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_setzero_si256()));
}

/* ---- memory. Each access gives the host address of its bytes, or of a scratch buffer after a finding. ---- */
u8 *kg_global_slow(Warp *w, const Insn *I, u32 lane, u64 address, u32 bytes, u32 align, int write);
u8 *kg_shared_slow(Warp *w, const Insn *I, u32 lane, u64 address, u32 bytes, u32 align, int write);
u8 *kg_local(Warp *w, const Insn *I, u32 lane, u64 offset, u32 bytes, u32 align, int write);
u8 *kg_param(Warp *w, const Insn *I, u32 lane, u64 offset, u32 bytes, u32 align, int write);
u8 *kg_generic_slow(Warp *w, const Insn *I, u32 lane, u64 address, u32 bytes, u32 align, int write);
void kg_where(const Warp *w, const Insn *I, u32 lane, Where *where);

KG_INLINE u8 *kg_at_global(Warp *w, const Insn *I, u32 lane, u64 address, u32 bytes, u32 align, int write)
{
    if (KG_LIKELY(kg_cached(&kg_global, address, bytes, write) && !(address & (align - 1))))
        return (u8 *)address;
    return kg_global_slow(w, I, lane, address, bytes, align, write);
}
KG_INLINE u8 *kg_at_shared(Warp *w, const Insn *I, u32 lane, u64 address, u32 bytes, u32 align, int write)
{
    if (KG_LIKELY(kg_cached(&w->block->regions, address, bytes, write) && !(address & (align - 1))))
        return w->block->shared + address;
    return kg_shared_slow(w, I, lane, address, bytes, align, write);
}
KG_INLINE u8 *kg_at_generic(Warp *w, const Insn *I, u32 lane, u64 address, u32 bytes, u32 align, int write)
{
    if (KG_LIKELY(kg_cached(&kg_global, address, bytes, write) && !(address & (align - 1))))
        return (u8 *)address;
    return kg_generic_slow(w, I, lane, address, bytes, align, write);
}
#define kg_at_local kg_local
#define kg_at_param kg_param

/* ---- instructions written by hand (async.c, matrix.c, collective.c) ---- */
void kg_cp_async(Warp *w, const Insn *I, u32 lane, u64 destination, u64 source, u32 bytes, u32 source_bytes);
void kg_cp_async_commit(Warp *w, u32 lanes);
void kg_cp_async_wait(Warp *w, u32 pending, u32 lanes);
void kg_cp_async_drop(Warp *w, u32 lanes);
void kg_ldmatrix(Warp *w, const Insn *I, u32 lanes, int count, int transposed, u32 *const *d, const u64 *address);
void kg_stmatrix(Warp *w, const Insn *I, u32 lanes, int count, int transposed, const u32 *const *a, const u64 *address);
void kg_movmatrix(u32 *d, const u32 *a);
enum { MMA_F32_BF16, MMA_F32_F16, MMA_F16_F16, MMA_F32_TF32, MMA_S32_S8, MMA_S32_U8, MMA_S32_SU8, MMA_S32_US8 };
void kg_mma(int kind, int k, u32 *const *d, const u32 *const *a, const u32 *const *b, const u32 *const *c);
enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };
void kg_shfl(Warp *w, const Insn *I, int mode, u32 lanes, u32 *d, u8 *p, const u32 *a, const u32 *b, const u32 *c);
enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR, REDUX_SMIN, REDUX_SMAX };
u32 kg_redux(int op, u32 lanes, const u32 *a);
u32 kg_match_any32(u32 lanes, const u32 *a, u32 lane);
u32 kg_match_any64(u32 lanes, const u64 *a, u32 lane);

/* ---- interpreter ---- */
void kg_run_warp(Warp *w);
void kg_barrier_arrive(Warp *w, const Insn *I, u32 lanes);
void kg_barrier_exit(Block *b);
int kg_launch(const Launch *launch);
#endif
