/* Warp-wide data exchange (PTX ISA 9.7.9 shfl.sync, 9.7.13 match.sync and redux.sync). */
#include "engine.h"

void kg_shfl(Warp *w, const Insn *I, int mode, u32 lanes, u32 *d, u8 *p, const u32 *a, const u32 *b, const u32 *c)
{
    u32 source[32], result[32];
    u8 valid[32];
    memcpy(source, a, sizeof source);
    FOR_LANES(l, lanes)
    {
        u32 clamp = c[l] & 31, segment = c[l] >> 8 & 31, amount = b[l] & 31;
        u32 top = (l & segment) | (clamp & ~segment), bottom = l & segment;
        s32 from = mode == SHFL_UP     ? (s32)(l - amount)
                   : mode == SHFL_DOWN ? (s32)(l + amount)
                   : mode == SHFL_BFLY ? (s32)(l ^ amount)
                                       : (s32)(bottom | (amount & ~segment));
        valid[l] = mode == SHFL_UP ? from >= (s32)top : from <= (s32)top;
        if (!valid[l])
            from = (s32)l;
        if (!(lanes >> (from & 31) & 1)) {
            Where where;
            kg_where(w, I, l, &where);
            kg_report(KG_ERROR, "shfl-inactive", &where, "shfl reads lane %d, which does not take part (lanes %08x do)", from,
                      lanes);
        }
        result[l] = source[from & 31];
    }
    FOR_LANES(l, lanes)
    {
        d[l] = result[l];
        if (p)
            p[l] = valid[l];
    }
}

static u32 combine(int op, u32 x, u32 y)
{
    switch (op) {
    case REDUX_ADD: return x + y;
    case REDUX_MIN: return x < y ? x : y;
    case REDUX_MAX: return x > y ? x : y;
    case REDUX_AND: return x & y;
    case REDUX_OR: return x | y;
    case REDUX_XOR: return x ^ y;
    case REDUX_SMIN: return (s32)x < (s32)y ? x : y;
    default: return (s32)x > (s32)y ? x : y;
    }
}

u32 kg_redux(int op, u32 lanes, const u32 *a)
{
    u32 result = a[first_lane(lanes)];
    FOR_LANES(l, lanes & (lanes - 1)) result = combine(op, result, a[l]);
    return result;
}

u32 kg_match_any32(u32 lanes, const u32 *a, u32 lane)
{
    u32 mask = 0;
    FOR_LANES(l, lanes) mask |= (u32)(a[l] == a[lane]) << l;
    return mask;
}

u32 kg_match_any64(u32 lanes, const u64 *a, u32 lane)
{
    u32 mask = 0;
    FOR_LANES(l, lanes) mask |= (u32)(a[l] == a[lane]) << l;
    return mask;
}
