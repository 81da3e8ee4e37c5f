#include "regions.h"
#include <stdlib.h>

static void forget(Regions *r)
{
    r->lo[0] = r->lo[1] = 0x8000000000000000ull; /* no user address is near */
    r->size[0] = r->size[1] = KG_CACHE_MIN;
}

void kg_regions_clear(Regions *r)
{
    r->n = 0;
    forget(r);
}

/* Index of the first region that begins above the address. */
static u32 above(const Regions *r, u64 address)
{
    u32 lo = 0, hi = r->n;
    while (lo < hi) {
        u32 mid = (lo + hi) / 2;
        if (r->items[mid].lo <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int kg_regions_add(Regions *r, const char *name, u64 lo, u64 size, u32 writable)
{
    u32 at = above(r, lo);
    if (at && r->items[at - 1].lo + r->items[at - 1].size > lo)
        return -1;
    if (at < r->n && lo + size > r->items[at].lo)
        return -1;
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 64;
        r->items = realloc(r->items, r->cap * sizeof *r->items);
    }
    memmove(r->items + at + 1, r->items + at, (r->n - at) * sizeof *r->items);
    r->n++;
    Region *region = &r->items[at];
    memset(region, 0, sizeof *region);
    region->lo = lo;
    region->size = size;
    region->writable = writable;
    strncpy(region->name, name, sizeof region->name - 1);
    forget(r);
    return 0;
}

int kg_regions_remove(Regions *r, u64 lo)
{
    u32 at = above(r, lo);
    if (!at || r->items[at - 1].lo != lo)
        return -1;
    memmove(r->items + at - 1, r->items + at, (r->n - at) * sizeof *r->items);
    r->n--;
    forget(r);
    return 0;
}

const Region *kg_regions_find(Regions *r, u64 address, u32 bytes, int write)
{
    u32 at = above(r, address);
    if (!at)
        return 0;
    const Region *region = &r->items[at - 1];
    u64 offset = address - region->lo;
    if (bytes > region->size || offset > region->size - bytes)
        return 0;
    if (region->size >= KG_CACHE_MIN && (!write || region->writable)) {
        r->lo[write] = region->lo;
        r->size[write] = region->size;
    }
    return region;
}

const Region *kg_regions_near(const Regions *r, u64 address)
{
    if (!r->n)
        return 0;
    u32 at = above(r, address);
    if (at == r->n)
        return &r->items[at - 1];
    if (!at)
        return &r->items[0];
    const Region *left = &r->items[at - 1], *right = &r->items[at];
    u64 past = address - (left->lo + left->size);
    return (s64)past <= (s64)(right->lo - address) ? left : right;
}
