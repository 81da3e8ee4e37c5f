/* The interpreter of one warp, barriers, and the scheduler of blocks and warps.
 *
 * Divergence: every lane has a program counter; the lanes at the lowest one run, and lanes that meet there join. A warp runs
 * until it waits at a barrier, ends, or has spent its fuel of backward branches (so that spinning on memory makes progress). */
#include "engine.h"
#include <stdio.h>
#include <stdlib.h>

#define FUEL 4096u

/* ---- deterministic pseudo-random numbers (splitmix64), for seeded orders ---- */
static u64 mix(u64 *state)
{
    u64 z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static void refuel(Warp *w)
{
    Block *b = w->block;
    w->fuel = b->launch->seed ? 1 + (u32)(mix(&b->random) % 64) : FUEL;
}

static int runnable(const Warp *w) { return (w->alive & ~w->waiting & ~w->parked) != 0; }

/* ---- barriers (PTX ISA 9.7.13 bar, barrier) ---- */

/* Flags in Insn.imm of a barrier; mirrored in ops/control.py. */
enum { BAR_ARRIVE = 1, BAR_RED = 2, BAR_COUNT = 4, BAR_ALIGNED = 8, RED_POPC = 16, RED_AND = 32, RED_OR = 64 };

static void reduce_result(Warp *w, const Insn *I, u32 lanes, const Barrier *bar)
{
    if (I->imm & RED_POPC) {
        FOR_LANES(l, lanes) ROW(u32, 2)[l] = bar->ones;
        return;
    }
    u8 value = I->imm & RED_AND ? bar->ones == bar->votes : bar->ones != 0;
    FOR_LANES(l, lanes) ROW(u8, 2)[l] = value;
}

/* A barrier of all threads that exited threads never reached: hardware lets it pass, the programming model does not. */
static void check_exited(Block *b, const Barrier *bar)
{
    if (bar->expected || bar->arrived >= b->threads)
        return;
    for (u32 i = 0; i < b->nwarps; i++)
        if (bar->lanes[i]) {
            Where where;
            kg_where(&b->warps[i], bar->insn[i], first_lane(bar->lanes[i]), &where);
            kg_report(KG_WARNING, "barrier-exited", &where, "barrier passed by %u threads; the other %u of the block had exited",
                      bar->arrived, b->threads - bar->arrived);
            return;
        }
}

static void release(Block *b, Barrier *bar)
{
    check_exited(b, bar);
    for (u32 i = 0; i < b->nwarps; i++) {
        Warp *w = &b->warps[i];
        if (!bar->lanes[i])
            continue;
        if (bar->insn[i]->imm & BAR_RED)
            reduce_result(w, bar->insn[i], bar->lanes[i], bar);
        w->waiting &= ~bar->lanes[i];
        bar->lanes[i] = 0;
        if (runnable(w))
            b->ready |= 1u << i;
    }
    bar->arrived = bar->expected = bar->ones = bar->votes = 0;
}

/* All lanes must name the same barrier and count. */
static u32 uniform(Warp *w, const Insn *I, u32 operand, u32 lanes)
{
    const u32 *row = ROW(u32, operand);
    u32 value = row[first_lane(lanes)];
    FOR_LANES(l, lanes) if (row[l] != value)
    {
        Where where;
        kg_where(w, I, l, &where);
        kg_report(KG_ERROR, "barrier-mismatch", &where, "lanes of one warp name different barriers or counts: %u and %u", value,
                  row[l]);
    }
    return value;
}

static void check_count(Warp *w, const Insn *I, const Barrier *bar, u32 id, u32 count)
{
    Where where;
    kg_where(w, I, first_lane(w->alive), &where);
    if (count % 32)
        kg_report(KG_ERROR, "barrier-count", &where, "barrier %u: thread count %u is not a multiple of the warp size", id, count);
    if (bar->arrived && bar->expected != count)
        kg_report(KG_ERROR, "barrier-mismatch", &where, "barrier %u: expects %u threads here, %u where others arrived (0: all)",
                  id, count, bar->expected);
}

static void vote(Warp *w, const Insn *I, u32 lanes, Barrier *bar)
{
    FOR_LANES(l, lanes) bar->ones += (ROW(u8, 3)[l] != 0) != I->guard_negated >> 1;
    bar->votes += (u32)__builtin_popcount(lanes);
}

void kg_barrier_arrive(Warp *w, const Insn *I, u32 lanes)
{
    Block *b = w->block;
    u32 id = uniform(w, I, 0, lanes), count = I->imm & BAR_COUNT ? uniform(w, I, 1, lanes) : 0;
    Where where;
    kg_where(w, I, first_lane(lanes), &where);
    if (id > 15) {
        kg_fatal("barrier-id", &where, "barrier %u does not exist: a block has barriers 0 to 15", id);
        return;
    }
    Barrier *bar = &b->barriers[id];
    check_count(w, I, bar, id, count);
    bar->expected = count;
    /* a warp whose lanes are all here counts as a whole, also where the block ends within it */
    bar->arrived += count && lanes == w->alive ? 32 : (u32)__builtin_popcount(lanes);
    if (I->imm & BAR_RED)
        vote(w, I, lanes, bar);
    if (!(I->imm & BAR_ARRIVE)) {
        bar->lanes[w->id] |= lanes;
        bar->insn[w->id] = I;
        w->waiting |= lanes;
        w->parked = 0; /* lanes that waited for these must look again */
    }
    u32 needed = count ? count : b->alive;
    if (bar->arrived > needed)
        kg_report(KG_ERROR, "barrier-mismatch", &where, "barrier %u: %u threads arrived, %u expected", id, bar->arrived, needed);
    if (bar->arrived >= needed)
        release(b, bar);
}

/* Threads have exited: barriers of all threads no longer wait for them. */
void kg_barrier_exit(Block *b)
{
    for (u32 i = 0; i < 16; i++) {
        Barrier *bar = &b->barriers[i];
        if (bar->arrived && !bar->expected && bar->arrived >= b->alive)
            release(b, bar);
    }
}

/* ---- one warp ---- */

static u32 guarded(const Warp *w, const Insn *I, u32 lanes)
{
    if (I->guard == NO_ROW)
        return lanes;
    u32 p = pred_mask(w->rows + 128ull * I->guard);
    return lanes & (I->guard_negated & 1 ? ~p : p);
}

static u32 lowest(const u32 *pc, u32 lanes)
{
    u32 low = ~0u;
    FOR_LANES(l, lanes) if (pc[l] < low) low = pc[l];
    return low;
}

static void set_pc(Warp *w, u32 lanes, u32 pc)
{
    FOR_LANES(l, lanes) w->pc[l] = pc;
}

static void leave(Warp *w, u32 lanes)
{
    w->alive &= ~lanes;
    w->block->alive -= (u32)__builtin_popcount(lanes);
    kg_cp_async_drop(w, lanes);
    w->parked = 0; /* lanes that waited for these must look again */
    if (lanes)
        kg_barrier_exit(w->block);
}

static void stuck(Warp *w)
{
    const Insn *code = w->block->launch->program->code;
    u32 lane = first_lane(w->parked);
    Where where;
    kg_where(w, code + w->pc[lane] + 1, lane, &where);
    kg_fatal("divergent-collective", &where, "lanes %08x wait here for lanes of their warp that do not arrive (live lanes %08x)",
             w->parked, w->alive);
}

/* Choose the lanes to run next; 0 when the warp cannot go on now. */
static u32 choose(Warp *w)
{
    for (;;) {
        u32 able = w->alive & ~w->parked & ~w->waiting, eager = able & ~w->yielded;
        if (!w->alive)
            return 0;
        if (!able) {
            if (!w->waiting)
                stuck(w);
            return 0;
        }
        if (!eager) {
            w->yielded = 0;
            continue;
        }
        u32 low = lowest(w->pc, eager), lanes = 0;
        FOR_LANES(l, w->alive & ~w->waiting) lanes |= (u32)(w->pc[l] == low) << l;
        w->parked &= ~lanes;
        w->yielded &= ~lanes;
        return lanes;
    }
}

/* Lanes outside `lanes` that the instruction needs. */
static u32 missing(Warp *w, const Insn *I, u32 lanes)
{
    u32 need = ~0u;
    if (I->members != NO_ROW) {
        const u32 *row = (const u32 *)(w->rows + 128ull * I->members);
        need = 0;
        FOR_LANES(l, lanes)
        {
            need |= row[l];
            if (!(row[l] >> l & 1)) {
                Where where;
                kg_where(w, I, l, &where);
                kg_report(KG_ERROR, "member-mask", &where, "lane %u executes with member mask %08x, which lacks it", l, row[l]);
            }
        }
    }
    return need & w->alive & ~lanes;
}

/* Run a warp instruction, once for each distinct member mask. */
static void collective(Warp *w, const Insn *I, u32 lanes)
{
    if (I->members == NO_ROW) {
        I->fn(w, I, lanes);
        return;
    }
    const u32 *row = (const u32 *)(w->rows + 128ull * I->members);
    u32 masks[32];
    memcpy(masks, row, sizeof masks); /* the result may overwrite the mask */
    while (lanes) {
        u32 mask = masks[first_lane(lanes)], same = 0;
        FOR_LANES(l, lanes) same |= (u32)(masks[l] == mask) << l;
        I->fn(w, I, same);
        lanes &= ~same;
    }
}

static void skipped(Warp *w, const Insn *I, u32 lanes, u32 skipping)
{
    Where where;
    kg_where(w, I, first_lane(lanes), &where);
    kg_report(KG_ERROR, "divergent-collective", &where, "lanes %08x take part, lanes %08x pass by with a false guard", lanes,
              skipping);
}

/* Is the barrier divergent? An aligned barrier must be reached by all lanes of the warp together. */
static void check_aligned(Warp *w, const Insn *I, u32 lanes)
{
    Where where;
    if (!(I->imm & BAR_ALIGNED) || lanes == w->alive)
        return;
    kg_where(w, I, first_lane(lanes), &where);
    kg_report(KG_ERROR, "divergent-barrier", &where, "aligned barrier reached by lanes %08x only; lanes %08x are elsewhere", lanes,
              w->alive & ~lanes);
}

static u32 table_entry(Warp *w, const Insn *I, u32 lane)
{
    u32 index = ROW(u32, 0)[lane];
    if (index < I->table[0])
        return I->table[1 + index];
    Where where;
    kg_where(w, I, lane, &where);
    kg_fatal("branch-index", &where, "brx.idx index %u is outside its list of %u", index, I->table[0]);
    return I->table[1];
}

void kg_run_warp(Warp *w)
{
    const Insn *const code = w->block->launch->program->code;
    u32 lanes, m, need, pc;
    Insn *I;

schedule:
    if (kg_findings.stop || !(lanes = choose(w)))
        return;
    pc = w->pc[first_lane(lanes)];
    if (code[pc].kind == K_MERGE)
        pc++;
    u32 pending = w->alive & ~lanes;
    for (;;) {
        I = (Insn *)&code[pc];
        switch (I->kind) {
        case K_LANE:
            I->count++;
            w->executed++;
            if ((m = guarded(w, I, lanes)))
                I->fn(w, I, m);
            pc++;
            continue;
        case K_MERGE:
            if (pending | kg_findings.stop) {
                set_pc(w, lanes, pc);
                goto schedule;
            }
            pc++;
            continue;
        case K_WARP:
            if (!(m = guarded(w, I, lanes))) {
                pc++;
                continue;
            }
            if ((need = missing(w, I, m))) {
                if (!(need & lanes)) {
                    set_pc(w, lanes, I->target);
                    w->parked |= lanes;
                    goto schedule;
                }
                skipped(w, I, m, need & lanes);
            }
            I->count++;
            w->executed++;
            collective(w, I, m);
            pc++;
            continue;
        case K_BRANCH:
            I->count++;
            w->executed++;
            m = guarded(w, I, lanes);
            if (I->target <= pc && m && !--w->fuel) {
                refuel(w);
                set_pc(w, lanes, pc + 1);
                set_pc(w, m, I->target);
                w->yielded |= m;
                return;
            }
            if (m == lanes && !pending) {
                pc = I->target;
                continue;
            }
            if (!m && !pending) {
                pc++;
                continue;
            }
            set_pc(w, lanes & ~m, pc + 1);
            set_pc(w, m, I->target);
            goto schedule;
        case K_BRANCH_TABLE:
            I->count++;
            w->executed++;
            m = guarded(w, I, lanes);
            set_pc(w, lanes & ~m, pc + 1);
            FOR_LANES(l, m) w->pc[l] = table_entry(w, I, l);
            goto schedule;
        case K_EXIT:
            I->count++;
            w->executed++;
            m = guarded(w, I, lanes);
            set_pc(w, lanes, pc + 1);
            leave(w, m);
            goto schedule;
        case K_BARRIER:
            if ((m = guarded(w, I, lanes))) {
                if ((I->imm & BAR_ALIGNED) && m == lanes && (w->alive & ~lanes & ~w->waiting & ~w->parked)) {
                    set_pc(w, lanes, I->target); /* let the others catch up */
                    w->parked |= lanes;
                    goto schedule;
                }
                I->count++;
                w->executed++;
                check_aligned(w, I, m);
                kg_barrier_arrive(w, I, m);
            }
            set_pc(w, lanes, pc + 1);
            if (pending || w->waiting)
                goto schedule;
            pc++;
            continue;
        default: kg_findings.stop = 1; return;
        }
    }
}

/* ---- blocks ---- */

static const char *state_of(const Warp *w, char *text, size_t size)
{
    if (!w->alive)
        snprintf(text, size, "exited");
    else if (w->waiting)
        for (u32 i = 0; i < 16; i++) {
            if (w->block->barriers[i].lanes[w->id])
                snprintf(text, size, "lanes %08x at barrier %u (%u of %u)", w->block->barriers[i].lanes[w->id], i,
                         w->block->barriers[i].arrived,
                         w->block->barriers[i].expected ? w->block->barriers[i].expected : w->block->alive);
        }
    else
        snprintf(text, size, "lanes %08x parked", w->parked);
    return text;
}

static void deadlock(Block *b)
{
    char all[400] = "", one[80];
    size_t used = 0;
    Where where = {0};
    for (u32 i = 0; i < b->nwarps; i++) {
        Warp *w = &b->warps[i];
        if (w->alive) {
            u32 lane = first_lane(w->waiting ? w->waiting : w->alive);
            kg_where(w, b->launch->program->code + (w->pc[lane] ? w->pc[lane] - 1 : 0), lane, &where);
        }
        if (used < sizeof all - 1)
            used += (size_t)snprintf(all + used, sizeof all - used, "; warp %u: %s", i, state_of(w, one, sizeof one));
    }
    kg_fatal("deadlock", &where, "no warp of the block can go on%s", all);
}

static Warp *pick(Block *b, u32 last)
{
    u32 ready = b->ready;
    if (!ready)
        return 0;
    if (b->launch->seed) {
        for (u32 skip = (u32)(mix(&b->random) % (u32)__builtin_popcount(ready)); skip; skip--)
            ready &= ready - 1;
        return &b->warps[first_lane(ready)];
    }
    u32 after = last < 31 ? ready & ~((2u << last) - 1) : 0;
    return &b->warps[first_lane(after ? after : ready)];
}

static void incomplete_barriers(Block *b)
{
    for (u32 i = 0; i < 16; i++)
        if (b->barriers[i].arrived) {
            Where where = {.program = b->launch->program->index, .site = KG_NO_SITE};
            memcpy(where.block, b->id, sizeof where.block);
            kg_report(KG_WARNING, "barrier-incomplete", &where, "barrier %u still has %u arrivals when the block ends", i,
                      b->barriers[i].arrived);
        }
}

static u32 special(const Warp *w, u32 which, u32 lane)
{
    const Launch *launch = w->block->launch;
    u32 t = w->id * 32 + lane, x = launch->block[0], y = launch->block[1];
    switch (which) { /* mirrored in program.py */
    case 0: return lane;
    case 1: return t % x;
    case 2: return t / x % y;
    case 3: return t / x / y;
    case 4: return w->id;
    case 5: case 6: case 7: return w->block->id[which - 5];
    case 8: case 9: case 10: return launch->block[which - 8];
    case 11: case 12: case 13: return launch->grid[which - 11];
    case 14: return w->block->nwarps;
    case 15: return launch->dynamic_shared;
    case 16: return launch->dynamic_shared + launch->program->static_size;
    case 17: return (1u << lane) - 1;
    case 18: return (2u << lane) - 1;
    case 19: return 1u << lane;
    case 20: return ~((1u << lane) - 1);
    case 21: return ~((2u << lane) - 1);
    case 22: return 1;
    default: return 0;
    }
}

static void set_row(u8 *row, u32 bits, u64 value)
{
    for (u32 l = 0; l < 32; l++)
        switch (bits) {
        case 1: row[l] = value != 0; break;
        case 16: ((u16 *)row)[l] = (u16)value; break;
        case 32: ((u32 *)row)[l] = (u32)value; break;
        default: ((u64 *)row)[l] = value; break;
        }
}

static void start_warp(Warp *w)
{
    Block *b = w->block;
    const Program *p = b->launch->program;
    u32 threads = b->threads - w->id * 32;
    w->alive = threads >= 32 ? ~0u : (1u << threads) - 1;
    w->waiting = w->parked = w->yielded = w->ncopies = 0;
    memset(w->pc, 0, sizeof w->pc);
    memset(w->group, 0, sizeof w->group);
    for (u32 i = 0; i < p->nspecials; i++)
        for (u32 l = 0; l < 32; l++)
            ((u32 *)(w->rows + 128ull * p->specials[i].row))[l] = special(w, p->specials[i].which, l);
    if (p->local_size)
        memset(w->local, 0xff, 32ull * p->local_size);
    refuel(w);
}

static void run_block(Block *b, u64 number)
{
    const Launch *launch = b->launch;
    u32 size = launch->program->static_size + launch->dynamic_shared, last = 31;
    b->random = launch->seed * 0x2545f4914f6cdd1dull + number;
    b->alive = b->threads;
    memset(b->barriers, 0, sizeof b->barriers);
    if (size)
        memset(b->shared + SHARED_BASE, (int)launch->shared_poison,
               launch->program->dynamic_at - SHARED_BASE + launch->dynamic_shared);
    for (u32 i = 0; i < b->nwarps; i++)
        start_warp(&b->warps[i]);
    b->ready = b->nwarps == 32 ? ~0u : (1u << b->nwarps) - 1;
    while (b->alive && !kg_findings.stop) {
        Warp *w = pick(b, last);
        if (!w) {
            deadlock(b);
            return;
        }
        last = w->id;
        kg_run_warp(w);
        if (!runnable(w))
            b->ready &= ~(1u << w->id);
    }
    if (!kg_findings.stop)
        incomplete_barriers(b);
}

static void add_shared_regions(Block *b)
{
    const Program *p = b->launch->program;
    char name[40];
    for (u32 i = 0; i < p->nshared; i++) {
        snprintf(name, sizeof name, "shared variable %u", i);
        kg_regions_add(&b->regions, name, p->shared[i].offset, p->shared[i].size, 1);
    }
    if (b->launch->dynamic_shared)
        kg_regions_add(&b->regions, "dynamic shared memory", p->dynamic_at, b->launch->dynamic_shared, 1);
}

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(128, (bytes + 127) / 128 * 128 + 128);
    if (!p) {
        fprintf(stderr, "kgen: out of memory: %zu bytes\n", bytes);
        abort();
    }
    return p;
}

static void open_warp(Block *b, Warp *w, u32 id)
{
    const Program *p = b->launch->program;
    memset(w, 0, sizeof *w);
    w->block = b;
    w->id = id;
    w->rows = allocate(128ull * p->nrows);
    memset(w->rows, 0xff, 128ull * p->nrows); /* a register read before it is written is NaN, or -1 */
    if (p->local_size)
        w->local = allocate(32ull * p->local_size);
    for (u32 i = 0; i < p->nconstants; i++)
        set_row(w->rows + 128ull * p->constants[i].row, p->constants[i].bits, p->constants[i].value);
}

static Block *open_block(const Launch *launch)
{
    Block *b = allocate(sizeof *b);
    memset(b, 0, sizeof *b);
    b->launch = launch;
    b->threads = launch->block[0] * launch->block[1] * launch->block[2];
    b->nwarps = (b->threads + 31) / 32;
    b->shared = allocate(launch->program->dynamic_at + launch->dynamic_shared + 64ull);
    b->warps = allocate(b->nwarps * sizeof *b->warps);
    kg_regions_clear(&b->regions);
    add_shared_regions(b);
    for (u32 i = 0; i < b->nwarps; i++)
        open_warp(b, &b->warps[i], i);
    return b;
}

static void close_block(Block *b)
{
    for (u32 i = 0; i < b->nwarps; i++) {
        free(b->warps[i].rows);
        free(b->warps[i].local);
        free(b->warps[i].copies);
    }
    free(b->warps);
    free(b->shared);
    free(b->regions.items);
    free(b);
}

/* Number i of a permutation of [0, n): a walk with a stride coprime to n. */
static u64 permuted(u64 i, u64 n, u64 start, u64 stride) { return (u64)(((unsigned __int128)i * stride + start) % n); }

static u64 gcd(u64 a, u64 b) { return b ? gcd(b, a % b) : a; }

int kg_launch(const Launch *launch)
{
    u64 n = (u64)launch->grid[0] * launch->grid[1] * launch->grid[2], start = 0, stride = 1, state = launch->seed;
    Block *b = open_block(launch);
    if (launch->seed && n > 2) {
        start = mix(&state) % n;
        do
            stride = 1 + mix(&state) % (n - 1);
        while (gcd(stride, n) != 1);
    }
    for (u64 i = 0; i < n && !kg_findings.stop; i++) {
        u64 at = permuted(i, n, start, stride);
        b->id[0] = (u32)(at % launch->grid[0]);
        b->id[1] = (u32)(at / launch->grid[0] % launch->grid[1]);
        b->id[2] = (u32)(at / launch->grid[0] / launch->grid[1]);
        run_block(b, at);
    }
    close_block(b);
    return (int)kg_findings.n;
}
