/* Slow paths of memory accesses: table look-up, and the findings of accesses that must not happen. */
#include "engine.h"

Regions kg_global = {.lo = {1ull << 63, 1ull << 63}, .size = {KG_CACHE_MIN, KG_CACHE_MIN}};

static u8 scratch[256] __attribute__((aligned(64)));

/* Where a refused access goes: reads see NaN bytes, writes are lost. */
static u8 *nowhere(void)
{
    memset(scratch, 0xff, sizeof scratch);
    return scratch;
}

void kg_where(const Warp *w, const Insn *I, u32 lane, Where *where)
{
    const Program *program = w->block->launch->program;
    where->program = program->index;
    where->site = I ? (u32)(I - program->code) : KG_NO_SITE;
    memcpy(where->block, w->block->id, sizeof where->block);
    where->warp = w->id;
    where->lane = lane;
}

static const char *verb(int write) { return write ? "write" : "read"; }

static void misaligned(Warp *w, const Insn *I, u32 lane, const char *space, u64 address, u32 bytes, u32 align, int write)
{
    Where where;
    kg_where(w, I, lane, &where);
    kg_report(KG_ERROR, "misaligned", &where, "misaligned %s %s of %u bytes: address %s%llu is not a multiple of %u", space,
              verb(write), bytes, address >> 20 ? "...+" : "", (unsigned long long)(address & 0xfffff), align);
}

static void out_of_bounds(Warp *w, const Insn *I, u32 lane, const char *space, const Regions *regions, u64 address, u32 bytes,
                          int write)
{
    Where where;
    const Region *r = kg_regions_near(regions, address);
    kg_where(w, I, lane, &where);
    if (!r)
        kg_report(KG_ERROR, "out-of-bounds", &where, "%s %s of %u bytes out of bounds: no memory of this kind exists", space,
                  verb(write), bytes);
    else
        kg_report(KG_ERROR, "out-of-bounds", &where, "%s %s of %u bytes out of bounds at %s%+lld (%s has %llu bytes)", space,
                  verb(write), bytes, r->name, (long long)(address - r->lo), r->name, (unsigned long long)r->size);
}

static u8 *read_only(Warp *w, const Insn *I, u32 lane, const Region *r, u64 address, u32 bytes)
{
    Where where;
    kg_where(w, I, lane, &where);
    kg_report(KG_ERROR, "read-only", &where, "write of %u bytes into read-only buffer %s%+lld", bytes, r->name,
              (long long)(address - r->lo));
    return nowhere();
}

u8 *kg_global_slow(Warp *w, const Insn *I, u32 lane, u64 address, u32 bytes, u32 align, int write)
{
    if (address & (align - 1)) {
        misaligned(w, I, lane, "global", address, bytes, align, write);
        return nowhere();
    }
    const Region *r = kg_regions_find(&kg_global, address, bytes, write);
    if (!r) {
        out_of_bounds(w, I, lane, "global", &kg_global, address, bytes, write);
        return nowhere();
    }
    return write && !r->writable ? read_only(w, I, lane, r, address, bytes) : (u8 *)address;
}

u8 *kg_shared_slow(Warp *w, const Insn *I, u32 lane, u64 address, u32 bytes, u32 align, int write)
{
    Regions *regions = &w->block->regions;
    if (address >> 48 == TAG_SHARED)
        address = (u32)address; /* a generic address given to an instruction that states the space */
    if (address & (align - 1)) {
        misaligned(w, I, lane, "shared", address, bytes, align, write);
        return nowhere();
    }
    if (!kg_regions_find(regions, address, bytes, write)) {
        out_of_bounds(w, I, lane, "shared", regions, address, bytes, write);
        return nowhere();
    }
    return w->block->shared + address;
}

/* Check a range of a small private space: local memory of a lane, or the parameters. */
static u8 *within(Warp *w, const Insn *I, u32 lane, const char *space, u8 *base, u64 size, u64 offset, u32 bytes, u32 align,
                  int write)
{
    Where where;
    if (offset & (align - 1)) {
        misaligned(w, I, lane, space, offset, bytes, align, write);
        return nowhere();
    }
    if (bytes <= size && offset <= size - bytes)
        return base + offset;
    kg_where(w, I, lane, &where);
    kg_report(KG_ERROR, "out-of-bounds", &where, "%s %s of %u bytes out of bounds at offset %lld of %llu", space, verb(write),
              bytes, (long long)offset, (unsigned long long)size);
    return nowhere();
}

u8 *kg_local(Warp *w, const Insn *I, u32 lane, u64 offset, u32 bytes, u32 align, int write)
{
    u32 size = w->block->launch->program->local_size;
    return within(w, I, lane, "local", w->local + (u64)lane * size, size, (u32)offset, bytes, align, write);
}

u8 *kg_param(Warp *w, const Insn *I, u32 lane, u64 offset, u32 bytes, u32 align, int write)
{
    const Launch *launch = w->block->launch;
    if (write) {
        Where where;
        kg_where(w, I, lane, &where);
        kg_report(KG_ERROR, "read-only", &where, "write to a kernel parameter");
        return nowhere();
    }
    return within(w, I, lane, "param", launch->params, launch->program->param_size, (u32)offset, bytes, align, write);
}

u8 *kg_generic_slow(Warp *w, const Insn *I, u32 lane, u64 address, u32 bytes, u32 align, int write)
{
    switch (address >> 48) {
    case TAG_SHARED: return kg_at_shared(w, I, lane, (u32)address, bytes, align, write);
    case TAG_LOCAL: return kg_local(w, I, lane, address, bytes, align, write);
    case TAG_PARAM: return kg_param(w, I, lane, address, bytes, align, write);
    default: return kg_global_slow(w, I, lane, address, bytes, align, write);
    }
}
