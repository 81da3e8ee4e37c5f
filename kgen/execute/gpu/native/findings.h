/* Findings: what a run did that it must not do. Fixed-size records, read back by the Python side (findings.py). */
#ifndef KGEN_FINDINGS_H
#define KGEN_FINDINGS_H
#include "common.h"

#define KG_NO_SITE 0xffffffffu   /* a finding about the host side or the launch as a whole */
#define KG_MAX_FINDINGS 256

enum { KG_WARNING = 0, KG_ERROR = 1 };

typedef struct {
    u32 severity, program, site; /* program: index of the kernel; site: instruction index within it */
    u32 block[3], warp, lane;
    u64 count;                   /* how often this kind occurred at this site */
    char kind[32];
    char message[512];
} Finding;

typedef struct {
    u32 n, cap;                  /* distinct findings so far; at cap the launch stops */
    u32 stop;
    Finding items[KG_MAX_FINDINGS];
} Findings;

extern Findings kg_findings;

typedef struct {
    u32 program, site, block[3], warp, lane;
} Where;

/* Record a finding, or count it when the same kind was already seen at the same site. */
void kg_report(int severity, const char *kind, const Where *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Like kg_report, and stop the launch: what follows would be meaningless. */
void kg_fatal(const char *kind, const Where *where, const char *format, ...) __attribute__((format(printf, 3, 4)));
void kg_findings_reset(u32 cap);
#endif
