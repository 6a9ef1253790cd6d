/* Stands in for NVIDIA's libnvidia-ml in topo/nvml.rs: three GPUs, two of them with two NVLinks
 * between them, and nothing else of the library. Types and codes as in NVIDIA's nvml.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3 };
enum { GPUS = 3 };

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
} pci_info;
typedef struct {
    unsigned long long total, free, used;
} memory_info;

static int gpus[GPUS];
static int started;

static int index_of(void *gpu) { return (int)((int *)gpu - gpus); }

/* NEARFAR_STAND_IN: the code that the start ends with. */
int nvmlInit_v2(void) {
    const char *code = getenv("NEARFAR_STAND_IN");
    started = code ? !atoi(code) : 1;
    return code ? atoi(code) : SUCCESS;
}

int nvmlShutdown(void) {
    started = 0;
    return SUCCESS;
}

const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "another"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = started ? GPUS : 99;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) {
    *gpu = &gpus[index];
    return SUCCESS;
}

static int address(int index, pci_info *info) {
    memset(info, 0, sizeof *info);
    info->domain = 0xfffe;
    info->bus = 0xa1 + index;
    snprintf(info->text, sizeof info->text, "%08X:%02X:00.0", info->domain, info->bus);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *gpu, pci_info *info) { return address(index_of(gpu), info); }

int nvmlDeviceGetName(void *gpu, char *name, unsigned length) {
    if (index_of(gpu) == 2)
        return NOT_SUPPORTED;
    snprintf(name, length, "Stand-in 100%c", 'A' + index_of(gpu));
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *gpu, memory_info *memory) {
    if (index_of(gpu) == 2)
        return NOT_SUPPORTED;
    memory->total = 64ULL << 30;
    return SUCCESS;
}

/* The third tells cpus only. */
int nvmlDeviceGetMemoryAffinity(void *gpu, unsigned words, unsigned long *nodes, unsigned scope) {
    if (index_of(gpu) == 2 || words < 1 || scope != 0)
        return NOT_SUPPORTED;
    nodes[0] = 1;
    return SUCCESS;
}

int nvmlDeviceGetCpuAffinity(void *gpu, unsigned words, unsigned long *cpus) {
    (void)gpu;
    cpus[0] = 3;
    cpus[words - 1] = 0;
    return SUCCESS;
}

/* Links 0 and 2 of the first two; link 1 is there but down. */
int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, unsigned *active) {
    if (index_of(gpu) == 2 || link > 2)
        return INVALID;
    *active = link != 1;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *gpu, unsigned link, unsigned *type) {
    (void)gpu;
    (void)link;
    *type = 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *gpu, unsigned link, pci_info *info) {
    (void)link;
    return address(1 - index_of(gpu), info);
}

/* 20: several bridges; 50: the link between sockets. */
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, unsigned *level) {
    *level = index_of(a) == 2 || index_of(b) == 2 ? 50 : 20;
    return SUCCESS;
}
