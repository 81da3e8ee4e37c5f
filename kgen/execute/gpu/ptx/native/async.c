/* cp.async (PTX ISA 9.7.9, asynchronous copies). Eager mode copies at issue. Late mode reads the source at issue and writes the
 * destination at the latest legal moment: the wait that covers the copy's group, lane by lane. A copy that is never waited for
 * never lands. */
#include "engine.h"
#include <stdlib.h>

static u8 *queue(Warp *w, const Insn *I, u32 lane, u32 destination, u32 bytes)
{
    if (w->ncopies == w->copies_cap) {
        w->copies_cap = w->copies_cap ? 2 * w->copies_cap : 256;
        w->copies = realloc(w->copies, w->copies_cap * sizeof *w->copies);
    }
    Copy *copy = &w->copies[w->ncopies++];
    *copy = (Copy){.destination = destination, .bytes = bytes, .lane = lane, .group = w->group[lane], .insn = I};
    return copy->data;
}

void kg_cp_async(Warp *w, const Insn *I, u32 lane, u64 destination, u64 source, u32 bytes, u32 source_bytes)
{
    u8 *to = kg_at_shared(w, I, lane, destination, bytes, bytes, 1);
    if (source_bytes > bytes) {
        Where where;
        kg_where(w, I, lane, &where);
        kg_report(KG_ERROR, "src-size", &where, "cp.async source size %u exceeds the copy size %u", source_bytes, bytes);
        source_bytes = bytes;
    }
    if (w->block->launch->mode == MODE_LATE)
        to = queue(w, I, lane, (u32)destination, bytes);
    if (source_bytes == bytes && bytes == 16) { /* the usual size, as one move */
        memcpy(to, kg_at_global(w, I, lane, source, 16, 16, 0), 16);
        return;
    }
    if (source_bytes == bytes) {
        memcpy(to, kg_at_global(w, I, lane, source, bytes, bytes, 0), bytes);
        return;
    }
    memset(to, 0, bytes);
    if (source_bytes) /* the address must be aligned to the copy size; only the bytes read must exist */
        memcpy(to, kg_at_global(w, I, lane, source, source_bytes, bytes, 0), source_bytes);
}

void kg_cp_async_commit(Warp *w, u32 lanes)
{
    FOR_LANES(l, lanes) w->group[l]++;
}

void kg_cp_async_wait(Warp *w, u32 pending, u32 lanes)
{
    u32 kept = 0;
    for (u32 i = 0; i < w->ncopies; i++) {
        Copy *copy = &w->copies[i];
        /* pending ~0 is wait_all: it covers copies that are not committed, too */
        int covered = (lanes >> copy->lane & 1) && (pending == ~0u || copy->group + pending < w->group[copy->lane]);
        if (covered)
            memcpy(kg_at_shared(w, copy->insn, copy->lane, copy->destination, copy->bytes, copy->bytes, 1), copy->data,
                   copy->bytes);
        else
            w->copies[kept++] = *copy;
    }
    w->ncopies = kept;
}

void kg_cp_async_drop(Warp *w, u32 lanes)
{
    u32 kept = 0;
    for (u32 i = 0; i < w->ncopies; i++)
        if (!(lanes >> w->copies[i].lane & 1))
            w->copies[kept++] = w->copies[i];
    w->ncopies = kept;
}
