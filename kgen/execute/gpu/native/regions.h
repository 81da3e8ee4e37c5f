/* Address ranges that may be accessed. Global memory and each block's shared memory have one table each.
 * The last region hit is cached, once for reads and once for writes, so that the usual check is one comparison. */
#ifndef KGEN_REGIONS_H
#define KGEN_REGIONS_H
#include "common.h"

#define KG_CACHE_MIN 64 /* regions smaller than this are not cached: the fast check subtracts up to 64 bytes */

typedef struct {
    u64 lo, size;
    u32 writable;
    char name[60];
} Region;

typedef struct {
    Region *items; /* sorted by address, disjoint */
    u32 n, cap;
    u64 lo[2], size[2]; /* cached region: [0] for reads, [1] for writes */
} Regions;

KG_INLINE int kg_cached(const Regions *r, u64 address, u32 bytes, int write)
{
    return address - r->lo[write] <= r->size[write] - bytes;
}

void kg_regions_clear(Regions *r);
/* Add a region; returns 0, or -1 when it overlaps one that is there. */
int kg_regions_add(Regions *r, const char *name, u64 lo, u64 size, u32 writable);
int kg_regions_remove(Regions *r, u64 lo);
/* The region that holds all of [address, address + bytes), or null; fills the cache. */
const Region *kg_regions_find(Regions *r, u64 address, u32 bytes, int write);
/* The region nearest to the address, or null when the table is empty. */
const Region *kg_regions_near(const Regions *r, u64 address);
#endif
