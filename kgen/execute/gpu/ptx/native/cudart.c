/* A stand-in for the CUDA runtime, so that host code runs unchanged: device memory is host memory, a launch runs at once in the
 * engine, errors are kept as the runtime keeps them. What it does not implement is an undefined symbol, so that linking or
 * loading fails and names it.
 *
 * Error codes and enumerators are those of driver_types.h. */
#include "engine.h"
#include <stdio.h>
#include <stdlib.h>

typedef int Error;
typedef void *Stream;
typedef struct { u32 x, y, z; } Dim3;
enum {
    SUCCESS = 0, INVALID_VALUE = 1, MEMORY_ALLOCATION = 2, INVALID_CONFIGURATION = 9, INVALID_SYMBOL = 13,
    INVALID_DEVICE_FUNCTION = 98, INVALID_DEVICE = 101, NO_KERNEL_IMAGE = 209, NOT_READY = 600, NOT_SUPPORTED = 801, UNKNOWN = 999,
};
enum { /* cudaDeviceAttr */
    MAX_THREADS_PER_BLOCK = 1, MAX_BLOCK_DIM_X = 2, MAX_GRID_DIM_X = 5, MAX_SHARED_PER_BLOCK = 8,
    CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, MAX_SHARED_OPTIN = 97,
};

/* ---- set by the Python side before a run ---- */
typedef struct {
    const Program *(*kernel)(const char *name); /* null when it cannot be executed; the Python side knows why */
    u64 (*variable)(const char *name);          /* address of a module variable, or 0 */
    void (*copied)(int kind, const void *host, u64 bytes); /* host to device (1) or device to host (2); may be null */
    u64 seed;
    u32 mode, shared_poison;
} Options;
Options kg_options;

typedef struct { const char *name; u64 count; } Call;
#define MAX_CALLS 256
Call kg_calls[MAX_CALLS];
u64 kg_launches;

#define MAX_ATTRIBUTE 256
static struct { int set, value; } attributes[MAX_ATTRIBUTE];
static Error last_error;

void kg_set_attribute(int id, int value)
{
    attributes[id].set = 1;
    attributes[id].value = value;
}

void kg_runtime_reset(void)
{
    memset(kg_calls, 0, sizeof kg_calls);
    memset(attributes, 0, sizeof attributes);
    memset(&kg_options, 0, sizeof kg_options);
    last_error = SUCCESS;
    kg_launches = 0;
}

static void count_call(const char *name)
{
    for (u32 i = 0; i < MAX_CALLS; i++) {
        if (!kg_calls[i].name)
            kg_calls[i].name = name;
        if (kg_calls[i].name == name) {
            kg_calls[i].count++;
            return;
        }
    }
}
#define CALLED() count_call(__func__)

static const Where host_side = {.program = KG_NO_SITE, .site = KG_NO_SITE};
#define COMPLAIN(kind, ...) kg_report(KG_ERROR, kind, &host_side, __VA_ARGS__)

static Error fail(Error e)
{
    if (e)
        last_error = e;
    return e;
}

/* ---- kernels and variables of the program ---- */
typedef struct { const void *host; const char *name; s64 dynamic_limit; } Function;
typedef struct { const void *host; const char *name; u64 size; } Variable;
static Function *functions;
static Variable *variables;
static u32 nfunctions, nvariables;

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    (void)binary;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
char __cudaInitModule(void **handle) { (void)handle; return 0; }

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid, void *bid,
                            void *block, void *grid, int *warp_size)
{
    (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp_size;
    functions = realloc(functions, (nfunctions + 1) * sizeof *functions);
    functions[nfunctions++] = (Function){host, strdup(name), -1};
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size, int constant,
                       int global)
{
    (void)handle, (void)device, (void)external, (void)constant, (void)global;
    variables = realloc(variables, (nvariables + 1) * sizeof *variables);
    variables[nvariables++] = (Variable){host, strdup(name), size};
}

static Function *function_of(const void *host)
{
    for (u32 i = nfunctions; i--;)
        if (functions[i].host == host)
            return &functions[i];
    return 0;
}

/* Forget what earlier calls have set. */
void kg_functions_reset(void)
{
    for (u32 i = 0; i < nfunctions; i++)
        functions[i].dynamic_limit = -1;
}

/* ---- the device ---- */
static int attribute(int id) { return attributes[id].value; }

Error cudaDeviceGetAttribute(int *value, int id, int device)
{
    CALLED();
    if (device)
        return fail(INVALID_DEVICE);
    if (id < 0 || id >= MAX_ATTRIBUTE || !attributes[id].set) {
        COMPLAIN("unknown-attribute", "cudaDeviceGetAttribute: attribute %d is not in the device table", id);
        return fail(INVALID_VALUE);
    }
    *value = attributes[id].value;
    return SUCCESS;
}
Error cudaGetDevice(int *device) { CALLED(); *device = 0; return SUCCESS; }
Error cudaSetDevice(int device) { CALLED(); return fail(device ? INVALID_DEVICE : SUCCESS); }
Error cudaGetDeviceCount(int *count) { CALLED(); *count = 1; return SUCCESS; }
Error cudaDeviceSynchronize(void) { CALLED(); return SUCCESS; }
Error cudaMemGetInfo(size_t *available, size_t *total)
{
    CALLED();
    *available = *total = 1ull << 34;
    return SUCCESS;
}
Error cudaDriverGetVersion(int *version) { CALLED(); *version = 13000; return SUCCESS; }
Error cudaRuntimeGetVersion(int *version) { CALLED(); *version = 13000; return SUCCESS; }

Error cudaGetLastError(void)
{
    CALLED();
    Error e = last_error;
    last_error = SUCCESS;
    return e;
}
Error cudaPeekAtLastError(void) { CALLED(); return last_error; }

static const struct { Error code; const char *name, *text; } error_texts[] = {
    {SUCCESS, "cudaSuccess", "no error"},
    {INVALID_VALUE, "cudaErrorInvalidValue", "invalid argument"},
    {MEMORY_ALLOCATION, "cudaErrorMemoryAllocation", "out of memory"},
    {INVALID_CONFIGURATION, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {INVALID_SYMBOL, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {INVALID_DEVICE_FUNCTION, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {INVALID_DEVICE, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {NO_KERNEL_IMAGE, "cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"},
    {NOT_READY, "cudaErrorNotReady", "device not ready"},
    {NOT_SUPPORTED, "cudaErrorNotSupported", "operation not supported"},
    {UNKNOWN, "cudaErrorUnknown", "unknown error"},
};
static u32 error_index(Error e)
{
    u32 last = sizeof error_texts / sizeof *error_texts - 1;
    for (u32 i = 0; i < last; i++)
        if (error_texts[i].code == e)
            return i;
    return last;
}
const char *cudaGetErrorString(Error e) { return error_texts[error_index(e)].text; }
const char *cudaGetErrorName(Error e) { return error_texts[error_index(e)].name; }

/* ---- attributes of kernels ---- */
static const Program *program_of(const Function *f) { return f && kg_options.kernel ? kg_options.kernel(f->name) : 0; }

static u64 dynamic_limit(const Function *f, const Program *p)
{
    s64 limit = f->dynamic_limit >= 0 ? f->dynamic_limit : (s64)attribute(MAX_SHARED_PER_BLOCK) - (s64)p->static_size;
    return limit > 0 ? (u64)limit : 0;
}

Error cudaFuncSetAttribute(const void *host, int id, int value)
{
    CALLED();
    Function *f = function_of(host);
    const Program *p = program_of(f);
    if (!p)
        return fail(INVALID_DEVICE_FUNCTION);
    if (id == 9) /* preferred carve-out: a hint */
        return SUCCESS;
    if (id != 8) {
        COMPLAIN("unknown-attribute", "cudaFuncSetAttribute: attribute %d of %s is not supported", id, f->name);
        return fail(INVALID_VALUE);
    }
    if (value < 0 || (u64)value + p->static_size > (u64)attribute(MAX_SHARED_OPTIN)) {
        COMPLAIN("shared-limit", "%s: %d bytes of dynamic shared memory requested on top of %u static ones; a block may have %d",
                 f->name, value, p->static_size, attribute(MAX_SHARED_OPTIN));
        return fail(INVALID_VALUE);
    }
    f->dynamic_limit = value;
    return SUCCESS;
}
Error cudaFuncSetCacheConfig(const void *host, int config) { CALLED(); (void)host, (void)config; return SUCCESS; }

/* For properties.cpp, which knows the structures of the installed CUDA headers. */
int kg_function_info(const void *host, u32 *values)
{
    Function *f = function_of(host);
    const Program *p = program_of(f);
    if (!p)
        return fail(INVALID_DEVICE_FUNCTION);
    values[0] = p->static_size;
    values[1] = p->local_size;
    values[2] = p->max_threads;
    values[3] = p->target;
    values[4] = (u32)dynamic_limit(f, p);
    return SUCCESS;
}
int kg_device_attribute(int id) { return attribute(id); }

Error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int threads, size_t shared, u32 flags)
{
    CALLED();
    (void)host, (void)threads, (void)shared, (void)flags;
    *blocks = 1;
    return SUCCESS;
}
Error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int threads, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, shared, 0);
}

/* ---- launches ---- */
static Error check_shape(const char *name, const u32 *grid, const u32 *block)
{
    u64 threads = (u64)block[0] * block[1] * block[2];
    for (int i = 0; i < 3; i++) {
        if (!grid[i] || !block[i]) {
            COMPLAIN("zero-launch", "%s: launch with grid (%u, %u, %u) and block (%u, %u, %u): nothing would run", name, grid[0],
                     grid[1], grid[2], block[0], block[1], block[2]);
            return INVALID_CONFIGURATION;
        }
        if (grid[i] > (u32)attribute(MAX_GRID_DIM_X + i) || block[i] > (u32)attribute(MAX_BLOCK_DIM_X + i)) {
            COMPLAIN("launch-limit", "%s: grid (%u, %u, %u) or block (%u, %u, %u) is beyond the device's limits", name, grid[0],
                     grid[1], grid[2], block[0], block[1], block[2]);
            return INVALID_CONFIGURATION;
        }
    }
    if (threads > (u64)attribute(MAX_THREADS_PER_BLOCK)) {
        COMPLAIN("launch-limit", "%s: block of %llu threads; the device allows %d", name, (unsigned long long)threads,
                 attribute(MAX_THREADS_PER_BLOCK));
        return INVALID_CONFIGURATION;
    }
    return SUCCESS;
}

static Error check_kernel(const Function *f, const Program *p, const u32 *block, u64 shared)
{
    u32 device = (u32)(attribute(CAPABILITY_MAJOR) * 10 + attribute(CAPABILITY_MINOR));
    u32 threads = block[0] * block[1] * block[2];
    if (p->target > device || (p->target_exact && p->target != device)) {
        COMPLAIN("no-kernel-image", "%s is compiled for sm_%u and launched on a device sm_%u", f->name, p->target, device);
        return NO_KERNEL_IMAGE;
    }
    if (threads > p->max_threads || (p->required[0] && memcmp(p->required, block, sizeof p->required))) {
        COMPLAIN("launch-bounds", "%s: block of %u threads against its launch bounds of %u", f->name, threads, p->max_threads);
        return INVALID_VALUE;
    }
    if (shared > dynamic_limit(f, p)) {
        COMPLAIN("shared-limit", "%s: launch with %llu bytes of dynamic shared memory; its limit is %llu (cudaFuncSetAttribute)",
                 f->name, (unsigned long long)shared, (unsigned long long)dynamic_limit(f, p));
        return INVALID_VALUE;
    }
    return SUCCESS;
}

/* Lay the arguments out as parameter space. */
static u8 *gather(const Program *p, void **arguments)
{
    u8 *params = calloc(1, p->param_size + 64);
    for (u32 i = 0; i < p->nparams; i++)
        memcpy(params + p->params[i].offset, arguments[i], p->params[i].size);
    return params;
}

int kg_run(const Program *p, const u32 *grid, const u32 *block, u32 shared, u8 *params)
{
    Launch launch = {.program = p, .dynamic_shared = shared, .params = params, .mode = kg_options.mode,
                     .shared_poison = kg_options.shared_poison, .seed = kg_options.seed};
    memcpy(launch.grid, grid, sizeof launch.grid);
    memcpy(launch.block, block, sizeof launch.block);
    kg_launches++;
    return kg_launch(&launch);
}

static Error launch(const void *host, Dim3 grid, Dim3 block, void **arguments, size_t shared)
{
    Function *f = function_of(host);
    u32 g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
    if (!f) {
        COMPLAIN("unknown-kernel", "launch of a function that is not a registered kernel");
        return fail(INVALID_DEVICE_FUNCTION);
    }
    Error e = check_shape(f->name, g, b);
    if (e)
        return fail(e);
    const Program *p = program_of(f);
    if (!p)
        return fail(UNKNOWN);
    if ((e = check_kernel(f, p, b, shared)))
        return fail(e);
    u8 *params = gather(p, arguments);
    kg_run(p, g, b, (u32)shared, params);
    free(params);
    return SUCCESS;
}

static struct { Dim3 grid, block; size_t shared; Stream stream; } pushed;

u32 __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, Stream stream)
{
    pushed.grid = grid;
    pushed.block = block;
    pushed.shared = shared;
    pushed.stream = stream;
    return 0;
}
Error __cudaPopCallConfiguration(Dim3 *grid, Dim3 *block, size_t *shared, void *stream)
{
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    *(Stream *)stream = pushed.stream;
    return SUCCESS;
}
Error __cudaGetKernel(void **kernel, const void *host) { *kernel = (void *)host; return SUCCESS; }
Error cudaLaunchKernel(const void *host, Dim3 grid, Dim3 block, void **arguments, size_t shared, Stream stream)
{
    CALLED();
    (void)stream;
    return launch(host, grid, block, arguments, shared);
}
Error __cudaLaunchKernel(const void *host, Dim3 grid, Dim3 block, void **arguments, size_t shared, Stream stream)
{
    return cudaLaunchKernel(host, grid, block, arguments, shared, stream);
}

typedef struct { int id; char pad[4]; union { char bytes[64]; Dim3 cluster; } value; } LaunchAttribute;
typedef struct { Dim3 grid, block; size_t shared; Stream stream; LaunchAttribute *attributes; u32 nattributes; } LaunchConfig;
enum { ATTRIBUTE_IGNORE = 0, ATTRIBUTE_CLUSTER = 4, ATTRIBUTE_SERIALIZATION = 6, ATTRIBUTE_PRIORITY = 8 };

Error cudaLaunchKernelExC(const LaunchConfig *config, const void *host, void **arguments)
{
    CALLED();
    for (u32 i = 0; i < config->nattributes; i++) {
        const LaunchAttribute *a = &config->attributes[i];
        int single = a->id == ATTRIBUTE_CLUSTER && a->value.cluster.x * a->value.cluster.y * a->value.cluster.z == 1;
        if (single || a->id == ATTRIBUTE_IGNORE || a->id == ATTRIBUTE_SERIALIZATION || a->id == ATTRIBUTE_PRIORITY)
            continue;
        COMPLAIN("unknown-attribute", "cudaLaunchKernelExC: launch attribute %d is not supported", a->id);
        return fail(NOT_SUPPORTED);
    }
    return launch(host, config->grid, config->block, arguments, config->shared);
}

/* ---- memory ---- */
static int in_device(const void *p, u64 bytes, const char *what)
{
    if (!bytes || kg_regions_find(&kg_global, (u64)p, 1, 0)) {
        const Region *r = bytes ? kg_regions_near(&kg_global, (u64)p) : 0;
        if (!r || ((u64)p >= r->lo && bytes <= r->lo + r->size - (u64)p))
            return 1;
    }
    COMPLAIN("out-of-bounds", "%s of %llu bytes is outside device memory", what, (unsigned long long)bytes);
    return 0;
}

static Error allocate(void **p, size_t bytes, const char *what)
{
    static u32 number;
    char name[40];
    u64 size = bytes ? bytes : 1;
    *p = aligned_alloc(4096, (size + 4095) / 4096 * 4096 + 4096); /* a gap after each: neighbours never touch */
    if (!*p)
        return fail(MEMORY_ALLOCATION);
    memset(*p, 0xff, size);
    snprintf(name, sizeof name, "%s #%u", what, number++);
    kg_regions_add(&kg_global, name, (u64)*p, size, 1);
    return SUCCESS;
}

static Error release(void *p)
{
    if (!p)
        return SUCCESS;
    if (kg_regions_remove(&kg_global, (u64)p)) {
        COMPLAIN("bad-free", "free of a pointer that is not an allocation");
        return fail(INVALID_VALUE);
    }
    free(p);
    return SUCCESS;
}

Error cudaMalloc(void **p, size_t bytes) { CALLED(); return allocate(p, bytes, "cudaMalloc"); }
Error cudaMallocManaged(void **p, size_t bytes, u32 flags) { CALLED(); (void)flags; return allocate(p, bytes, "cudaMallocManaged"); }
Error cudaMallocAsync(void **p, size_t bytes, Stream s) { CALLED(); (void)s; return allocate(p, bytes, "cudaMallocAsync"); }
Error cudaMallocHost(void **p, size_t bytes) { CALLED(); return allocate(p, bytes, "cudaMallocHost"); }
Error cudaHostAlloc(void **p, size_t bytes, u32 flags) { CALLED(); (void)flags; return allocate(p, bytes, "cudaHostAlloc"); }
Error cudaFree(void *p) { CALLED(); return release(p); }
Error cudaFreeAsync(void *p, Stream s) { CALLED(); (void)s; return release(p); }
Error cudaFreeHost(void *p) { CALLED(); return release(p); }

static int is_device(const void *p) { return kg_regions_find(&kg_global, (u64)p, 1, 0) != 0; }

static Error copy(void *to, const void *from, size_t bytes, int kind)
{
    if (kind == 4)
        kind = 2 * is_device(from) + is_device(to); /* both host 0, to device 1, from device 2, both 3 */
    if ((kind & 1 && !in_device(to, bytes, "cudaMemcpy to")) || (kind & 2 && !in_device(from, bytes, "cudaMemcpy from")))
        return fail(INVALID_VALUE);
    memmove(to, from, bytes);
    if (kg_options.copied && (kind == 1 || kind == 2))
        kg_options.copied(kind, kind == 1 ? from : to, bytes);
    return SUCCESS;
}
Error cudaMemcpy(void *to, const void *from, size_t bytes, int kind) { CALLED(); return copy(to, from, bytes, kind); }
Error cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, Stream s)
{
    CALLED();
    (void)s;
    return copy(to, from, bytes, kind);
}
static Error fill(void *p, int value, size_t bytes)
{
    if (!in_device(p, bytes, "cudaMemset"))
        return fail(INVALID_VALUE);
    memset(p, value, bytes);
    return SUCCESS;
}
Error cudaMemset(void *p, int value, size_t bytes) { CALLED(); return fill(p, value, bytes); }
Error cudaMemsetAsync(void *p, int value, size_t bytes, Stream s) { CALLED(); (void)s; return fill(p, value, bytes); }

static u8 *symbol(const void *host)
{
    for (u32 i = 0; i < nvariables; i++)
        if (variables[i].host == host)
            return kg_options.variable ? (u8 *)kg_options.variable(variables[i].name) : 0;
    return 0;
}
Error cudaGetSymbolAddress(void **p, const void *host)
{
    CALLED();
    *p = symbol(host);
    return fail(*p ? SUCCESS : INVALID_SYMBOL);
}
Error cudaMemcpyToSymbol(const void *host, const void *from, size_t bytes, size_t offset, int kind)
{
    CALLED();
    u8 *p = symbol(host);
    return p ? copy(p + offset, from, bytes, kind) : fail(INVALID_SYMBOL);
}

/* ---- streams and events: a launch is complete when it returns ---- */
static Error new_handle(void **handle) { *handle = (void *)0x10; return SUCCESS; }
Error cudaStreamCreate(Stream *s) { CALLED(); return new_handle(s); }
Error cudaStreamCreateWithFlags(Stream *s, u32 flags) { CALLED(); (void)flags; return new_handle(s); }
Error cudaStreamDestroy(Stream s) { CALLED(); (void)s; return SUCCESS; }
Error cudaStreamSynchronize(Stream s) { CALLED(); (void)s; return SUCCESS; }
Error cudaStreamWaitEvent(Stream s, void *event, u32 flags) { CALLED(); (void)s, (void)event, (void)flags; return SUCCESS; }
Error cudaStreamIsCapturing(Stream s, int *status) { CALLED(); (void)s; *status = 0; return SUCCESS; }
Error cudaEventCreate(void **event) { CALLED(); return new_handle(event); }
Error cudaEventCreateWithFlags(void **event, u32 flags) { CALLED(); (void)flags; return new_handle(event); }
Error cudaEventRecord(void *event, Stream s) { CALLED(); (void)event, (void)s; return SUCCESS; }
Error cudaEventSynchronize(void *event) { CALLED(); (void)event; return SUCCESS; }
Error cudaEventQuery(void *event) { CALLED(); (void)event; return SUCCESS; }
Error cudaEventDestroy(void *event) { CALLED(); (void)event; return SUCCESS; }
Error cudaEventElapsedTime(float *ms, void *begin, void *end)
{
    CALLED();
    (void)begin, (void)end;
    *ms = 1;
    return SUCCESS;
}
