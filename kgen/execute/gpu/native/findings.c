#include "findings.h"
#include <stdarg.h>
#include <stdio.h>

Findings kg_findings = {.cap = 32};

void kg_findings_reset(u32 cap)
{
    kg_findings.n = 0;
    kg_findings.stop = 0;
    kg_findings.cap = cap < KG_MAX_FINDINGS ? cap : KG_MAX_FINDINGS;
}

static Finding *known(const char *kind, const Where *where)
{
    for (u32 i = 0; i < kg_findings.n; i++) {
        Finding *f = &kg_findings.items[i];
        if (f->site == where->site && f->program == where->program && !strncmp(f->kind, kind, sizeof f->kind))
            return f;
    }
    return 0;
}

static void record(int severity, const char *kind, const Where *where, const char *format, va_list args)
{
    Finding *f = known(kind, where);
    if (f && where->site != KG_NO_SITE) {
        f->count++;
        return;
    }
    if (kg_findings.n >= kg_findings.cap) {
        kg_findings.stop = 1;
        return;
    }
    f = &kg_findings.items[kg_findings.n++];
    memset(f, 0, sizeof *f);
    f->severity = (u32)severity;
    f->program = where->program;
    f->site = where->site;
    memcpy(f->block, where->block, sizeof f->block);
    f->warp = where->warp;
    f->lane = where->lane;
    f->count = 1;
    strncpy(f->kind, kind, sizeof f->kind - 1);
    vsnprintf(f->message, sizeof f->message, format, args);
}

void kg_report(int severity, const char *kind, const Where *where, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record(severity, kind, where, format, args);
    va_end(args);
}

void kg_fatal(const char *kind, const Where *where, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record(KG_ERROR, kind, where, format, args);
    va_end(args);
    kg_findings.stop = 1;
}
